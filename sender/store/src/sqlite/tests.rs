use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::Durability;
use crate::clock::{Beginning, Fault};
use crate::command::{
    Acquire, Body, Claim, Coalesce, Dead, Emit, Fate, LaneSelection, Persist, Purge, Reason, Redrive, Renew,
    Settlement, Shed, Subscribe, Sweep, Target,
};
use crate::engine::{DeliveryId, LaneId, Term};
use crate::lane::{Bounds, OwnerId, Secret, WhenFull};
use crate::queue_cache::{NOTED_AFTER, Unreadable};
use crate::read::{Lanes, Notices, Reader};
use crate::reply::{Claimed, Purged};

const NOW: StoreTime = StoreTime::from_secs(1_800_000_000);

fn open(options: Options) -> (tempfile::TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store =
        SqliteStore::open(&folder.path().join("store.db"), &Options { create: true, ..options }).unwrap();
    (folder, store)
}

fn subscribe() -> Command {
    Command::Subscribe(Subscribe {
        id: "sub".into(),
        name: "name".into(),
        url: "http://localhost/".into(),
        patterns: "[]".into(),
        settings: "{}".into(),
        bounds: Bounds { rows_max: 100, bytes_max: 1 << 20, when_full: WhenFull::Refuse },
        secret: Secret::new("x"),
    })
}

#[test]
fn durability_is_what_was_asked_for() {
    let check = |durability, synchronous: i64| {
        let (_folder, store) = open(Options { durability, ..Options::default() });
        let ask = |pragma: &str| store.sql.query_row(pragma, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(ask("PRAGMA synchronous"), synchronous);
        // In pages, each a little larger than its content.
        assert!((1_900..2_048).contains(&ask("PRAGMA cache_spill")), "{}", ask("PRAGMA cache_spill"));
        let mode: String = store.sql.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    };
    check(Durability::default(), 2);
    check(Durability::PowerLoss, 2);
    check(Durability::Process, 1);
}

#[test]
fn a_store_that_may_not_be_written_says_so_and_recovers() {
    let (_folder, mut store) = open(Options::default());
    store.sql.execute_batch("PRAGMA query_only = ON").unwrap();
    let error = store.commit(NOW, &[subscribe()]).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }) && error.may_pass(), "{error}");
    store.sql.execute_batch("PRAGMA query_only = OFF").unwrap();
    assert_eq!(store.commit(NOW, &[subscribe()]), Ok(vec![Reply::Subscribed { lane: LaneId(1) }]));
}

/// A backlog slows no lane only with these plans.
#[test]
fn the_hot_queries_walk_an_index_and_sort_nothing() {
    let (_folder, store) = open(Options::default());
    let check = |query: &str, parameters: &[&dyn rusqlite::ToSql], expected: &str| {
        let mut explain = store.sql.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
        let steps: Vec<String> = explain
            .query_map(parameters, |row| row.get(3))
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        assert_eq!(steps.join("; "), expected);
    };
    check(claim::QUEUE, &[&1], "SEARCH deliveries USING COVERING INDEX deliveries_due (lane=?)");
    check(
        claim::QUEUE_FROM,
        &[&1, &2],
        "SEARCH deliveries USING COVERING INDEX deliveries_due (lane=? AND at>?)",
    );
    check(sweep::EXPIRING, &[], "SCAN expiring");
    check(
        emit::RECEIVED_BEFORE,
        &[&1, &2],
        "SEARCH e USING INDEX events_id (id=?); SEARCH d USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    );
    check(
        reader::figures::ATTEMPTS_BEGUN,
        &[&1, &2, &3],
        "SEARCH attempts USING PRIMARY KEY (at>? AND at<?)",
    );
}

/// Compiling costs ten times the rest of a claim.
#[test]
fn statements_are_compiled_once() {
    use rusqlite::StatementStatus::RePrepare;
    let (_folder, mut store) = open(Options::default());
    store.commit(NOW, &[subscribe(), acquire()]).unwrap();
    for number in 0..20_u64 {
        let claim = Claim { max: 1, ..claim() };
        let commands = [emit(number), Command::Claim(claim)];
        let replies = store.commit(StoreTime(NOW.0 + number), &commands).unwrap();
        assert!(matches!(&replies[1], Reply::Claimed(claimed) if claimed.rows.len() == 1), "{replies:?}");
    }
    for statement in [claim::QUEUE_FROM, claim::ROW, content::EVENT, content::FURTHER_BODY] {
        let compiled_again = store.sql.prepare_cached(statement).unwrap().get_status(RePrepare);
        assert_eq!(compiled_again, 0, "{statement}");
    }
}

#[test]
fn nothing_is_deleted_for_its_age_before_the_wall_clock_says_so_where_the_time_is_kept_ahead() {
    let (_folder, mut store) = open(Options::default());
    let shed = Command::Shed(Shed { lane: LaneId(1), max: 1 });
    store.commit(NOW, &[subscribe(), emit(1), shed]).unwrap();
    let ahead = after(Nanos::DAY);
    store.commit(ahead, &[emit(2)]).unwrap();
    let beginning = Beginning { wall: NOW, machine: None, alone: false, back_max: Nanos::DAY };
    assert_eq!(store.begin_clock(beginning).unwrap().fault, Some(Fault::Kept(Nanos::DAY)));
    let mut purge = |now: StoreTime| {
        let hour_ago = StoreTime(now.0 - Nanos::HOUR.0);
        let all = Purge {
            settled_before: hour_ago,
            attempts_before: hour_ago,
            dead_before: hour_ago,
            changes_before: StoreTime(0),
            max: 99,
        };
        store.commit(now, &[Command::Purge(all)]).unwrap()
    };
    assert_eq!(purge(ahead), [Reply::Purged(Purged::default())], "the letter is a moment old");
    let later = StoreTime(ahead.0 + Nanos::HOUR.times(2).0);
    assert!(matches!(purge(later)[..], [Reply::Purged(Purged { dead: 1, events: 1, .. })]));
}

#[test]
fn a_delivery_that_the_disk_does_not_give_is_passed_over_for_a_while() {
    let (folder, mut store) = open(Options::default());
    store.commit(NOW, &[subscribe(), acquire(), emit(1)]).unwrap();
    let large = Body { bytes: vec![b'x'; 20_000].into() };
    store.commit(NOW, &[emit_body(2, large)]).unwrap();
    let mut claimer = store.claimer().unwrap().unwrap();
    store.commit(NOW, &[Command::Claim(Claim { max: 0, ..claim() })]).unwrap();
    // The log's last page belongs to the large body, and the claimer has not read it yet.
    let log = std::fs::OpenOptions::new().write(true).open(folder.path().join("store.db-wal")).unwrap();
    log.set_len(log.metadata().unwrap().len() - 4_096).unwrap();
    let mut ask = |now: StoreTime| {
        let claimed = claimer.claim(now, &[claim()]).unwrap().unwrap().remove(0);
        (numbers(&claimed), claimed.next)
    };
    assert_eq!(ask(NOW), (vec![1], Some(after(Unreadable::PAUSE))));
    assert_eq!(
        ask(after(Nanos(1))),
        (vec![], Some(after(Unreadable::PAUSE))),
        "it is not asked for meanwhile"
    );
    let again = after(Unreadable::PAUSE);
    assert_eq!(ask(again), (vec![], Some(StoreTime(again.0 + Unreadable::PAUSE.0))));
    // The next commit stops them again.
    store.sql.execute_batch("PRAGMA shrink_memory").unwrap();
    let later = after(Nanos::HOUR);
    let commands = [Command::Claim(claim())];
    let error = store.commit(later, &commands).unwrap_err();
    assert!(matches!(error, StoreError::Io { doing: "claim deliveries", .. }), "{error}");
    assert!(store.commit(later, &commands).is_ok());
}

#[test]
fn a_delivery_whose_own_row_makes_no_sense_stops_neither_its_lane_nor_any_sweep() {
    for damage in
        ["attempts = -1", "bytes = -5", "expires = -7, attempts = -1", "at = -1, attempts = 1 << 40"]
    {
        let (folder, mut store) = open(Options::default());
        store.commit(NOW, &[subscribe(), acquire(), emit(1), emit(2), emit(3)]).unwrap();
        let reader = SqliteReader::open(&folder.path().join("store.db")).unwrap();
        store.sql.execute_batch(&format!("UPDATE deliveries SET {damage} WHERE delivery < 3")).unwrap();
        assert_eq!(reader.missing_parts(DeliveryId(0)).unwrap().rows, 2, "{damage}");
        store.sql.execute_batch("UPDATE deliveries SET expires = 1 WHERE delivery = 1").unwrap();
        let swept = store.commit(NOW, &[Command::Sweep(Sweep { max: 10 })]).unwrap();
        assert!(matches!(&swept[..], [Reply::Swept(swept)] if swept.expired > 0), "{damage}: {swept:?}");
        let replies = store.commit(NOW, &[Command::Claim(claim())]).unwrap();
        let [Reply::Claimed(claimed)] = &replies[..] else { panic!("{damage}: {replies:?}") };
        let handed_out = numbers(claimed);
        let dead = reader.dead(&Lanes::All, None, 10).unwrap().items;
        assert_eq!(handed_out.len() + dead.len(), 3, "{damage}: {handed_out:?} {dead:?}");
        assert!(handed_out.contains(&3), "{damage}: {handed_out:?}");
        assert!(dead.iter().all(|letter| letter.reason == Reason::Unreadable), "{damage}: {dead:?}");
        let shed = Command::Shed(Shed { lane: LaneId(1), max: 10 });
        assert!(store.commit(NOW, &[shed]).is_ok(), "{damage}");
    }
}

/// Recording expiry costs more than a delivery, so it happens only for deliveries that wait.
#[test]
fn an_expiry_is_recorded_after_a_wait_and_an_earlier_one_is_enforced_in_time() {
    let (_folder, mut store) = open(Options::default());
    let step = Nanos::from_millis(500);
    store.commit(NOW, &[subscribe(), sweep()]).unwrap();
    let short = [Nanos::SECOND, NOTED_AFTER, Nanos::from_secs(15), NOTED_AFTER.times(2)];
    let mut emits: Vec<_> =
        short.iter().zip(1..).map(|(ttl, number)| emit_until(number, after(*ttl))).collect();
    emits.push(emit_until(9, after(Nanos(NOTED_AFTER.0 * 2 + 1))));
    emits.push(emit_until(10, after(Nanos::HOUR)));
    store.commit(NOW, &emits).unwrap();
    let mut given_up = Vec::new();
    for steps in 1..=80 {
        let now = Nanos(step.0 * steps);
        let replies = store.commit(after(now), &[sweep()]).unwrap();
        let [Reply::Swept(swept)] = &replies[..] else { panic!("{replies:?}") };
        given_up.extend((0..swept.expired).map(|_| now));
        let noted = "SELECT count(*) FROM expiring WHERE delivery > 4";
        let noted: u64 = store.sql.query_row(noted, [], |row| row.get(0)).unwrap();
        assert_eq!(noted > 0, now >= NOTED_AFTER, "{now}: {noted}");
    }
    assert_eq!(given_up, [&short[..], &[Nanos(NOTED_AFTER.0 * 2 + step.0)]].concat());
}

#[test]
fn a_damaged_page_among_deliveries_that_no_sweep_has_seen_keeps_none_of_the_others_from_expiring() {
    const COUNT: u64 = 900;
    let (folder, mut store) = open(Options::default());
    let path = folder.path().join("store.db");
    // Its neighbours live longer: changing them would change its page too.
    let stays = COUNT / 3..COUNT / 3 * 2;
    emit_many(&mut store, COUNT, |number| if stays.contains(&number) { Nanos::DAY } else { Nanos::HOUR });
    drop(store);
    damage_row(&path, COUNT / 2, &[1, COUNT]);
    let mut store = SqliteStore::open(&path, &Options::default()).unwrap();
    let mut expired = 0;
    for _ in 0..COUNT {
        // A sweep that meets the page fails, and the next one gets further.
        let Ok(replies) = store.commit(after(Nanos::HOUR.times(2)), &[sweep()]) else { continue };
        let [Reply::Swept(swept)] = &replies[..] else { panic!("{replies:?}") };
        expired += swept.expired;
        if !swept.more {
            break;
        }
    }
    assert_eq!(expired, COUNT - COUNT / 3, "before the page and after it");
}

#[test]
fn a_delivery_that_the_disk_does_not_give_keeps_none_of_the_others_from_expiring() {
    const COUNT: u64 = 1_800;
    const LOST: u64 = COUNT / 2;
    let (folder, mut store) = open(Options::default());
    let stays = |number| number != LOST && (COUNT / 3..COUNT / 3 * 2).contains(&number);
    emit_many(&mut store, COUNT, |number| if stays(number) { Nanos::DAY } else { Nanos::HOUR });
    store.commit(after(NOTED_AFTER), &[sweep()]).unwrap();
    lose_row(folder.path(), &store, LOST);
    let later = after(Nanos::HOUR.times(2));
    let error = store.commit(later, &[sweep()]).unwrap_err();
    assert!(matches!(error, StoreError::Io { doing: "sweep", .. }), "{error}");
    let replies = store.commit(later, &[sweep()]).unwrap();
    let [Reply::Swept(swept)] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!(swept.expired, COUNT - COUNT / 3, "all others");
}

#[test]
fn an_event_of_which_the_disk_does_not_give_a_delivery_keeps_few_others_from_being_deleted() {
    const COUNT: u64 = 600;
    let (folder, mut store) = open(Options::default());
    emit_many(&mut store, COUNT, |_| Nanos::DAY);
    store.sql.execute_batch("UPDATE deliveries SET state = 1").unwrap();
    lose_row(folder.path(), &store, COUNT / 2);
    let later = after(Nanos::HOUR);
    let purge = Purge {
        settled_before: later,
        attempts_before: NOW,
        dead_before: NOW,
        changes_before: StoreTime(0),
        max: 9_000,
    };
    // Each failure gets one event further, among the events on that page and next to it.
    let replies = (0..COUNT).find_map(|_| store.commit(later, &[Command::Purge(purge)]).ok());
    let Some([Reply::Purged(purged)]) = replies.as_deref() else { panic!("{replies:?}") };
    assert!(purged.events > COUNT / 3, "{purged:?}");
}

/// From here on the disk does not return the page of one delivery, the log's last page.
fn lose_row(folder: &Path, store: &SqliteStore, number: u64) {
    // The row keeps its length, so that no other page changes.
    let change = "UPDATE deliveries SET bytes = bytes + 1 WHERE delivery = ?1";
    assert_eq!(store.sql.execute(change, [number]).unwrap(), 1);
    let log = std::fs::OpenOptions::new().write(true).open(folder.join("store.db-wal")).unwrap();
    log.set_len(log.metadata().unwrap().len() - 4_096).unwrap();
    store.sql.execute_batch("PRAGMA shrink_memory").unwrap();
}

/// Overwrites a page with one delivery, which holds no other content.
fn damage_row(path: &Path, number: u64, others: &[u64]) {
    use std::os::unix::fs::FileExt as _;
    const PAGE: usize = 4_096;
    let content = std::fs::read(path).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let reads = |number: u64| {
        let sql = Connection::open(path).unwrap();
        let found = sql.query_row("SELECT lane FROM deliveries WHERE delivery = ?1", [number], |_| Ok(()));
        found.is_ok()
    };
    for (place, page) in content.chunks(PAGE).enumerate().skip(1) {
        let offset = u64::try_from(place * PAGE).unwrap();
        file.write_all_at(&[0xa5; PAGE], offset).unwrap();
        if !reads(number) && others.iter().all(|other| reads(*other)) {
            return;
        }
        file.write_all_at(page, offset).unwrap();
    }
    panic!("no page is the delivery's alone");
}

#[test]
fn a_check_of_the_file_ends_where_the_log_becomes_too_long() {
    let (folder, mut store) = open(Options::default());
    store.commit(NOW, &[subscribe(), emit(1)]).unwrap();
    let reader = SqliteReader::open(&folder.path().join("store.db")).unwrap();
    assert_eq!(reader.quick_check(64 << 20), Ok(Checked::default()));
    let cut_short = reader.quick_check(1).unwrap();
    assert!(cut_short.faults.is_empty() && cut_short.unchecked.contains(&"deliveries".to_owned()));
    // The log grows during a search of a table.
    let many = "WITH RECURSIVE n(value) AS (SELECT 100 UNION ALL SELECT value + 1 FROM n LIMIT 400000)
         INSERT INTO marks SELECT value, 0, 0, 0, 0 FROM n; PRAGMA wal_checkpoint(TRUNCATE)";
    store.sql.execute_batch(many).unwrap();
    let ended = reader.moment_within(1, "check a table", |sql| {
        store.sql.execute_batch("UPDATE marks SET dead = 1 WHERE minute = 100")?;
        sql.query_row("SELECT quick_check FROM pragma_quick_check('marks')", [], |row| {
            row.get::<_, String>(0)
        })
    });
    assert_eq!(ended, Err(StoreError::TooMuch { doing: "check a table" }));
    assert!(reader.glance().is_ok(), "no bound is left behind");
}

fn after(length: Nanos) -> StoreTime {
    StoreTime(NOW.0 + length.0)
}

fn acquire() -> Command {
    Command::Acquire(Acquire {
        owner: OwnerId(1),
        lease: Nanos::HOUR,
        which: LaneSelection::All,
        homes: None,
        max: 1,
    })
}

fn claim() -> Claim {
    Claim { lane: LaneId(1), term: Term(1), max: 100, bytes_max: 1 << 20 }
}

fn sweep() -> Command {
    Command::Sweep(Sweep { max: 10_000 })
}

fn emit_until(number: u64, expires: StoreTime) -> Command {
    let Command::Emit(mut emit) = emit(number) else { panic!("it emits") };
    emit.targets[0].expires = expires;
    Command::Emit(emit)
}

fn emit_many(store: &mut SqliteStore, count: u64, ttl: impl Fn(u64) -> Nanos) {
    let wide = Bounds { rows_max: count, bytes_max: 1 << 30, when_full: WhenFull::Refuse };
    let Command::Subscribe(subscribe) = subscribe() else { panic!("it subscribes") };
    store.commit(NOW, &[Command::Subscribe(Subscribe { bounds: wide, ..subscribe })]).unwrap();
    let emits: Vec<_> = (1..=count).map(|number| emit_until(number, after(ttl(number)))).collect();
    store.commit(NOW, &emits).unwrap();
}

fn numbers(claimed: &Claimed) -> Vec<u64> {
    claimed.rows.iter().map(|row| row.delivery.0).collect()
}

fn emit(number: u64) -> Command {
    emit_body(number, Body { bytes: number.to_string().into_bytes().into() })
}

fn emit_body(number: u64, body: Body) -> Command {
    let target = Target {
        lane: LaneId(1),
        body: 0,
        due: NOW,
        expires: StoreTime(u64::MAX),
        dedupe: Nanos::ZERO,
        coalesce: None,
        signature: None,
    };
    Command::Emit(Emit {
        roster: 1,
        id: number.to_string().into(),
        id_is_new: false,
        kind: "k".into(),
        key: None,
        received: NOW,
        bodies: vec![body],
        targets: vec![target],
        atomic: false,
        withheld: false,
        outbox: None,
        notifies: None,
    })
}

/// One of two stores that get the same commands. `is_forgetful`: its cache is dropped before each commit and claim.
struct Twin {
    folder: tempfile::TempDir,
    store: SqliteStore,
    claimer: Arc<Mutex<Box<dyn Claimer>>>,
    other: SqliteStore,
    is_forgetful: bool,
}

/// The answers of a commit, and those of the claim that was made just before it became durable.
type Answers = (Result<Vec<Reply>, StoreError>, Option<Claimed>);

impl Twin {
    fn new(is_forgetful: bool) -> Self {
        let (folder, store) = open(Options { durability: Durability::Process, ..Options::default() });
        let claimer = Arc::new(Mutex::new(store.claimer().unwrap().unwrap()));
        let other = SqliteStore::open(&folder.path().join("store.db"), &Options::default()).unwrap();
        Self { folder, store, claimer, other, is_forgetful }
    }

    fn forget(&self) {
        if self.is_forgetful {
            lock(&self.store.cache).forget();
        }
    }

    /// Commits, and claims beside that commit. `fails`: SQLite turns the commit into a rollback at its very end.
    fn commit(
        &mut self,
        now: StoreTime,
        commands: &[Command],
        beside: Option<Claim>,
        fails: bool,
    ) -> Answers {
        self.forget();
        let (claimer, cache) = (Arc::clone(&self.claimer), Arc::clone(&self.store.cache));
        let answer = Arc::new(Mutex::new(None));
        let (answered, is_forgetful) = (Arc::clone(&answer), self.is_forgetful);
        let hook = move || {
            if let Some(claim) = &beside {
                if is_forgetful {
                    lock(&cache).forget();
                }
                let claimed = claimer.lock().unwrap().claim(now, std::slice::from_ref(claim)).unwrap();
                *answered.lock().unwrap() = claimed.map(|mut claimed| claimed.remove(0));
            }
            fails
        };
        self.store.sql.commit_hook(Some(hook)).unwrap();
        let replies = self.store.commit(now, commands);
        self.store.sql.commit_hook(None::<fn() -> bool>).unwrap();
        (replies, answer.lock().unwrap().take())
    }

    /// Claims from memory where that is possible, otherwise beside the commits, otherwise in a commit.
    fn claim(&mut self, now: StoreTime, claim: &Claim) -> (Claimed, bool) {
        self.forget();
        if let Some(claimed) = lock(&self.store.cache).claim_recorded(claim, now) {
            return (claimed, true);
        }
        let claimed = self.claimer.lock().unwrap().claim(now, std::slice::from_ref(claim)).unwrap();
        let claimed = claimed.map(|mut claimed| claimed.remove(0)).unwrap_or_else(|| {
            match self.store.commit(now, &[Command::Claim(claim.clone())]).unwrap().remove(0) {
                Reply::Claimed(claimed) => claimed,
                _ => Claimed {
                    lane: claim.lane,
                    term: claim.term,
                    rows: Vec::new(),
                    next: None,
                    too_long: None,
                },
            }
        });
        (claimed, false)
    }

    fn stored(&self) -> Vec<(LaneId, DeliveryId)> {
        let sql = Connection::open(self.folder.path().join("store.db")).unwrap();
        let mut rows = sql.prepare("SELECT lane, delivery FROM deliveries ORDER BY delivery").unwrap();
        let row = |row: &rusqlite::Row<'_>| Ok((LaneId(row.get(0)?), DeliveryId(row.get(1)?)));
        rows.query_map([], row).unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }

    fn content(&self) -> Vec<String> {
        let sql = Connection::open(self.folder.path().join("store.db")).unwrap();
        let rows = "SELECT format('%d %d %d %d %d', delivery, lane, state, at, attempts) FROM deliveries
            UNION ALL SELECT format('%d %d %d %d %d %d', lane, term, waiting, delivered, dead, retrying) FROM lanes";
        let mut rows = sql.prepare(rows).unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Commit {
        wishes: Vec<Wish>,
        beside: Option<(u64, u32)>,
        fails: bool,
    },
    Claim {
        lane: u64,
        max: u32,
    },
    /// A commit of another process on the same file.
    Other(Wish),
    Pass(u64),
}

#[derive(Clone, Debug)]
enum Wish {
    Emit { lane: u64, due_ms: u64, alike: bool },
    Settle { pick: prop::sample::Index, fate: u8, due_ms: u64, is_late: bool },
    Claim { lane: u64, max: u32 },
    Shed { lane: u64 },
    Redrive,
    Resend { pick: prop::sample::Index },
    Sweep,
    HandBack { lane: u64 },
    Acquire,
}

fn wish() -> impl Strategy<Value = Wish> {
    let lane = || 1..=2_u64;
    prop_oneof![
        8 => (lane(), prop::sample::select(vec![0, 0, 0, 1, 20]), prop::bool::weighted(0.1))
            .prop_map(|(lane, due_ms, alike)| Wish::Emit { lane, due_ms, alike }),
        8 => (any::<prop::sample::Index>(), 0..4_u8, 0..30_u64, prop::bool::weighted(0.15))
            .prop_map(|(pick, fate, due_ms, is_late)| Wish::Settle { pick, fate, due_ms, is_late }),
        2 => (lane(), 0..4_u32).prop_map(|(lane, max)| Wish::Claim { lane, max }),
        1 => lane().prop_map(|lane| Wish::Shed { lane }),
        1 => Just(Wish::Redrive),
        1 => any::<prop::sample::Index>().prop_map(|pick| Wish::Resend { pick }),
        1 => Just(Wish::Sweep),
        1 => lane().prop_map(|lane| Wish::HandBack { lane }),
        2 => Just(Wish::Acquire),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let claim = || (1..=2_u64, 0..4_u32);
    let wishes = prop::collection::vec(wish(), 1..5);
    prop_oneof![
        6 => (wishes, prop::option::weighted(0.4, claim()), prop::bool::weighted(0.25))
            .prop_map(|(wishes, beside, fails)| Step::Commit { wishes, beside, fails }),
        6 => claim().prop_map(|(lane, max)| Step::Claim { lane, max }),
        1 => wish().prop_map(Step::Other),
        1 => prop::sample::select(vec![1, 10, 60]).prop_map(Step::Pass),
    ]
}

/// What the replies have told so far.
struct KnownState {
    now: StoreTime,
    emitted: u64,
    terms: BTreeMap<LaneId, Term>,
    claimed: Vec<(LaneId, Term, DeliveryId)>,
    stored: Vec<(LaneId, DeliveryId)>,
}

impl KnownState {
    fn term(&self, lane: LaneId) -> Term {
        self.terms.get(&lane).copied().unwrap_or(Term(0))
    }

    fn claim(&self, lane: u64, max: u32) -> Claim {
        Claim { lane: LaneId(lane), term: self.term(LaneId(lane)), max, ..claim() }
    }

    fn in_ms(&self, length: u64) -> StoreTime {
        StoreTime(self.now.0 + Nanos::from_millis(length).0)
    }

    fn settle(&self, pick: &prop::sample::Index, fate: Fate, is_late: bool) -> Command {
        // One that is not claimed may be settled too: by a second report, or under an earlier term.
        let (lane, term, delivery) = match (self.claimed.len(), self.stored.len()) {
            (0, 0) => (LaneId(1), self.term(LaneId(1)), DeliveryId(1 << 40)),
            (0, stored) => {
                let (lane, delivery) = self.stored[pick.index(stored)];
                (lane, self.term(lane), delivery)
            }
            (claimed, _) => self.claimed[pick.index(claimed)],
        };
        let term = Term(term.0.saturating_sub(u64::from(is_late)));
        Command::Settle(vec![Settlement {
            lane,
            term,
            delivery,
            attempts: 1,
            fate,
            disables: None,
            attempt: None,
        }])
    }

    fn command(&mut self, wish: &Wish) -> Command {
        match wish {
            Wish::Emit { lane, due_ms, alike } => {
                self.emitted += 1;
                let Command::Emit(mut emit) = emit(self.emitted) else { panic!("it emits") };
                (emit.roster, emit.received) = (2, self.now);
                emit.targets[0].lane = LaneId(*lane);
                (emit.targets[0].due, emit.targets[0].expires) = (self.in_ms(*due_ms), after(Nanos::DAY));
                let window = Nanos::from_millis(15);
                emit.targets[0].coalesce = alike.then(|| Coalesce { key: "alike".into(), window });
                Command::Emit(emit)
            }
            Wish::Settle { pick, fate, due_ms, is_late } => {
                let fates = [
                    Fate::Delivered,
                    Fate::Retry { due: self.in_ms(*due_ms) },
                    Fate::Dead(Reason::Exhausted),
                    Fate::Released,
                ];
                self.settle(pick, fates[usize::from(*fate)], *is_late)
            }
            Wish::Claim { lane, max } => Command::Claim(self.claim(*lane, *max)),
            Wish::Shed { lane } => Command::Shed(Shed { lane: LaneId(*lane), max: 1 }),
            Wish::Redrive => Command::Redrive(Redrive { which: Dead::All, after: None, max: 5 }),
            Wish::Resend { pick } => Command::Resend(DeliveryId(pick.index(64) as u64)),
            Wish::Sweep => sweep(),
            Wish::HandBack { lane } => {
                let (lane, record) = (LaneId(*lane), b"r".as_slice().into());
                Command::Persist(Persist { lane, term: self.term(lane), record, hand_back: true })
            }
            Wish::Acquire => {
                let Command::Acquire(acquire) = acquire() else { panic!("it acquires") };
                Command::Acquire(Acquire { max: 5, ..acquire })
            }
        }
    }

    fn add_claimed(&mut self, claimed: &Claimed) {
        self.claimed.extend(claimed.rows.iter().map(|row| (claimed.lane, claimed.term, row.delivery)));
    }

    fn add_replies(&mut self, replies: &[Reply]) {
        for reply in replies {
            match reply {
                Reply::Claimed(claimed) => self.add_claimed(claimed),
                Reply::Acquired(taken) => {
                    self.terms.extend(taken.iter().map(|taken| (taken.lane, taken.term)));
                }
                _ => {}
            }
        }
    }
}

fn answers_as_without_a_cache(steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut cached, mut forgetful) = (Twin::new(false), Twin::new(true));
    let mut told =
        KnownState { now: NOW, emitted: 0, terms: BTreeMap::new(), claimed: Vec::new(), stored: Vec::new() };
    let Command::Subscribe(second) = subscribe() else { panic!("it subscribes") };
    let second = Subscribe { id: "second".into(), name: "second".into(), ..second };
    let setup = [subscribe(), Command::Subscribe(second), told.command(&Wish::Acquire)];
    for step in std::iter::once(None).chain(steps.iter().map(Some)) {
        match step {
            None => {
                let (replies, _) = cached.commit(NOW, &setup, None, false);
                prop_assert_eq!(&forgetful.commit(NOW, &setup, None, false).0, &replies);
                told.add_replies(&replies.unwrap());
            }
            Some(Step::Commit { wishes, beside, fails }) => {
                let commands: Vec<_> = wishes.iter().map(|wish| told.command(wish)).collect();
                let beside = beside.map(|(lane, max)| told.claim(lane, max));
                let answers = cached.commit(told.now, &commands, beside.clone(), *fails);
                prop_assert_eq!(&forgetful.commit(told.now, &commands, beside, *fails), &answers);
                told.add_replies(&answers.0.unwrap_or_default());
                answers.1.iter().for_each(|claimed| told.add_claimed(claimed));
            }
            Some(Step::Claim { lane, max }) => {
                let claim = told.claim(*lane, *max);
                let (claimed, is_from_memory) = cached.claim(told.now, &claim);
                let rows = u32::try_from(claimed.rows.len()).unwrap();
                // From memory it may be fewer, and the next is looked for sooner.
                let max = if is_from_memory { rows } else { *max };
                let mut expected = forgetful.claim(told.now, &Claim { max, ..claim }).0;
                if is_from_memory && expected.next.is_none_or(|next| claimed.next <= Some(next)) {
                    expected.next = claimed.next;
                }
                prop_assert_eq!(&claimed, &expected);
                told.add_claimed(&claimed);
            }
            Some(Step::Other(wish)) => {
                let commands = [match wish {
                    Wish::Claim { .. } | Wish::Acquire | Wish::HandBack { .. } => sweep(),
                    wish => told.command(wish),
                }];
                let replies = cached.other.commit(told.now, &commands);
                prop_assert_eq!(&forgetful.other.commit(told.now, &commands), &replies);
                // Claims see it once the process has committed something itself.
                let renew = [Command::Renew(Renew { owner: OwnerId(1), lease: Nanos::HOUR, announce: None })];
                let replies = cached.commit(told.now, &renew, None, false);
                prop_assert_eq!(&forgetful.commit(told.now, &renew, None, false), &replies);
            }
            Some(Step::Pass(length)) => told.now = told.in_ms(*length),
        }
        prop_assert_eq!(cached.content(), forgetful.content());
        told.stored = cached.stored();
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn a_store_answers_as_one_whose_cache_is_dropped_before_each_commit_and_claim(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        answers_as_without_a_cache(&steps)?;
    }
}
