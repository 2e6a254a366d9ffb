use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::binary::endpoint::Endpoint;
use crate::binary::{Database, read_json};
use crate::faults::WIDE;
use crate::faults::damage::damage;
use crate::faults::file::{files, refuses};

fn copy_of(database: &Database) -> PathBuf {
    let copy = database.folder.path().join("copy.db");
    database.json(&["backup", copy.to_str().unwrap(), "--json"]);
    copy
}

fn restore(database: &Database, copy: &Path, more: &[&str]) -> Command {
    database.command(&[&["restore", copy.to_str().unwrap()], more].concat())
}

fn pause_of(database: &Database, name: &str) -> Value {
    database.json(&["subscriber", "show", name, "--json"])["pause"]["reason"].clone()
}

/// A store with a waiting delivery, an active and a paused subscriber.
fn waiting(url: &str) -> (Database, String) {
    let database = Database::with_sink(url, &WIDE);
    database.subscribe("held", url, &[]);
    let paused =
        database.command(&["subscriber", "pause", "held", "--reason", "a holiday"]).status().unwrap();
    assert!(paused.success());
    database.subscribe("brief", url, &["--events", "never"]);
    let paused = database
        .command(&["subscriber", "pause", "brief", "--reason", "a move", "--for", "1h"])
        .status()
        .unwrap();
    assert!(paused.success());
    let event = database.json(&["emit", "--type", "x", "--data", "1", "--json"])["id"].clone();
    (database, event.as_str().unwrap().to_owned())
}

#[test]
fn a_restored_copy_starts_paused_and_delivers_again_when_it_is_resumed() {
    let sink = Endpoint::taking();
    let (database, event) = waiting(&sink.url);
    let job = "INSERT INTO jobs VALUES (1, 0, NULL, NULL, 0, 0, 0, 0, 'ann', 0, 0, 0, 0, 1, NULL, NULL, 1, 0, NULL)";
    database.sql().execute(job, []).unwrap();
    let brief = database.json(&["subscriber", "show", "brief", "--json"])["pause"].take();
    assert_eq!((&brief["reason"], brief["until"].is_string()), (&"a move".into(), true), "{brief}");
    let copy = copy_of(&database);
    let serving = database.serve();
    sink.wait_for_events(std::slice::from_ref(&event));
    refuses(restore(&database, &copy, &["--replace"]), 1, "is in use");
    serving.stop_in_order();

    let before = fs::read(database.path()).unwrap();
    let told = read_json(restore(&database, &copy, &["--replace", "--json"]));
    assert_eq!((&told["paused"], &told["waiting"]), (&1.into(), &2.into()), "{told}");
    let reason = told["reason"].as_str().unwrap();
    assert_eq!(reason, format!("restored from a backup of {}", told["as_of"].as_str().unwrap()));
    assert_eq!(pause_of(&database, "sink"), reason);
    assert_eq!(database.json(&["job", "show", "1", "--json"])["state"], "paused");
    assert_eq!(pause_of(&database, "held"), "a holiday");
    let pause = || database.json(&["subscriber", "show", "brief", "--json"])["pause"].take();
    assert_eq!(pause(), brief, "a colleague set it");
    let replaced = Path::new(told["replaced"].as_str().unwrap());
    assert_eq!(fs::read(replaced.join("sender.db")).unwrap(), before, "the old file is kept");
    fs::remove_dir_all(replaced).unwrap();
    let mut left = files(&database);
    left.sort();
    assert_eq!(left, ["copy.db", "sender.db"]);

    let (came, other) = (sink.count(), Endpoint::taking());
    database.subscribe("other", &other.url, &[]);
    let serving = database.serve();
    other.wait_for_events(&[serving.emit("a new one")]);
    assert_eq!(sink.count(), came, "it starts paused");
    let resumed = database.json(&["subscriber", "resume", "--reason", reason, "--json"]);
    assert_eq!(resumed["name"], "sink", "the holiday goes on");
    let again = sink.wait_for(came + 2);
    assert!(again[came..].iter().any(|arrival| arrival.event() == event), "{again:?}");
    serving.stop_in_order();
    refuses(
        database.command(&["subscriber", "resume", "--reason", reason]),
        1,
        "no subscriber is paused for",
    );
}

#[test]
fn a_restore_replaces_nothing_unasked_and_nothing_that_is_in_use() {
    let (database, _) = waiting("http://127.0.0.1:9/");
    let copy = copy_of(&database);
    refuses(restore(&database, &copy, &[]), 1, "the place is taken (by sender.db)");
    refuses(restore(&database, &database.path(), &["--replace"]), 64, "is the copy itself");
    for open in [&copy, &database.path()] {
        let application = rusqlite::Connection::open(open).unwrap();
        application.execute_batch("BEGIN; SELECT count(*) FROM events").unwrap();
        refuses(restore(&database, &copy, &["--replace"]), 1, &format!("{} is in use", open.display()));
    }
    assert_eq!(pause_of(&database, "sink"), Value::Null, "nothing has changed");

    // A log of another database would damage this one.
    fs::rename(database.path(), database.folder.path().join("away.db")).unwrap();
    let log = database.folder.path().join("sender.db-wal");
    fs::write(&log, "of another database").unwrap();
    refuses(restore(&database, &copy, &[]), 1, "the place is taken (by sender.db-wal)");
    assert_eq!(fs::read(&log).unwrap(), b"of another database");
    let told = read_json(restore(&database, &copy, &["--replace", "--json"]));
    let moved = Path::new(told["replaced"].as_str().unwrap()).join("sender.db-wal");
    assert_eq!(fs::read(moved).unwrap(), b"of another database");
    assert!(!log.exists());
    assert_eq!(database.json(&["status", "--json"])["subscribers"]["paused"], 3);
    let server = ["--db", "postgres://db.example/hooks"];
    refuses(restore(&database, &copy, &server), 64, "pg_restore --clean");
}

#[test]
fn a_damaged_copy_is_not_restored() {
    let (database, _) = waiting("http://127.0.0.1:9/");
    let damaged = Database::new();
    fs::copy(database.path(), damaged.path()).unwrap();
    let page = "SELECT rootpage FROM sqlite_schema WHERE name = 'attempts'";
    let page: u64 = damaged.sql().query_row(page, [], |row| row.get(0)).unwrap();
    damage(&damaged, page - 1..page);
    let before = fs::read(database.path()).unwrap();
    let output = restore(&database, &damaged.path(), &["--replace"]).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(70), "{complaint}");
    assert!(complaint.contains("is damaged, and nothing was restored"), "{complaint}");
    assert_eq!(fs::read(database.path()).unwrap(), before);
    assert_eq!(files(&database), ["sender.db"]);
}

#[test]
fn a_restore_that_is_killed_leaves_nothing_or_a_whole_database_with_paused_subscribers() {
    const ROUNDS: usize = 12;
    let (source, _) = waiting("http://127.0.0.1:9/");
    source
        .sql()
        .execute_batch(
            "WITH RECURSIVE row (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM row WHERE n < 30000)
                 INSERT INTO outbox (id, type, data) SELECT n, 'x', json_quote(hex(zeroblob(200))) FROM row",
        )
        .unwrap();
    let copy = copy_of(&source);
    let bytes = fs::metadata(&copy).unwrap().len();
    let mut killed = 0;
    for round in 0..ROUNDS {
        let database = Database::new();
        let mut restoring = restore(&database, &copy, &[]).spawn().unwrap();
        // Each round kills it later.
        let enough = bytes * u64::try_from(round).unwrap() / u64::try_from(ROUNDS).unwrap();
        let is_long = |name: &String| {
            fs::metadata(database.folder.path().join(name)).is_ok_and(|file| file.len() > enough)
        };
        while restoring.try_wait().unwrap().is_none() && !files(&database).iter().any(is_long) {
            std::thread::yield_now();
        }
        let _ = restoring.kill();
        killed += usize::from(!restoring.wait().unwrap().success());
        if !database.path().exists() {
            let output = restore(&database, &copy, &[]).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
        assert_eq!(database.json(&["status", "--json"])["subscribers"]["paused"], 3);
        assert_eq!(database.json(&["status", "--json"])["outbox"]["waiting"], 30_000);
    }
    assert!(killed > 0, "each of {ROUNDS} restores was faster than its end");
}
