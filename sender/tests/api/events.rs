use axum::body::Body;
use hookproof_sender::event;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{Endpoint, World};

const MANY: &str = "application/x-ndjson";
/// Nobody listens there.
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
async fn what_cannot_be_an_event_is_refused_with_the_field() {
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
        { "subscriber": "full", "why": "as many deliveries wait as may", "retry_after": 5 },
        { "subscriber": "tiny", "why": "the body is larger than all that may wait", "retry_after": null },
    ]);
    assert_eq!((&told["deliveries"], &told["refused"]), (&json!(1), &refused));
    let many = world.call_with("POST", "/v1/events", MANY, event.to_string()).await;
    let line: Value = serde_json::from_str(&many.text).unwrap();
    assert_eq!(
        (many.status.as_u16(), &line["status"], &line["error"]["code"]),
        (207, &json!(429), &json!("full"))
    );
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
async fn what_a_full_subscriber_sheds_is_counted() {
    let world = World::with(None, |options| options.delivers = false).await;
    world.subscribe("small", NOWHERE, json!({ "queue": { "rows": 1 } })).await;
    world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    let second = world.post("/v1/events", json!({ "type": "x", "data": 2 })).await.expect(202);
    assert_eq!((&second["deliveries"], &second["shed"]), (&json!(1), &json!(1)));
    let metrics = world.get("/metrics").await.text;
    assert!(metrics.contains("\nhookproof_shed_total 1\n"), "{metrics}");
    world.stop().await;
}

/// Bytes that are, nearly are, or are not at all an event.
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
