use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hookproof_sender::engine::{DeliveryId, Nanos, StoreTime};
use hookproof_sender::runtime::{Retention, upkeep_due};
use hookproof_sender::store::command::{Claim, Coalesce, Dead, Fate, KeptAnswer, Persist, Reason};
use hookproof_sender::store::job::{JobId, JobKind, StartJob, Task};
use hookproof_sender::store::lane::{Bounds, Limits};
use hookproof_sender::store::read::{Lanes, Notices, Place};
use hookproof_sender::store::reply::Purged;
use hookproof_sender::store::sqlite::{Options, SqliteReader, SqliteStore};
use hookproof_sender::store::{Command, Database, Durability, Reader, Reply, Store, StoreError};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::store::world::{self, Backend, ME, WIDE, World, body, claim, later};

pub(crate) struct File {
    /// Deleted with its last user; `None` if another process owns it.
    folder: Option<Rc<TempDir>>,
    path: PathBuf,
    limits: Limits,
}

impl File {
    fn inside(folder: TempDir, limits: Limits) -> Self {
        Self { path: folder.path().join("store.db"), folder: Some(Rc::new(folder)), limits }
    }

    pub(crate) fn at(path: PathBuf) -> Self {
        Self { folder: None, path, limits: Limits::default() }
    }

    pub(crate) fn latest(&self) -> StoreTime {
        SqliteReader::open(&self.path).unwrap().clock().unwrap().latest
    }

    pub(crate) fn again(&self) -> Self {
        Self { folder: self.folder.clone(), path: self.path.clone(), limits: self.limits }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    pub(crate) fn options(&self) -> Options {
        let durability = Durability::Process;
        Options { durability, limits: self.limits, create: true, identity: u64::MAX, ..Options::default() }
    }
}

impl Backend for File {
    fn new(limits: Limits) -> Self {
        Self::inside(folder(), limits)
    }

    fn store(&self) -> Box<dyn Store> {
        Box::new(SqliteStore::open(&self.path(), &self.options()).unwrap())
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(SqliteReader::open(&self.path()).unwrap())
    }

    fn after_power_cut(&self) -> Self {
        let copy = Self::inside(folder(), self.limits);
        for ending in ["db", "db-wal"] {
            std::fs::copy(self.path.with_extension(ending), copy.path.with_extension(ending)).unwrap();
        }
        copy
    }

    fn application_emits(&self, kind: &str, key: Option<&str>, data: &str, event: Option<&str>) {
        let application = Connection::open(self.path()).unwrap();
        application
            .execute(
                "INSERT INTO outbox (type, key, data, event) VALUES (?1, ?2, ?3, ?4)",
                (kind, key, data, event),
            )
            .unwrap();
    }

    fn application_numbers(&self, id: i64) {
        let application = Connection::open(self.path()).unwrap();
        application.execute("INSERT INTO outbox (id, type, data) VALUES (?1, 'a', '1')", [id]).unwrap();
    }

    fn lose_bodies(&self) {
        Connection::open(self.path()).unwrap().execute("UPDATE events SET body = NULL", []).unwrap();
    }

    fn damage_token(&self, name: &str, damage: &str) {
        let damage = format!("UPDATE tokens SET {damage} WHERE name = ?1");
        Connection::open(self.path()).unwrap().execute(&damage, [name]).unwrap();
    }

    fn attempts(&self) -> [u64; 2] {
        let sql = Connection::open(self.path()).unwrap();
        ["1", "error IS NOT NULL OR body_hash <> 0"].map(|condition| {
            let query = format!("SELECT count(*) FROM attempts WHERE {condition}");
            sql.query_row(&query, [], |row| row.get(0)).unwrap()
        })
    }

    fn answers(&self) -> u64 {
        let sql = Connection::open(self.path()).unwrap();
        sql.query_row("SELECT count(*) FROM answers", [], |row| row.get(0)).unwrap()
    }
}

/// In memory where possible, because tests open thousands of stores.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, &Options { create: true, ..Options::default() }).unwrap()
}

mod files {
    use super::*;

    fn check(prepare: impl FnOnce(&Path), expected: &str) {
        let folder = folder();
        let path = folder.path().join("store.db");
        prepare(&path);
        let before = std::fs::read(&path).ok();
        let error = SqliteStore::open(&path, &Options::default()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(SqliteReader::open(&path).is_err());
        assert_eq!(std::fs::read(&path).ok(), before, "a refused file is left as it was");
    }

    #[test]
    fn a_file_of_another_version_is_refused() {
        for found in [0, 2] {
            let of_another = |path: &Path| {
                drop(open(path));
                let sql = Connection::open(path).unwrap();
                sql.execute_batch(&format!("PRAGMA user_version = {found}")).unwrap();
            };
            let refused = format!(
                "store.db has schema {found}; expected 1: use the version of the program that made it, or another database"
            );
            check(of_another, &refused);
        }
    }

    #[test]
    fn a_database_of_another_program_is_refused() {
        let other =
            |path: &Path| Connection::open(path).unwrap().execute_batch("CREATE TABLE a (b)").unwrap();
        check(other, "it is an SQLite database of another program");
        let marked = |path: &Path| {
            Connection::open(path)
                .unwrap()
                .execute_batch("PRAGMA application_id = 5; CREATE TABLE a (b)")
                .unwrap();
        };
        check(marked, "it is an SQLite database of another program");
    }

    #[test]
    fn a_file_that_is_no_database_is_refused() {
        let diary = "dear diary, ".repeat(100);
        check(|path| std::fs::write(path, diary).unwrap(), "it is not an SQLite database");
    }

    #[test]
    fn a_missing_file_is_not_made_unless_asked_for() {
        check(|_| {}, "could not open the database");
        check(|path| std::fs::create_dir(path).unwrap(), "could not open the database");
    }

    #[test]
    fn an_empty_file_becomes_a_store_and_keeps_its_identity() {
        let folder = folder();
        let path = folder.path().join("store.db");
        std::fs::write(&path, "").unwrap();
        for identity in [3, 4] {
            drop(SqliteStore::open(&path, &Options { identity, ..Options::default() }).unwrap());
            assert_eq!(SqliteReader::open(&path).unwrap().glance().unwrap().identity, 3);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_new_file_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder();
        let path = folder.path().join("store.db");
        drop(open(&path));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

mod faults {
    //! The environment fails: the store acknowledges nothing false.

    use super::*;

    #[test]
    fn a_full_disk_acknowledges_nothing_and_forgets_nothing() {
        let mut world = World::<File>::new();
        let (lane, term) = world.own_lane(WIDE);
        let first = world.emit_one(lane);
        let pages: u32 = Connection::open(world.backend.path())
            .unwrap()
            .query_row("PRAGMA page_count", [], |row| row.get(0))
            .unwrap();
        let full = Options { pages_max: Some(pages + 3), ..world.backend.options() };
        world.store = Box::new(SqliteStore::open(&world.backend.path(), &full).unwrap());
        let mut large = world.event(&[lane]);
        large.bodies = vec![body(&[b'x'; 40_000])];
        let before = world.total();
        let commands = [claim(lane, term, 10), Command::Emit(large.clone())];
        for _ in 0..3 {
            let error = world.store.commit(world.now, &commands).unwrap_err();
            assert!(matches!(error, StoreError::Full { doing: "emit an event", .. }), "{error}");
            assert!(error.may_pass());
            assert_eq!(world.total(), before);
        }
        assert_eq!(world.claim(lane, term), [first], "what was handed out by a commit that failed was not");
        world.crash();
        let replies = world.all(&[claim(lane, term, 10), Command::Emit(large)]);
        assert!(matches!(&replies[1], Reply::Emitted(_)), "{replies:?}");
    }

    #[test]
    fn a_stranger_s_lock_holds_up_but_breaks_nothing() {
        let mut world = World::<File>::new();
        let (lane, term) = world.own_lane(WIDE);
        let delivery = world.emit_one(lane);
        let hasty = Options { patience: Duration::ZERO, ..world.backend.options() };
        world.store = Box::new(SqliteStore::open(&world.backend.path(), &hasty).unwrap());
        let stranger = Connection::open(world.backend.path()).unwrap();
        stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
        let event = Command::Emit(world.event(&[lane]));
        let error = world.store.commit(world.now, std::slice::from_ref(&event)).unwrap_err();
        assert!(matches!(error, StoreError::Busy { .. }) && error.may_pass(), "{error}");
        assert_eq!(world.total().accepted, 1);
        assert_eq!(world.claim(lane, term), [delivery]);
        stranger.execute_batch("ROLLBACK").unwrap();
        assert!(matches!(world.one(event), Reply::Emitted(_)));
    }

    #[test]
    fn an_unreadable_delivery_that_a_lock_kept_is_set_aside_with_the_next_claim() {
        let mut world = World::<File>::new();
        let (lane, term) = world.own_lane(WIDE);
        let delivery = world.emit_one(lane);
        let hasty = Options { patience: Duration::ZERO, ..world.backend.options() };
        world.store = Box::new(SqliteStore::open(&world.backend.path(), &hasty).unwrap());
        let stranger = Connection::open(world.backend.path()).unwrap();
        stranger.execute_batch("UPDATE events SET body = NULL; BEGIN IMMEDIATE").unwrap();
        let error = world.store.commit(world.now, &[claim(lane, term, 10)]).unwrap_err();
        assert!(matches!(error, StoreError::Busy { .. }), "{error}");
        stranger.execute_batch("ROLLBACK").unwrap();
        assert_eq!(world.claim(lane, term), []);
        assert_eq!(world.place(delivery), Some(Place::Dead));
    }

    #[test]
    fn a_file_that_was_moved_away_is_missed_until_it_is_back() {
        let mut world = World::<File>::new();
        let lane = world.new_lane(WIDE);
        let path = world.backend.path();
        let elsewhere = path.with_extension("moved");
        let event = Command::Emit(world.event(&[lane]));
        let missing = |world: &mut World<File>| {
            let error = world.store.commit(world.now, std::slice::from_ref(&event)).unwrap_err();
            assert!(matches!(error, StoreError::Missing { .. }), "{error}");
            assert!(error.may_pass());
            assert!(matches!(world.reader.glance(), Err(StoreError::Missing { .. })));
        };
        std::fs::rename(&path, &elsewhere).unwrap();
        missing(&mut world);
        std::fs::write(&path, "").unwrap();
        missing(&mut world);
        std::fs::rename(&elsewhere, &path).unwrap();
        assert!(matches!(world.one(event.clone()), Reply::Emitted(_)));
    }

    #[test]
    fn an_application_is_told_at_once_what_the_outbox_does_not_take() {
        let world = World::<File>::new();
        let application = Connection::open(world.backend.path()).unwrap();
        let insert = |kind: &str, data: &str| {
            application.execute("INSERT INTO outbox (type, key, data) VALUES (?1, 'k', ?2)", (kind, data))
        };
        assert_eq!(insert("video.trending", r#"{"a": [1, 2.5e3, null, "é"]}"#), Ok(1));
        for (kind, data) in
            [("a.b", "{"), ("a.b", ""), ("a.b", "{'a': 1}"), ("", "{}"), (&"x".repeat(257), "{}")]
        {
            assert!(insert(kind, data).is_err(), "{kind:?} {data:?}");
        }
        application
            .execute_batch("BEGIN; INSERT INTO outbox (type, data) VALUES ('a', '1'); ROLLBACK")
            .unwrap();
        assert_eq!(world.reader.status(world.now).unwrap().outbox, 1);
    }
}

/// Rows that a commit writes are the cost of durability.
#[test]
fn a_commit_writes_a_lane_once_however_much_it_settles() {
    let mut world = World::<File>::new();
    let (lane, term) = world.own_lane(WIDE);
    let emits: Vec<Command> = (0..100).map(|_| Command::Emit(world.event(&[lane]))).collect();
    let before = world.store.written().rows;
    world.all(&emits);
    let emitted = world.store.written().rows;
    // An event, a body and a delivery each; one lane, the totals, and at most a mark for a new minute.
    assert!((202..=203).contains(&(emitted - before)), "{}", emitted - before);
    let claimed = world.claim(lane, term);
    let settlements = claimed.iter().map(|row| world.settlement(lane, term, *row, Fate::Delivered)).collect();
    let record = Persist { lane, term, record: b"state".as_slice().into(), hand_back: false };
    world.all(&[Command::Settle(settlements), Command::Persist(record)]);
    assert_eq!(world.store.written().rows - emitted, 100 + 100 + 1 + 1, "deliveries, attempts, lane, totals");
}

mod threads {
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::mpsc::channel;

    use hookproof_sender::engine::{DeliveryId, Nanos};
    use hookproof_sender::store::command::{Claim, Coalesce, Settlement, Shed};
    use hookproof_sender::store::reply::Placed;

    use hookproof_sender::store::thread::{Capacity, Request, StoreThread};

    use super::*;

    #[test]
    fn an_answered_command_is_on_disk() {
        let mut world = World::<File>::new();
        let lane = world.new_lane(WIDE);
        let now = world.now;
        let thread =
            StoreThread::start(world.backend.store(), Arc::new(move || now), Capacity::default()).unwrap();
        let handle = thread.handle();
        let (told, answers) = channel();
        for _ in 0..100 {
            let event = world.event(&[lane]);
            let (told, reader, id) = (told.clone(), world.backend.reader(), event.id.clone());
            let answer = Box::new(move |replies: Result<Vec<Reply>, StoreError>| {
                let found = reader.deliveries_of_event(&id, &Lanes::All, None, 10).unwrap().items.len();
                told.send((replies.is_ok(), found)).unwrap();
            });
            handle.submit(Request { commands: vec![Command::Emit(event)], answer }).unwrap();
        }
        assert!(answers.iter().take(100).all(|answer| answer == (true, 1)));
        let written = handle.health().written;
        assert_eq!(written.recorded, 100);
        assert!(written.commits < 100, "{written:?}: nothing was gathered");
        thread.stop();
        world.check_figures();
    }

    /// One thread claims a delivery that just became due, while the other replaces it.
    #[test]
    fn a_delivery_that_a_commit_replaces_is_not_claimed_beside_it() {
        let mut world = World::<File>::new();
        let (lane, term) = world.own_lane(WIDE);
        let mut claimer = world.store.claimer().unwrap().unwrap();
        let window = Nanos::from_secs(10);
        let (now, due) = (world.now, later(world.now, window));
        for round in 0..100 {
            let mut alike = || {
                let mut event = world.event(&[lane]);
                let key = format!("clip-{round}").into();
                event.targets[0].coalesce = Some(Coalesce { key, window });
                Command::Emit(event)
            };
            let (older, newer) = (alike(), alike());
            world.store.commit(now, &[older]).unwrap();
            let started = AtomicBool::new(false);
            let (handed_out, replies) = std::thread::scope(|scope| {
                let claims = scope.spawn(|| {
                    let claim = Claim { lane, term, max: 100, bytes_max: u64::MAX };
                    while !started.load(SeqCst) {
                        std::hint::spin_loop();
                    }
                    claimer.claim(due, &[claim]).unwrap().unwrap().remove(0).rows
                });
                started.store(true, SeqCst);
                let replies = world.store.commit(now, &[newer]).unwrap();
                (claims.join().unwrap(), replies)
            });
            let [Reply::Emitted(emitted)] = &replies[..] else { panic!("{replies:?}") };
            let Placed::Waiting { replaced, .. } = emitted.targets[0] else { panic!("{emitted:?}") };
            let twice = handed_out.iter().find(|row| Some(row.delivery) == replaced);
            assert!(twice.is_none(), "round {round}: {twice:?} was handed out and replaced");
        }
        world.check_figures();
    }

    #[derive(Default)]
    struct Known {
        out: bool,
        retries: u32,
        done: bool,
    }

    #[test]
    fn claims_beside_commits_hand_out_what_is_true() {
        let mut world = World::<File>::new();
        let (lane, term) = world.own_lane(WIDE);
        let mut deliveries: Vec<_> = (0..200).map(|_| world.emit_one(lane)).collect();
        let known = Mutex::new(BTreeMap::<DeliveryId, Known>::new());
        let finished = AtomicBool::new(false);
        let mut claimer = world.store.claimer().unwrap().unwrap();
        let now = world.now;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let claim = Claim { lane, term, max: 7, bytes_max: u64::MAX };
                while !finished.load(SeqCst) {
                    let mut known = known.lock().unwrap();
                    let claimed = claimer.claim(now, std::slice::from_ref(&claim)).unwrap().unwrap();
                    for row in &claimed[0].rows {
                        let known = known.entry(row.delivery).or_default();
                        assert!(!known.out && !known.done, "{:?} is held or done", row.delivery);
                        assert_eq!(row.attempts, known.retries, "{:?} as it was before", row.delivery);
                        known.out = true;
                    }
                }
            });
            for round in 0_u64.. {
                let mut settlements = Vec::new();
                for (place, (delivery, known)) in known.lock().unwrap().iter_mut().enumerate() {
                    if !known.out || place % 3 != usize::try_from(round % 3).unwrap() {
                        continue;
                    }
                    known.out = false;
                    let fate = match (delivery.0 + round) % 4 {
                        0 => Fate::Delivered,
                        1 => Fate::Released,
                        _ => Fate::Retry { due: now },
                    };
                    known.done = fate == Fate::Delivered;
                    known.retries += u32::from(matches!(fate, Fate::Retry { .. }));
                    let settlement = world.settlement(lane, term, *delivery, fate);
                    settlements.push(Settlement { attempts: known.retries, attempt: None, ..settlement });
                }
                let shed = Command::Shed(Shed { lane, max: u32::from(round % 8 == 0) });
                world.store.commit(now, &[Command::Settle(settlements), shed]).unwrap();
                for delivery in &deliveries {
                    if world.place(*delivery) == Some(Place::Dead) {
                        let mut known = known.lock().unwrap();
                        let known = known.entry(*delivery).or_default();
                        assert!(!known.out, "{delivery:?} was given up while held");
                        known.done = true;
                    }
                }
                deliveries.retain(|delivery| world.place(*delivery) == Some(Place::Waiting));
                if deliveries.is_empty() {
                    finished.store(true, SeqCst);
                    break;
                }
            }
        });
        world.check_figures();
    }

    #[test]
    fn a_locked_store_answers_once_it_is_free() {
        let mut world = World::<File>::new();
        let lane = world.new_lane(WIDE);
        let stranger = Connection::open(world.backend.path()).unwrap();
        stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
        let hasty = Options { patience: Duration::ZERO, ..world.backend.options() };
        let store = Box::new(SqliteStore::open(&world.backend.path(), &hasty).unwrap());
        let (tried, tries) = channel();
        let now = world.now;
        let clock = Arc::new(move || {
            tried.send(()).unwrap();
            now
        });
        let thread = StoreThread::start(store, clock, Capacity::default()).unwrap();
        let (told, answers) = channel();
        let event = world.event(&[lane]);
        let answer =
            Box::new(move |replies: Result<Vec<Reply>, StoreError>| told.send(replies.is_ok()).unwrap());
        thread.handle().submit(Request { commands: vec![Command::Emit(event)], answer }).unwrap();
        for _ in 0..3 {
            tries.recv().unwrap();
        }
        assert!(answers.try_recv().is_err(), "not acknowledged while locked");
        assert!(matches!(thread.handle().health().failing, Some((_, StoreError::Busy { .. }))));
        stranger.execute_batch("ROLLBACK").unwrap();
        assert_eq!(answers.recv(), Ok(true));
        assert_eq!((world.total().accepted, thread.handle().health().failing), (1, None));
        thread.stop();
    }
}

/// An event with a thousand subscribers would be in memory a thousand times.
#[test]
fn an_event_that_several_lanes_are_handed_is_in_memory_once() {
    let mut world = World::<File>::new();
    let lanes = [world.own_lane(WIDE), world.own_lane(WIDE)];
    world.emit(&lanes.map(|(lane, _)| lane));
    let mut claimer = world.store.claimer().unwrap().unwrap();
    let [one, other] = lanes.map(|(lane, term)| {
        let claim = Claim { lane, term, max: 10, bytes_max: u64::MAX };
        claimer.claim(world.now, &[claim]).unwrap().unwrap().remove(0).rows.remove(0)
    });
    assert_ne!(one.delivery, other.delivery);
    assert!(Arc::ptr_eq(&one.body.bytes, &other.body.bytes));
    assert!(Arc::ptr_eq(&one.event, &other.event) && Arc::ptr_eq(&one.kind, &other.kind));
}

/// From the 32nd day on as much is deleted as comes: each page that is freed is used again. Trees that are filled and emptied at other
/// ends leave some pages half full, hence the twentieth.
#[test]
fn with_the_default_retention_the_file_stays_as_long_after_a_month_and_each_deleted_row_is_counted() {
    const ROUNDS_A_DAY: usize = 4;
    const EVENTS: usize = 100;
    const DEAD: usize = 4;
    const DAYS: usize = 62;
    let mut world = World::<File>::new();
    let (lane, term) = world.own_lane(WIDE);
    let figure = |world: &World<File>, query: &str| -> u64 {
        let sql = Connection::open(world.backend.path()).unwrap();
        sql.query_row(query, [], |row| row.get(0)).unwrap()
    };
    let (mut longest, mut deleted) = (0, Purged::default());
    for day in 0..DAYS {
        for _ in 0..ROUNDS_A_DAY {
            let events = (0..EVENTS).map(|number| {
                let mut event = world.event(&[lane]);
                event.bodies = vec![body(&vec![b'x'; 64 * number])];
                Command::Emit(event)
            });
            let events: Vec<_> = events.collect();
            world.all(&events);
            let settled = world.claim(lane, term).into_iter().enumerate().map(|(at, delivery)| {
                let fate = if at < DEAD { Fate::Dead(Reason::Exhausted) } else { Fate::Delivered };
                world.settlement(lane, term, delivery, fate)
            });
            let settled = settled.collect();
            assert_eq!(world.settle_all(settled).len(), EVENTS);
            world.pass(Nanos(Nanos::DAY.0 / u64::try_from(ROUNDS_A_DAY).unwrap()));
            purge(&mut world, &mut deleted);
        }
        world.check_figures();
        let pages = figure(&world, "PRAGMA page_count");
        if day < 32 {
            longest = pages.max(longest);
        }
        assert!(pages <= longest + longest / 20, "{pages} pages after {day} days, {longest} after 32");
    }
    let [all, dead] = [EVENTS, DEAD].map(|each| u64::try_from(DAYS * ROUNDS_A_DAY * each).unwrap());
    let counts = world.counts(lane);
    assert_eq!((counts.accepted, counts.dead), (all, dead));
    let left = |table| figure(&world, &format!("SELECT count(*) FROM {table}"));
    assert_eq!(deleted.events + left("events"), all, "{deleted:?}");
    assert_eq!(deleted.deliveries + deleted.dead + left("deliveries"), all, "{deleted:?}");
    assert_eq!(deleted.attempts + left("attempts"), all, "{deleted:?}");
    assert_eq!(deleted.dead + counts.dead_kept, dead, "{deleted:?}");
    eprintln!("{all} events in {DAYS} days, {longest} pages at most; {deleted:?}");
}

/// In one step, that has room for all rows.
fn purge(world: &mut World<File>, deleted: &mut Purged) {
    let due = upkeep_due(&Retention::default(), world.now, 20_000);
    for reply in world.store.commit(world.now, &due).unwrap() {
        match reply {
            Reply::Swept(swept) => assert!(!swept.more),
            Reply::Purged(purged) => {
                assert!(!purged.more);
                deleted.events += purged.events;
                deleted.deliveries += purged.deliveries;
                deleted.attempts += purged.attempts;
                deleted.dead += purged.dead;
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Set in `.cargo/config.toml`. SQLite does not report its setting for `fdatasync`.
#[test]
fn sqlite_is_built_as_the_store_wants_it() {
    let sql = Connection::open_in_memory().unwrap();
    let mut options = sql.prepare("PRAGMA compile_options").unwrap();
    let options: Vec<String> = options.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for wanted in ["DEFAULT_MEMSTATUS=0", "OMIT_SHARED_CACHE"] {
        assert!(
            options.iter().any(|option| option == wanted),
            "SQLite was built without {wanted}: run cargo inside of the project, so that it reads .cargo/config.toml"
        );
    }
}

/// The store's own thread may use it for a moment.
fn empty_log(database: &Database) {
    while !database.empty_log().unwrap() {
        std::thread::yield_now();
    }
}

fn words_in(path: &Path, word: &[u8]) -> [usize; 2] {
    ["db", "db-wal"].map(|ending| {
        let bytes = std::fs::read(path.with_extension(ending)).unwrap();
        bytes.windows(word.len()).filter(|window| *window == word).count()
    })
}

#[test]
fn nothing_of_a_forgotten_event_is_left_in_the_file_or_in_its_log() {
    const WORD: &str = "ann@example.org";
    let mut world = World::<File>::new();
    let (path, bounds) = (world.backend.path(), Bounds { bytes_max: 1 << 30, ..WIDE });
    let database = Database::from(path.clone());
    let lanes = [(); 2].map(|()| world.own_lane(bounds));
    let mut named = Vec::new();
    for round in 0..40 {
        for (each, word) in [WORD, "bob@example.org"].into_iter().enumerate() {
            let mut event = world.event(&lanes.map(|(lane, _)| lane));
            event.key = Some(word.into());
            event.bodies =
                [20, 3_000 + 1_000 * round].map(|length| body(word.repeat(length / 15).as_bytes())).into();
            event.targets[1].body = 1;
            event.targets[1].signature = Some(word.into());
            if round % 2 == 0 {
                event.targets[1].coalesce = Some(Coalesce { key: word.into(), window: Nanos::MINUTE });
            }
            let placed = world.try_emit(event).unwrap().targets;
            named.extend((each == 0).then(|| world::waiting(&placed[0])));
            let (lane, term) = lanes[0];
            for delivery in world.claim(lane, term) {
                let retry = Fate::Retry { due: later(world.now, Nanos::MINUTE) };
                let mut settlement = world.settlement(lane, term, delivery, retry);
                let attempt = settlement.attempt.as_mut().unwrap();
                attempt.error = Some(word.into());
                let answer = KeptAnswer { head: String::new(), body: word.repeat(100).into(), cut: false };
                attempt.details.answer = Some(Arc::new(answer));
                world.settle_all(vec![settlement]);
            }
        }
        world.pass(Nanos::SECOND);
    }
    empty_log(&database);
    assert!(words_in(&path, WORD.as_bytes())[0] > 1_000);
    let bystander = words_in(&path, b"bob@example.org");
    for delivery in named {
        world.one(Command::Erase(world::at_once(delivery, false)));
    }
    assert!(words_in(&path, WORD.as_bytes())[0] > 1_000, "the log does not change the file");
    empty_log(&database);
    assert_eq!(words_in(&path, WORD.as_bytes()), [0, 0]);
    assert_eq!(words_in(&path, b"bob@example.org"), bystander);
}

#[test]
fn a_log_that_a_program_reads_is_not_emptied_and_that_is_told() {
    let mut world = World::<File>::new();
    let lane = world.new_lane(WIDE);
    world.emit_one(lane);
    let reader = Connection::open(world.backend.path()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM events").unwrap();
    world.emit_one(lane);
    let database = Database::from(world.backend.path());
    assert!(!database.empty_log().unwrap());
    reader.execute_batch("COMMIT").unwrap();
    empty_log(&database);
}

#[test]
fn an_unreadable_job_hides_no_other() {
    let mut world = World::<File>::new();
    let task = Task {
        kind: JobKind::Purge,
        which: Dead::All,
        since: StoreTime(0),
        before: StoreTime(0),
        events: None,
        last: DeliveryId(0),
        planned: 0,
        by: "ann".into(),
    };
    for _ in 0..2 {
        world.one(Command::StartJob(StartJob { task: task.clone(), worker: ME }));
    }
    let damage = "PRAGMA ignore_check_constraints = 1; UPDATE jobs SET kind = 99 WHERE job = 1";
    Connection::open(world.backend.path()).unwrap().execute_batch(damage).unwrap();
    let jobs: Vec<JobId> = world.reader.jobs(None).unwrap().into_iter().map(|job| job.id).collect();
    assert_eq!(jobs, [JobId(2)]);
}
