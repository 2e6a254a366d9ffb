use crate::binary::Database;
use crate::binary::endpoint::Endpoint;

#[test]
fn an_endpoint_over_its_target_is_sent_less_and_the_reason_is_told() {
    let endpoint = Endpoint::taking();
    // No answer over a socket is this fast.
    let settings = ["limit.rate=1000/s", "limit.burst=100", "limit.in_flight=4", "pressure.target=1us"];
    let database = Database::with_sink(&endpoint.url, &settings);
    let serving = database.serve();
    for number in 0..40 {
        serving.emit(&number.to_string());
    }
    let lowered = |status: &serde_json::Value| status["lanes"]["items"][0]["here"]["share_percent"] == 10;
    let status = serving.until("/v1/status", lowered);
    let here = &status["lanes"]["items"][0]["here"];
    assert_eq!(here["latency_target_us"], 1, "{here}");
    let changed = &here["share_changed"];
    assert_eq!((&changed["reason"], &changed["target_us"]), (&"latency".into(), &1.into()), "{changed}");
    assert!(changed["text"].as_str().unwrap().ends_with(" over the target 1 µs"), "{changed}");
    let line = serving.wait_for_line("lowered a lane from 100 % to");
    assert!(line.contains("over the target 1 µs") && line.contains("\"latency\""), "{line}");
    assert!(
        serving.figure("hookproof_share") < 0.11 && serving.figure("hookproof_latency_target_seconds") > 0.0
    );
    serving.stop_in_order();
}

#[test]
fn the_latency_baseline_of_an_endpoint_outlives_the_process() {
    let endpoint = Endpoint::taking();
    let database = Database::with_sink(&endpoint.url, &["limit.rate=1000/s", "limit.burst=100"]);
    let usual = |status: &serde_json::Value| status["lanes"]["items"][0]["here"]["latency_usual_us"].is_u64();
    for (events, taken) in [(20, 20), (1, 21)] {
        // One answer is too few for a baseline: the second process has it from the first.
        let serving = database.serve();
        for number in 0..events {
            serving.emit(&format!("{events}-{number}"));
        }
        serving.until("/v1/status", |status| usual(status) && endpoint.count() >= taken);
        serving.stop_in_order();
        assert_eq!(endpoint.count(), taken);
    }
}
