use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use hookproof_sender::dispatch::Event;
use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use hookproof_sender::roster::RosterKeeper;
use hookproof_sender::runtime::Lookout;
use hookproof_sender::store::clock::Beginning;
use hookproof_sender::store::command::{Claim, Coalesce, Emit, Fate, LaneSelection, Purge, Shed, Sweep};
use hookproof_sender::store::lane::{Bounds, Limits, OwnerId, WhenFull};
use hookproof_sender::store::postgres::{Address, Options, PostgresReader, PostgresStore};
use hookproof_sender::store::read::Place;
use hookproof_sender::store::reply::{Claimed, Handover, Placed, Purged};
use hookproof_sender::store::{Claimer, Command, Reader, Refusal, Reply, Store, StoreError};
use hookproof_sender::subscriber::RegionSecrets;

use crate::postgres_server::{by_way_of, execute, new_schema, query};
use crate::store::world::{Backend, LEASE, ME, WIDE, World, YOU, acquire, later};

pub(crate) struct Schema {
    address: String,
    limits: Limits,
}

impl Schema {
    pub(crate) fn at_address(address: String) -> Self {
        Self::with_limits(address, Limits::default())
    }

    pub(crate) const fn with_limits(address: String, limits: Limits) -> Self {
        Self { address, limits }
    }

    fn at(&self) -> Address {
        self.address.parse().unwrap()
    }
}

impl Backend for Schema {
    const GAPS: bool = true;

    fn is_there(test: &str) -> bool {
        new_schema(test).is_some()
    }

    fn new(limits: Limits) -> Self {
        Self { address: new_schema("a test").unwrap(), limits }
    }

    fn store(&self) -> Box<dyn Store> {
        let options = Options { limits: self.limits, create: true, identity: u64::MAX };
        Box::new(PostgresStore::open(&self.at(), &options).unwrap())
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(PostgresReader::open(&self.at()).unwrap())
    }

    /// The server stays up; `tests/crash` kills it.
    fn after_power_cut(&self) -> Self {
        Self { address: self.address.clone(), limits: self.limits }
    }

    fn application_emits(&self, kind: &str, key: Option<&str>, data: &str, event: Option<&str>) {
        let text = |text: Option<&str>| {
            text.map_or("NULL".to_owned(), |text| format!("'{}'", text.replace('\'', "''")))
        };
        let values = [Some(kind), key, Some(data), event].map(text).join(", ");
        execute(&self.address, &format!("INSERT INTO outbox (type, key, data, event) VALUES ({values})"));
    }

    fn application_numbers(&self, id: i64) {
        execute(&self.address, &format!("INSERT INTO outbox (id, type, data) VALUES ({id}, 'a', '1')"));
    }

    fn lose_bodies(&self) {
        execute(&self.address, "UPDATE events SET bytes = NULL");
    }

    fn damage_token(&self, name: &str, damage: &str) {
        execute(&self.address, &format!("UPDATE tokens SET {damage} WHERE name = '{name}'"));
    }

    fn attempts(&self) -> [u64; 2] {
        ["true", "error IS NOT NULL OR body_hash <> 0"].map(|condition| {
            let rows = format!("SELECT count(*) FROM attempts WHERE {condition}");
            query(&self.address, &rows)[0].parse().unwrap()
        })
    }

    fn answers(&self) -> u64 {
        query(&self.address, "SELECT count(*) FROM answers")[0].parse().unwrap()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Loss {
    Cut,
    /// After the server's last message that it shuts down.
    Shutdown,
    /// No side receives anything any more.
    Silence,
    /// The server's answer arrives later, once released.
    Late,
}

/// The server's message at which the connection is lost, and how.
type Armed = Arc<Mutex<Option<(&'static [u8], Loss)>>>;

struct Between {
    port: u16,
    armed: Armed,
    /// It accepts new connections, and sends nothing over them.
    is_deaf: Arc<AtomicBool>,
    let_go: Sender<()>,
}

impl Between {
    fn start(listener: TcpListener, socket: PathBuf) -> Self {
        let port = listener.local_addr().unwrap().port();
        let at = Armed::default();
        let armed = Arc::clone(&at);
        let (let_go, held) = channel();
        let held = Arc::new(Mutex::new(held));
        let is_deaf = Arc::new(AtomicBool::new(false));
        let deaf = Arc::clone(&is_deaf);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if deaf.load(Ordering::SeqCst) {
                    std::mem::forget(client);
                    continue;
                }
                client.set_nodelay(true).unwrap();
                let server = UnixStream::connect(&socket).unwrap();
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                let (armed, held) = (Arc::clone(&armed), Arc::clone(&held));
                std::thread::spawn(move || carry(server, client, &armed, &held));
            }
        });
        Self { port, armed: at, is_deaf, let_go }
    }

    fn be_deaf(&self) {
        self.is_deaf.store(true, Ordering::SeqCst);
    }

    fn lose_at(&self, words: &'static [u8], loss: Loss) {
        *self.armed.lock().unwrap() = Some((words, loss));
    }

    fn has_lost(&self) -> bool {
        self.armed.lock().unwrap().is_none()
    }

    fn wait_until_lost(&self) {
        while !self.has_lost() {
            std::thread::yield_now();
        }
    }

    fn let_go(&self) {
        self.let_go.send(()).unwrap();
    }
}

const SHUTDOWN: &[u8] = b"E\0\0\0\x32SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0";

fn carry(
    mut server: UnixStream,
    mut client: TcpStream,
    armed: &Mutex<Option<(&'static [u8], Loss)>>,
    held: &Mutex<Receiver<()>>,
) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(length @ 1..) = server.read(&mut bytes) {
        let said = &bytes[..length];
        let says_it = |(words, _): &mut (&[u8], Loss)| said.windows(words.len()).any(|some| some == *words);
        let lost = armed.lock().unwrap().take_if(says_it);
        match lost.map(|(_, loss)| loss) {
            None => {}
            Some(Loss::Cut) => break,
            Some(Loss::Shutdown) => {
                client.write_all(SHUTDOWN).unwrap();
                break;
            }
            Some(Loss::Silence) => {
                std::mem::forget((server, client));
                return;
            }
            Some(Loss::Late) => held.lock().unwrap().recv().unwrap(),
        }
        if client.write_all(said).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

/// `None` if the server is not private.
fn by_way_of_a_cut(address: &str) -> Option<(Between, Schema)> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, socket) = by_way_of(address, listener.local_addr().unwrap().port())?;
    let between = Between::start(listener, socket);
    assert!(address.contains(&between.port.to_string()));
    let joint = if address.contains('?') { '&' } else { '?' };
    // Seconds: nothing waits longer for an answer.
    let address = format!("{address}{joint}tcp_user_timeout=1");
    Some((between, Schema { address, limits: Limits::default() }))
}

/// The connection is lost at this message of the server. Then emits the same again, as the store's thread does.
fn emitted_over(loss: Loss, words: &'static [u8]) {
    emitted_after(0, loss, words);
}

fn emitted_after(commits: u64, loss: Loss, words: &'static [u8]) {
    let Some(address) = new_schema("emitted_over_a_loss") else { return };
    let mut world = World::over(Schema { address: address.clone(), limits: Limits::default() });
    let lane = world.new_lane(WIDE);
    let Some((between, far)) = by_way_of_a_cut(&address) else { return };
    let mut store = far.store();
    for _ in 0..commits {
        let emit = Command::Emit(world.event(&[lane]));
        store.commit(world.now, &[emit]).unwrap();
    }
    let commands = [Command::Emit(world.event(&[lane]))];
    between.lose_at(words, loss);
    let error = store.commit(world.now, &commands).unwrap_err();
    assert!(between.has_lost() && matches!(error, StoreError::Lost { .. }) && error.may_pass(), "{error}");
    // The server frees the locks of a lost transaction only after a silence.
    let replies = loop {
        match store.commit(world.now, &commands) {
            Err(error) if loss != Loss::Cut && error.may_pass() => {}
            ended => break ended.unwrap(),
        }
    };
    assert!(matches!(&replies[..], [Reply::Emitted(emitted)] if emitted.targets.len() == 1), "{replies:?}");
    world.check_figures();
    assert_eq!((world.counts(lane).accepted, world.total().accepted), (commits + 1, commits + 1));
    let (lane, _) = world.own_lane(WIDE);
    world.emit_one(lane);
}

#[test]
fn a_commit_that_happened_though_nobody_heard_of_it_happens_once() {
    emitted_over(Loss::Cut, b"COMMIT\0");
}

/// It finishes the commit, and then reports only its end.
#[test]
fn a_commit_that_happened_as_the_server_ended_happens_once() {
    emitted_over(Loss::Shutdown, b"COMMIT\0");
}

#[test]
fn a_commit_that_the_server_ended_before_happens_once() {
    emitted_over(Loss::Shutdown, b"BEGIN\0");
}

#[test]
fn a_commit_that_was_cut_off_before_its_end_did_not_happen() {
    emitted_over(Loss::Cut, b"BEGIN\0");
}

/// The row is found by the new number or the previous one.
#[test]
fn a_commit_that_would_number_its_writer_anew_happens_once_or_not() {
    for commits in 61..65 {
        for words in [b"BEGIN\0".as_slice(), b"COMMIT\0"] {
            emitted_after(commits, Loss::Cut, words);
        }
    }
}

#[test]
fn a_server_of_which_nothing_is_heard_any_more_is_away() {
    for words in [b"BEGIN\0".as_slice(), b"COMMIT\0"] {
        emitted_over(Loss::Silence, words);
    }
}

/// A connecting process takes no expired lanes for this long.
const SPARED: Nanos = Nanos::from_secs(3);

/// No node can renew. The first to reconnect takes the lanes of dead nodes alone.
#[test]
fn an_outage_of_the_server_lets_no_peer_seize_lanes_at_once() {
    for is_dead in [false, true] {
        let Some(address) = new_schema("an_outage_lets_no_peer_seize_lanes") else { return };
        let mut world = World::over(Schema { address: address.clone(), limits: Limits::default() });
        let (lane, _) = world.own_lane(WIDE);
        let Some((between, far)) = by_way_of_a_cut(&address) else { return };
        let mut store = far.store();
        world.pass(LEASE);
        between.lose_at(b"BEGIN\0", Loss::Cut);
        store.commit(world.now, &[acquire(YOU, LaneSelection::All)]).unwrap_err();
        if is_dead {
            world.one(Command::Evict(ME));
        }
        let mut taken =
            |now: StoreTime| match &store.commit(now, &[acquire(YOU, LaneSelection::All)]).unwrap()[..] {
                [Reply::Acquired(taken)] => taken.iter().map(|one| one.lane).collect::<Vec<_>>(),
                other => panic!("{other:?}"),
            };
        if is_dead {
            assert_eq!(taken(world.now), [lane]);
            continue;
        }
        assert_eq!(taken(world.now), []);
        assert_eq!(taken(later(world.now, Nanos(SPARED.0 - 1))), []);
        assert_eq!(taken(later(world.now, SPARED)), [lane]);
    }
}

#[test]
fn an_outage_of_the_server_lets_no_new_process_seize_lanes() {
    let Some(address) = new_schema("an_outage_lets_no_new_process_seize_lanes") else { return };
    let mut world = World::over(Schema { address: address.clone(), limits: Limits::default() });
    let (lane, _) = world.own_lane(WIDE);
    world.pass(LEASE);
    // Only the server's clock decides now.
    execute(&address, "UPDATE owners SET until = 1");
    let mut store = world.backend.store();
    let beginning = Beginning { wall: world.now, machine: None, alone: false, back_max: LEASE };
    let begun = store.begin_clock(beginning).unwrap().now;
    let mut taken = |now: StoreTime| match &store.commit(now, &[acquire(YOU, LaneSelection::All)]).unwrap()[..]
    {
        [Reply::Acquired(taken)] => taken.iter().map(|one| one.lane).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(taken(begun), []);
    assert_eq!(taken(later(begun, Nanos(SPARED.0 - 1))), []);
    assert_eq!(taken(later(begun, SPARED)), [lane]);
}

/// To free capacity in the whole store, an event must lock the fullest lane as well, so its commit restarts.
#[test]
fn a_renewal_waits_for_no_lane_though_an_event_had_to_begin_anew() {
    let Some(address) = new_schema("a_renewal_waits_for_no_lane_though_an_event_had_to_begin_anew") else {
        return;
    };
    let limits = Limits { waiting_rows_max: 2, ..Limits::default() };
    let mut world = World::over(Schema { address: address.clone(), limits });
    let sheds = Bounds { when_full: WhenFull::ShedOldest, ..WIDE };
    let (full, _) = world.own_lane(sheds);
    let other = world.new_lane(sheds);
    world.emit_one(full);
    world.emit_one(full);
    assert_eq!(world.renew(ME), []);
    let event = world.event(&[other]);
    assert_eq!(world.try_emit(event).unwrap().shed, 1);
    let stranger = Stranger::connect(&address);
    assert_eq!(stranger.run_sql("BEGIN; SELECT FROM lanes FOR UPDATE"), 2);
    assert_eq!(world.renew(ME), []);
}

#[test]
fn a_number_is_missing_until_whoever_has_it_has_ended_though_none_did_that_began_later() {
    let Some(address) = new_schema("a_number_is_missing_until_whoever_has_it_has_ended") else { return };
    let mut world = World::over(Schema { address: address.clone(), limits: Limits::default() });
    let lane = world.new_lane(WIDE);
    let model = world.emit_one(lane);
    assert_eq!(world.reader.glance().unwrap().settled, model);
    let (early, late) = (Stranger::connect(&address), Stranger::connect(&address));
    for stranger in [&early, &late] {
        stranger.run_sql("BEGIN; SELECT pg_current_xact_id()");
    }
    takes(&late, model, 1);
    takes(&early, model, 1);
    let there = DeliveryId(model.0 + 2);
    early.run_sql("COMMIT");
    for _ in 0..3 {
        let seen = world.reader.glance().unwrap();
        assert_eq!((seen.last, seen.settled, seen.late), (there, model, 0));
    }
    late.run_sql("COMMIT");
    let seen = world.reader.glance().unwrap();
    assert_eq!((seen.settled, seen.late), (there, 1));
}

fn takes(stranger: &Stranger, model: DeliveryId, count: usize) {
    let columns = "lane, event, bytes, state, attempts, at, expires, ttl";
    let given = stranger.run_sql(&format!(
        "INSERT INTO deliveries (delivery, {columns}) SELECT nextval('delivery_numbers'), {columns}
         FROM deliveries, generate_series(1, {count}) WHERE delivery = {} RETURNING delivery",
        model.0
    ));
    assert_eq!(given, count);
}

#[test]
fn a_number_that_comes_late_is_told_of_though_one_before_it_never_comes() {
    for between in [0, 10_001] {
        let Some(address) = new_schema("a_number_that_comes_late_is_told_of") else { return };
        let mut world = World::over(Schema { address: address.clone(), limits: Limits::default() });
        let lane = world.new_lane(WIDE);
        let model = world.emit_one(lane);
        let seen = world.reader.glance().unwrap();
        let mut lookout = Lookout::new(seen, RosterKeeper::new(RegionSecrets::default()));
        let mut told = || {
            let mut lanes = Vec::new();
            let look = lookout.poll(
                &*world.reader,
                world.now,
                |_, _| false,
                |event| {
                    if let Event::Work(work) = event {
                        lanes.extend(work.into_iter().map(|(lane, _)| lane));
                    }
                },
            );
            look.unwrap();
            lanes.contains(&lane)
        };
        let strangers = [(); 4].map(|()| Stranger::connect(&address));
        for stranger in &strangers {
            stranger.run_sql("BEGIN; SELECT pg_current_xact_id()");
        }
        let [never, many, late, last] = &strangers;
        for (stranger, count) in [(never, 1), (many, between), (late, 1), (last, 1)] {
            takes(stranger, model, count);
        }
        for stranger in [many, last] {
            stranger.run_sql("COMMIT");
        }
        assert!(told(), "there is a new last one");
        while told() {}
        late.run_sql("COMMIT");
        let mut is_told = told();
        assert!(is_told || between > 0, "nobody is told at once");
        never.run_sql("ROLLBACK");
        loop {
            let seen = world.reader.glance().unwrap();
            is_told |= told();
            if seen.settled == seen.last {
                break;
            }
        }
        assert!(is_told, "{between} between: nobody is told");
    }
}

fn number_of(reply: &Reply) -> u64 {
    let Reply::Emitted(emitted) = reply else { panic!("{reply:?}") };
    let Placed::Waiting { delivery, .. } = emitted.targets[0] else { panic!("{emitted:?}") };
    delivery.0
}

/// A reader looks for missing numbers by the end of the transaction that took them.
#[test]
fn a_number_that_a_commit_took_before_it_began_anew_is_nobodys() {
    let Some(address) = new_schema("a_number_that_a_commit_took_before_it_began_anew_is_nobodys") else {
        return;
    };
    let mut world = World::over(Schema { address, limits: Limits::default() });
    let (dead, lane) = (world.new_lane(WIDE), world.new_lane(WIDE));
    let last = world.emit_one(dead);
    world.one(Command::Shed(Shed { lane: dead, max: 1 }));
    world.pass(Nanos::SECOND);
    // The store writes the event before it knows which lane has the old letter.
    let emit = Command::Emit(world.event(&[lane]));
    let never = StoreTime(0);
    let purge = Purge {
        settled_before: never,
        attempts_before: never,
        dead_before: world.now,
        changes_before: StoreTime(0),
        max: 100,
    };
    let replies = world.all(&[emit, Command::Purge(purge)]);
    assert!(matches!(replies[1], Reply::Purged(Purged { dead: 1, .. })), "{replies:?}");
    assert!(number_of(&replies[0]) > last.0 + 1, "{replies:?}");
}

/// In a full store every event makes another lane shed.
#[test]
fn a_commit_that_begins_anew_to_make_room_has_taken_no_number() {
    let Some(address) = new_schema("a_commit_that_begins_anew_to_make_room_has_taken_no_number") else {
        return;
    };
    let limits = Limits { waiting_rows_max: 2, dead_max: 1, ..Limits::default() };
    let mut world = World::over(Schema { address, limits });
    let sheds = Bounds { when_full: WhenFull::ShedOldest, ..WIDE };
    let (full, first, second) = (world.new_lane(sheds), world.new_lane(sheds), world.new_lane(sheds));
    let last = world.emit_one(full);
    // The lane that sheds for the second is locked before.
    let emits = [first, second].map(|lane| Command::Emit(world.event(&[lane])));
    let numbers: Vec<u64> = world.all(&emits).iter().map(number_of).collect();
    assert_eq!(numbers, [last.0 + 1, last.0 + 2]);
    assert_eq!((world.counts(full).waiting, world.counts(full).dead_kept), (0, 1));
    // The next event makes that lane forget the oldest letter.
    let emit = Command::Emit(world.event(&[second]));
    assert_eq!(number_of(&world.one(emit)), last.0 + 3);
    assert_eq!((world.counts(full).dead_kept, world.total().dead_kept), (0, 1));
}

#[test]
fn tables_of_another_version_are_refused() {
    let Some(address) = new_schema("tables_of_another_version_are_refused") else { return };
    let schema = Schema { address: address.clone(), limits: Limits::default() };
    drop(schema.store());
    let options = Options { limits: Limits::default(), create: true, identity: 1 };
    for found in [0, 2] {
        execute(&address, &format!("UPDATE hookproof_schema SET version = {found}"));
        let refused = [
            PostgresStore::open(&schema.at(), &options).map(drop),
            PostgresReader::open(&schema.at()).map(drop),
        ];
        let expected = format!(
            "{} has schema {found}; expected 1: use the version of the program that made it, or another database",
            schema.at()
        );
        assert_eq!(refused.map(|refused| refused.unwrap_err().to_string()), [&*expected; 2]);
    }
}

#[test]
fn a_refusal_of_the_server_is_described_without_a_file_name() {
    let Some(address) = new_schema("a_refusal_of_the_server_is_described") else { return };
    assert!(address.contains("//hookproof@"), "the user of the server that all tests share");
    let mut world = World::over(Schema { address: address.clone(), limits: Limits::default() });
    let lane = world.new_lane(WIDE);
    let fits = |error: &StoreError, words: &str, passes: bool| {
        let told = error.to_string();
        assert!(told.contains(words) && !told.contains("file"), "{told}");
        assert_eq!(error.passes_by_itself(), passes, "{told}");
    };
    let open = |address: &str, create| {
        let options = Options { limits: Limits::default(), create, identity: 1 };
        PostgresStore::open(&address.parse().unwrap(), &options).unwrap_err()
    };
    let read_only = open(&format!("{address}%20-cdefault_transaction_read_only%3Don"), true);
    assert!(matches!(read_only, StoreError::TakesNoWrites { .. }) && read_only.may_pass());
    fits(&read_only, "is read-only", true);

    let schema = query(&address, "SELECT current_schema()").remove(0);
    execute(&address, &format!("CREATE ROLE {schema} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {schema}"));
    let powerless = open(&address.replacen("//hookproof@", &format!("//{schema}@"), 1), true);
    assert!(matches!(powerless, StoreError::Forbidden { .. }) && powerless.may_pass());
    fits(&powerless, "lacks a privilege", false);
    execute(&address, &format!("DROP OWNED BY {schema}; DROP ROLE {schema}"));

    for (role, words) in [
        (format!("CREATE ROLE {schema}_out NOLOGIN"), "permitted to log in"),
        (String::new(), "does not exist"),
    ] {
        execute(&address, &role);
        let refused = open(&address.replacen("//hookproof@", &format!("//{schema}_out@"), 1), false);
        assert!(matches!(refused, StoreError::NotAdmitted { .. }) && refused.may_pass(), "{refused}");
        fits(&refused, words, false);
        execute(&address, &format!("DROP ROLE IF EXISTS {schema}_out"));
    }

    let empty = open(&new_schema("a schema without tables").unwrap(), false);
    fits(&empty, "choose another database", false);

    let stranger = Stranger::connect(&address);
    stranger.run_sql("BEGIN; SELECT 1 FROM lanes FOR UPDATE");
    let emit = Command::Emit(world.event(&[lane]));
    let locked = world.store.commit(world.now, std::slice::from_ref(&emit)).unwrap_err();
    assert!(matches!(locked, StoreError::Busy { .. }));
    fits(&locked, "another process locks the database", true);
    std::thread::scope(|scope| {
        let (now, store) = (world.now, &mut world.store);
        let ended = scope.spawn(move || store.commit(now, &[emit]).unwrap_err());
        stranger.wait_until_waited_for();
        stranger.run_sql(
            "SELECT pg_cancel_backend(pid) FROM pg_locks WHERE NOT granted
             AND pg_backend_pid() = ANY(pg_blocking_pids(pid))",
        );
        let ended = ended.join().unwrap();
        assert!(matches!(ended, StoreError::Cancelled { .. }) && ended.may_pass());
        fits(&ended, "cancelled the statement", true);
    });
}

/// The kernel accepts connections, but the frozen server never answers.
#[test]
fn a_server_that_says_nothing_keeps_nobody_from_the_next_one() {
    let Some(address) = new_schema("a_server_that_says_nothing") else { return };
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let before = format!("@127.0.0.1:{},", silent.local_addr().unwrap().port());
    let joint = if address.contains('?') { '&' } else { '?' };
    let both = format!("{}{joint}connect_timeout=1", address.replacen('@', &before, 1));
    let both: Address = both.parse().unwrap();
    let options = Options { limits: Limits::default(), create: true, identity: 1 };
    drop(PostgresStore::open(&both, &options).unwrap());
    drop(PostgresReader::open(&both).unwrap());
    silent.set_nonblocking(true).unwrap();
    assert_eq!(silent.incoming().take_while(Result::is_ok).count(), 1, "the other connections knew better");
}

pub(crate) struct Stranger {
    runtime: tokio::runtime::Runtime,
    client: tokio_postgres::Client,
}

impl Stranger {
    fn begin(address: &str) -> Self {
        let stranger = Self::connect(address);
        stranger.run_sql("BEGIN; LOCK TABLE events IN SHARE MODE");
        stranger
    }

    pub(crate) fn connect(address: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let connected = tokio_postgres::connect(address, tokio_postgres::NoTls);
        let (client, connection) = runtime.block_on(connected).unwrap();
        runtime.spawn(connection);
        Self { runtime, client }
    }

    pub(crate) fn run_sql(&self, statements: &str) -> usize {
        let answers = self.runtime.block_on(self.client.simple_query(statements)).unwrap();
        answers.iter().filter(|answer| matches!(answer, tokio_postgres::SimpleQueryMessage::Row(_))).count()
    }

    fn wait_until_waited_for(&self) {
        self.wait_until_some("pg_backend_pid() = ANY(pg_blocking_pids(pid))");
    }

    fn wait_until_some(&self, holds: &str) {
        while self.run_sql(&format!("SELECT 1 FROM pg_locks WHERE NOT granted AND {holds}")) == 0 {
            std::thread::yield_now();
        }
    }
}

/// A process learns its commit's result only once the server has finished it. Here that commit waits for another
/// transaction in its last round trip, and may still succeed.
#[test]
fn a_commit_that_waits_with_nobody_to_tell_is_waited_for() {
    std::thread::scope(|scope| {
        for commits in [0, 63] {
            for happens in [true, false] {
                scope.spawn(move || emitted_while_another_marks_the_minute(commits, happens));
            }
        }
    });
}

fn emitted_while_another_marks_the_minute(commits: u64, happens: bool) {
    let Some(address) = new_schema("a_commit_that_waits_with_nobody_to_tell") else { return };
    let mut world = World::over(Schema { address: address.clone(), limits: Limits::default() });
    let lane = world.new_lane(WIDE);
    let Some((between, far)) = by_way_of_a_cut(&address) else { return };
    let mut store = far.store();
    for _ in 0..commits {
        let emit = Command::Emit(world.event(&[lane]));
        store.commit(world.now, &[emit]).unwrap();
    }
    world.pass(Nanos::MINUTE);
    let commands = [Command::Emit(world.event(&[lane]))];
    let stranger = Stranger::connect(&address);
    stranger.run_sql("BEGIN; LOCK TABLE marks IN SHARE ROW EXCLUSIVE MODE");
    let error = store.commit(world.now, &commands).unwrap_err();
    assert!(matches!(error, StoreError::Lost { .. }), "{error}");
    stranger.run_sql(
        "CREATE TEMP TABLE first ON COMMIT DROP AS SELECT pid FROM pg_locks WHERE NOT granted
        AND pg_backend_pid() = ANY(pg_blocking_pids(pid))",
    );
    assert_eq!(stranger.run_sql("SELECT FROM first"), 1, "the commit that nobody was told of waits for this");
    std::thread::scope(|scope| {
        let (now, store) = (world.now, &mut store);
        let again = scope.spawn(move || {
            loop {
                match store.commit(now, &commands) {
                    Err(error) if error.may_pass() => {}
                    ended => break ended.unwrap(),
                }
            }
        });
        // It waits for its writer's row, held by the first, then for the minute's mark.
        stranger.wait_until_some(if happens {
            "(SELECT pid FROM first) = ANY(pg_blocking_pids(pid))"
        } else {
            "pg_backend_pid() = ANY(pg_blocking_pids(pid)) AND pid <> (SELECT pid FROM first)"
        });
        stranger.run_sql("COMMIT");
        let replies = again.join().unwrap();
        assert!(
            matches!(&replies[..], [Reply::Emitted(emitted)] if matches!(emitted.targets[..], [Placed::Waiting { .. }])),
            "{replies:?}"
        );
    });
    // The store must know its own commits as the database does: else, after a loss, it concludes that the database
    // went back.
    between.lose_at(b"BEGIN\0", Loss::Cut);
    let next = [Command::Emit(world.event(&[lane]))];
    assert!(matches!(store.commit(world.now, &next), Err(StoreError::Lost { .. })));
    store.commit(world.now, &next).unwrap();
    world.check_figures();
    assert_eq!((world.counts(lane).accepted, world.total().accepted), (commits + 2, commits + 2));
    assert_eq!(query(&address, "SELECT count(*) FROM all_deliveries"), [(commits + 2).to_string()]);
}

#[test]
fn a_writer_whose_row_was_deleted_may_begin_more_than_once() {
    let Some(address) = new_schema("a_writer_whose_row_was_deleted_may_begin") else { return };
    let mut world = World::over(Schema { address: address.clone(), limits: Limits::default() });
    let lane = world.new_lane(WIDE);
    let mut other = world.backend.store();
    for _ in 0..3 {
        other.commit(world.now, &[Command::Emit(world.event(&[lane]))]).unwrap();
    }
    world.pass(Nanos::DAY.times(8));
    world.one(Command::Sweep(Sweep { max: 1 }));
    assert_eq!(
        query(&address, "SELECT count(*) FROM totals WHERE writer <> 0"),
        ["1"],
        "only who swept is left"
    );
    let swept = other.commit(world.now, &[Command::Sweep(Sweep { max: 10 })]).unwrap();
    assert!(matches!(&swept[..], [Reply::Swept(swept)] if swept.expired == 2), "{swept:?}");
    world.check_figures();
}

/// The writer may be about to sweep too.
#[test]
fn a_writer_that_is_at_a_commit_is_not_taken_for_gone() {
    let Some(address) = new_schema("a_writer_that_is_at_a_commit") else { return };
    let mut world = World::over(Schema { address: address.clone(), limits: Limits::default() });
    let lane = world.new_lane(WIDE);
    let mut other = world.backend.store();
    other.commit(world.now, &[Command::Emit(world.event(&[lane]))]).unwrap();
    let writers = || query(&address, "SELECT count(*) FROM totals WHERE writer <> 0");
    assert_eq!(writers(), ["2"]);
    world.pass(Nanos::DAY.times(8));
    let stranger = Stranger::connect(&address);
    stranger.run_sql("BEGIN; SELECT 1 FROM totals WHERE writer <> 0 AND accepted = 1 FOR NO KEY UPDATE");
    world.one(Command::Sweep(Sweep { max: 10 }));
    assert_eq!(writers(), ["2"]);
    stranger.run_sql("COMMIT");
    world.one(Command::Sweep(Sweep { max: 10 }));
    assert_eq!(writers(), ["1"], "only who swept is left");
}

#[test]
fn a_writer_whose_row_was_deleted_goes_on() {
    for commits in [1, 62, 63, 64] {
        let Some(address) = new_schema("a_writer_whose_row_was_deleted") else { return };
        let mut world = World::over(Schema { address: address.clone(), limits: Limits::default() });
        let lane = world.new_lane(WIDE);
        let Some((between, far)) = by_way_of_a_cut(&address) else { return };
        let mut store = far.store();
        let mut emit = |world: &mut World<Schema>| {
            let emit = Command::Emit(world.event(&[lane]));
            store.commit(world.now, &[emit])
        };
        for _ in 0..commits {
            emit(&mut world).unwrap();
        }
        world.pass(Nanos::DAY.times(8));
        world.one(Command::Sweep(Sweep { max: 10 }));
        let left = world.counts(lane).waiting;
        let writers = query(&address, "SELECT writer FROM totals WHERE writer <> 0");
        assert_eq!(writers.len(), 1, "only who swept is left");
        emit(&mut world).unwrap();
        between.lose_at(b"BEGIN\0", Loss::Cut);
        assert!(matches!(emit(&mut world), Err(StoreError::Lost { .. })));
        emit(&mut world).unwrap();
        assert_eq!(query(&address, "SELECT writer FROM totals WHERE writer <> 0").len(), 2);
        assert_eq!(world.counts(lane).waiting, left + 2);
        world.check_figures();
    }
}

#[test]
fn a_delivery_released_during_a_claim_is_claimed_again() {
    let Some(address) = new_schema("a_delivery_released_during_a_claim") else { return };
    let mut world = World::over(Schema { address: address.clone(), limits: Limits::default() });
    let (lane, term) = world.own_lane(WIDE);
    let first = world.emit_one(lane);
    world.pass(Nanos::SECOND);
    let second = world.emit_one(lane);
    assert_eq!(world.try_claim(lane, term, 1).unwrap().rows[0].delivery, first);
    let mut beside = world.store.claimer().unwrap().unwrap();
    let released = world.settlement(lane, term, first, Fate::Released);
    world.pass(Nanos::SECOND);
    let commands = [Command::Settle(vec![released]), Command::Emit(world.event(&[lane]))];
    let (now, stranger) = (world.now, Stranger::begin(&address));
    std::thread::scope(|scope| {
        let committed = scope.spawn(|| world.store.commit(now, &commands).unwrap());
        stranger.wait_until_waited_for();
        let claim = Claim { lane, term, max: 1, bytes_max: u64::MAX };
        let claimed = beside.claim(now, &[claim]).unwrap().unwrap();
        assert_eq!(claimed[0].rows[0].delivery, second, "the first is about to change");
        stranger.run_sql("ROLLBACK");
        committed.join().unwrap();
    });
    let claimed = world.claim(lane, term);
    assert_eq!((claimed.len(), claimed[0]), (2, first));
}

fn with_delivered(test: &'static str) -> Option<(World<Schema>, Stranger, LaneId, DeliveryId)> {
    let address = new_schema(test)?;
    let mut world = World::over(Schema { address: address.clone(), limits: Limits::default() });
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    assert_eq!(world.claim(lane, term), [delivery]);
    world.settle(lane, term, delivery, Fate::Delivered);
    Some((world, Stranger::connect(&address), lane, delivery))
}

/// Commits beside a transaction of another process, which ends once the commit waits for it.
fn beside(world: &mut World<Schema>, stranger: &Stranger, ends: &str, command: Command) -> Reply {
    std::thread::scope(|scope| {
        let (now, store) = (world.now, &mut world.store);
        let committed = scope.spawn(move || store.commit(now, &[command]).unwrap());
        stranger.wait_until_waited_for();
        stranger.run_sql(ends);
        committed.join().unwrap().pop().unwrap()
    })
}

#[test]
fn a_delivery_that_is_purged_meanwhile_is_not_sent_again() {
    let Some((mut world, purging, lane, delivery)) = with_delivered("a_delivery_that_is_purged_meanwhile")
    else {
        return;
    };
    purging.run_sql("BEGIN; DELETE FROM done");
    let reply = beside(&mut world, &purging, "COMMIT", Command::Resend(delivery));
    assert_eq!(reply, Reply::Refused(Refusal::BodyGone));
    let counts = world.counts(lane);
    assert_eq!((counts.accepted, counts.delivered, counts.waiting), (1, 1, 0));
}

#[test]
fn a_delivery_that_is_sent_again_meanwhile_is_not_purged() {
    let Some((mut world, resending, _, delivery)) = with_delivered("a_delivery_that_is_sent_again_meanwhile")
    else {
        return;
    };
    world.pass(Nanos::DAY);
    resending.run_sql("BEGIN; SELECT 1 FROM done FOR UPDATE");
    let now = world.now;
    let purge = Purge {
        settled_before: now,
        attempts_before: now,
        dead_before: now,
        changes_before: StoreTime(0),
        max: 100,
    };
    let resent = "WITH gone AS (DELETE FROM done RETURNING *)
        INSERT INTO deliveries SELECT delivery, lane, event, body, bytes, 0, 0, at, expires, ttl, last_attempt, NULL,
            status, error, NULL, signature FROM gone; COMMIT";
    beside(&mut world, &resending, resent, Command::Purge(purge));
    assert_eq!(world.place(delivery), Some(Place::Waiting));
    assert!(world.reader.body(delivery).unwrap().is_some());
}

/// A claim in between skips the moved deliveries at their new place.
#[test]
fn a_rescheduled_delivery_is_claimed_despite_an_earlier_concurrent_claim() {
    let fates: [fn(StoreTime) -> Fate; 3] = [
        |_| Fate::Released,
        |now| Fate::Retry { due: now },
        |now| Fate::Retry { due: later(now, Nanos::SECOND) },
    ];
    for fate in fates {
        let Some(address) = new_schema("a_rescheduled_delivery_is_claimed") else { return };
        let Some((between, far)) = by_way_of_a_cut(&address) else { return };
        let mut world = World::over(far);
        let (lane, term) = world.own_lane(WIDE);
        let first = world.emit_one(lane);
        world.pass(Nanos::SECOND);
        let second = world.emit_one(lane);
        assert_eq!(world.claim(lane, term), [first, second]);
        let mut beside = world.store.claimer().unwrap().unwrap();
        let mut claim = |now: StoreTime| {
            let claim = Claim { lane, term, max: 10, bytes_max: u64::MAX };
            let claimed = beside.claim(now, &[claim]).unwrap().expect("the lane is held");
            claimed[0].rows.iter().map(|row| row.delivery).collect::<Vec<_>>()
        };
        let fate = fate(world.now);
        let commands = [Command::Settle(vec![world.settlement(lane, term, first, fate)])];
        between.lose_at(b"COMMIT\0", Loss::Cut);
        let error = world.store.commit(world.now, &commands).unwrap_err();
        assert!(between.has_lost() && matches!(error, StoreError::Lost { .. }), "{error}");
        assert_eq!(claim(world.now), [], "{fate:?}: nobody knows yet what came of it");
        world.all(&commands);
        world.pass(Nanos::SECOND);
        assert_eq!(claim(world.now), [first], "{fate:?}");
        assert_eq!(claim(world.now), []);
    }
}

struct Claiming {
    between: Between,
    world: World<Schema>,
    beside: Box<dyn Claimer>,
    lane: LaneId,
    term: Term,
}

impl Claiming {
    fn begin(test: &str) -> Option<Self> {
        let (between, far) = by_way_of_a_cut(&new_schema(test)?)?;
        let mut world = World::over(far);
        let (lane, term) = world.own_lane(WIDE);
        let beside = world.store.claimer().unwrap().unwrap();
        Some(Self { between, world, beside, lane, term })
    }

    fn claim(&self) -> Claim {
        Claim { lane: self.lane, term: self.term, max: 10, bytes_max: u64::MAX }
    }
}

fn deliveries(claimed: &[Claimed]) -> Vec<DeliveryId> {
    claimed.iter().flat_map(|claimed| &claimed.rows).map(|row| row.delivery).collect()
}

#[test]
fn a_claim_over_a_connection_that_falls_silent_holds_up_no_commit_and_no_further_claim() {
    let Some(mut claiming) = Claiming::begin("a_claim_over_a_connection_that_falls_silent") else { return };
    let first = claiming.world.emit_one(claiming.lane);
    let (now, claim) = (claiming.world.now, claiming.claim());
    let Claiming { between, world, beside, lane, term } = &mut claiming;
    assert_eq!(deliveries(&beside.claim(now, std::slice::from_ref(&claim)).unwrap().unwrap()), [first]);
    let second = world.emit_one(*lane);
    between.lose_at(b"SELECT", Loss::Silence);
    let has_failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let claimed = scope.spawn(|| {
            let claimed = beside.claim(now, std::slice::from_ref(&claim));
            has_failed.store(true, Ordering::SeqCst);
            claimed
        });
        between.wait_until_lost();
        let settled = world.settlement(*lane, *term, first, Fate::Delivered);
        world.one(Command::Settle(vec![settled]));
        assert!(!has_failed.load(Ordering::SeqCst), "the commit waited until the claim had failed");
        let error = claimed.join().unwrap().unwrap_err();
        assert!(matches!(error, StoreError::Lost { .. }), "{error}");
    });
    // Until the claimer reconnects, it leaves claims to commits.
    assert_eq!(
        beside.claim(now, std::slice::from_ref(&claim)).unwrap().map(|claimed| deliveries(&claimed)),
        None
    );
    let later = later(now, Nanos::from_secs(5));
    assert_eq!(deliveries(&beside.claim(later, std::slice::from_ref(&claim)).unwrap().unwrap()), [second]);
}

/// While new connections hang, commits continue over theirs. Claims go to commits at once, for a while after the
/// connection failed.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test's one clock")]
fn claims_are_left_to_the_commits_while_no_connection_is_to_be_had() {
    let Some(mut claiming) = Claiming::begin("claims_are_left_to_the_commits") else { return };
    let (now, claim) = (claiming.world.now, claiming.claim());
    let Claiming { between, world, beside, lane, term } = &mut claiming;
    between.be_deaf();
    let begun = std::time::Instant::now();
    let error = beside.claim(now, std::slice::from_ref(&claim)).unwrap_err();
    assert!(matches!(error, StoreError::Lost { .. }), "{error}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(8), "a claim waited longer than for an answer");
    let failed = later(now, Nanos::from_secs(10));
    for passed in [0, 4] {
        let now = later(failed, Nanos::from_secs(passed));
        assert!(beside.claim(now, std::slice::from_ref(&claim)).unwrap().is_none(), "after {passed} s");
    }
    let first = world.emit_one(*lane);
    assert_eq!(world.claim(*lane, *term), [first], "over the connection that there is");
    let error = beside.claim(later(failed, Nanos::from_secs(5)), &[claim]).unwrap_err();
    assert!(matches!(error, StoreError::Lost { .. }), "it is tried again: {error}");
}

/// The database may answer a claim from before a commit that has ended since.
#[test]
fn a_delivery_settled_during_a_claim_is_not_claimed_again() {
    let fates: [fn(StoreTime) -> Fate; 3] =
        [|_| Fate::Delivered, |now| Fate::Retry { due: later(now, Nanos::HOUR) }, |_| Fate::Released];
    for fate in fates {
        let Some(mut claiming) = Claiming::begin("a_delivery_settled_during_a_claim") else { return };
        let (lane, term) = (claiming.lane, claiming.term);
        claiming.world.pass(Nanos::SECOND);
        let handed_out = [claiming.world.emit_one(lane), claiming.world.emit_one(lane)];
        assert_eq!(claiming.world.claim(lane, term), handed_out);
        let mut event = claiming.world.event(&[lane]);
        event.targets[0].due = StoreTime(claiming.world.now.0 - Nanos::SECOND.0);
        let placed = claiming.world.try_emit(event).unwrap().targets.remove(0);
        let Placed::Waiting { delivery: early, .. } = placed else { panic!("{placed:?}") };
        let fate = fate(claiming.world.now);
        let (now, claim) = (claiming.world.now, claiming.claim());
        let Claiming { between, world, beside, .. } = &mut claiming;
        between.lose_at(b"SELECT 3\0", Loss::Late);
        std::thread::scope(|scope| {
            let claimed = scope.spawn(|| beside.claim(now, std::slice::from_ref(&claim)).unwrap().unwrap());
            between.wait_until_lost();
            let settled = world.settlement(lane, term, handed_out[0], fate);
            world.one(Command::Settle(vec![settled]));
            between.let_go();
            assert_eq!(deliveries(&claimed.join().unwrap()), [early], "{fate:?}");
        });
        let left = if fate == Fate::Released { vec![handed_out[0]] } else { Vec::new() };
        assert_eq!(deliveries(&beside.claim(now, &[claim]).unwrap().unwrap()), left, "{fate:?}");
    }
}

/// It is answered from memory, so a dead connection is noticed soon.
#[test]
fn a_glance_over_a_connection_that_falls_silent_is_given_up_before_a_question_that_may_take_long() {
    let Some(address) = new_schema("a_glance_over_a_connection_that_falls_silent") else { return };
    let Some((between, far)) = by_way_of_a_cut(&address) else { return };
    drop(far.store());
    let (asking, watching) = (far.reader(), far.reader());
    between.lose_at(b"SELECT", Loss::Silence);
    std::thread::scope(|scope| {
        let asked = scope.spawn(move || asking.owners().map(drop));
        between.wait_until_lost();
        between.lose_at(b"SELECT", Loss::Silence);
        let error = watching.glance().unwrap_err();
        assert!(matches!(error, StoreError::Lost { .. }), "{error}");
        assert!(!asked.is_finished(), "what was asked before was given up before");
        let error = asked.join().unwrap().unwrap_err();
        assert!(matches!(error, StoreError::Lost { .. }), "{error}");
    });
    watching.glance().unwrap();
}

/// The server reports its statistics by statement.
struct Watched {
    schema: Schema,
    name: String,
}

impl Watched {
    /// So many deliveries are settled when the server analyses the table; `None` without a server.
    fn new(test: &str, deliveries: u32) -> Option<Self> {
        let address = new_schema(test)?;
        let name = query(&address, "SELECT current_schema()").remove(0);
        let address = format!("{address}&application_name={name}");
        let schema = Schema { address, limits: Limits::default() };
        drop(schema.store());
        let watched = Self { schema, name };
        watched.execute(&format!(
            "INSERT INTO deliveries (delivery, lane, event, bytes, state, attempts, at, expires, ttl)
                 SELECT 1000000 + number, 1, 1000000 + number, 1, 1, 1, number, number, 1
                 FROM generate_series(1, {deliveries}) number;
             ALTER TABLE deliveries SET (autovacuum_enabled = off); ALTER TABLE lanes SET (autovacuum_enabled = off);
             ALTER TABLE events SET (autovacuum_enabled = off); ALTER TABLE done SET (autovacuum_enabled = off);
             ALTER TABLE totals SET (autovacuum_enabled = off);
             ANALYZE deliveries; ANALYZE lanes"
        ));
        Some(watched)
    }

    fn execute(&self, statements: &str) {
        execute(&self.schema.address, statements);
    }

    /// A figure of ended connections. The server reports it late.
    fn figure_after_close(&self, sql: &str) -> u64 {
        let open = format!(
            "SELECT 1 FROM pg_stat_activity WHERE application_name = '{}' AND pid <> pg_backend_pid()",
            self.name
        );
        while !query(&self.schema.address, &open).is_empty() {
            std::thread::yield_now();
        }
        query(&self.schema.address, sql)[0].parse().unwrap()
    }

    fn pages(&self, table: &str) -> u64 {
        self.figure_after_close(&format!(
            "SELECT heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read FROM pg_statio_user_tables
             WHERE schemaname = current_schema() AND relname = '{table}'"
        ))
    }

    fn uses(&self, index: &str) -> u64 {
        self.figure_after_close(&format!(
            "SELECT idx_scan FROM pg_stat_user_indexes
             WHERE schemaname = current_schema() AND indexrelname = 'deliveries_{index}'"
        ))
    }

    fn world(&self) -> World<Schema> {
        World::over(Schema { address: self.schema.address.clone(), limits: Limits::default() })
    }

    fn rows_fetched(&self, table: &str) -> u64 {
        self.figure_after_close(&format!(
            "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables
             WHERE schemaname = current_schema() AND relname = '{table}'"
        ))
    }

    fn rows_read(&self, table: &str) -> u64 {
        self.figure_after_close(&format!(
            "SELECT t.seq_tup_read + i.idx_tup_read FROM pg_stat_user_tables t
             JOIN pg_stat_user_indexes i USING (relid)
             WHERE t.schemaname = current_schema() AND i.indexrelname = '{table}_pkey'"
        ))
    }
}

/// All other nodes wait for the lock of leases meanwhile.
#[test]
fn a_takeover_of_a_lane_with_window_caps_reads_only_attempts_since_its_record() {
    const OLD: u64 = 500;
    let Some(watched) = Watched::new("a_takeover_of_a_lane_with_window_caps", 0) else { return };
    let mut world = watched.world();
    let lane = world.new_lane(WIDE);
    watched.execute("UPDATE lanes SET capped = true");
    world.pass(Nanos::DAY);
    let term = world.own(ME, lane);
    world.persist(lane, term, b"state", false);
    let now = world.now;
    drop(world);
    // One attempt a second of 1 s, and two of half an hour: one ended before the checkpoint, one after.
    let attempts = |delivery: &str, at: u64, latency: u64| {
        watched.execute(&format!(
            "INSERT INTO attempts SELECT {at} - number, {delivery}, {}, 1, {latency}, 0, 200, NULL, 1, NULL, true
             FROM generate_series(1000000000, {OLD} * 1000000000::int8, 1000000000) number",
            lane.0
        ));
    };
    attempts("number", now.0 - Nanos::from_secs(600).0, Nanos::SECOND.0);
    for (delivery, since) in [(1, 20), (2, 40)] {
        watched.execute(&format!(
            "INSERT INTO attempts VALUES ({}, {delivery}, {}, 1, {}, 0, 200, NULL, 1, NULL, true)",
            now.0 - since * Nanos::MINUTE.0,
            lane.0,
            30 * Nanos::MINUTE.0
        ));
    }
    let before = watched.rows_fetched("attempts");
    let mut world = watched.world();
    world.now = later(now, LEASE);
    let taken = world.acquire(YOU, LaneSelection::These(vec![lane]));
    let Handover::Seized { ended, .. } = &taken[0].handover else { panic!("{taken:?}") };
    assert_eq!(ended.iter().map(|run| run.count).collect::<Vec<_>>(), [1]);
    drop(world);
    let read = watched.rows_fetched("attempts") - before;
    assert!(read < 10, "{read} rows");
}

/// The subscriber's events wait, and are matched again with the new roster.
#[test]
fn an_event_for_a_subscriber_that_is_being_changed_waits_and_is_matched_anew() {
    let Some(address) = new_schema("an_event_for_a_subscriber_that_is_being_changed") else { return };
    let mut world = World::over(Schema { address: address.clone(), limits: Limits::default() });
    let (changing, other) = (world.new_lane(WIDE), world.new_lane(WIDE));
    let (event, of_another) = (world.event(&[changing]), world.event(&[other]));
    let stranger = Stranger::connect(&address);
    stranger.run_sql(&format!(
        "BEGIN; SELECT 1 FROM lanes WHERE lane = {0} FOR UPDATE; UPDATE state SET roster = roster + 1;
         UPDATE subscribers SET url = 'https://elsewhere.example/', patterns = '[\"order.*\"]',
             version = (SELECT roster FROM state) WHERE lane = {0}",
        changing.0
    ));
    let known = event.roster;
    world.try_emit(of_another.clone()).unwrap();
    std::thread::scope(|scope| {
        let (now, store) = (world.now, &mut world.store);
        let emitted = scope.spawn(move || store.commit(now, &[Command::Emit(event)]).unwrap());
        stranger.wait_until_waited_for();
        stranger.run_sql("COMMIT");
        let stale = Refusal::StaleRoster { known, current: known + 1 };
        assert_eq!(emitted.join().unwrap(), [Reply::Refused(stale)]);
    });
    world.try_emit(Emit { id: "another".into(), ..of_another }).unwrap();
}

/// The server keeps every old row version meanwhile.
#[test]
fn dead_rows_beside_a_foreign_transaction_slow_no_later_commit() {
    let Some(watched) = Watched::new("dead_rows_beside_a_foreign_transaction", 0) else {
        return;
    };
    let mut world = World::over(Schema::at_address(watched.schema.address.clone()));
    let lane = world.new_lane(WIDE);
    let World { store, reader, .. } = world;
    drop((store, reader));
    let stranger = Stranger::connect(&format!("{}_stranger", watched.schema.address));
    stranger.run_sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM state");
    let tables = ["lanes", "totals", "deliveries", "done"];
    let looked = |owner: OwnerId, commits: u32| {
        let before = tables.map(|table| watched.pages(table));
        works_alone(&watched.schema, owner, lane, commits);
        let pages = tables.map(|table| watched.pages(table));
        std::array::from_fn::<_, 4, _>(|table| (pages[table] - before[table]) / u64::from(commits))
    };
    // Each writer leaves a row with dead versions. An index whose first page is full has a level more.
    for owner in 11..14 {
        looked(OwnerId(owner), 200);
    }
    let first = looked(OwnerId(14), 100);
    looked(OwnerId(15), 800);
    let last = looked(OwnerId(16), 100);
    for (table, (first, last)) in tables.into_iter().zip(first.into_iter().zip(last)) {
        assert!(first > 0, "{table}: nothing was heard");
        assert!(
            last <= first + first / 4,
            "{table}: {first} pages for each round at first, {last} after 800 of them"
        );
    }
    stranger.run_sql("COMMIT");
}

/// Leaves no connection open.
fn works_alone(schema: &Schema, owner: OwnerId, lane: LaneId, rounds: u32) {
    let mut world = World::over(Schema::at_address(schema.address.clone()));
    world.now = StoreTime(world.now.0 + owner.0 * 1_000_000_000);
    // `World` also runs the operators' queries.
    let term = match world
        .store
        .commit(world.now, &[acquire(owner, LaneSelection::These(vec![lane]))])
        .unwrap()
        .remove(0)
    {
        Reply::Acquired(taken) => taken[0].term,
        other => panic!("{other:?}"),
    };
    let mut beside = world.store.claimer().unwrap().unwrap();
    for _ in 0..rounds {
        world.now = StoreTime(world.now.0 + 1_000);
        let emit = Command::Emit(world.event(&[lane]));
        world.store.commit(world.now, &[emit]).unwrap();
        let claim = Claim { lane, term, max: 10, bytes_max: u64::MAX };
        let claimed = beside.claim(world.now, &[claim]).unwrap().unwrap();
        assert_eq!(claimed[0].rows.len(), 1);
        let settled = world.settlement(lane, term, claimed[0].rows[0].delivery, Fate::Delivered);
        world.store.commit(world.now, &[Command::Settle(vec![settled])]).unwrap();
        world.reader.glance().unwrap();
    }
    world.store.commit(world.now, &[Command::Evict(owner)]).unwrap();
}

/// With few rows a sequential scan is the cheapest plan, and a prepared statement keeps it until it is planned again.
#[test]
fn working_looks_for_what_it_needs_however_few_there_were_when_the_tables_were_analysed() {
    const ROUNDS: u32 = 2_000;

    for rows in [1, 2, 300] {
        let Some(watched) = Watched::new("working_looks_for_what_it_needs", rows) else { return };
        let lane = World::over(Schema::at_address(watched.schema.address.clone())).new_lane(WIDE);
        works_alone(&watched.schema, OwnerId(21), lane, rows);
        watched.execute("VACUUM ANALYZE events");
        let tables = ["deliveries", "events"];
        let before = tables.map(|table| watched.rows_read(table));
        works_alone(&watched.schema, OwnerId(22), lane, ROUNDS);
        for (table, before) in tables.into_iter().zip(before) {
            let read = watched.rows_read(table) - before;
            // Reading every row in each round would be twice as many.
            let most = u64::from(ROUNDS) * u64::from(ROUNDS) / 2;
            assert!(
                (u64::from(ROUNDS)..most).contains(&read),
                "{rows} rows at first: {read} of {table} were read in {ROUNDS} rounds"
            );
        }
    }
}

/// A server that analysed the table with no waiting row treats all partial indexes as equal. A stranger's transaction
/// keeps every settled delivery in them, so the wrong one reads all of them for each claim.
#[test]
fn each_index_of_what_waits_serves_its_own_statements() {
    let Some(watched) = Watched::new("each_index_of_what_waits_serves_its_own_statements", 50_000) else {
        return;
    };
    let mut world = World::over(Schema::at_address(watched.schema.address.clone()));
    let (lane, term) = world.own_lane(WIDE);
    let mut event = world.event(&[lane]);
    event.targets[0].coalesce = Some(Coalesce { key: "clip".into(), window: Nanos::from_secs(10) });
    let commands: [(&str, Command); 3] = [
        ("due", Command::Claim(Claim { lane, term, max: 10, bytes_max: u64::MAX })),
        ("expires", Command::Sweep(Sweep { max: 10 })),
        ("alike", Command::Emit(event)),
    ];
    let now = world.now;
    drop(world);
    for (wanted, command) in commands {
        let indexes = ["due", "expires", "alike"];
        let before = indexes.map(|index| watched.uses(index));
        let mut store = watched.schema.store();
        // The server plans a statement for its first values, and later for any values.
        for _ in 0..20 {
            store.commit(now, std::slice::from_ref(&command)).unwrap();
        }
        drop(store);
        let after = indexes.map(|index| watched.uses(index));
        for (index, (before, after)) in indexes.iter().zip(before.iter().zip(after)) {
            let is_right = if *index == wanted { after - before >= 20 } else { *before == after };
            assert!(is_right, "{}: deliveries_{index} was used {} times", command.name(), after - before);
        }
    }
}
