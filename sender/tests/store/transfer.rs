//! Not compared after a move: rows of processes, and the numbers of bodies.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::sync::Arc;

use hookproof_sender::engine::{DeliveryId, Nanos, StoreTime};
use hookproof_sender::event::EventPatterns;
use hookproof_sender::store::command::{
    Change, Condition, Dead, Details, Fate, KeptAnswer, LaneSelection, Purge, Reason, Transition,
};
use hookproof_sender::store::job::{JobKind, StartJob, Task};
use hookproof_sender::store::postgres::PostgresReader;
use hookproof_sender::store::read::{Filter, Lanes, Place};
use hookproof_sender::store::reply::Handover;
use hookproof_sender::store::token::{Scope, StoredToken};
use hookproof_sender::store::transfer::{LOCKED_MAX, MoveError, Moved, transfer};
use hookproof_sender::store::{Command, Database, Reader, Reply};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::postgres_server::{execute, hold, new_schema, query};
use crate::store::postgres::Schema;
use crate::store::sqlite::File;
use crate::store::world::{Backend, ME, WIDE, World, YOU, at_once, body, later, waiting};

const CONTENTS: [&str; 19] = [
    "SELECT * FROM subscribers ORDER BY lane",
    "SELECT * FROM notified ORDER BY lane, condition",
    "SELECT * FROM secrets ORDER BY id",
    "SELECT owner, evicted, taken FROM owners ORDER BY owner",
    "SELECT * FROM lanes ORDER BY lane",
    "SELECT * FROM capped ORDER BY lane",
    "SELECT event, id, kind, key, received, first_delivery, deliveries, bodies + (body IS NOT NULL), in_part,
        concat_ws(',', iif(body IS NULL, NULL, hex(body)), (SELECT group_concat(hex(bytes)) FROM further_bodies b
            WHERE b.body >= first_body AND b.body < first_body + e.bodies))
        FROM events e ORDER BY event",
    "SELECT delivery, lane, event, d.bytes, state, attempts, at, expires, ttl, last_attempt, reason, status, error, d.coalesce,
        signature, ifnull(b.bytes, e.body) FROM deliveries d
        LEFT JOIN further_bodies b ON b.body = d.body LEFT JOIN events e USING (event) ORDER BY delivery",
    "SELECT * FROM attempts ORDER BY at, delivery",
    "SELECT * FROM answers ORDER BY lane, slot",
    "SELECT * FROM resent ORDER BY delivery, at",
    "SELECT * FROM jobs ORDER BY job",
    "SELECT * FROM tokens ORDER BY name",
    "SELECT * FROM changes ORDER BY number",
    "SELECT * FROM latencies ORDER BY lane, measure, hour",
    "SELECT * FROM marks ORDER BY minute",
    "SELECT * FROM outbox ORDER BY id",
    "SELECT * FROM outbox_rejected ORDER BY id",
    "SELECT identity, clock, roster, stirred, next_lane, next_event, next_delivery, accepted, delivered, dead, coalesced,
        waiting, waiting_bytes, retrying, dead_kept, failed_attempts, latency_us FROM totals",
];

fn contents(file: &Path) -> Vec<String> {
    let sql = Connection::open(file).unwrap();
    let mut all = Vec::new();
    for table in CONTENTS {
        let mut statement = sql.prepare(table).unwrap();
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| {
            (0..columns).map(|column| Ok(format!("{:?}", row.get_ref(column)?))).collect()
        };
        let rows: Vec<Vec<String>> = statement.query_map([], row).unwrap().map(Result::unwrap).collect();
        all.extend(rows.iter().map(|row| format!("{table}: {}", row.join(" | "))));
    }
    all
}

fn listing(reader: &dyn Reader) -> Vec<String> {
    const ALL: u32 = 100_000;
    let lanes = reader.lanes(None, ALL).unwrap().items;
    let deliveries = reader.deliveries(Filter { lanes: Lanes::All, place: None }, None, ALL).unwrap().items;
    let mut shown = vec![format!("{:?}", reader.subscribers(None, ALL).unwrap().items), format!("{lanes:?}")];
    for one in &deliveries {
        let id = one.delivery;
        shown.push(format!(
            "{one:?} {:?} {:?} {:?}",
            reader.body(id).unwrap(),
            reader.attempts_of(id).unwrap(),
            reader.deliveries_of_event(&one.event, &Lanes::All, None, ALL).unwrap().items
        ));
    }
    shown.push(format!("{:?}", reader.outbox(None, ALL).unwrap()));
    shown
}

fn tokens() -> [StoredToken; 2] {
    let token = StoredToken {
        name: "ann\t\\N".into(),
        digest: std::array::from_fn(|place| u8::try_from(place).unwrap()),
        scope: Scope::Emit,
        created: StoreTime(7),
        by: "the command line".into(),
        expires: None,
        subscribers: None,
    };
    let subscribers = Some(vec!["acme-*".to_owned()].try_into().unwrap());
    let lasting =
        StoredToken { name: "bob".into(), expires: Some(StoreTime(9)), subscribers, ..token.clone() };
    [token, lasting]
}

fn filled() -> World<File> {
    let mut world = World::<File>::new();
    let (first, term) = world.own_lane(WIDE);
    let second = world.new_lane(WIDE);
    world.own(YOU, second);
    for _ in 0..20 {
        world.emit(&[first, second]);
        world.emit_one(first);
    }
    let mut event = world.event(&[first, second]);
    event.bodies.push(body(b"another body"));
    event.targets[1].body = 1;
    event.notifies = Some(Transition { lane: first, ends: None, begins: Some(Condition::Behind) });
    world.try_emit(event).unwrap();
    let mut erased = world.event(&[first, second]);
    erased.bodies.push(body(b"another body"));
    erased.targets[1].body = 1;
    let erased = world.try_emit(erased).unwrap().targets;
    world.one(Command::Erase(at_once(waiting(&erased[0]), false)));
    let task = Task {
        kind: JobKind::Redrive,
        which: Dead::These(vec![DeliveryId(3), DeliveryId(5)]),
        since: StoreTime(7),
        before: StoreTime(8),
        events: Some(EventPatterns::all()),
        last: DeliveryId(9),
        planned: 2,
        by: "ann".into(),
    };
    world.one(Command::StartJob(StartJob { task, worker: YOU }));
    world.all(&tokens().map(|token| Command::CreateToken(token).by(&"ann".into(), None)));
    let claimed = world.claim(first, term);
    for (place, delivery) in claimed.iter().enumerate() {
        let fate = match place % 4 {
            0 => Fate::Delivered,
            1 => Fate::Retry { due: later(world.now, Nanos::HOUR) },
            2 => Fate::Dead(Reason::Exhausted),
            _ => continue,
        };
        world.pass(Nanos::from_millis(1));
        let mut settlement = world.settlement(first, term, *delivery, fate);
        if let (1, Some(attempt)) = (place % 4, &mut settlement.attempt) {
            let answer = KeptAnswer {
                head: "server: a\\\tb\n".to_owned(),
                body: vec![0, b'\n', 0xff],
                cut: place > 4,
            };
            let first_byte = Some(Nanos(7));
            attempt.details =
                Details { connect: None, first_byte, asked: place > 4, answer: Some(Arc::new(answer)) };
        }
        world.settle_all(vec![settlement]);
    }
    world.persist(first, term, b"level\0\n\\and doubt", false);
    world.change(Change::of(second));
    world.backend.application_emits("a.b", Some("k\t\\N"), "{\"a\": \"\\\\ \\n\"}", None);
    world.store.close().unwrap();
    world
}

fn move_store(from: &Database, to: &Database) -> Result<Vec<Moved>, MoveError> {
    move_within(LOCKED_MAX, from, to)
}

fn move_within(locked_max: Nanos, from: &Database, to: &Database) -> Result<Vec<Moved>, MoveError> {
    let mut moved = Vec::new();
    transfer(from, to, locked_max, &mut |table| moved.push(table))?;
    Ok(moved)
}

fn server(address: &str) -> Database {
    Database::parse(address.as_ref()).unwrap()
}

fn place(folder: &TempDir) -> PathBuf {
    folder.path().join("back.db")
}

#[test]
fn a_store_that_is_moved_to_a_server_and_back_is_the_same_and_goes_on() {
    let Some(address) = new_schema("a_store_that_is_moved_to_a_server_and_back") else { return };
    let world = filled();
    let (file, folder) = (world.backend.path(), tempfile::tempdir().unwrap());
    let (before, seen) = (contents(&file), listing(world.reader.as_ref()));
    let moved = move_store(&Database::from(file.clone()), &server(&address)).unwrap();
    assert!(moved.contains(&Moved { table: "deliveries", rows: 64 }), "{moved:?}");
    let reader = PostgresReader::open(&address.parse().unwrap()).unwrap();
    assert_eq!(listing(&reader), seen);
    assert_eq!(contents(&file), before, "the source is as it was");
    let again = move_store(&Database::from(file), &server(&address)).unwrap_err();
    assert!(matches!(again, MoveError::Moved { .. }), "{again}");
    let back = place(&folder);
    move_store(&server(&address), &Database::from(back.clone())).unwrap();
    assert_eq!(contents(&back), before);
    let occupied = move_store(&server(&address), &Database::from(back.clone())).unwrap_err();
    assert!(matches!(occupied, MoveError::Occupied { .. }), "{occupied}");
    // Numbers continue, and lanes keep their attempts in doubt.
    let mut world = World::over(File::at(back));
    let taken = world.acquire(THIRD, LaneSelection::All);
    let Handover::Seized { from, record: Some(record), .. } = &taken[0].handover else { panic!("{taken:?}") };
    assert_eq!((*from, &*record.bytes), (ME, b"level\0\n\\and doubt".as_slice()));
    let waiting = world.claim(taken[0].lane, taken[0].term);
    assert!(!waiting.is_empty() && world.emit_one(taken[0].lane).0 == 65);
    world.check_figures();
}

const THIRD: hookproof_sender::store::lane::OwnerId = hookproof_sender::store::lane::OwnerId(3);

/// PostgreSQL's texts cannot hold the character zero. A row of the outbox is yet to become an event, so it is refused
/// by name.
#[test]
fn texts_with_a_character_that_a_server_cannot_keep_are_moved_where_people_alone_read_them() {
    let Some(address) = new_schema("texts_with_a_character_that_a_server_cannot_keep") else { return };
    let mut world = World::<File>::new();
    let (lane, term) = world.own_lane(WIDE);
    let mut event = world.event(&[lane]);
    event.key = Some("a\0b".into());
    world.try_emit(event).unwrap();
    let delivery = world.claim(lane, term)[0];
    let fate = Fate::Retry { due: world.now };
    let mut settlement = world.settlement(lane, term, delivery, fate);
    settlement.attempt.as_mut().unwrap().error = Some("zero: \0".into());
    world.one(Command::Settle(vec![settlement]));
    world.backend.application_emits("a.b", Some("c\0d"), "{}", None);
    world.store.close().unwrap();
    let file = world.backend.path();
    let refused = move_store(&Database::from(file.clone()), &server(&address)).unwrap_err();
    assert!(
        refused.to_string().contains(r#"a row of outbox cannot be moved: "c\0d" has a NUL"#),
        "{refused}"
    );
    Connection::open(&file).unwrap().execute("DELETE FROM outbox", []).unwrap();
    move_store(&Database::from(file), &server(&address)).unwrap();
    let reader = PostgresReader::open(&address.parse().unwrap()).unwrap();
    assert_eq!(reader.delivery(delivery).unwrap().unwrap().key.as_deref(), Some("a\u{fffd}b"));
    let attempts = reader.attempts_of(delivery).unwrap();
    assert_eq!(attempts[0].attempt.error.as_deref(), Some("zero: \u{fffd}"));
}

#[test]
fn a_server_with_a_store_of_its_own_or_somebody_at_work_is_refused_and_stays() {
    let Some(address) = new_schema("a_server_with_a_store_of_its_own") else { return };
    let (world, other) = (filled(), filled());
    Connection::open(other.backend.path()).unwrap().execute("UPDATE totals SET identity = 7", []).unwrap();
    move_store(&Database::from(other.backend.path()), &server(&address)).unwrap();
    let refused = move_store(&Database::from(world.backend.path()), &server(&address)).unwrap_err();
    assert!(matches!(refused, MoveError::Occupied { .. }), "{refused}");
    execute(
        &address,
        "INSERT INTO owners VALUES (5, 9e18::int8, false, 0);
         INSERT INTO nodes VALUES (5, 'alive', '0', NULL, '{}', false, 0)",
    );
    let folder = tempfile::tempdir().unwrap();
    let refused = move_store(&server(&address), &place(&folder).into()).unwrap_err();
    assert!(matches!(&refused, MoveError::InUse { by, .. } if by == "alive"), "{refused}");
    assert!(folder.path().read_dir().unwrap().next().is_none());
}

/// A moved lane may have the number of a removed subscriber.
#[test]
fn a_server_with_a_row_in_any_table_is_refused() {
    let Some(address) = new_schema("a_server_with_a_row_in_any_table_is_refused") else { return };
    drop(Schema::at_address(address.clone()).store());
    execute(&address, "UPDATE state SET identity = 7");
    let world = filled();
    for (table, values) in [
        ("subscribers", "1, 'a', 'a', 'a', '[]', '{}', 1, 1, NULL, 0, 0"),
        ("lanes", "1, 3, 1, 1, 0, false"),
        ("notified", "1, 1"),
        ("secrets", "DEFAULT, 1, 'a', 1"),
        ("events", "1, 'a', 'a', NULL, 1, false, '{}', '{}'"),
        ("bodies", "1, ''"),
        ("deliveries", "1, 1, 1, NULL, 1, 2, 1, 1, 1, 1"),
        ("done", "1, 1, 1, NULL, 1, 1, 1, 1, 1"),
        ("attempts", "1, 1, 1, 1, 1, 0, 200, NULL, 1, NULL, false"),
        ("resent", "1, 1, NULL"),
        ("jobs", "1, 0, NULL, NULL, 0, 0, 0, 0, 'a', 0, 0, 0, 0, 0, NULL, NULL, 1, 0"),
        ("latencies", "1, 0, 0, ''"),
        ("marks", "1, 1, 1, 1, 1"),
        ("outbox", "41, 'a', NULL, '{}'"),
        ("outbox_rejected", "41, 'a', NULL, '{}', NULL, 'why', 1"),
    ] {
        execute(&address, &format!("INSERT INTO {table} VALUES ({values})"));
        let refused = move_store(&world.backend.path().into(), &server(&address)).unwrap_err();
        let expected = format!("rows of {table}");
        assert!(matches!(&refused, MoveError::Occupied { what, .. } if *what == expected), "{refused}");
        execute(&address, &format!("DELETE FROM {table}"));
    }
    execute(&address, "INSERT INTO owners VALUES (5, 1, false, 0)");
    move_store(&world.backend.path().into(), &server(&address)).unwrap();
}

/// An interrupted move has already created the tables.
#[test]
fn a_server_with_an_applications_rows_alone_is_not_told_to_hold_the_store() {
    let Some(address) = new_schema("a_server_with_an_applications_rows_alone") else { return };
    drop(Schema::at_address(address.clone()).store());
    let world = filled();
    let identity = world.reader.glance().unwrap().identity.cast_signed();
    execute(
        &address,
        &format!("UPDATE state SET identity = {identity}; INSERT INTO outbox (type, data) VALUES ('a', '1')"),
    );
    let refused = move_store(&world.backend.path().into(), &server(&address)).unwrap_err();
    assert!(matches!(&refused, MoveError::Occupied { what, .. } if what == "rows of outbox"), "{refused}");
}

#[test]
fn a_session_that_keeps_a_table_locked_is_named_after_a_while() {
    const READS: &str = "SET application_name = 'nightly report'; BEGIN; SELECT count(*) FROM lanes";
    const WRITES: &str = "SET application_name = 'nightly report'; BEGIN; DELETE FROM outbox";
    const PID: &str = "SELECT pid FROM pg_stat_activity WHERE application_name = 'nightly report'";
    let Some(address) = new_schema("a_session_that_keeps_a_table_locked") else { return };
    drop(Schema::at_address(address.clone()).store());
    let (world, folder) = (filled(), tempfile::tempdir().unwrap());
    let (file, back) = (Database::from(world.backend.path()), Database::from(place(&folder)));
    for (statements, from, to) in [(READS, &file, &server(&address)), (WRITES, &server(&address), &back)] {
        let stranger = hold(&address, statements);
        let pid = query(&address, PID).remove(0);
        let refused = move_within(Nanos::from_millis(200), from, to).unwrap_err();
        let MoveError::InUse { by, .. } = &refused else { panic!("{refused}") };
        let whose = format!("stayed locked for 200ms; they are locked by nightly report (pid {pid}, user ");
        assert!(by.contains(&whose), "{by}");
        drop(stranger);
        while !query(&address, PID).is_empty() {}
    }
    assert!(folder.path().read_dir().unwrap().next().is_none());
    move_store(&file, &server(&address)).unwrap();
}

/// SQLite would replay the log into the store of the same name.
#[test]
fn a_file_is_not_put_where_an_older_one_has_left_its_log() {
    for end in ["", "-wal", "-shm", "-journal"] {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(format!("back.db{end}"));
        std::fs::write(&left, "left").unwrap();
        let refused =
            move_store(&server("postgres://me@127.0.0.1:1/hooks"), &place(&folder).into()).unwrap_err();
        let MoveError::Occupied { database, .. } = &refused else { panic!("{refused}") };
        assert_eq!(database, left.to_str().unwrap());
    }
}

const SET_ASIDE: &str = "INSERT INTO outbox_rejected VALUES (41, 'a', NULL, '{}', NULL, 'why', 1)";

#[test]
fn rows_of_the_outbox_are_numbered_after_those_that_were_set_aside() {
    const EMIT: &str = "INSERT INTO outbox (type, data) VALUES ('a.b', '{}') RETURNING id";
    let Some(address) = new_schema("rows_of_the_outbox_are_numbered_after") else { return };
    let mut world = World::<File>::new();
    world.store.close().unwrap();
    Connection::open(world.backend.path()).unwrap().execute(SET_ASIDE, []).unwrap();
    move_store(&Database::from(world.backend.path()), &server(&address)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let back = place(&folder);
    move_store(&server(&address), &Database::from(back.clone())).unwrap();
    let of_file: i64 = Connection::open(back).unwrap().query_row(EMIT, [], |row| row.get(0)).unwrap();
    assert_eq!((of_file, query(&address, EMIT)), (42, vec!["42".to_owned()]));
}

/// On a server the numbers of two events may interleave. In a file each event owns only its own numbers in its range.
#[test]
fn events_with_mixed_numbers_are_told_apart_in_a_file() {
    let Some(address) = new_schema("events_with_mixed_numbers") else { return };
    let mut world = World::<File>::new();
    let lanes = [world.new_lane(WIDE), world.new_lane(WIDE)];
    world.emit(&lanes);
    world.emit(&lanes);
    world.store.close().unwrap();
    move_store(&Database::from(world.backend.path()), &server(&address)).unwrap();
    execute(
        &address,
        "UPDATE deliveries SET event = CASE delivery WHEN 2 THEN 2 WHEN 3 THEN 1 ELSE event END;
         UPDATE events SET deliveries = CASE event WHEN 1 THEN '{1,3}'::int8[] ELSE '{2,4}' END",
    );
    let folder = tempfile::tempdir().unwrap();
    let back = place(&folder);
    move_store(&server(&address), &Database::from(back.clone())).unwrap();
    let mut world = World::over(File::at(back));
    let of = |world: &World<File>, event: &str| {
        let all = world.reader.deliveries_of_event(event, &Lanes::All, None, 10).unwrap().items;
        all.iter().map(|one| one.delivery.0).collect::<Vec<_>>()
    };
    assert_eq!((of(&world, "e3"), of(&world, "e4")), (vec![1, 3], vec![2, 4]));
    for lane in lanes {
        let term = world.own(ME, lane);
        for delivery in world.claim(lane, term).into_iter().filter(|one| [2, 4].contains(&one.0)) {
            world.settle(lane, term, delivery, Fate::Delivered);
        }
    }
    world.pass(Nanos::HOUR);
    let (settled_before, attempts_before) = (world.now, world.now);
    let purge = Purge {
        settled_before,
        attempts_before,
        dead_before: world.now,
        changes_before: StoreTime(0),
        max: 100,
    };
    assert!(matches!(world.one(Command::Purge(purge)), Reply::Purged(_)));
    assert_eq!((of(&world, "e3"), of(&world, "e4")), (vec![1, 3], vec![]));
    assert!(world.reader.body(hookproof_sender::engine::DeliveryId(3)).unwrap().is_some());
    let waiting = Filter { lanes: Lanes::All, place: Some(Place::Waiting) };
    assert_eq!(world.reader.deliveries(waiting, None, 10).unwrap().items.len(), 2);
}

/// The command line must not show a password.
fn program(from: &str, to: &str) -> Child {
    let mut program = Program::new(env!("CARGO_BIN_EXE_hookproof-sender"));
    program
        .arg("move")
        .env("HOOKPROOF_FROM", from)
        .env("HOOKPROOF_TO", to)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    program.spawn().unwrap()
}

fn killed_after(table: &str, from: &str, to: &str) {
    let mut moving = program(from, to);
    let mut lines = BufReader::new(moving.stdout.take().unwrap()).lines().map_while(Result::ok);
    let told = lines.any(|line| line.starts_with(&format!("rows of {table}: ")));
    moving.kill().unwrap();
    let output = moving.wait_with_output().unwrap();
    assert!(told, "{table} is not told of: {}", String::from_utf8_lossy(&output.stderr));
}

#[track_caller]
fn transfer_succeeds(from: &str, to: &str) {
    let output = program(from, to).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_move_waits_for_no_table_that_is_not_its_own() {
    const COUNTED: &str = "SELECT bool_and(reltuples >= 0) FROM pg_class WHERE oid IN ('events'::regclass, 'deliveries'::regclass)";
    const WAITING: &str =
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'not_ours'::regclass";
    let Some(address) = new_schema("a_move_waits_for_no_table_that_is_not_its_own") else { return };
    let world = filled();
    execute(&address, "CREATE TABLE not_ours (id int8)");
    let _held = hold(&address, "BEGIN; LOCK TABLE not_ours");
    let mut moving = program(&world.backend.path().display().to_string(), &address);
    while moving.try_wait().unwrap().is_none() {
        if query(&address, WAITING) != ["0"] {
            moving.kill().unwrap();
            panic!("it waits for a table of somebody else");
        }
    }
    assert!(moving.wait().unwrap().success());
    assert_eq!(
        query(&address, COUNTED),
        ["t"],
        "the server knows how much there is in the tables that are its own"
    );
}

#[test]
fn a_move_that_is_killed_has_moved_nothing_and_can_be_run_again() {
    let Some(address) = new_schema("a_move_that_is_killed") else { return };
    let world = filled();
    Connection::open(world.backend.path()).unwrap().execute(SET_ASIDE, []).unwrap();
    let file = world.backend.path().display().to_string();
    let before = contents(&world.backend.path());
    // The move needs this row last, so the kill comes before its end.
    let last = format!("BEGIN; {SET_ASIDE}");
    for table in ["subscribers", "events", "attempts", "latencies"] {
        let held = (table != "subscribers").then(|| hold(&address, &last));
        killed_after(table, &file, &address);
        drop(held);
        let rows = "SELECT (SELECT count(*) FROM subscribers) + (SELECT count(*) FROM deliveries)";
        assert_eq!(query(&address, rows), ["0"], "after {table}");
    }
    transfer_succeeds(&file, &address);
    let folder = tempfile::tempdir().unwrap();
    let back = folder.path().join("back.db");
    for table in ["subscribers", "events", "attempts", "latencies"] {
        let held = hold(&address, "BEGIN; LOCK TABLE outbox_rejected");
        killed_after(table, &address, back.to_str().unwrap());
        drop(held);
        assert!(!back.exists(), "after {table}");
    }
    transfer_succeeds(&address, back.to_str().unwrap());
    assert_eq!(contents(&back), before);
    assert_eq!(folder.path().read_dir().unwrap().count(), 1, "nothing of the others is left");
}
