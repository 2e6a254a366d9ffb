use std::time::Duration;

use crate::binary::endpoint::Endpoint;
use crate::binary::{Database, SERVE, Serving};
use crate::faults::{WIDE, acknowledged_after_all, assert_logged_once, holds_still, offer};

const LOCKED: Duration = Duration::from_secs(10);

#[test]
fn a_lock_held_by_a_stranger_while_serving_holds_up_acknowledgements_and_nothing_more() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &WIDE);
    let mut serving = database.serve();
    let first = serving.emit("before");
    sink.wait_for_events(&[first]);
    let stranger = database.sql();
    stranger.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let offered = offer(&serving, "during");
    holds_still(&mut serving, &offered, LOCKED);
    assert_eq!(serving.get("/healthz").status, 200);
    assert_eq!(serving.get("/readyz").status, 503);
    stranger.execute_batch("ROLLBACK").unwrap();
    let event = acknowledged_after_all(&serving, &offered);
    sink.wait_for_events(&[event]);
    assert_logged_once(&serving, "another process locks the database");
    serving.stop_in_order();
    assert_eq!(sink.count(), 2);
}

#[test]
fn a_lock_held_by_a_stranger_while_draining_loses_nothing_that_was_delivered() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &WIDE);
    for key in ["a", "b", "c"] {
        database.json(&["emit", "--type", "x", "--key", key, "--data", "1", "--json"]);
    }
    let command = ["drain", "--for", "5min", "--allow-private-targets", "--log-json", "--json"];
    let stranger = database.sql();
    let mut draining = Serving::spawn(database.command(&command));
    // Some outcomes cannot be recorded.
    draining.wait_for_line("the sender runs");
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (_keep, nothing) = std::sync::mpsc::channel();
    holds_still(&mut draining, &nothing, LOCKED);
    stranger.execute_batch("ROLLBACK").unwrap();
    // Otherwise the sender warns that its log stays.
    drop(stranger);
    let (code, printed) = draining.wait();
    assert_eq!(code, Some(0), "{:#?}", draining.lines());
    let summary: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&summary["delivered"], &summary["waiting"]), (&3.into(), &0.into()), "{printed}");
    assert_eq!(sink.count(), 3, "each once");
    assert!(draining.complaints().len() <= 1, "{:#?}", draining.complaints());
}

#[test]
fn a_file_that_a_stranger_has_locked_at_the_start_is_waited_for() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &WIDE);
    for lock in [
        "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE totals SET id = id; COMMIT",
        "BEGIN EXCLUSIVE",
        "BEGIN IMMEDIATE",
        "BEGIN; SELECT count(*) FROM events",
    ] {
        let stranger = database.sql();
        stranger.execute_batch(lock).unwrap();
        let mut serving = Serving::spawn(database.command(&SERVE));
        serving.wait_for_line("another process locks the database");
        let (_keep, nothing) = std::sync::mpsc::channel::<()>();
        assert!(nothing.recv_timeout(LOCKED / 2).is_err());
        assert!(serving.is_running(), "{lock}: {:#?}", serving.lines());
        drop(stranger);
        serving.wait_for_line("\"address\"");
        assert_eq!(serving.complaints().len(), 1, "{lock}: {:#?}", serving.complaints());
        serving.stop_in_order();
    }
}
