//! Files of the version before: what they hold is there once they are opened, and goes on.

use std::path::Path;

use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use hookproof_sender::store::command::{Dead, Fate, Purge, Redrive, Sweep};
use hookproof_sender::store::read::{Filter, Place};
use hookproof_sender::store::reply::{Purged, Swept};
use hookproof_sender::store::{Command, Reply};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::sqlite::File;
use crate::world::{ME, World, later};

/// A moment after the file's latest time.
const THEN: StoreTime = StoreTime::from_secs(1_795_386_385);
/// Where one of its events was received.
const FIRST_RECEIVED: StoreTime = StoreTime(1_795_386_382_929_760_540);

/// The file as it was, and what was, or would be, sent for each delivery.
fn before(folder: &TempDir) -> (std::path::PathBuf, Vec<(DeliveryId, Vec<u8>)>) {
    let path = folder.path().join("store.db");
    let sql = Connection::open(&path).unwrap();
    sql.execute_batch(include_str!("schema_4.sql")).unwrap();
    let bodies = {
        let query = "SELECT delivery, b.bytes FROM deliveries d JOIN bodies b USING (body) ORDER BY delivery";
        let mut query = sql.prepare(query).unwrap();
        let rows =
            query.query_map([], |row| Ok((DeliveryId(row.get::<_, i64>(0)?.unsigned_abs()), row.get(1)?)));
        rows.unwrap().map(Result::unwrap).collect()
    };
    (path, bodies)
}

fn migrated(path: &Path) -> World<File> {
    let mut world = World::over(File::at(path.to_owned()));
    world.now = THEN;
    world
}

#[test]
fn what_a_file_of_the_version_before_holds_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bodies) = before(&folder);
    let world = migrated(&path);
    assert_eq!(bodies.len(), 12);
    for (delivery, bytes) in &bodies {
        assert_eq!(*world.reader.body(*delivery).unwrap().unwrap().bytes, **bytes, "{delivery:?}");
    }
    let attempts = |delivery| world.reader.attempts_of(DeliveryId(delivery)).unwrap().len();
    assert_eq!([1, 2, 3, 4, 5, 6, 7].map(attempts), [1, 2, 1, 1, 1, 1, 0]);
    let place = |delivery| world.place(DeliveryId(delivery)).unwrap();
    assert_eq!([1, 2, 4, 9].map(place), [Place::Delivered, Place::Dead, Place::Waiting, Place::Waiting]);
    let status = world.reader.status(THEN).unwrap();
    assert_eq!((status.counts.waiting, status.counts.delivered, status.counts.dead_kept), (7, 4, 1));
    // Delivery 9 is the first that expires: its subscriber gives up after an hour.
    let ninth = world.reader.delivery(DeliveryId(9)).unwrap().unwrap();
    assert_eq!(
        (ninth.expires, status.next_to_expire),
        (later(ninth.received, Nanos::HOUR), Some(ninth.received))
    );
    world.check_figures();
}

#[test]
fn what_waits_in_a_file_of_the_version_before_is_sent_or_expires_and_goes_when_it_is_old() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bodies) = before(&folder);
    let mut world = migrated(&path);
    let lane = LaneId(1);
    let term = world.own(ME, lane);
    let claimed = world.claim_rows(lane, term);
    assert_eq!(claimed.iter().map(|row| row.delivery.0).collect::<Vec<_>>(), [7, 11]);
    for row in &claimed {
        let (_, bytes) = bodies.iter().find(|(delivery, _)| *delivery == row.delivery).unwrap();
        assert_eq!(*row.body.bytes, **bytes);
        world.settle(lane, term, row.delivery, Fate::Delivered);
    }
    // New ones beside them, of which one waits as long.
    let new = world.emit(&[lane, LaneId(3)]);
    assert_eq!(new, [DeliveryId(13), DeliveryId(14)]);
    world.now = later(FIRST_RECEIVED, Nanos::HOUR.times(2));
    assert_eq!(world.one(Command::Sweep(Sweep { max: 100 })), swept(2));
    assert_eq!([9, 12].map(|delivery| world.place(DeliveryId(delivery))), [Some(Place::Dead); 2]);
    world.one(Command::Redrive(Redrive { which: Dead::These(vec![DeliveryId(2)]), after: None, max: 9 }));
    world.now = later(world.now, Nanos::DAY.times(2));
    assert_eq!(world.one(Command::Sweep(Sweep { max: 100 })), swept(6), "all that waited");
    let now = later(world.now, Nanos(1));
    let purge = Purge { settled_before: now, attempts_before: now, dead_before: now, max: 1_000 };
    let purged = Purged { events: 5, deliveries: 6, attempts: 9, dead: 8, more: false };
    assert_eq!(world.one(Command::Purge(purge)), Reply::Purged(purged));
    let left = "SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM further_bodies) + (SELECT count(*) FROM deliveries)";
    let left: i64 = Connection::open(&path).unwrap().query_row(left, [], |row| row.get(0)).unwrap();
    assert_eq!((left, world.reader.deliveries(Filter::default(), None, 9).unwrap().items.len()), (0, 0));
    world.one(Command::Sweep(Sweep { max: 100 }));
    let noted = "SELECT count(*) FROM expiring";
    let noted: i64 = Connection::open(&path).unwrap().query_row(noted, [], |row| row.get(0)).unwrap();
    assert_eq!(noted, 0, "nothing is left behind");
    world.check_figures();
}

fn swept(expired: u64) -> Reply {
    Reply::Swept(Swept { expired, ..Swept::default() })
}

/// It would take a delivery whose body is in its event's row for a damaged one, and give it up.
#[test]
fn a_process_of_the_version_before_can_hand_nothing_out_of_a_file_that_is_newer() {
    const BODY_OF_SCHEMA_4: &str = "SELECT bytes, hash FROM bodies WHERE body = ?1";
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = before(&folder);
    let older = Connection::open(&path).unwrap();
    let mut claim = older.prepare(BODY_OF_SCHEMA_4).unwrap();
    let read = |claim: &mut rusqlite::Statement<'_>| claim.query_row([1], |row| row.get::<_, Vec<u8>>(0));
    assert!(read(&mut claim).is_ok());
    drop(migrated(&path));
    let error = read(&mut claim).unwrap_err();
    assert!(error.to_string().contains("no such table"), "{error}");
}
