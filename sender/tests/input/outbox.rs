use std::time::Duration;

use crate::binary::endpoint::Endpoint;
use crate::binary::{Database, SERVE, Serving, read_json};
use crate::input::bystander::Bystander;

/// SQL for type, key, data and event.
const HOSTILE: [&str; 12] = [
    "CAST(x'ff41' AS TEXT), 'k', '1', NULL",
    "'a', CAST(x'c328' AS TEXT), '1', NULL",
    "'a', 'k', CAST(x'22ff22' AS TEXT), NULL",
    "'a', 'k', '1', CAST(x'80' AS TEXT)",
    "CAST(x'610062' AS TEXT), 'k', '1', NULL",
    "'', 'k', '1', NULL",
    "'a b\nc', 'k', '1', NULL",
    "'a', 'k', 'not json', NULL",
    "'a', 'k', '', NULL",
    "'a', 'k', printf('%.*c', 1000000, '['), NULL",
    "'a', 'k', '1', printf('%.*c', 5000000, 'i')",
    "printf('%.*c', 5000000, 't'), 'k', '1', NULL",
];

/// Numbers that the outbox never assigns itself.
const HOSTILE_IDS: [i64; 5] = [i64::MIN, -5, 0, 1 << 62, i64::MAX];

#[test]
fn a_row_of_any_number_is_set_aside_and_rows_after_it_go_on() {
    let (database, serving, bystander) = Bystander::beside();
    let sink = Endpoint::taking();
    database.subscribe("sink", &sink.url, &["--events", "good"]);
    let sql = database.sql();
    let mut last = 0;
    for (count, id) in HOSTILE_IDS.iter().enumerate() {
        sql.execute("INSERT INTO outbox (id, type, data) VALUES (?1, 'good', '1')", [id]).unwrap();
        serving.wait_for_lines("rejected an outbox row", count + 1);
        assert_eq!(serving.get("/readyz").status, 200, "{id}");
        // No number may be reused, and the highest would leave none.
        sql.execute_batch("INSERT INTO outbox (type, data) VALUES ('good', '1')").unwrap();
        assert!(last < sql.last_insert_rowid(), "{id}");
        last = sql.last_insert_rowid();
        sink.wait_for(count + 1);
    }
    assert_eq!(database.json(&["status", "--json"])["outbox"]["rejected"], HOSTILE_IDS.len());
    assert_eq!(serving.complaints().len(), HOSTILE_IDS.len(), "{:#?}", serving.complaints());
    bystander.did_not_notice(serving);
}

#[test]
fn a_sender_starts_on_an_outbox_with_rows_of_any_number() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &[]);
    let sql = database.sql();
    for id in HOSTILE_IDS {
        sql.execute("INSERT INTO outbox (id, type, data) VALUES (?1, 'good', '1')", [id]).unwrap();
    }
    let serving = database.serve();
    serving.wait_for_lines("rejected an outbox row", HOSTILE_IDS.len());
    sql.execute_batch("INSERT INTO outbox (type, data) VALUES ('good', '1')").unwrap();
    sink.wait_for(1);
    serving.stop_in_order();
}

#[test]
fn hostile_rows_are_set_aside_and_hold_up_no_row_after_them() {
    let (database, serving, bystander) = Bystander::beside();
    let sink = Endpoint::taking();
    database.subscribe("sink", &sink.url, &["--events", "good"]);
    let sql = database.sql();
    sql.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
    for (count, row) in HOSTILE.iter().enumerate() {
        sql.execute_batch(&format!("INSERT INTO outbox (type, key, data, event) VALUES ({row})")).unwrap();
        sql.execute_batch("INSERT INTO outbox (type, data) VALUES ('good', '1')").unwrap();
        sink.wait_for(count + 1);
    }
    for blob in [
        "x'00ff', NULL, '1', NULL",
        "'a', x'00ff', '1', NULL",
        "'a', NULL, x'00ff', NULL",
        "'a', NULL, '1', x'00ff'",
    ] {
        let insert = format!("INSERT INTO outbox (type, key, data, event) VALUES ({blob})");
        assert!(sql.execute_batch(&insert).is_err(), "{blob}");
    }
    wait_until_empty(&sql, &serving);
    let rejected: usize =
        sql.query_row("SELECT count(*) FROM outbox_rejected", [], |row| row.get(0)).unwrap();
    assert_eq!(rejected, HOSTILE.len());
    let complaints = serving.complaints();
    assert_eq!(complaints.len(), rejected, "a line for each: {complaints:#?}");
    bystander.did_not_notice(serving);
}

/// Rejections are written soon after the good rows.
fn wait_until_empty(sql: &rusqlite::Connection, serving: &crate::binary::Serving) {
    serving.wait_for_lines("rejected an outbox row", HOSTILE.len());
    while sql.query_row("SELECT count(*) FROM outbox", [], |row| row.get::<_, u32>(0)).unwrap() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_row_of_a_hundred_megabytes_is_set_aside_without_being_read() {
    let (database, serving, bystander) = Bystander::beside();
    let sink = Endpoint::taking();
    database.subscribe("sink", &sink.url, &["--events", "good"]);
    let before = serving.peak_mib();
    let sql = database.sql();
    sql.execute_batch(
        "INSERT INTO outbox (type, data) VALUES ('a', '\"' || printf('%.*c', 100000000, 'x') || '\"')",
    )
    .unwrap();
    sql.execute_batch("INSERT INTO outbox (type, data) VALUES ('good', '1')").unwrap();
    sink.wait_for(1);
    serving.wait_for_line("rejected an outbox row");
    while sql.query_row("SELECT count(*) FROM outbox", [], |row| row.get::<_, u32>(0)).unwrap() > 0 {
        std::thread::yield_now();
    }
    eprintln!("{before} MiB before, {} MiB after", serving.peak_mib());
    bystander.did_not_notice(serving);
}

#[test]
fn rows_that_wait_for_a_full_subscriber_hold_up_no_other_and_cost_little() {
    let (database, mut serving, bystander) = Bystander::beside();
    let sink = Endpoint::taking();
    let full = ["--events", "full", "queue.rows=1", "queue.when_full=refuse"];
    database.subscribe("full", &sink.url, &full);
    database.json(&["subscriber", "pause", "full", "--json"]);
    database.subscribe("sink", &sink.url, &["--events", "good"]);
    let sql = database.sql();
    let waiting = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
        INSERT INTO outbox (type, data) SELECT 'full', '1' FROM n";
    sql.execute_batch(waiting).unwrap();
    serving.wait_for_line("rows of the outbox wait");
    sql.execute_batch("INSERT INTO outbox (type, data) VALUES ('good', '1')").unwrap();
    sink.wait_for(1);
    let (_keep, nothing) = std::sync::mpsc::channel::<()>();
    let (before, seconds) = (serving.ticks(), 3);
    assert!(nothing.recv_timeout(Duration::from_secs(seconds)).is_err());
    let spent = serving.ticks() - before;
    assert!(spent < 50 * seconds, "{spent} hundredths of a second on a processor in {seconds} s");
    assert_eq!(serving.complaints().len(), 1, "{:#?}", serving.complaints());
    assert!(serving.is_running());
    bystander.did_not_notice(serving);
}

/// On a server, the first to insert may commit last.
#[test]
fn a_row_that_is_seen_after_newer_ones_is_an_event_soon_though_others_wait() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &["--events", "good"]);
    let full = ["--events", "full", "queue.rows=1", "queue.when_full=refuse"];
    database.subscribe("full", &sink.url, &full);
    database.json(&["subscriber", "pause", "full", "--json"]);
    let serving = database.serve();
    let sql = database.sql();
    let insert = |id: u32, kind: &str| {
        sql.execute("INSERT INTO outbox (id, type, data) VALUES (?1, ?2, '1')", (id, kind)).unwrap();
    };
    insert(10, "full");
    insert(20, "full");
    serving.wait_for_line("rows of the outbox wait");
    for (count, late) in [(1, 30), (2, 15), (3, 25), (4, 5)] {
        insert(late, "good");
        sink.wait_for(count);
    }
    let waiting: Vec<u32> = {
        let mut waiting = sql.prepare("SELECT id FROM outbox").unwrap();
        waiting.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(waiting, [20]);
    serving.stop_in_order();
}

#[test]
fn rows_for_a_full_subscriber_are_taken_the_oldest_first_as_soon_as_there_is_room() {
    const AT_ONCE: usize = 200;
    const ONE_BY_ONE: usize = 100;
    let sink = Endpoint::taking();
    let settings = ["queue.rows=5", "queue.when_full=refuse", "limit.rate=1000/s", "limit.burst=100"];
    let database = Database::with_sink(&sink.url, &settings);
    let serving = database.serve();
    let sql = database.sql();
    sql.execute_batch("BEGIN").unwrap();
    let insert = |number: usize| {
        let row = "INSERT INTO outbox (type, key, data) VALUES ('a', ?1, '1')";
        sql.execute(row, [number.to_string()]).unwrap();
    };
    (0..AT_ONCE).for_each(insert);
    sql.execute_batch("COMMIT").unwrap();
    for number in 0..ONE_BY_ONE {
        sink.wait_for(number + 1);
        insert(AT_ONCE + number);
    }
    sink.wait_for(AT_ONCE + ONE_BY_ONE);
    let mut recorded = sql.prepare("SELECT CAST(key AS INTEGER) FROM events ORDER BY event").unwrap();
    let recorded: Vec<usize> =
        recorded.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(recorded, (0..AT_ONCE + ONE_BY_ONE).collect::<Vec<_>>());
    assert!(serving.complaints().len() <= 1, "{:#?}", serving.complaints());
    serving.stop_in_order();
}

#[test]
fn rows_that_a_full_subscriber_waits_for_are_everybody_elses_at_once_and_nobody_gets_them_twice() {
    const ROWS: usize = 60;
    let (full, healthy) = (Endpoint::taking(), Endpoint::taking());
    let generous = ["limit.rate=1000/s", "limit.burst=100", "dedupe=0s"];
    let database = Database::with_sink(&healthy.url, &generous);
    let narrow = ["queue.rows=5", "queue.when_full=refuse"];
    database.subscribe("full", &full.url, &[&generous[..], &narrow].concat());
    database.json(&["subscriber", "pause", "full", "--json"]);
    let sql = database.sql();
    let insert = |number: usize| {
        sql.execute("INSERT INTO outbox (type, key, data) VALUES ('a', ?1, '1')", [number.to_string()])
            .unwrap();
    };
    let mut serving = database.serve();
    (0..ROWS / 2).for_each(insert);
    // A delivery that is not recorded before the kill would be repeated.
    serving.until("/v1/status", |status| status["deliveries"]["delivered"] == ROWS / 2);
    // Waiting rows keep their events' ids.
    serving.kill();
    let serving = database.serve();
    (ROWS / 2..ROWS).for_each(insert);
    healthy.wait_for(ROWS);
    database.json(&["subscriber", "resume", "full", "--json"]);
    full.wait_for(ROWS);
    serving.wait_for_line("no rows of the outbox wait any more");
    serving.stop_in_order();
    assert_eq!((full.count(), healthy.count()), (ROWS, ROWS));
    let keys = "SELECT CAST(e.key AS INTEGER) FROM deliveries d JOIN events e ON e.event = d.event
        JOIN subscribers s ON s.lane = d.lane WHERE s.name = 'full' ORDER BY d.delivery";
    let mut keys = sql.prepare(keys).unwrap();
    let keys: Vec<usize> = keys.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(keys, (0..ROWS).collect::<Vec<_>>(), "the oldest first");
}

#[test]
fn a_row_that_can_never_fit_one_subscriber_is_set_aside_once_the_others_have_it() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &[]);
    database.subscribe("tiny", &sink.url, &["queue.bytes=100B", "queue.when_full=refuse"]);
    let serving = database.serve();
    let sql = database.sql();
    sql.execute("INSERT INTO outbox (type, data) VALUES ('a', ?1)", [format!("{:?}", "x".repeat(1_000))])
        .unwrap();
    serving.wait_for_lines("rejected an outbox row", 1);
    sink.wait_for(1);
    serving.stop_in_order();
    assert_eq!(sink.count(), 1);
}

#[test]
fn a_row_that_is_too_long_for_one_subscriber_once_it_is_shaped_is_set_aside_once_the_others_have_it() {
    let with_region = |database: &Database, arguments: &[&str]| {
        let mut command = database.command(&[arguments, &["--region", "eu=EU_SECRET"]].concat());
        command.env("EU_SECRET", "a-secret-of-the-region");
        command
    };
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &["--events", "a"]);
    let shape = r#"shape={"pseudonymise":["creator.id"],"region":"eu"}"#;
    let add = ["subscriber", "add", "masked", &sink.url, "--allow-private-targets", "--json", shape];
    read_json(with_region(&database, &add));
    let serving = Serving::start(with_region(&database, &SERVE));
    let sql = database.sql();
    let data = format!("{{\"creator\":{{\"id\":[{}]}}}}", vec!["0"; 30_000].join(","));
    for kind in ["a", "b"] {
        sql.execute("INSERT INTO outbox (type, data) VALUES (?1, ?2)", [kind, &data]).unwrap();
    }
    serving.wait_for_lines("rejected an outbox row", 2);
    sink.wait_for(1);
    let whys = "SELECT count(*) FROM outbox_rejected WHERE why LIKE '%too long after shaping%'";
    assert_eq!(sql.query_row(whys, [], |row| row.get::<_, u32>(0)).unwrap(), 2);
    serving.stop_in_order();
    assert_eq!(sink.count(), 1);
}
