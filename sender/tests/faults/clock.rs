//! A test must not set the machine's clock, so SQL produces the traces of a wrong one: a file with future times.

use std::time::{SystemTime, UNIX_EPOCH};

use hookproof_sender::engine::StoreTime;
use hookproof_sender::event::timestamp::Timestamp;

use crate::binary::endpoint::Endpoint;
use crate::binary::{Database, Serving};
use crate::faults::WIDE;

const AN_HOUR_AHEAD: &str = "
    UPDATE totals SET clock = clock + 3600000000000;
    UPDATE deliveries SET at = at + 3600000000000, expires = expires + 3600000000000;
    UPDATE events SET received = received + 3600000000000;
    UPDATE owners SET until = until + 3600000000000;
    UPDATE lanes SET record_at = record_at + 3600000000000;
    UPDATE attempts SET at = at + 3600000000000;";

#[expect(clippy::disallowed_methods, reason = "compared with what the sender says of the time")]
fn wall_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn is_told_of_the_clock(serving: &Serving) -> bool {
    matches!(&serving.complaints()[..], [line] if line.contains("ahead of the wall clock"))
}

#[test]
fn after_a_step_back_of_an_hour_nothing_waits_for_it_and_signatures_tell_the_true_time() {
    let sink = Endpoint::answering(|number| {
        if number == 0 { "503 Not Now\r\n".to_owned() } else { "204 No Content\r\n".to_owned() }
    });
    let database =
        Database::with_sink(&sink.url, &["retry.base=1s", "retry.backoff=additive", "retry.jitter=0s"]);
    // A process dies before its retry; its lease is in the future too.
    let mut serving = database.serve();
    let first = serving.emit("before");
    sink.wait_for(1);
    serving.until("/v1/status", |status| status["deliveries"]["retrying"] == 1);
    serving.kill();
    database.sql().execute_batch(AN_HOUR_AHEAD).unwrap();
    let began = wall_secs();
    let serving = database.serve();
    let second = serving.emit("after");
    sink.wait_for_events(&[first, second]);
    let arrivals = sink.wait_for(3);
    for arrival in &arrivals[1..] {
        let told: u64 = arrival.header("webhook-timestamp").parse().unwrap();
        assert!((began..=wall_secs()).contains(&told), "{told} is not between {began} and now");
    }
    serving.until("/v1/status", |status| status["deliveries"]["delivered"] == 2);
    assert!(is_told_of_the_clock(&serving), "{:#?}", serving.complaints());
    serving.stop_in_order();
}

#[test]
fn bodies_tell_the_true_time_on_a_file_that_is_ahead_and_the_log_says_that_it_is() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &WIDE);
    database.sql().execute_batch("UPDATE totals SET clock = clock + 864000000000000").unwrap();
    let began = wall_secs();
    let serving = database.serve();
    serving.emit("while ahead");
    let arrival = sink.wait_for(1).remove(0);
    let body = arrival.json();
    let text = |secs| Timestamp(StoreTime::from_secs(secs)).to_string();
    // Timestamps sort as text.
    let told = body["timestamp"].as_str().unwrap().to_owned();
    assert!(
        (text(began)..=text(wall_secs() + 1)).contains(&told),
        "{body} is not from between {began} and now"
    );
    serving.until("/v1/status", |status| status["deliveries"]["delivered"] == 1);
    assert!(is_told_of_the_clock(&serving), "{:#?}", serving.complaints());
    serving.stop_in_order();
}

#[test]
fn two_senders_that_disagree_by_an_hour_deliver_each_event_once() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &WIDE);
    let early = database.serve();
    let mut events = vec![early.emit("1")];
    sink.wait_for_events(&events);
    database.sql().execute_batch("UPDATE totals SET clock = clock + 3600000000000").unwrap();
    let late = database.serve();
    for round in 0..20 {
        let sender = if round % 2 == 0 { &early } else { &late };
        events.push(sender.emit(&round.to_string()));
    }
    sink.wait_for_events(&events);
    early.until("/v1/status", |status| status["deliveries"]["waiting"] == 0);
    assert_eq!(sink.count(), events.len(), "each once");
    let complaints = [early.complaints(), late.complaints()].concat();
    assert!(matches!(&complaints[..], [line] if line.contains("ahead of the wall clock")), "{complaints:#?}");
    early.stop_in_order();
    late.stop_in_order();
}

fn minutes_ahead(database: &Database) -> u64 {
    let clock: u64 = database.sql().query_row("SELECT clock FROM totals", [], |row| row.get(0)).unwrap();
    (clock / 1_000_000_000).saturating_sub(wall_secs()) / 60
}

#[test]
fn events_after_a_process_with_a_fast_clock_do_not_wait_for_that_clock() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &WIDE);
    let serving = database.serve();
    let first = serving.emit("before");
    sink.wait_for_events(&[first]);
    // Either the running process or the command may notice first.
    for _ in 0..5 {
        database.sql().execute_batch("UPDATE totals SET clock = clock + 3600000000000").unwrap();
        let emitted = database.json(&["emit", "--type", "x", "--key", "k", "--data", "1", "--json"]);
        let event = emitted["id"].as_str().unwrap().to_owned();
        sink.wait_for_events(&[event]);
        assert_eq!(minutes_ahead(&database), 0);
    }
    let status = database.json(&["status", "--json"]);
    assert_eq!((&status["behind"], &status["clock"]["fault"]), (&false.into(), &serde_json::Value::Null));
    serving.stop_in_order();
}

#[test]
fn deliveries_that_waited_while_a_clock_was_a_day_ahead_are_not_given_up() {
    const WAITING: usize = 3_000;
    let database = Database::with_sink("http://127.0.0.1:9/", &["limit.rate=1/s"]);
    let lines: String =
        (0..WAITING).map(|key| format!("{}\n", crate::binary::event(&key.to_string()))).collect();
    let path = database.folder.path().join("events.ndjson");
    std::fs::write(&path, lines).unwrap();
    let output = database.command(&["emit", "--ndjson", path.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    database.sql().execute_batch("UPDATE totals SET clock = clock + 90000000000000").unwrap();
    let ahead = database.json(&["status", "--json"]);
    assert_eq!(ahead["clock"]["fault"], "ahead", "{ahead}");
    database.json(&["emit", "--type", "x", "--key", "k", "--data", "1", "--json"]);
    let status = database.json(&["status", "--json"]);
    assert_eq!(status["deliveries"]["dead"], 0, "{status}");
    assert_eq!(status["deliveries"]["waiting"], WAITING + 1, "{status}");
    assert_eq!((minutes_ahead(&database), &status["behind"]), (0, &false.into()));
}

#[test]
fn events_written_by_a_fast_clock_are_delivered_by_the_right_one() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &WIDE);
    let serving = database.serve();
    database.json(&["subscriber", "pause", "sink", "--json"]);
    let events: Vec<String> = (0..50).map(|n| serving.emit(&n.to_string())).collect();
    database.sql().execute_batch(&format!("BEGIN IMMEDIATE; {AN_HOUR_AHEAD} COMMIT;")).unwrap();
    database.json(&["subscriber", "resume", "sink", "--json"]);
    sink.wait_for_events(&events);
    assert_eq!(minutes_ahead(&database), 0);
    serving.until("/v1/status", |status| status["deliveries"]["waiting"] == 0);
    // Their life is no longer than by the right clock.
    let latest: u64 =
        database.sql().query_row("SELECT max(expires - ttl) FROM deliveries", [], |row| row.get(0)).unwrap();
    assert!(latest / 1_000_000_000 <= wall_secs(), "{latest}");
    serving.stop_in_order();
}
