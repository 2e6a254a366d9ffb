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
fn a_backlog_is_given_up_by_plan_while_it_is_sent_and_can_be_sent_after_all() {
    let (answer, word) = channel::<()>();
    let (slow, healthy) = (waiting_for(word), Endpoint::taking());
    let database = Database::with_sink(&slow.url, &["limit.in_flight=2", "limit.burst=4", "timeout=2min"]);
    database.subscribe("healthy", &healthy.url, &["limit.rate=1000/s", "limit.burst=1000"]);
    let serving = database.serve();
    let post = |body: Value| {
        let answer = serving.post("/v1/subscribers/sink/shed", &body.to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    emit(&serving, 1_500);
    slow.wait_for(2);
    let plan = post(json!({ "all": true, "plan": true }));
    let (waiting, claimed) = (plan["waiting"].as_u64().unwrap(), plan["claimed"].as_u64().unwrap());
    assert_eq!(waiting, 1_500, "{plan}");
    assert!(claimed >= 2 && plan["would_shed"] == waiting - claimed, "{plan}");
    let shed = post(json!({ "all": true }))["shed"].as_u64().unwrap();
    assert!((1..=1_498).contains(&shed), "{shed}: two are on their way");
    let after = serving.emit("after");
    healthy.wait_for_events(&[after]);
    // Dead deliveries can be redriven.
    let sink = |status: &Value| status["lanes"]["items"][0]["deliveries"].clone();
    let counts = sink(&serving.get("/v1/status").json());
    assert_eq!((&counts["accepted"], &counts["dead_kept"]), (&json!(1_501), &json!(shed)), "{counts}");
    let redriven = serving.post("/v1/dead/redrive", r#"{"subscriber":"sink"}"#).json();
    assert_eq!(redriven["redriven"], shed);
    let limits = r#"{"limit":{"rate":"10000/s","burst":10000,"in_flight":100}}"#;
    let changed =
        request(&serving.address, "PATCH", "/v1/subscribers/sink", "application/json", limits.as_bytes());
    assert_eq!(changed.status, 200, "{changed:?}");
    drop(answer);
    serving.until("/v1/status", |status| sink(status)["delivered"] == 1_501);
    serving.stop_in_order();
}
