use std::sync::Mutex;
use std::sync::mpsc::channel;

use serde_json::{Value, json};

use crate::binary::endpoint::Endpoint;
use crate::binary::http::request;
use crate::binary::{Database, Serving, event};

fn waiting_for(word: std::sync::mpsc::Receiver<()>) -> Endpoint {
    let word = Mutex::new(word);
    Endpoint::answering(move |_| {
        let _ = word.lock().unwrap().recv();
        "204 No Content\r\n".to_owned()
    })
}

fn emit(serving: &Serving, count: usize) {
    let lines: String = (0..count).map(|number| format!("{}\n", event(&number.to_string()))).collect();
    let answer = request(&serving.address, "POST", "/v1/events", "application/x-ndjson", lines.as_bytes());
    assert_eq!(answer.status, 202, "{answer:?}");
}

#[test]
fn the_status_sums_requests_in_flight_and_in_doubt() {
    let (answer, word) = channel::<()>();
    let (slow, mute) = (
        waiting_for(word),
        Endpoint::scripted(|_, _| {
            loop {
                std::thread::park();
            }
        }),
    );
    let database = Database::with_sink(&slow.url, &["limit.in_flight=3", "timeout=2min"]);
    // Long enough to write the request on any machine.
    let once = ["timeout=2s", "retry.attempts=1", "limit.doubt=1h", "--events", "order.paid"];
    database.subscribe("mute", &mute.url, &once);
    let serving = database.serve();
    emit(&serving, 4);
    assert_eq!(serving.post("/v1/events", r#"{"type":"order.paid","data":1}"#).status, 202);
    let told =
        serving.until("/v1/status", |status| status["here"] == json!({ "in_flight": 4, "in_doubt": 1 }));
    let lanes = told["lanes"]["items"].as_array().unwrap();
    let each: Vec<_> =
        lanes.iter().map(|lane| [&lane["here"]["in_flight"], &lane["here"]["in_doubt"]]).collect();
    assert_eq!(each, [[&json!(3), &json!(0)], [&json!(1), &json!(1)]]);
    assert_eq!(serving.figure("hookproof_attempts_in_flight"), 4.0);
    assert_eq!(serving.figure("hookproof_attempts_in_doubt"), 1.0);
    drop(answer);
    serving.until("/v1/status", |status| status["here"] == json!({ "in_flight": 1, "in_doubt": 1 }));
    serving.stop_in_order();
}

#[test]
fn a_paused_job_rests_through_a_kill_and_a_cancelled_one_has_ended() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &[]);
    let mut serving = database.serve();
    serving.post("/v1/subscribers/sink/pause", "{}");
    emit(&serving, 700);
    let call = |serving: &Serving, path: &str, body: &str| {
        let answer = serving.post(path, body);
        assert!(matches!(answer.status, 200 | 202), "{answer:?}");
        answer.json()
    };
    let shed = call(&serving, "/v1/subscribers/sink/shed", r#"{"all":true}"#);
    serving.until("/v1/jobs/1", |job| job["done"] == shed["planned"]);
    // Both wait for room.
    database.json(&["subscriber", "set", "sink", "queue.rows=100", "--json"]);
    for _ in 0..2 {
        call(&serving, "/v1/dead/redrive", r#"{"subscriber":"sink"}"#);
    }
    serving.until("/v1/jobs/2", |job| job["done"] == 100);
    assert_eq!(call(&serving, "/v1/jobs/2/pause", "{}")["state"], "paused");
    assert_eq!(call(&serving, "/v1/jobs/3/cancel", "{}")["state"], "cancelled");
    serving.kill();
    database.json(&["subscriber", "set", "sink", "queue.rows=1000", "--json"]);
    let serving = database.serve();
    // The process works at jobs again.
    let other = call(&serving, "/v1/dead/purge", r#"{"all":true,"since":"2200-01-01T00:00:00Z"}"#);
    serving.until(&format!("/v1/jobs/{}", other["id"]), |job| job["state"] == "done");
    for (path, state, done) in [("/v1/jobs/2", "paused", 100), ("/v1/jobs/3", "cancelled", 0)] {
        let job = serving.get(path).json();
        assert_eq!((&job["state"], &job["done"]), (&json!(state), &json!(done)), "{path}");
    }
    call(&serving, "/v1/jobs/2/resume", "{}");
    let done = serving.until("/v1/jobs/2", |job| job["state"] == "done");
    assert_eq!(done["done"], 700);
    assert_eq!(serving.get("/v1/status").json()["deliveries"]["waiting"], 700);
    serving.stop_in_order();
}

#[test]
fn a_backlog_is_given_up_by_plan_while_it_is_sent_and_can_be_sent_after_all() {
    let (answer, word) = channel::<()>();
    let (slow, healthy) = (waiting_for(word), Endpoint::taking());
    let database = Database::with_sink(&slow.url, &["limit.in_flight=2", "limit.burst=4", "timeout=2min"]);
    database.subscribe("healthy", &healthy.url, &["limit.rate=1000/s", "limit.burst=1000"]);
    let serving = database.serve();
    let post = |path: &str, body: Value| {
        let answer = serving.post(path, &body.to_string());
        assert!(matches!(answer.status, 200 | 202), "{answer:?}");
        answer.json()
    };
    let done = |job: Value| {
        let path = format!("/v1/jobs/{}", job["id"]);
        serving.until(&path, |job| job["state"] == "done")["done"].as_u64().unwrap()
    };
    let path = "/v1/subscribers/sink/shed";
    emit(&serving, 1_500);
    slow.wait_for(2);
    let plan = post(path, json!({ "all": true, "plan": true }));
    let (waiting, claimed) = (plan["waiting"].as_u64().unwrap(), plan["claimed"].as_u64().unwrap());
    assert_eq!(waiting, 1_500, "{plan}");
    assert!(claimed >= 2 && plan["would_shed"] == waiting - claimed, "{plan}");
    let shed = done(post(path, json!({ "all": true })));
    assert!((1..=1_498).contains(&shed), "{shed}: two are on their way");
    let after = serving.emit("after");
    healthy.wait_for_events(&[after]);
    // Dead deliveries can be redriven.
    let sink = |status: &Value| status["lanes"]["items"][0]["deliveries"].clone();
    let counts = sink(&serving.get("/v1/status").json());
    assert_eq!((&counts["accepted"], &counts["dead_kept"]), (&json!(1_501), &json!(shed)), "{counts}");
    assert_eq!(done(post("/v1/dead/redrive", json!({ "subscriber": "sink" }))), shed);
    let limits = r#"{"limit":{"rate":"10000/s","burst":10000,"in_flight":100}}"#;
    let changed =
        request(&serving.address, "PATCH", "/v1/subscribers/sink", "application/json", limits.as_bytes());
    assert_eq!(changed.status, 200, "{changed:?}");
    drop(answer);
    serving.until("/v1/status", |status| sink(status)["delivered"] == 1_501);
    serving.stop_in_order();
}
