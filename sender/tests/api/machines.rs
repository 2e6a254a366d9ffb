use std::collections::BTreeSet;

use axum::Router;
use axum::http::StatusCode;
use futures_util::future::try_join_all;
use hookproof_sender::sign::{Profile, Secret};
use hookproof_sender::store::command::{Change, Subscribe};
use hookproof_sender::store::lane::{self, Bounds, WhenFull};
use hookproof_sender::store::{Command, Reply};
use serde_json::json;
use tokio::time::timeout;

use crate::api::world::{Endpoint, FOREVER, World, listen};

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
    for (file, text) in [("alerts", crate::api::alerts::ALERTS), ("dashboard", crate::api::alerts::DASHBOARD)]
    {
        let named = figures(text);
        assert!(named.len() > 10, "{file}: {named:?}");
        let unknown: Vec<_> = named.difference(&samples).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?} in\n{}", answer.text);
    }
    // Between two bounds of a bucket a threshold would compare an estimate.
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
    assert!(world.sender.stop(crate::api::world::FOREVER).await);
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
    let whom = hookproof_sender::store::read::SubscriberRef::Name("acme".into());
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
    assert!(world.sender.stop(crate::api::world::FOREVER).await);
}

fn names<'a>(text: &'a str, family: &str) -> Vec<&'a str> {
    let samples = text.lines().filter(|line| line.split('{').next() == Some(family));
    samples.map(|line| line.split_once("name=\"").unwrap().1.split('"').next().unwrap()).collect()
}

/// Names are as long as the limit on the answer allows for.
fn numbered(number: usize, url: &str, event_type: &str) -> Command {
    Command::Subscribe(Subscribe {
        id: format!("sub_{number:026}").into(),
        name: format!("subscriber-{number:013}").into(),
        url: url.into(),
        patterns: format!("[\"{event_type}\"]").into(),
        settings: "{}".into(),
        bounds: Bounds { rows_max: 100_000, bytes_max: 1 << 30, when_full: WhenFull::Refuse },
        secret: lane::Secret::new(Secret::generate(Profile::default(), &[7; Secret::RANDOM_BYTES]).reveal()),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn of_ten_thousand_subscribers_those_in_need_have_figures_and_the_answer_stays_short() {
    const SUBSCRIBERS: usize = 10_000;
    /// More than the metrics show, so that each shown subscriber has every figure.
    const SENT_TO: usize = 152;
    const BYTES_MAX: usize = 1_000_000;
    let world = World::new().await;
    let endpoint = Router::new()
        .route("/gone", axum::routing::any(async || StatusCode::GONE))
        .route("/broken", axum::routing::any(async || StatusCode::INTERNAL_SERVER_ERROR));
    let url = format!("http://{}", listen(endpoint.fallback(async || ()), std::future::pending()).await);
    for first in (2..SUBSCRIBERS).step_by(1_000) {
        let numbers = first..(first + 1_000).min(SUBSCRIBERS);
        let wants = |number: usize| if number < SENT_TO { "x" } else { "y" };
        let commands = numbers.map(|number| numbered(number, &format!("{url}/"), wants(number)));
        let replies = try_join_all(commands.map(|command| world.sender.command(command))).await.unwrap();
        assert!(replies.iter().all(|reply| matches!(reply, Reply::Subscribed { .. })), "{replies:?}");
    }
    // The metrics show the newest only because it is in need.
    world.subscribe("gone", &format!("{url}/gone"), json!({})).await;
    let fails = json!({ "breaker": { "failures": 1, "failures_when_slow": 1 }, "retry": { "attempts": 3 } });
    world.subscribe("broken", &format!("{url}/broken"), fails).await;
    world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    let sent = |status: &serde_json::Value| {
        let counts = &status["deliveries"];
        counts["delivered"] == SENT_TO - 2 && counts["dead"] == 1 && counts["failed_attempts"] == 2
    };
    world.until("/v1/status?limit=1", sent).await;
    // Latencies are written a little later.
    let all_counted = ["hookproof_all_latency_seconds_count 152", "hookproof_all_delivery_seconds_count 150"];
    let counted = async {
        loop {
            let text = world.get("/metrics").await.text;
            if all_counted.iter().all(|line| text.lines().any(|found| found == *line)) {
                return text;
            }
        }
    };
    let text = timeout(FOREVER, counted).await.unwrap();
    println!("{} bytes", text.len());
    assert!(text.len() <= BYTES_MAX, "{} bytes", text.len());
    let shown = names(&text, "hookproof_waiting");
    assert_eq!((shown.len(), shown[98], shown[99]), (100, "gone", "broken"));
    // Of two with the same backlog, the metrics show the older.
    assert_eq!(shown[..98], (2..100).map(|number| format!("subscriber-{number:013}")).collect::<Vec<_>>());
    assert_eq!(names(&text, "hookproof_delivery_seconds_count").len(), 100);
    for line in [
        "hookproof_all_delivered_total 150",
        "hookproof_all_failed_attempts_total 2",
        "hookproof_all_dead 1",
        "hookproof_all_waiting 1",
        "hookproof_subscribers_in_need{need=\"breaker_open\"} 1",
        "hookproof_subscribers_in_need{need=\"disabled\"} 1",
        "hookproof_subscribers_left_out{attention=\"true\"} 0",
        "hookproof_subscribers_left_out{attention=\"false\"} 9900",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line}");
    }
    let all = world.get("/metrics?lanes=all").await.text;
    assert_eq!(names(&all, "hookproof_waiting").len(), SUBSCRIBERS);
    world.get("/metrics?lanes=some").await.refuses(400, "bad_parameter", Some("lanes"));
    world.stop().await;
}
