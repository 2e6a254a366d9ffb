//! The contract's store in PostgreSQL: a schema for each test, on one server.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hookproof_sender::engine::{Nanos, StoreTime};
use hookproof_sender::store::command::{Claim, Fate, Which};
use hookproof_sender::store::lane::Limits;
use hookproof_sender::store::postgres::{Address, Options, PostgresReader, PostgresStore};
use hookproof_sender::store::{Command, Reader, Reply, Store, StoreError};

use crate::postgres_server::{by_way_of, execute, new_schema};
use crate::world::{Backend, LEASE, ME, WIDE, World, YOU, acquire, later};

/// A store in a schema of its own.
pub(crate) struct Schema {
    address: String,
    limits: Limits,
}

impl Schema {
    pub(crate) fn at_address(address: String) -> Self {
        Self { address, limits: Limits::default() }
    }

    fn at(&self) -> Address {
        self.address.parse().unwrap()
    }
}

impl Backend for Schema {
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

    /// The server lives on here; that what it acknowledged survives it is tried by killing it (`tests/crash`).
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
}

/// How a connection is lost.
#[derive(Clone, Copy, PartialEq)]
enum Loss {
    /// Both sides hear of it.
    Cut,
    /// Nobody hears of anything any more.
    Silence,
}

/// When a connection is lost, and how: when the server says that.
type Armed = Arc<Mutex<Option<(&'static [u8], Loss)>>>;

/// Something between a store and its server, which loses a connection once.
struct Between {
    port: u16,
    armed: Armed,
}

impl Between {
    fn start(listener: TcpListener, socket: PathBuf) -> Self {
        let port = listener.local_addr().unwrap().port();
        let at = Armed::default();
        let armed = Arc::clone(&at);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = UnixStream::connect(&socket).unwrap();
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                let armed = Arc::clone(&armed);
                std::thread::spawn(move || carry(server, client, &armed));
            }
        });
        Self { port, armed: at }
    }

    fn lose_at(&self, words: &'static [u8], loss: Loss) {
        *self.armed.lock().unwrap() = Some((words, loss));
    }

    fn has_lost(&self) -> bool {
        self.armed.lock().unwrap().is_none()
    }
}

/// Carries what the server says, up to the words at which the connection is lost.
fn carry(mut server: UnixStream, mut client: TcpStream, armed: &Mutex<Option<(&'static [u8], Loss)>>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(length @ 1..) = server.read(&mut bytes) {
        let said = &bytes[..length];
        let mut armed = armed.lock().unwrap();
        if let Some((_, loss)) =
            armed.take_if(|(words, _)| said.windows(words.len()).any(|some| some == *words))
        {
            if loss == Loss::Silence {
                // The sockets stay as they are, for as long as the tests last.
                std::mem::forget((server, client));
                return;
            }
            break;
        }
        drop(armed);
        if client.write_all(said).is_err() {
            break;
        }
    }
    // Either may be closed already.
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

/// The address of a schema by way of something that can cut connections; nothing, if the server is no private one.
fn by_way_of_a_cut(address: &str) -> Option<(Between, Schema)> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, socket) = by_way_of(address, listener.local_addr().unwrap().port())?;
    let between = Between::start(listener, socket);
    assert!(address.contains(&between.port.to_string()));
    let joint = if address.contains('?') { '&' } else { '?' };
    // Nobody waits longer for an answer than so many seconds.
    let address = format!("{address}{joint}tcp_user_timeout=1");
    Some((between, Schema { address, limits: Limits::default() }))
}

/// Emits over a connection that is lost where the server says that, and emits the same again, as the store's thread does.
fn emitted_over(loss: Loss, words: &'static [u8]) {
    let Some(address) = new_schema("emitted_over_a_loss") else { return };
    let mut world = World::over(Schema { address: address.clone(), limits: Limits::default() });
    let lane = world.new_lane(WIDE);
    let Some((between, far)) = by_way_of_a_cut(&address) else { return };
    let mut store = far.store();
    let commands = [Command::Emit(world.event(&[lane]))];
    between.lose_at(words, loss);
    let error = store.commit(world.now, &commands).unwrap_err();
    assert!(between.has_lost() && matches!(error, StoreError::Lost { .. }) && error.may_pass(), "{error}");
    // What a lost transaction has locked, the server lets go when it has heard nothing for a while.
    let replies = loop {
        match store.commit(world.now, &commands) {
            Err(error) if loss == Loss::Silence && error.may_pass() => {}
            ended => break ended.unwrap(),
        }
    };
    assert!(matches!(&replies[..], [Reply::Emitted(emitted)] if emitted.targets.len() == 1), "{replies:?}");
    world.check_figures();
    assert_eq!((world.counts(lane).accepted, world.total().accepted), (1, 1));
    let (lane, _) = world.own_lane(WIDE);
    world.emit_one(lane);
}

#[test]
fn a_commit_that_happened_though_nobody_heard_of_it_happens_once() {
    emitted_over(Loss::Cut, b"COMMIT\0");
}

#[test]
fn a_commit_that_was_cut_off_before_its_end_did_not_happen() {
    emitted_over(Loss::Cut, b"BEGIN\0");
}

#[test]
fn a_server_of_which_nothing_is_heard_any_more_is_away() {
    for words in [b"BEGIN\0".as_slice(), b"COMMIT\0"] {
        emitted_over(Loss::Silence, words);
    }
}

/// While the server is away nobody can renew a lease. Who connects first takes nobody's lanes for that, but those of the dead.
#[test]
fn who_could_not_renew_while_the_server_was_away_is_not_robbed_at_once() {
    const SPARED: Nanos = Nanos::from_secs(3);

    for is_dead in [false, true] {
        let Some(address) = new_schema("who_could_not_renew_while_the_server_was_away") else { return };
        let mut world = World::over(Schema { address: address.clone(), limits: Limits::default() });
        let (lane, _) = world.own_lane(WIDE);
        let Some((between, far)) = by_way_of_a_cut(&address) else { return };
        let mut store = far.store();
        world.pass(LEASE);
        between.lose_at(b"BEGIN\0", Loss::Cut);
        store.commit(world.now, &[acquire(YOU, Which::All)]).unwrap_err();
        if is_dead {
            world.one(Command::Evict(ME));
        }
        let mut taken = |now: StoreTime| match &store.commit(now, &[acquire(YOU, Which::All)]).unwrap()[..] {
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
fn tables_of_an_older_version_are_refused() {
    let Some(address) = new_schema("tables_of_an_older_version_are_refused") else { return };
    let schema = Schema { address: address.clone(), limits: Limits::default() };
    drop(schema.store());
    execute(&address, "UPDATE hookproof_schema SET version = 1");
    let options = Options { limits: Limits::default(), create: true, identity: 1 };
    let error = PostgresStore::open(&schema.at(), &options).unwrap_err();
    assert!(
        matches!(error, StoreError::Foreign { .. }) && error.to_string().contains("version 1"),
        "{error}"
    );
    assert!(matches!(PostgresReader::open(&schema.at()), Err(StoreError::Foreign { .. })));
}

/// A stranger's transaction for which every commit waits before it ends.
struct Stranger {
    runtime: tokio::runtime::Runtime,
    client: tokio_postgres::Client,
}

impl Stranger {
    fn begin(address: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let connected = tokio_postgres::connect(address, tokio_postgres::NoTls);
        let (client, connection) = runtime.block_on(connected).unwrap();
        runtime.spawn(connection);
        let stranger = Self { runtime, client };
        // Every commit counts there.
        stranger.says("BEGIN; SELECT 1 FROM totals FOR UPDATE");
        stranger
    }

    fn says(&self, statements: &str) -> usize {
        self.runtime.block_on(self.client.simple_query(statements)).unwrap().len()
    }

    fn wait_until_waited_for(&self) {
        let waiting =
            "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))";
        // The end of the answer counts as one.
        while self.says(waiting) < 2 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn what_is_released_while_somebody_claims_is_handed_out_again() {
    let Some(address) = new_schema("what_is_released_while_somebody_claims") else { return };
    let mut world = World::over(Schema { address: address.clone(), limits: Limits::default() });
    let (lane, term) = world.own_lane(WIDE);
    let first = world.emit_one(lane);
    world.pass(Nanos::SECOND);
    let second = world.emit_one(lane);
    assert_eq!(world.try_claim(lane, term, 1).unwrap().rows[0].delivery, first);
    let mut beside = world.store.claimer().unwrap().unwrap();
    let released = world.settlement(lane, term, first, Fate::Released);
    // What comes to wait with it is due later than all that was looked at.
    world.pass(Nanos::SECOND);
    let commands = [Command::Settle(vec![released]), Command::Emit(world.event(&[lane]))];
    let (now, stranger) = (world.now, Stranger::begin(&address));
    std::thread::scope(|scope| {
        let committed = scope.spawn(|| world.store.commit(now, &commands).unwrap());
        stranger.wait_until_waited_for();
        let claim = Claim { lane, term, max: 1, bytes_max: u64::MAX };
        let claimed = beside.claim(now, &[claim]).unwrap().unwrap();
        assert_eq!(claimed[0].rows[0].delivery, second, "the first is about to change");
        stranger.says("ROLLBACK");
        committed.join().unwrap();
    });
    let claimed = world.claim(lane, term);
    assert_eq!((claimed.len(), claimed[0]), (2, first));
}

/// The database tells of a commit before the store knows that it is through: who claims in between passes over what it moves,
/// where that lies by now.
#[test]
fn what_waits_again_is_handed_out_though_somebody_claimed_before_its_commit_was_through() {
    let fates: [fn(StoreTime) -> Fate; 3] = [
        |_| Fate::Released,
        |now| Fate::Retry { due: now },
        |now| Fate::Retry { due: later(now, Nanos::SECOND) },
    ];
    for fate in fates {
        let Some(address) = new_schema("what_waits_again_is_handed_out") else { return };
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
