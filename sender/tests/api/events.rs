use axum::body::Body;
use hookproof_sender::event;
use hookproof_sender::sign::Secret;
use hookproof_sender::subscriber::RegionSecrets;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::api::world::{Endpoint, World};

const MANY: &str = "application/x-ndjson";
const NOWHERE: &str = "http://127.0.0.1:9/";

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_taken_and_delivered_as_it_was_offered() {
    let world = World::new().await;
    let mut endpoint = Endpoint::answering(204).await;
    world.subscribe("acme", &endpoint.url, json!({ "events": ["video.*"] })).await;
    let event = r#"{"type": "video.trending", "key": "v1", "data": {"views": 12345678901234567890123}}"#;
    let accepted = world.call("POST", "/v1/events", event).await.expect(202);
    assert!(accepted["id"].as_str().unwrap().starts_with("evt_"), "{accepted}");
    assert_eq!((&accepted["deliveries"], &accepted["duplicates"]), (&json!(1), &json!(0)));
    let (_, body) = endpoint.next().await;
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert!(body.contains(r#"{"views": 12345678901234567890123}"#), "{body}");
    let other = world.post("/v1/events", json!({ "type": "other", "data": 1 })).await.expect(202);
    assert_eq!(other["deliveries"], 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_id_twice_is_one_event() {
    let world = World::new().await;
    world.subscribe("acme", NOWHERE, json!({})).await;
    let event = json!({ "id": "order-1", "type": "a.b", "data": {} });
    let first = world.post("/v1/events", event.clone()).await.expect(202);
    assert_eq!((&first["deliveries"], &first["duplicates"]), (&json!(1), &json!(0)));
    let second = world.post("/v1/events", event).await.expect(202);
    assert_eq!((&second["deliveries"], &second["duplicates"]), (&json!(0), &json!(1)));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_line_of_many_is_answered_by_a_line_in_order_and_spoils_no_other() {
    let world = World::new().await;
    let lines = concat!(
        "{\"id\":\"a\",\"type\":\"x\",\"data\":1}\n",
        "\n",
        "{\"id\":\"b\",\"type\":\"x\"}\r\n",
        "not json\n",
        "{\"id\":\"c\",\"type\":\"x\",\"data\":3}",
    );
    let answer = world.call_with("POST", "/v1/events", MANY, lines).await;
    assert_eq!(answer.status.as_u16(), 207);
    assert_eq!(answer.headers["content-type"], MANY);
    assert_eq!(answer.headers.get("retry-after"), None);
    let lines: Vec<Value> = answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown: Vec<_> = lines
        .iter()
        .map(|line| (line["line"].as_u64().unwrap(), line["id"].as_str(), line["error"]["code"].as_str()))
        .collect();
    let expected = [
        (1, Some("a"), None),
        (3, None, Some("missing_field")),
        (4, None, Some("not_json")),
        (5, Some("c"), None),
    ];
    assert_eq!(shown, expected);
    assert_eq!((&lines[1]["status"], &lines[1]["error"]["field"]), (&json!(422), &json!("data")));
    let all = world.call_with("POST", "/v1/events", MANY, "{\"type\":\"x\",\"data\":1}\n").await;
    assert_eq!(all.status.as_u16(), 202);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_event_is_refused_with_its_field() {
    let limits = event::Limits {
        event_bytes_max: 1_000,
        batch_bytes_max: 3_000,
        batch_events_max: 2,
        ..event::Limits::default()
    };
    let world = World::with(None, |options| options.limits = limits).await;
    let long = json!({ "type": "x", "data": "x".repeat(2_000) }).to_string();
    let deep = format!("{{\"type\":\"x\",\"data\":{}1{}}}", "[".repeat(80), "]".repeat(80));
    let rows = [
        ("", 400, "not_json", None),
        ("{", 400, "not_json", None),
        ("[]", 422, "not_an_object", None),
        ("{}", 422, "missing_field", Some("type")),
        (r#"{"type":"x"}"#, 422, "missing_field", Some("data")),
        (r#"{"type":1,"data":1}"#, 422, "not_text", Some("type")),
        (r#"{"type":"a b","data":1}"#, 422, "type_character", Some("type")),
        (r#"{"type":"hookproof.a","data":1}"#, 422, "type_reserved", Some("type")),
        (r#"{"type":"x","data":1,"date":1}"#, 422, "unknown_field", Some("date")),
        (&long, 413, "body_too_large", None),
        (&deep, 422, "too_deep", None),
    ];
    for (body, status, code, field) in rows {
        world.call("POST", "/v1/events", body.to_owned()).await.refuses(status, code, field);
    }
    let event = "{\"type\":\"x\",\"data\":1}\n";
    let rows = [
        (String::new(), 400, "batch_empty"),
        ("\n\n".to_owned(), 400, "batch_empty"),
        (event.repeat(3), 413, "batch_too_many"),
        ("x".repeat(3_001), 413, "body_too_large"),
    ];
    for (body, status, code) in rows {
        world.call_with("POST", "/v1/events", MANY, body).await.refuses(status, code, None);
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let answer = world.call_with("POST", "/v1/events", kind, event).await;
        answer.refuses(415, "unsupported_media_type", Some("content-type"));
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_subscriber_that_would_rather_refuse_turns_the_emitter_away_and_says_when_to_come_back() {
    let world = World::with(None, |options| options.delivers = false).await;
    world.subscribe("full", NOWHERE, json!({ "queue": { "rows": 1, "when_full": "refuse" } })).await;
    let event = json!({ "type": "x", "data": 1 });
    world.post("/v1/events", event.clone()).await.expect(202);
    let answer = world.post("/v1/events", event.clone()).await;
    answer.refuses(429, "full", None);
    assert_eq!(answer.headers["retry-after"], "5");
    assert!(answer.text.contains("\\\"full\\\""), "it names the subscriber: {}", answer.text);
    let many = world.call_with("POST", "/v1/events", MANY, event.to_string()).await;
    assert_eq!((many.status.as_u16(), &many.headers["retry-after"]), (207, &"5".parse().unwrap()));
    let line: Value = serde_json::from_str(&many.text).unwrap();
    assert_eq!((&line["status"], &line["error"]["code"]), (&json!(429), &json!("full")));
    world.stop().await;
}

/// Three times the default capacity, in batches.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_at_the_defaults_loses_nothing_that_was_acknowledged() {
    const ROWS: u64 = 100;
    let world = World::with(None, |options| options.delivers = false).await;
    world.subscribe("dead", NOWHERE, json!({ "queue": { "rows": ROWS } })).await;
    let batch = "{\"type\":\"x\",\"data\":1}\n".repeat(50);
    let (mut acknowledged, mut refused) = (0, 0);
    for _ in 0..6 {
        let answer = world.call_with("POST", "/v1/events", MANY, batch.clone()).await;
        for line in answer.text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            match line["status"].as_u64() {
                None => acknowledged += line["deliveries"].as_u64().unwrap(),
                status => {
                    assert_eq!((status, &line["error"]["code"]), (Some(429), &json!("full")));
                    assert_eq!(answer.headers["retry-after"], "5");
                    refused += 1;
                }
            }
        }
    }
    let status = world.get("/v1/status").await.expect(200);
    let found = (&status["deliveries"]["waiting"], &status["deliveries"]["dead"]);
    assert_eq!(found, (&json!(acknowledged), &json!(0)), "{acknowledged} were acknowledged");
    assert_eq!((acknowledged, refused), (ROWS, 300 - ROWS));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_some_have_no_room_for_is_answered_with_their_names() {
    let world = World::with(None, |options| options.delivers = false).await;
    world.subscribe("wide", NOWHERE, json!({})).await;
    world.subscribe("full", NOWHERE, json!({ "queue": { "rows": 1, "when_full": "refuse" } })).await;
    world.subscribe("tiny", NOWHERE, json!({ "queue": { "bytes": "120B", "when_full": "refuse" } })).await;
    world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    let event = json!({ "type": "x", "id": "mine", "data": "x".repeat(200) });
    let answer = world.post("/v1/events", event.clone()).await;
    assert_eq!((answer.status.as_u16(), &answer.headers["retry-after"]), (207, &"5".parse().unwrap()));
    let told: Value = serde_json::from_str(&answer.text).unwrap();
    let refused = json!([
        { "subscriber": "full", "why": "its queue has reached queue.rows", "retry_after": 5 },
        { "subscriber": "tiny", "why": "the body is larger than queue.bytes", "retry_after": null },
    ]);
    assert_eq!((&told["deliveries"], &told["refused"]), (&json!(1), &refused));
    let many = world.call_with("POST", "/v1/events", MANY, event.to_string()).await;
    let line: Value = serde_json::from_str(&many.text).unwrap();
    let found = (many.status.as_u16(), &line["deliveries"], &line["duplicates"], &line["refused"]);
    assert_eq!(found, (207, &json!(0), &json!(1), &refused));
    for (atomic, status, code) in
        [(json!(true), 413, "too_large_for_subscriber"), (json!(1), 422, "not_truth")]
    {
        let event = json!({ "type": "x", "data": "x".repeat(200), "atomic": atomic });
        world.post("/v1/events", event).await.refuses(
            status,
            code,
            Some(if status == 413 { "data" } else { "atomic" }),
        );
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_pseudonyms_make_too_long_for_one_subscriber_is_refused_for_that_one() {
    let secret = Secret::parse("a-secret-of-the-region").unwrap();
    let regions = RegionSecrets::default().with("DE".parse().unwrap(), secret);
    let world = World::with(None, |options| (options.delivers, options.regions) = (false, regions)).await;
    let shape = json!({ "pseudonymise": ["creator.id"], "region": "DE" });
    world.subscribe("masked", NOWHERE, json!({ "shape": shape })).await;
    let event = |id: &str| json!({ "type": "x", "id": id, "data": { "creator": { "id": vec![0; 30_000] } } });
    world.post("/v1/events", event("alone")).await.refuses(413, "too_large_for_subscriber", Some("data"));
    world.subscribe("wide", NOWHERE, json!({})).await;
    let answer = world.post("/v1/events", event("mine")).await;
    assert_eq!((answer.status.as_u16(), answer.headers.get("retry-after")), (207, None));
    let refused = json!([
        { "subscriber": "masked", "why": "the body is too long after shaping", "retry_after": null },
    ]);
    assert_eq!((&answer.json()["deliveries"], &answer.json()["refused"]), (&json!(1), &refused));
    let again = world.post("/v1/events", event("mine")).await.expect(207);
    assert_eq!((&again["duplicates"], &again["refused"]), (&json!(1), &refused));
    let mut atomic = event("other");
    atomic["atomic"] = json!(true);
    world.post("/v1/events", atomic).await.refuses(413, "too_large_for_subscriber", Some("data"));
    let status = world.get("/v1/status").await.expect(200);
    assert_eq!(status["deliveries"]["waiting"], 1, "nothing of the atomic one was recorded");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_to_a_batch_does_not_grow_as_its_events_times_the_full_subscribers() {
    const FULL: usize = 200;
    const LINES: usize = 2_000;
    let world = World::with(None, |options| options.delivers = false).await;
    world.subscribe("wide", NOWHERE, json!({ "queue": { "rows": 100_000 } })).await;
    for number in 0..FULL {
        let queue = json!({ "queue": { "rows": 1, "when_full": "refuse" } });
        world.subscribe(&format!("full-{number:03}"), NOWHERE, queue).await;
    }
    world.post("/v1/events", json!({ "type": "x", "data": 0 })).await.expect(202);
    let one = world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(207);
    let listed = |line: &Value| line["refused"].as_array().map_or(0, Vec::len);
    assert_eq!((listed(&one), &one["refused_others"]), (100, &json!(FULL - 100)));
    let batch = "{\"type\":\"x\",\"data\":2}\n".repeat(LINES);
    let answer = world.call_with("POST", "/v1/events", MANY, batch).await;
    assert_eq!((answer.status.as_u16(), &answer.headers["retry-after"]), (207, &"5".parse().unwrap()));
    assert!(answer.text.len() < 2 << 20, "{} bytes", answer.text.len());
    let lines: Vec<Value> = answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), listed(&lines[0]), listed(&lines[LINES - 1])), (LINES, 100, 1));
    for line in &lines {
        let others = usize::try_from(line["refused_others"].as_u64().unwrap()).unwrap();
        assert_eq!((&line["deliveries"], listed(line) + others), (&json!(1), FULL), "{line}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deliveries_that_a_full_subscriber_refuses_are_counted() {
    let world = World::with(None, |options| options.delivers = false).await;
    world.subscribe("small", NOWHERE, json!({ "queue": { "rows": 1 } })).await;
    world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    world.post("/v1/events", json!({ "type": "x", "data": 2 })).await.expect(429);
    world.subscribe("wide", NOWHERE, json!({})).await;
    world.post("/v1/events", json!({ "type": "x", "data": 3 })).await.expect(207);
    let metrics = world.get("/metrics").await.text;
    assert!(metrics.contains("\nhookproof_refused_total 2\n"), "{metrics}");
    assert_eq!(world.get("/v1/status").await.expect(200)["store"]["refused"], 2);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deliveries_that_a_full_subscriber_sheds_are_counted() {
    let world = World::with(None, |options| options.delivers = false).await;
    world.subscribe("small", NOWHERE, json!({ "queue": { "rows": 1, "when_full": "shed-oldest" } })).await;
    world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    let second = world.post("/v1/events", json!({ "type": "x", "data": 2 })).await.expect(202);
    assert_eq!((&second["deliveries"], &second["shed"]), (&json!(1), &json!(1)));
    let metrics = world.get("/metrics").await.text;
    assert!(metrics.contains("\nhookproof_shed_total 1\n"), "{metrics}");
    assert!(metrics.contains("\nhookproof_dead_forgotten_total 0\n"), "{metrics}");
    let status = world.get("/v1/status").await.expect(200);
    assert_eq!((&status["store"]["shed"], &status["deliveries"]["dead_gone"]), (&json!(1), &json!(0)));
    world.stop().await;
}

fn offered() -> impl Strategy<Value = Vec<u8>> {
    let near =
        r#"\{("(id|type|key|data|x)":("[a-z.*\\u{0}-\u{ff}]{0,9}"|[0-9eE.+-]{1,9}|\[*|null),?){0,5}\}?"#;
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        near.prop_map(String::into_bytes),
        proptest::collection::vec(near, 0..5).prop_map(|lines| lines.join("\n").into_bytes()),
    ]
}

#[test]
fn nothing_that_is_posted_as_events_breaks_anything() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(World::new());
    runtime.block_on(world.subscribe("acme", NOWHERE, json!({ "events": ["a.*"] })));
    proptest!(ProptestConfig::with_cases(300), |(bytes in offered(), many: bool)| {
        let kind = if many { MANY } else { "application/json" };
        let answer = runtime.block_on(world.call_with("POST", "/v1/events", kind, Body::from(bytes)));
        prop_assert!(answer.status.as_u16() < 500, "{:?}", answer);
        for line in answer.text.lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            prop_assert!(value["id"].is_string() || value["error"]["code"].is_string(), "{}", value);
        }
    });
    runtime.block_on(world.stop());
}
