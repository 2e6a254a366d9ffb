use std::io::{Error, Write as _};
use std::sync::Mutex;
use std::sync::mpsc::channel;

use hookproof_sender::guard::{Guard, Target};
use hookproof_sender::permission::Permission;
use hookproof_sender::transport::{Settings, Transport};

use crate::binary::Database;
use crate::binary::endpoint::{Arrival, Endpoint};
use crate::transport::rig::{check, lenient, post};

const GRANTS: &str = "WebHook-Allowed-Origin: Events.example\r\nWebHook-Allowed-Rate: 310\r\n";

fn database(endpoint: &Endpoint, settings: &[&str]) -> Database {
    let database = Database::new();
    let add = ["subscriber", "add", "sink", &endpoint.url, "--allow-private-targets"];
    let mut command = database.command(&[&add[..], &["permission.origin=events.example"], settings].concat());
    assert!(command.output().unwrap().status.success());
    database
}

/// The rate that an arrival asks for.
fn asked(arrival: &Arrival) -> Option<&str> {
    let rate = arrival.headers.iter().find(|(name, _)| name == "webhook-request-rate");
    rate.map(|(_, value)| value.as_str())
}

#[test]
fn the_first_request_asks_and_each_names_the_origin() {
    let sink = Endpoint::answering(|_| format!("204 No Content\r\n{GRANTS}"));
    let database = database(&sink, &[]);
    let serving = database.serve();
    (0..3).for_each(|number| drop(serving.emit(&number.to_string())));
    let arrivals = sink.wait_for(4);
    assert!(arrivals.iter().all(|arrival| arrival.header("webhook-request-origin") == "events.example"));
    let rates: Vec<_> = arrivals.iter().map(asked).collect();
    assert_eq!(rates, [Some("310"), None, None, None]);
    assert!(arrivals[0].body.is_empty());
}

#[test]
fn attempts_that_need_the_permission_wait_for_one_request() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let sink = Endpoint::scripted(move |number, stream| {
        if number == 0 {
            released.lock().unwrap().recv().map_err(Error::other)?;
        }
        write!(stream, "HTTP/1.1 204 No Content\r\n{GRANTS}\r\n")
    });
    let database = database(&sink, &["limit.in_flight=5", "timeout=60s", "connect_timeout=60s"]);
    let serving = database.serve();
    (0..5).for_each(|number| drop(serving.emit(&number.to_string())));
    sink.wait_for(1);
    while serving.figure("hookproof_attempts_in_flight") < 5.0 {
        std::thread::yield_now();
    }
    assert_eq!(sink.count(), 1);
    release.send(()).unwrap();
    let arrivals = sink.wait_for(6);
    assert_eq!(arrivals.iter().filter_map(asked).count(), 1);
}

#[test]
fn a_refusal_costs_no_attempt_and_is_no_failure() {
    let sink = Endpoint::answering(|number| match number {
        0 => "200 OK\r\n".to_owned(),
        1 => "200 OK\r\nWebHook-Allowed-Origin: other.example\r\nWebHook-Allowed-Rate: *\r\n".to_owned(),
        _ => format!("405 Method Not Allowed\r\n{GRANTS}"),
    });
    let settings = ["retry.attempts=1", "breaker.failures=1", "breaker.failures_when_slow=1"];
    let database = database(&sink, &settings);
    let serving = database.serve();
    serving.emit("one");
    let arrivals = sink.wait_for(4);
    let rates: Vec<_> = arrivals.iter().map(|arrival| asked(arrival).is_some()).collect();
    assert_eq!(rates, [true, true, true, false]);
    // The endpoint answers 405 to the request itself.
    let dead = serving.until("/v1/dead", |dead| !dead["items"].as_array().unwrap().is_empty());
    assert_eq!(dead["items"][0]["attempts"], 1, "{dead}");
}

#[test]
fn a_question_without_an_answer_is_no_attempt() {
    let sink = Endpoint::scripted(|number, stream| match number {
        0 => Err(Error::other("closed")),
        1 => write!(stream, "HTTP/1.1 204 No Content\r\n{GRANTS}WebHook-Allowed-Rate: 1\r\n\r\n"),
        _ => write!(stream, "HTTP/1.1 204 No Content\r\n{GRANTS}\r\n"),
    });
    let database = database(&sink, &["retry.attempts=1"]);
    let serving = database.serve();
    serving.emit("one");
    let arrivals = sink.wait_for(4);
    let questions: Vec<_> = arrivals.iter().map(|arrival| asked(arrival).is_some()).collect();
    assert_eq!(questions, [true, true, true, false]);
}

#[tokio::test]
async fn the_guard_judges_the_endpoint_before_it_is_asked() {
    let made = {
        let mut post = post("http://127.0.0.1:9");
        post = post.to(Target::parse("http://10.0.0.1/hooks", &lenient()).unwrap());
        let permission = Permission::new("events.example", 1).unwrap();
        let guard = Guard::strict().allow_network("127.0.0.0/8".parse().unwrap());
        post.permission(permission).through(&Transport::new(Settings::default(), guard)).await
    };
    check(&made, "unsent address_refused");
}
