//! What machines read: figures, alerts, health, the document.

use std::collections::BTreeSet;

use hookproof_sender::store::Command;
use hookproof_sender::store::command::Change;
use serde_json::json;

use crate::world::{Endpoint, World};

/// All figures that a text names.
fn figures(text: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.split(|letter| !is_part(letter)).filter(|word| word.starts_with("hookproof_")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_figure_that_an_alert_or_the_dashboard_names_is_among_the_metrics() {
    let world = World::new().await;
    let mut endpoint = Endpoint::answering(204).await;
    world.subscribe("acme", &endpoint.url, json!({})).await;
    world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    endpoint.next().await;
    world.until("/v1/status", |status| status["lanes"]["items"][0]["latency_last_day"]["samples"] == 1).await;
    let answer = world.get("/metrics").await;
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let samples = answer.text.lines().filter(|line| !line.starts_with('#'));
    let samples: BTreeSet<_> = samples.map(|line| line.split(['{', ' ']).next().unwrap()).collect();
    for (file, text) in [("alerts", crate::alerts::ALERTS), ("dashboard", crate::alerts::DASHBOARD)] {
        let named = figures(text);
        assert!(named.len() > 10, "{file}: {named:?}");
        let unknown: Vec<_> = named.difference(&samples).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?} in\n{}", answer.text);
    }
    // Where an alert's threshold is no bound of a bucket, it would compare an estimate.
    for bound in ["hookproof_first_attempt_seconds_bucket 0.5", "hookproof_latency_seconds_bucket 2"] {
        let (family, le) = bound.split_once(' ').unwrap();
        let le = format!("le=\"{le}\"}}");
        assert!(answer.text.lines().any(|line| line.starts_with(family) && line.contains(&le)), "{bound}");
    }
    let text = world.get("/metrics").await.text;
    let bucket = "hookproof_latency_seconds_bucket{";
    let buckets: Vec<u64> = text
        .lines()
        .filter(|line| line.starts_with(bucket))
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(buckets.is_sorted() && buckets.last() == Some(&1), "{buckets:?}");
    assert!(text.lines().any(|line| line.starts_with(bucket) && line.ends_with("le=\"+Inf\"} 1")), "{text}");
    let count = text.lines().find(|line| line.starts_with("hookproof_latency_seconds_count")).unwrap();
    assert!(count.ends_with("} 1"), "{count}");
    let shown = world.get("/v1/subscribers/acme").await.expect(200);
    assert_eq!(shown["latency_last_day"]["samples"], 1);
    assert!(shown["latency_last_day"]["p95_us"].as_u64().is_some_and(|p95| p95 > 0), "{shown}");
    let one = answer.text.lines().find(|line| line.starts_with("hookproof_delivered_total")).unwrap();
    assert!(one.contains("name=\"acme\"") && one.ends_with("} 1"), "{one}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_lane_has_its_own_lengths_and_one_that_sent_nothing_has_none() {
    let world = World::new().await;
    let mut endpoint = Endpoint::answering(204).await;
    for (name, events) in [("first", "x"), ("quiet", "y"), ("last", "x")] {
        world.subscribe(name, &endpoint.url, json!({ "events": [events] })).await;
    }
    world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    for _ in 0..2 {
        endpoint.next().await;
    }
    let counted = |status: &serde_json::Value| {
        let lanes = status["lanes"]["items"].as_array().unwrap();
        lanes.iter().filter(|lane| lane["latency_last_day"]["samples"] == 1).count()
    };
    world.until("/v1/status", |status| counted(status) == 2).await;
    let text = world.get("/metrics").await.text;
    for family in ["latency", "first_attempt", "delivery"] {
        let family = format!("hookproof_{family}_seconds_count{{");
        let counts: Vec<&str> = text.lines().filter(|line| line.starts_with(&family)).collect();
        let of =
            |name: &str| counts.iter().filter(|line| line.contains(&format!("name=\"{name}\"}} 1"))).count();
        assert_eq!((counts.len(), of("first"), of("last")), (2, 1, 1), "{counts:?}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_family_is_declared_once_and_its_samples_follow_at_once() {
    let world = World::new().await;
    world.subscribe("a \"quoted\" name", "http://127.0.0.1:9/", json!({})).await;
    let text = world.get("/metrics").await.text;
    let (mut seen, mut family) = (BTreeSet::new(), "");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split(' ').next().unwrap();
            assert!(seen.insert(family), "{family} comes twice");
        } else if !line.starts_with('#') {
            assert!(line.starts_with(family), "{line} under {family}");
            let value = line.rsplit(' ').next().unwrap();
            assert!(value.parse::<f64>().is_ok_and(|value| value >= 0.0), "{line}");
        }
    }
    assert!(text.contains(r#"name="a \"quoted\" name""#), "{text}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_has_stopped_lives_but_is_not_ready() {
    let world = World::new().await;
    assert_eq!(world.get("/readyz").await.expect(200)["status"], "ready");
    assert!(world.sender.stop(crate::world::FOREVER).await);
    assert_eq!(world.get("/healthz").await.expect(200)["status"], "alive");
    let emitted = world.post("/v1/events", json!({ "type": "x", "data": 1 })).await;
    emitted.refuses(503, "store", None);
    assert!(emitted.headers.contains_key("retry-after"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_served() {
    let world = World::new().await;
    let document = world.get("/v1/openapi.json").await.expect(200);
    assert_eq!(document["openapi"], "3.1.0");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_subscriber_is_told_of_everywhere_and_what_it_wants_waits() {
    let world = World::new().await;
    world.subscribe("acme", "http://127.0.0.1:9/", json!({ "events": ["order.*"] })).await;
    world.subscribe("other", "http://127.0.0.1:9/", json!({ "events": ["video.*"] })).await;
    let whom = hookproof_sender::store::read::Whom::Name("acme".into());
    let acme = world.sender.read(move |reader| reader.subscriber(&whom)).await.unwrap().unwrap().unwrap();
    let write = async |settings: &str| {
        let before = world.sender.roster().version();
        let change = Change { settings: Some(settings.into()), ..Change::of(acme.lane) };
        world.sender.command(Command::Change(change)).await.unwrap();
        world.sender.wait_for_roster_after(before).await;
    };
    write(r#"{"shape":{"pseudonymise":["b"],"region":"eu"}}"#).await;

    let event = json!({ "type": "order.paid", "data": { "b": "x" } });
    let refused = world.post("/v1/events", event.clone()).await;
    refused.refuses(503, "broken_subscriber", None);
    assert!(refused.text.contains("acme") && refused.headers.contains_key("retry-after"), "{}", refused.text);
    world.post("/v1/events", json!({ "type": "video.new", "data": 1 })).await.expect(202);
    let status = world.get("/v1/status").await.expect(200);
    assert_eq!((&status["broken"][0]["name"], &status["broken"][1]), (&json!("acme"), &json!(null)));
    let ready = world.get("/readyz").await.expect(200);
    assert_eq!((&ready["status"], &ready["broken_subscribers"]), (&json!("ready"), &json!(1)));
    assert!(!ready.to_string().contains("acme"), "anybody may ask: {ready}");
    assert!(world.get("/v1/subscribers/acme").await.expect(200)["fault"].is_string());

    write("{}").await;
    assert_eq!(world.post("/v1/events", event).await.expect(202)["deliveries"], 1);
    assert_eq!(world.get("/v1/status").await.expect(200)["broken"], json!([]));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_is_for_anybody_and_says_nothing_by_itself() {
    let token = hookproof_sender::api::Token::new("a-token-that-nobody-can-guess").unwrap();
    let world = World::with(Some(token), |_| {}).await;
    let page = world.get("/").await;
    assert_eq!(
        (page.status.as_u16(), page.headers["content-type"].to_str().unwrap()),
        (200, "text/html; charset=utf-8")
    );
    assert!(page.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    world.get("/v1/status").await.refuses(401, "unauthorized", Some("authorization"));
    assert!(world.sender.stop(crate::world::FOREVER).await);
}
