use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

use serde_json::{Value, json};

use crate::binary::endpoint::Endpoint;
use crate::binary::event;
use crate::binary::{Database, Serving};

#[test]
fn the_defaults_are_those_of_the_systems() {
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    let shown = database.json(&["subscriber", "show", "sink", "--json"]);
    for (place, expected) in [
        ("/limit/rate", "5/s"),
        ("/timeout", "8s"),
        ("/connect_timeout", "4s"),
        ("/retry/backoff", "full-jitter"),
        ("/retry/cap", "1h"),
        ("/retry/ttl", "1d"),
        ("/breaker/cooldown", "5min"),
        ("/breaker/cooldown_max", "1h"),
        ("/breaker/slow", "5s"),
        ("/queue/when_full", "refuse"),
    ] {
        assert_eq!(shown.pointer(place).and_then(|value| value.as_str()), Some(expected), "{place}: {shown}");
    }
    assert_eq!((&shown["limit"]["burst"], &shown["breaker"]["failures"]), (&10.into(), &10.into()));
}

#[test]
fn a_full_subscriber_slows_its_emitter_and_says_when_to_come_back() {
    let database = Database::with_sink("http://127.0.0.1:9/", &["queue.rows=3", "queue.when_full=refuse"]);
    database.json(&["subscriber", "pause", "sink", "--json"]);
    let serving = database.serve();
    (0..3).for_each(|n| drop(serving.emit(&n.to_string())));
    let answer = serving.post("/v1/events", &event("one too many"));
    assert_eq!(answer.status, 429, "{answer:?}");
    answer.is_a_refusal();
    assert!(answer.header("retry-after").unwrap().parse::<u32>().unwrap() > 0);
    assert_eq!(serving.figure("hookproof_waiting"), serving.figure("hookproof_waiting_max"));
    serving.stop_in_order();
}

#[test]
fn a_full_subscriber_slows_nobody_else_and_gets_what_it_lacks_when_it_is_emitted_again() {
    let (full, healthy) = (Endpoint::taking(), Endpoint::taking());
    let generous = ["limit.rate=1000/s", "limit.burst=100"];
    let database = Database::with_sink(&healthy.url, &generous);
    let narrow = ["queue.rows=11", "queue.when_full=refuse", "dedupe=0s"];
    database.subscribe("full", &full.url, &[&generous[..], &narrow].concat());
    database.json(&["subscriber", "pause", "full", "--json"]);
    let serving = database.serve();
    let named = |number: usize, more: &str| {
        serving.post("/v1/events", &format!(r#"{{"type":"a","data":1,"id":"event-{number}"{more}}}"#))
    };
    for number in 0..50 {
        let answer = named(number, "");
        assert_eq!(answer.status, if number < 11 { 202 } else { 207 }, "{answer:?}");
        if number >= 11 {
            let refused = &answer.json()["refused"];
            assert_eq!((refused.as_array().unwrap().len(), &refused[0]["subscriber"]), (1, &"full".into()));
            let when = answer.header("retry-after").unwrap().to_owned();
            assert_eq!(refused[0]["retry_after"].to_string(), when);
            assert!(when.parse::<u32>().unwrap() > 0);
        }
    }
    healthy.wait_for(50);
    // A repeat that comes too soon reports the lanes that have the event.
    assert_eq!(named(50, r#","atomic":true"#).status, 429);
    let again = named(49, "");
    let told = again.json();
    assert_eq!((again.status, &told["deliveries"], &told["duplicates"]), (207, &0.into(), &1.into()));
    database.json(&["subscriber", "resume", "full", "--json"]);
    for number in 11..50 {
        full.wait_for(number);
        let answer = named(number, "");
        assert_eq!(answer.status, 202, "{answer:?}");
        assert_eq!((&answer.json()["deliveries"], &answer.json()["duplicates"]), (&1.into(), &1.into()));
    }
    full.wait_for(50);
    serving.stop_in_order();
    assert_eq!((full.count(), healthy.count()), (50, 50), "each once, and nothing of the one refused");
}

#[test]
fn the_command_line_says_who_had_no_room_and_how_to_go_on() {
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    database.subscribe("full", "http://127.0.0.1:9/", &["queue.rows=1", "queue.when_full=refuse"]);
    let emit = |more: &[&str]| {
        let arguments = ["emit", "--type", "a", "--data", "1"];
        let output = database.command(&[&arguments, more].concat()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text, String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(emit(&[]).0, Some(0));
    let (code, text, _) = emit(&["--id", "mine"]);
    assert_eq!(code, Some(1));
    let expected = "mine: recorded for 1 subscriber; refused by full: its queue has reached queue.rows; \
                    emit it again with id mine once there is room\n";
    assert_eq!(text, expected);
    let (code, text, _) = emit(&["--id", "mine"]);
    assert_eq!(code, Some(1));
    let expected = "mine: recorded for 0 subscribers, 1 had it already; refused by full: its queue has reached queue.rows; ";
    assert!(text.starts_with(expected), "{text}");
    let (code, text, complaint) = emit(&["--id", "other", "--atomic"]);
    assert_eq!((code, text.as_str()), (Some(1), ""));
    assert!(
        complaint.contains("subscribers without room for the event: 1; the first: its queue"),
        "{complaint}"
    );
    let shown = database.json(&["status", "--json"]);
    assert_eq!(shown["deliveries"]["waiting"], 3, "{shown}");
    let lines = format!("{0}{0}", "{\"type\":\"a\",\"data\":1}\n");
    let file = database.folder.path().join("events.ndjson");
    std::fs::write(&file, lines).unwrap();
    let output = database.command(&["emit", "--ndjson", file.to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "events recorded: 2 (2 in part); deliveries owed: 2; events refused: 0\n");
    assert_eq!(output.status.code(), Some(1));
}

struct HeldEndpoint {
    endpoint: Endpoint,
    database: Database,
    serving: Serving,
    begin: Sender<()>,
}

fn hold_endpoint(events: u32) -> HeldEndpoint {
    let (begin, may_answer) = channel::<()>();
    let may_answer = std::sync::Mutex::new(may_answer);
    let endpoint = Endpoint::answering(move |_| {
        let _ = may_answer.lock().unwrap().recv();
        "204 No Content\r\n".to_owned()
    });
    let database = Database::with_sink(&endpoint.url, &["limit.in_flight=1"]);
    let serving = database.serve();
    (0..events).for_each(|n| drop(serving.emit(&n.to_string())));
    endpoint.wait_for(1);
    HeldEndpoint { endpoint, database, serving, begin }
}

#[test]
fn a_stopping_sender_finishes_and_records_open_attempts_and_ends() {
    let HeldEndpoint { endpoint: slow, database, mut serving, begin } = hold_endpoint(3);
    serving.request_stop();
    serving.wait_for_line("stopping: finishing open attempts");
    begin.send(()).unwrap();
    let (code, _) = serving.wait();
    assert_eq!(code, Some(0));
    assert_eq!(slow.count(), 1, "nothing was started after the word");
    let status = database.json(&["status", "--json"]);
    assert_eq!(
        (&status["deliveries"]["delivered"], &status["deliveries"]["waiting"]),
        (&1.into(), &2.into())
    );
}

#[test]
fn a_stopping_sender_records_a_half_received_event_and_starts_no_attempt() {
    let HeldEndpoint { endpoint: slow, database, mut serving, begin } = hold_endpoint(2);
    let event = r#"{"type":"a","data":{"half":true}}"#;
    let mut caller = TcpStream::connect(&serving.address).unwrap();
    write!(
        caller,
        "POST /v1/events HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nexpect: 100-continue\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        serving.address,
        event.len()
    )
    .unwrap();
    // The request is in flight from here on.
    let mut line = [0; 25];
    caller.read_exact(&mut line).unwrap();
    assert_eq!(line.as_slice(), b"HTTP/1.1 100 Continue\r\n\r\n");
    serving.request_stop();
    serving.wait_for_line("stopping: finishing open attempts");
    begin.send(()).unwrap();
    // A sender that starts another attempt would have done so by now.
    while database.json(&["status", "--json"])["deliveries"]["delivered"] != 1 {}
    caller.write_all(event.as_bytes()).unwrap();
    let mut answer = String::new();
    caller.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    drop(begin);
    let (code, _) = serving.wait();
    assert_eq!((code, slow.count()), (Some(0), 1), "nothing was started after the word");
    assert_eq!(database.json(&["status", "--json"])["deliveries"]["waiting"], 2);
}

#[test]
fn dead_letters_are_grouped_by_what_they_have_in_common() {
    let locked_out = Endpoint::answering(|_| "401 Who\r\n".to_owned());
    let hurried = Endpoint::answering(|_| "429 Slow\r\n".to_owned());
    let one = ["retry.attempts=1", "breaker.failures=100", "breaker.failures_when_slow=100"];
    let database = Database::with_sink(&locked_out.url, &one);
    database.subscribe("hurried", &hurried.url, &one);
    (0..3).for_each(|_| drop(database.json(&["emit", "--type", "a", "--data", "1", "--json"])));
    let summary = database.json(&["drain", "--for", "5min", "--allow-private-targets", "--json"]);
    assert_eq!(summary["dead"], 6, "{summary}");
    let output = database.command(&["dead", "analyse"]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("rotated or wrong credentials") && told.contains("429"), "{told}");
}

#[test]
fn a_few_dead_letters_a_day_are_found_by_an_analysis_that_nobody_told_how_far_to_look() {
    const DAY: u64 = 24 * 3_600 * 1_000_000_000;
    let broken = Endpoint::answering(|_| "500 Broken\r\n".to_owned());
    let one = ["retry.attempts=1", "breaker.failures=100", "breaker.failures_when_slow=100"];
    let database = Database::with_sink(&broken.url, &one);
    (0..4).for_each(|_| drop(database.json(&["emit", "--type", "a", "--data", "1", "--json"])));
    let summary = database.json(&["drain", "--for", "5min", "--allow-private-targets", "--json"]);
    assert_eq!(summary["dead"], 4, "{summary}");
    // One died on each of the last four days.
    let moved =
        database.sql().execute("UPDATE deliveries SET at = at - (delivery - 1) * ?1 WHERE state = 2", [DAY]);
    assert_eq!(moved.unwrap(), 4);
    let output = database.command(&["dead", "analyse"]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("a few a day"), "{told}");
}

#[test]
fn a_changed_limit_holds_in_a_running_process() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &["limit.rate=1/1d", "limit.burst=1"]);
    let serving = database.serve();
    let events: Vec<String> = (0..30).map(|n| serving.emit(&n.to_string())).collect();
    sink.wait_for(1);
    // The rest would take a month.
    database.json(&["subscriber", "set", "sink", "limit.rate=1000/s", "limit.burst=100", "--json"]);
    sink.wait_for_events(&events);
    serving.stop_in_order();
}

#[test]
fn an_open_breaker_is_named_until_when_and_each_of_its_turns_is_logged_once() {
    let mends = Arc::new(AtomicBool::new(false));
    let heals = Arc::clone(&mends);
    let sick = Endpoint::answering(move |_| {
        if heals.load(Ordering::SeqCst) { "204 Well\r\n" } else { "500 Ill\r\n" }.to_owned()
    });
    let settings = [
        "breaker.failures=2",
        "breaker.failures_when_slow=2",
        "breaker.cooldown=1d",
        "breaker.cooldown_max=1d",
    ];
    let quick = ["retry.base=1ms", "retry.cap=2ms", "limit.rate=1000/s", "limit.burst=100"];
    let database = Database::with_sink(&sick.url, &[&settings[..], &quick].concat());
    assert_eq!(database.json(&["status", "--json"])["held_up"], json!([]));
    let owner = database.serve();
    owner.emit("one");
    let line: Value =
        serde_json::from_str(&owner.wait_for_line("opened the circuit breaker of sink until")).unwrap();
    let until = line["fields"]["until"].as_str().unwrap().to_owned();
    let told = |status: &Value| {
        let one = &status["held_up"][0];
        ["name", "state", "until", "here"].map(|key| one[key].clone())
    };
    let open = [json!("sink"), json!("breaker_open"), json!(until), json!(true)];
    let status = owner.get("/v1/status").json();
    assert_eq!(told(&status), open);
    let since = status["held_up"][0]["since"].as_str().unwrap().to_owned();
    assert!(since < until, "{status}");
    let ready = owner.get("/readyz").json();
    assert_eq!((&ready["status"], &ready["open_breakers"]), (&json!("ready"), &json!(1)), "{ready}");
    assert!(
        ready["detail"].as_str().unwrap().contains(&until) && !ready.to_string().contains("sink"),
        "{ready}"
    );

    // The checkpoint is written a little later.
    let other = database.serve();
    let seen = other.until("/v1/status", |status| status["held_up"][0]["state"] == "breaker_open");
    assert_eq!(seen["held_up"][0]["here"], false, "{seen}");
    let until_there = seen["held_up"][0]["until"].as_str().unwrap();
    assert!(until_there >= until.as_str(), "{until_there} is before {until}");
    let since_there = seen["held_up"][0]["since"].as_str().unwrap();
    assert!(since_there >= since.as_str() && since_there < until.as_str(), "{since_there} {since}");
    assert_eq!(database.json(&["status", "--json"])["held_up"][0]["until"], until_there);
    let output = database.command(&["status"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&format!("no attempt starts before {until_there}")), "{text}");

    other.stop_in_order();
    mends.store(true, Ordering::SeqCst);
    owner.stop_in_order();
    // Its first attempt is the probe.
    database.json(&[
        "subscriber",
        "set",
        "sink",
        "breaker.cooldown=1ms",
        "breaker.cooldown_max=1ms",
        "--json",
    ]);
    let next = database.serve();
    next.wait_for_line("closed the circuit breaker of sink");
    next.until("/v1/status", |status| status["held_up"] == json!([]));
    while database.json(&["status", "--json"])["held_up"] != json!([]) {}
    let turns = next.lines().into_iter().filter(|line| line.contains("the circuit breaker of")).count();
    assert_eq!(turns, 1, "{:#?}", next.lines());
    next.stop_in_order();
}

#[test]
fn a_subscriber_that_comes_to_wait_is_logged_once_by_its_name() {
    let (well, gone) = (Endpoint::taking(), Endpoint::answering(|_| "410 Gone\r\n".to_owned()));
    let database = Database::with_sink(&well.url, &["limit.rate=1/1h", "limit.burst=1"]);
    database.subscribe("gone", &gone.url, &[]);
    let serving = database.serve();
    let events = ["one", "two"].map(|key| serving.emit(key));
    serving.wait_for_line("disabled gone: its endpoint answered 410 Gone");
    serving.wait_for_line("sink: rate limited: deliveries waiting: ");
    let change = |what: &[&str]| database.json(&[&["subscriber"], what, &["--json"]].concat());
    change(&["set", "sink", "limit.rate=1000/s", "limit.burst=100"]);
    well.wait_for_events(&events);
    serving.wait_for_line("sink flows again");
    change(&["pause", "sink"]);
    serving.wait_for_line("paused sink");
    change(&["resume", "sink"]);
    serving.wait_for_line("resumed sink");
    for text in ["disabled gone", "sink: rate limited", "sink flows again", "paused sink", "resumed sink"] {
        assert_eq!(serving.wait_for_lines(text, 1).len(), 1, "{text}: {:#?}", serving.lines());
    }
    serving.stop_in_order();
}

#[test]
fn the_alerts_have_the_figures_of_the_systems() {
    let alerts = include_str!("../../alerts.yml");
    for figure in [
        "> 0.02",
        "hookproof_oldest_due_age_seconds > 60",
        "hookproof_oldest_due_age_seconds > 1800",
        "> 0.8",
        "sum by (instance, subscriber, name, le) (rate(hookproof_latency_seconds_bucket[15m]))) > 2",
    ] {
        assert!(alerts.contains(figure), "{figure}");
    }
}
