//! A job goes on where a kill ended it: each dead letter is sent again, once.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::binary::http::request;
use crate::crash::process::{Database, Serving};
use crate::crash::sink::Sink;
use crate::crash::{judge_all, settings};

const BURST: usize = 10;
const KILLS: u64 = 2;
const EVENTS_AT_ONCE: u64 = 5_000;

/// The number of dead letters, and the rate.
type Size = (u64, u64);
const SMALL: Size = (4_000, 1_000);
const FULL: Size = (100_000, 2_000);

fn of_size((letters, rate): Size) -> Vec<String> {
    [settings(rate, BURST), vec![format!("queue.rows={letters}")]].concat()
}

#[test]
fn a_redrive_that_is_killed_twice_sends_every_letter_once() {
    let sink = Sink::start();
    redrive(&Database::with_subscriber(&sink.url(), &of_size(SMALL)), &sink, SMALL);
}

#[test]
fn a_redrive_that_is_killed_twice_on_a_server_sends_every_letter_once() {
    let sink = Sink::start();
    let test = "a_redrive_that_is_killed_twice_on_a_server";
    let Some(database) = Database::on_server(test, &sink.url(), &of_size(SMALL)) else { return };
    redrive(&database, &sink, SMALL);
}

#[test]
#[ignore = "takes minutes"]
fn a_redrive_of_a_hundred_thousand_that_is_killed_twice() {
    let sink = Sink::start();
    redrive(&Database::with_subscriber(&sink.url(), &of_size(FULL)), &sink, FULL);
}

#[test]
#[ignore = "takes minutes"]
fn a_redrive_of_a_hundred_thousand_that_is_killed_twice_on_a_server() {
    let sink = Sink::start();
    let test = "a_redrive_of_a_hundred_thousand_on_a_server";
    let Some(database) = Database::on_server(test, &sink.url(), &of_size(FULL)) else { return };
    redrive(&database, &sink, FULL);
}

fn redrive(database: &Database, sink: &Sink, (letters, rate): Size) {
    sink.explain_by(database.lanes());
    database.run(&["subscriber", "pause", "sink"]);
    let mut serving = database.serve();
    let events = bury(database, letters);
    database.run(&["subscriber", "resume", "sink"]);
    let job = call(database, "POST", "/v1/dead/redrive", "application/json", r#"{"subscriber":"sink"}"#);
    assert_eq!(job["planned"], letters);
    let (path, mut kills) = (format!("/v1/jobs/{}", job["id"]), Vec::new());
    for part in 1..=KILLS {
        let reached = until(database, &path, |job| done(job) >= letters * part / (KILLS + 1));
        serving.kill();
        kills.push(sink.now());
        eprintln!("killed after {} of {letters} by the job", done(&reached));
        serving = database.serve();
    }
    let over = until(database, &path, |job| job["ended"].is_string());
    assert_eq!((&over["state"], done(&over), &over["skipped"]), (&"done".into(), letters, &0.into()));
    until(database, "/v1/status", |status| status["deliveries"]["delivered"] == letters);
    sink.wait_for_events(&events);
    Serving::stop_in_order(serving);
    let counts = judge_all(&sink.arrivals(), &kills, &BTreeMap::new(), (rate, BURST));
    eprintln!(
        "{letters} dead letters sent again, {KILLS} kills, 0 lost; {counts}; {rate}/s kept in every window"
    );
}

/// Records events for a paused subscriber, and gives them up. Returns their ids.
fn bury(database: &Database, letters: u64) -> Vec<String> {
    let events: Vec<String> = (0..letters).map(|number| format!("event-{number}")).collect();
    for chunk in events.chunks(usize::try_from(EVENTS_AT_ONCE).unwrap()) {
        let line = |id: &String| format!("{{\"id\":\"{id}\",\"type\":\"video.trending\",\"data\":1}}\n");
        let lines: String = chunk.iter().map(line).collect();
        let answer = request(
            &database.address().to_string(),
            "POST",
            "/v1/events",
            "application/x-ndjson",
            lines.as_bytes(),
        );
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    database.run(&["subscriber", "shed", "sink", "--yes"]);
    events
}

fn call(database: &Database, method: &str, path: &str, kind: &str, body: &str) -> Value {
    let answer = request(&database.address().to_string(), method, path, kind, body.as_bytes());
    assert!(answer.status < 300, "{answer:?}");
    answer.json()
}

fn until(database: &Database, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    loop {
        let job = call(database, "GET", path, "application/json", "");
        if holds(&job) {
            return job;
        }
        std::thread::yield_now();
    }
}

fn done(job: &Value) -> u64 {
    job["done"].as_u64().unwrap()
}
