use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::binary::endpoint::Endpoint;
use crate::binary::{Database, SERVE, Serving};
use crate::faults::{WIDE, holds_still, offer};

const PAGE: u64 = 4096;
const RUBBISH: [u8; 4096] = [0xa5; 4096];
/// Each poll sends three requests, so together they outlast any delivery.
const LOOKS_MAX: usize = 20_000;

pub(crate) fn damage(database: &Database, pages: std::ops::Range<u64>) {
    let file = OpenOptions::new().write(true).open(database.path()).unwrap();
    for page in pages {
        file.write_all_at(&RUBBISH, page * PAGE).unwrap();
    }
}

fn pages(database: &Database) -> u64 {
    fs::metadata(database.path()).unwrap().len() / PAGE
}

fn filled(url: &str) -> Database {
    let database = Database::with_sink(url, &WIDE);
    for key in ["a", "b", "c"] {
        database.json(&["emit", "--type", "x", "--key", key, "--data", "1", "--json"]);
    }
    database.sql().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    database
}

#[test]
fn a_file_whose_first_page_is_damaged_is_refused() {
    let database = filled("http://127.0.0.1:9/");
    damage(&database, 0..1);
    let output = database.command(&SERVE).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{complaint}");
    assert!(complaint.contains("not a Hookproof database") && complaint.lines().count() == 1, "{complaint}");
}

#[test]
fn doctor_finds_a_damaged_first_page() {
    for damage_of in [|bytes: &mut Vec<u8>| bytes[..4096].fill(0), |bytes: &mut Vec<u8>| bytes[0] = b'X'] {
        let database = filled("http://127.0.0.1:9/");
        let mut bytes = fs::read(database.path()).unwrap();
        damage_of(&mut bytes);
        fs::write(database.path(), bytes).unwrap();
        let output = database.command(&["doctor"]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(
            told.starts_with("off") && told.contains("file") && told.contains("restore a backup"),
            "{told}"
        );
    }
}

#[test]
fn a_store_that_was_cut_to_nothing_is_no_new_one() {
    let database = filled("http://127.0.0.1:9/");
    database.serve().stop_in_order();
    fs::write(database.path(), "").unwrap();
    let output = database.command(&SERVE).output().unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("was a database; restore a backup"), "{complaint}");
    assert_eq!(fs::metadata(database.path()).unwrap().len(), 0);
    fs::remove_file(database.folder.path().join("sender.db-reserve")).unwrap();
    database.serve().stop_in_order();
}

#[test]
fn whichever_page_is_damaged_nothing_panics_or_spins_and_what_is_acknowledged_is_delivered() {
    let sink = Endpoint::taking();
    let whole = filled(&sink.url);
    let content = fs::read(whole.path()).unwrap();
    let count = pages(&whole);
    assert!(count > 20, "{count}");
    // All pages would take too long.
    for first in (1..count).step_by(usize::try_from(count / 6).unwrap()) {
        let database = Database::new();
        fs::write(database.path(), &content).unwrap();
        damage(&database, first..(first + 4).min(count));
        let mut serving = Serving::spawn(database.command(&SERVE));
        survives(&mut serving, &sink);
    }
}

#[test]
fn whichever_tree_of_pages_is_damaged_doctor_names_its_table_and_checks_the_rest() {
    let whole = filled("http://127.0.0.1:9/");
    let roots: Vec<(String, u64)> = {
        let sql = whole.sql();
        let mut roots =
            sql.prepare("SELECT tbl_name, rootpage FROM sqlite_schema WHERE rootpage > 1").unwrap();
        let roots = roots.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        roots.map(Result::unwrap).collect()
    };
    assert!(roots.len() > 30, "{}", roots.len());
    let content = fs::read(whole.path()).unwrap();
    for (table, root) in roots {
        let database = Database::new();
        fs::write(database.path(), &content).unwrap();
        damage(&database, root - 1..root);
        let output = database.command(&["doctor", "--json"]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        let about = format!("the tree of {table} at page {root}: {told} {output:?}");
        assert_eq!(output.status.code(), Some(1), "{about}");
        let names = format!("table {table} ");
        let findings: Vec<serde_json::Value> =
            told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let named = |finding: &&serde_json::Value| {
            finding["check"] == "file" && finding["detail"].as_str().unwrap().starts_with(&names)
        };
        let named = findings.iter().filter(named).count();
        assert_eq!(named, 1, "{about}");
        for check in crate::faults::doctor::CHECKS {
            assert!(findings.iter().any(|finding| finding["check"] == check), "no {check}: {about}");
        }
    }
}

#[test]
fn rows_that_cannot_be_read_are_told_by_their_keys_from_both_ends() {
    let database = filled("http://127.0.0.1:9/");
    let sql = database.sql();
    sql.execute_batch(
        "WITH RECURSIVE row (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM row WHERE n < 30)
             INSERT INTO outbox (id, type, data) SELECT n, 'x', json_quote(hex(zeroblob(500))) FROM row;
         PRAGMA wal_checkpoint(TRUNCATE)",
    )
    .unwrap();
    drop(sql);
    let content = fs::read(database.path()).unwrap();
    let reads = |sql: &rusqlite::Connection, key: i64| {
        sql.query_row("SELECT data FROM outbox WHERE id = ?1", [key], |_| Ok(())).is_ok()
    };
    let overwritten = (1..pages(&database)).map(|page| {
        let copy = Database::new();
        fs::write(copy.path(), &content).unwrap();
        damage(&copy, page..page + 1);
        copy
    });
    let is_in_the_middle = |copy: &Database| {
        let sql = copy.sql();
        !reads(&sql, 15) && reads(&sql, 1) && reads(&sql, 30)
    };
    let copy = overwritten.into_iter().find(is_in_the_middle).expect("a page of row 15 alone");
    let output = copy.command(&["doctor", "--json"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let detail = told.lines().find(|line| line.contains("table outbox ")).unwrap();
    assert!(detail.contains("the rows between id ") && detail.contains(" and id "), "{detail}");
    assert!(detail.contains("do not become events"), "{detail}");
}

/// Each acknowledged event is delivered, dead, or reported as blocked.
fn survives(serving: &mut Serving, sink: &Endpoint) {
    let Some(line) = serving.wait_for_line_or_end("\"address\"") else {
        let (code, _) = serving.wait();
        assert!(matches!(code, Some(64 | 70)), "{code:?} {:#?}", serving.lines());
        return;
    };
    let entry: serde_json::Value = serde_json::from_str(&line).unwrap();
    serving.address.push_str(entry["fields"]["address"].as_str().unwrap());
    let offered = offer(serving, "during");
    let answer = offered.recv_timeout(crate::binary::FOREVER).unwrap();
    assert!(answer.as_ref().is_none_or(|answer| matches!(answer.status, 202 | 503 | 500)), "{answer:?}");
    let (_keep, nothing) = std::sync::mpsc::channel();
    holds_still(serving, &nothing, Duration::from_secs(2));
    if let Some(answer) = answer.filter(|answer| answer.status == 202) {
        is_not_lost(serving, sink, answer.json()["id"].as_str().unwrap());
    }
    let complaints = serving.complaints();
    // One line for each kind of permanent failure.
    assert!(complaints.len() <= 10, "{} lines: {complaints:#?}", complaints.len());
    serving.request_stop();
    let (code, _) = serving.wait();
    assert!(matches!(code, Some(0 | 1)), "{code:?}");
    assert!(!serving.lines().iter().any(|line| line.contains("panicked")), "{:#?}", serving.lines());
}

fn is_not_lost(serving: &Serving, sink: &Endpoint, event: &str) {
    let looks = std::iter::repeat_with(|| {
        let arrived = sink.wait_for(0).iter().any(|arrival| arrival.event() == event);
        let dead = serving.get("/v1/dead");
        let is_dead = dead.status == 200 && dead.text().contains(event);
        // An unreadable store and blocked lanes make the sender not ready.
        arrived || is_dead || serving.get("/readyz").status == 503
    });
    assert!(looks.take(LOOKS_MAX).any(|found| found), "{event} is nowhere: {:#?}", serving.lines());
}
