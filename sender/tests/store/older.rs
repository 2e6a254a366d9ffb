//! Files of versions before: what they hold is there once they are opened, and goes on.

use std::path::Path;

use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use hookproof_sender::store::command::{Dead, Emit, Fate, Purge, Redrive, Sweep};
use hookproof_sender::store::read::{Filter, Place};
use hookproof_sender::store::reply::{Placed, Purged, Swept};
use hookproof_sender::store::{Command, Reply};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::sqlite::File;
use crate::world::{ME, World, later};

/// A moment after the file's latest time.
const THEN: StoreTime = StoreTime::from_secs(1_795_386_385);
/// Where one of its events was received.
const FIRST_RECEIVED: StoreTime = StoreTime(1_795_386_382_929_760_540);

/// Of each delivery, what was, or would be, sent for it.
type Bodies = Vec<(DeliveryId, Vec<u8>)>;

/// A file of schema 4 as it was.
fn before(folder: &TempDir) -> (std::path::PathBuf, Bodies) {
    let bodies = "SELECT delivery, b.bytes FROM deliveries d JOIN bodies b USING (body) ORDER BY delivery";
    file(folder, include_str!("schema_4.sql"), bodies)
}

/// One of schema 5.
fn right_before(folder: &TempDir) -> (std::path::PathBuf, Bodies) {
    let bodies =
        "SELECT delivery, iif(d.body = 0, e.body, b.bytes) FROM deliveries d JOIN events e USING (event)
        LEFT JOIN further_bodies b ON b.body = d.body ORDER BY delivery";
    file(folder, include_str!("schema_5.sql"), bodies)
}

fn file(folder: &TempDir, content: &str, bodies: &str) -> (std::path::PathBuf, Bodies) {
    let path = folder.path().join("store.db");
    let sql = Connection::open(&path).unwrap();
    sql.execute_batch(content).unwrap();
    let bodies = {
        let mut query = sql.prepare(bodies).unwrap();
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

#[test]
fn events_of_the_version_before_are_known_by_the_ids_that_they_had() {
    const OWN: &str = "order-4711";
    const MADE: &str = "evt_01m83te57vxaw7g8r67ky96sps";
    const LIKE_OURS: &str = "evt_01m82nw6jhcxretb35h75tv9jz";
    let folder = tempfile::tempdir().unwrap();
    let (path, bodies) = right_before(&folder);
    let mut world = migrated(&path);
    assert_eq!(bodies.len(), 20);
    for (delivery, bytes) in &bodies {
        let body = world.reader.body(*delivery).unwrap().unwrap();
        assert_eq!(*body.bytes, **bytes, "{delivery:?}");
        // Told then by the hash that was kept, now by the bytes.
        for attempted in world.reader.attempts_of(*delivery).unwrap() {
            assert_eq!(attempted.attempt.body_hash, body.hash(), "{delivery:?}");
        }
    }
    let event = |delivery| world.reader.delivery(DeliveryId(delivery)).unwrap().unwrap().event;
    assert_eq!([13, 15, 19].map(|delivery| event(delivery).to_string()), [OWN, MADE, LIKE_OURS]);
    let deliveries = |event| {
        let found = world.reader.deliveries_of_event(event, None, 9).unwrap().items;
        found.iter().map(|delivery| delivery.delivery.0).collect::<Vec<_>>()
    };
    assert_eq!(deliveries(OWN), [13, 14]);
    assert_eq!(deliveries(MADE), [15, 16, 17, 18]);
    assert_eq!(deliveries(LIKE_OURS), [19, 20]);
    world.check_figures();
    // Emitted again while they are remembered, they are nothing new.
    world.now = StoreTime::from_secs(1_795_424_721);
    for id in [OWN, MADE, LIKE_OURS] {
        let mut again = Emit { id: id.into(), ..world.event(&[LaneId(1)]) };
        again.targets[0].dedupe = Nanos::HOUR;
        assert_eq!(world.try_emit(again).unwrap().targets, [Placed::Duplicate], "{id}");
    }
    let forms = "SELECT group_concat(typeof(id) || ' ' || octet_length(id)) FROM events WHERE event >= 5";
    let forms: String = Connection::open(&path).unwrap().query_row(forms, [], |row| row.get(0)).unwrap();
    assert_eq!(forms, "text 10,blob 16,blob 16");
}

fn swept(expired: u64) -> Reply {
    Reply::Swept(Swept { expired, ..Swept::default() })
}

/// It would take a delivery whose body it does not find, or whose id it can't read, for a damaged one, and give it up.
#[test]
fn a_process_of_a_version_before_can_hand_nothing_out_of_a_file_that_is_newer() {
    const BODY_OF_SCHEMA_4: &str = "SELECT bytes FROM bodies WHERE body = ?1";
    const ROW_OF_SCHEMA_5: &str = "SELECT e.body, e.hash FROM events e WHERE e.event = 6 AND ?1 = 1";
    let check = |before: fn(&TempDir) -> (std::path::PathBuf, Bodies), reads: &str, expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = before(&folder);
        let older = Connection::open(&path).unwrap();
        let mut claim = older.prepare(reads).unwrap();
        let read = |claim: &mut rusqlite::Statement<'_>| claim.query_row([1], |row| row.get::<_, Vec<u8>>(0));
        assert!(read(&mut claim).is_ok());
        drop(migrated(&path));
        let error = read(&mut claim).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(before, BODY_OF_SCHEMA_4, "no such table");
    check(right_before, ROW_OF_SCHEMA_5, "no such column");
}
