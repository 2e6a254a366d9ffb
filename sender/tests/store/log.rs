//! A reader prevents the log's checkpoint: at its bound the store refuses events only.

use hookproof_sender::engine::Nanos;
use hookproof_sender::store::command::Fate;
use hookproof_sender::store::lane::{Bounds, WhenFull};
use hookproof_sender::store::reply::SettleResult;
use hookproof_sender::store::sqlite::{Options, SqliteStore};
use hookproof_sender::store::{Command, Refusal, Reply};
use rusqlite::Connection;

use crate::store::sqlite::File;
use crate::store::world::{World, body};

/// The store truncates the log a little earlier.
const LOG_BYTES_MAX: u64 = 66 << 20;
const BODY_BYTES: usize = 1 << 20;
const ROOM: Bounds = Bounds { rows_max: 1_000, bytes_max: 1 << 30, when_full: WhenFull::Refuse };

#[test]
fn at_the_bound_events_are_refused_until_the_reader_has_ended_and_what_is_owed_is_settled() {
    let mut world = World::<File>::new();
    let options = Options { log_bytes_max: LOG_BYTES_MAX, ..world.backend.options() };
    world.store = Box::new(SqliteStore::open(&world.backend.path(), &options).unwrap());
    let (lane, term) = world.own_lane(ROOM);
    let reader = Connection::open(world.backend.path()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM deliveries").unwrap();
    let emit = |world: &mut World<File>| {
        let mut event = world.event(&[lane]);
        event.bodies = vec![body(&vec![7; BODY_BYTES])];
        let now = world.now;
        world.store.commit(now, &[Command::Emit(event)]).unwrap().remove(0)
    };
    let mut taken = 0;
    let refusal = loop {
        match emit(&mut world) {
            Reply::Emitted(_) => taken += 1,
            other => break other,
        }
        assert!(taken < 200, "the log has no bound");
    };
    assert!(
        matches!(refusal, Reply::Refused(Refusal::LogFull { bytes }) if bytes >= LOG_BYTES_MAX),
        "{refusal:?}"
    );
    let rows = world.claim(lane, term);
    assert_eq!(world.settle(lane, term, rows[0], Fate::Delivered), SettleResult::Applied);
    reader.execute_batch("COMMIT").unwrap();
    while matches!(emit(&mut world), Reply::Refused(_)) {
        world.pass(Nanos::SECOND);
        std::thread::yield_now();
    }
    assert!(world.store.log_size().bytes() < LOG_BYTES_MAX);
}
