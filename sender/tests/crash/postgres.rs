use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::crash::emitter::Emitter;
use crate::crash::process::Database;
use crate::crash::sink::Sink;
use crate::crash::{Moments, Plan, RATE_PER_SECOND, judge_all, kill_on, settings};

/// Each kill costs a whole lease: only the lease shows that a process died.
const PLAN: Plan = Plan { kills: 8, arrivals_between: 60, burst: 10 };

fn database(test: &str, sink: &Sink) -> Option<Database> {
    Database::on_server(test, &sink.url(), &settings(RATE_PER_SECOND, PLAN.burst))
}

#[test]
fn kills_of_a_process_on_a_server_lose_nothing_and_stay_within_the_contract() {
    let sink = Arc::new(Sink::start());
    let Some(database) = database("kills_of_a_process_on_a_server", &sink) else { return };
    kill_on(&database, &sink, 1, &PLAN);
}

#[test]
fn of_two_nodes_on_one_server_either_is_killed() {
    let sink = Arc::new(Sink::start());
    let Some(database) = database("of_two_nodes_on_one_server_either_is_killed", &sink) else { return };
    kill_on(&database, &sink, 2, &PLAN);
}

#[test]
fn kills_of_the_server_itself_lose_nothing() {
    let sink = Arc::new(Sink::start());
    let Some(database) = database("kills_of_the_server_itself_lose_nothing", &sink) else { return };
    sink.explain_by(database.lanes());
    let emitter = Emitter::start(database.address(), Arc::clone(&sink), 1);
    let node = database.serve();
    let (mut kills, mut moments) = (Vec::new(), Moments::new());
    for _ in 0..4 {
        sink.wait_for(sink.count() + moments.next_below(PLAN.arrivals_between));
        database.server().kill();
        kills.push(sink.now());
        database.server().begin();
    }
    let acknowledged = emitter.stop();
    sink.wait_for_events(&acknowledged);
    node.stop_in_order();
    assert!(acknowledged.len() > kills.len(), "{} events were acknowledged", acknowledged.len());
    let counts = judge_all(&sink.arrivals(), &kills, &BTreeMap::new(), (RATE_PER_SECOND, PLAN.burst));
    eprintln!(
        "{} kills of the server, {} events acknowledged, 0 lost; {counts}",
        kills.len(),
        acknowledged.len()
    );
}

/// Another process takes its lanes once its lease ends.
#[test]
fn a_drain_delivers_in_the_place_of_a_process_that_was_killed() {
    let sink = Arc::new(Sink::start());
    let Some(database) = database("a_drain_delivers_in_the_place_of_one", &sink) else { return };
    let emit = ["emit", "--type", "order.paid", "--data", "{\"order\":1}"];
    let emitted = || json(&database, &emit)["id"].as_str().unwrap().to_owned();
    let mut node = database.serve_as("first");
    sink.wait_for_events(&[emitted()]);
    node.kill();
    let id = emitted();
    let drained = json(&database, &["drain", "--allow-private-targets", "--for", "60s"]);
    assert_eq!((&drained["waiting"], &drained["nothing_left"]), (&0.into(), &true.into()), "{drained}");
    sink.wait_for_events(&[id]);
}

fn json(database: &Database, arguments: &[&str]) -> Value {
    let output = database.command().args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).next_back().unwrap_or_default()
}

#[test]
fn every_command_works_on_a_server() {
    let sink = Arc::new(Sink::start());
    let Some(database) = database("every_command_works_on_a_server", &sink) else { return };
    let emitted = json(&database, &["emit", "--type", "order.paid", "--data", "{\"order\":1}"]);
    let id = emitted["id"].as_str().unwrap().to_owned();
    json(&database, &["drain", "--allow-private-targets", "--for", "60s"]);
    sink.wait_for_events(&[id]);
    let status = json(&database, &["status"]);
    assert_eq!(status["deliveries"]["delivered"], 1, "{status}");
    assert_eq!(status["deliveries"]["waiting"], 0, "{status}");
    assert_eq!(json(&database, &["subscriber", "show", "sink"])["name"], "sink");
    assert_eq!(json(&database, &["subscriber", "list"])["name"], "sink");
    json(&database, &["audit"]);
    json(&database, &["dead", "list"]);
    let doctor = database.command().args(["doctor", "--json"]).output().unwrap();
    assert!(doctor.status.success(), "{}", String::from_utf8_lossy(&doctor.stdout));
    let lost =
        database.command().args(["--db", "postgres://nobody@127.0.0.1:1/none", "status"]).output().unwrap();
    let complaint = String::from_utf8_lossy(&lost.stderr);
    assert!(!lost.status.success() && complaint.contains("cannot be reached"), "{complaint}");
}
