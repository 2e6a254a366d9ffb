use std::sync::Arc;

use axum::Router;
use hookproof_sender::engine::contract::Rate;
use hookproof_sender::sign::Keys;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::api::world::{Answer, Endpoint, World, listen};

const URL: &str = "http://127.0.0.1:9/hook";

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_is_added_and_its_secret_is_shown_once() {
    let world = World::new().await;
    let body = json!({ "name": "acme", "url": URL, "events": ["video.*"], "limit": { "rate": "50/s" } });
    let answer = world.post("/v1/subscribers", body).await;
    let location = answer.headers["location"].to_str().unwrap().to_owned();
    let added = answer.expect(201);
    let secret = added["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_"));
    assert_eq!(location, format!("/v1/subscribers/{}", added["id"].as_str().unwrap()));
    assert_eq!((&added["events"], &added["state"]), (&json!(["video.*"]), &json!("active")));
    assert_eq!((&added["limit"]["rate"], &added["limit"]["burst"]), (&json!("50/s"), &json!(10)));
    let id = added["id"].as_str().unwrap();
    for whom in ["acme", id] {
        let shown = world.get(&format!("/v1/subscribers/{whom}")).await.expect(200);
        assert_eq!((&shown["id"], &shown["secret"]), (&added["id"], &Value::Null));
    }
    world.post("/v1/events", json!({ "type": "video.new", "data": 1 })).await.expect(202);
    world.call("PATCH", "/v1/subscribers/acme", r#"{"timeout":"3s"}"#).await.expect(200);
    let delivery = world.get("/v1/deliveries").await.expect(200)["items"][0]["id"].clone();
    let delivery = format!("/v1/deliveries/{}", delivery.as_str().unwrap());
    let paths =
        ["/v1/subscribers", &location, "/v1/deliveries", &delivery, "/v1/status", "/v1/dead", "/metrics"];
    let core = secret.strip_prefix("whsec_").unwrap();
    for path in paths {
        let text = world.get(path).await.text;
        assert!(!text.contains(core), "{path} shows the secret: {text}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_are_listed_page_by_page() {
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        world.subscribe(name, URL, json!({})).await;
    }
    let names = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    let first = world.get("/v1/subscribers?limit=2").await.expect(200);
    assert_eq!(names(&first), ["a", "b"]);
    let next = first["next"].as_str().unwrap();
    let second = world.get(&format!("/v1/subscribers?limit=2&cursor={next}")).await.expect(200);
    assert_eq!((names(&second), &second["next"]), (vec!["c".to_owned()], &Value::Null));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_replaces_what_it_names_and_holds_at_once() {
    let world = World::new().await;
    let settings = json!({ "limit": { "rate": "1/s", "burst": 3 }, "events": ["a"] });
    world.subscribe("acme", URL, settings).await;
    let change = json!({ "limit": { "rate": "90/s" }, "events": ["b"], "name": "acme-2" });
    let changed = world.call("PATCH", "/v1/subscribers/acme", change.to_string()).await.expect(200);
    assert_eq!((&changed["limit"]["rate"], &changed["limit"]["burst"]), (&json!("90/s"), &json!(3)));
    assert_eq!((&changed["name"], &changed["url"]), (&json!("acme-2"), &json!(URL)));
    let roster = world.sender.roster();
    let known = roster.subscribers().next().unwrap();
    assert_eq!(
        known.settings().contract().bucket().rate(),
        Rate::per_second(90).unwrap(),
        "known here before it is answered"
    );
    let event = json!({ "type": "b", "data": 1 });
    assert_eq!(world.post("/v1/events", event).await.expect(202)["deliveries"], 1);
    let back = r#"{"limit":{"rate":null}}"#;
    let changed = world.call("PATCH", "/v1/subscribers/acme-2", back).await.expect(200);
    assert_eq!((&changed["limit"]["rate"], &changed["limit"]["burst"]), (&json!("5/s"), &json!(3)));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_what_was_changed_meanwhile_is_refused() {
    let world = World::new().await;
    let id = world.subscribe("acme", URL, json!({})).await;
    let path = format!("/v1/subscribers/{id}");
    let version = world.get(&path).await.expect(200)["version"].as_u64().unwrap();
    let change = json!({ "timeout": "3s", "version": version }).to_string();
    world.call("PATCH", &path, change.clone()).await.expect(200);
    world.call("PATCH", &path, change).await.refuses(409, "changed_meanwhile", Some("version"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_cannot_be_is_refused_with_the_field() {
    let world = World::new().await;
    world.subscribe("taken", URL, json!({})).await;
    let with = |more: Value| {
        let mut body = json!({ "name": "acme", "url": URL });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let rows = [
        (json!({ "name": "acme" }), 422, "missing_field", Some("url")),
        (json!({ "url": URL }), 422, "missing_field", Some("name")),
        (with(json!({ "name": "taken" })), 409, "name_taken", Some("name")),
        (with(json!({ "name": 1 })), 422, "not_text", Some("name")),
        (with(json!({ "name": "a/b" })), 422, "bad_name", Some("name")),
        (with(json!({ "url": "ftp://a.example" })), 422, "url_scheme", Some("url")),
        (with(json!({ "url": "http://169.254.169.254/" })), 422, "url_refused", Some("url")),
        (with(json!({ "events": [] })), 422, "bad_events", Some("events")),
        (with(json!({ "events": ["a*"] })), 422, "bad_events", Some("events")),
        (with(json!({ "limit": { "rat": "5/s" } })), 422, "unknown_field", Some("limit.rat")),
        (with(json!({ "limit": { "rate": "5" } })), 422, "unreadable_field", Some("limit.rate")),
        (with(json!({ "limit": { "burst": 0 } })), 422, "out_of_range", Some("limit.burst")),
        (with(json!({ "secret": "short" })), 422, "bad_secret", Some("secret")),
        (with(json!({ "colour": "red" })), 422, "unknown_field", Some("colour")),
        (json!([]), 422, "not_an_object", None),
    ];
    for (body, status, code, field) in rows {
        let shown = body.to_string();
        let answer = world.post("/v1/subscribers", body).await;
        println!("{shown}");
        answer.refuses(status, code, field);
    }
    let long = json!({ "name": "x".repeat(300_000) });
    world.post("/v1/subscribers", long).await.refuses(413, "body_too_large", None);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_subscriber_gets_nothing_until_it_is_resumed() {
    let world = World::new().await;
    let mut endpoint = Endpoint::answering(204).await;
    world.subscribe("acme", &endpoint.url, json!({})).await;
    let paused = world.call("POST", "/v1/subscribers/acme/pause", "").await.expect(200);
    assert_eq!(paused["state"], "paused");
    let event = world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    assert_eq!(event["deliveries"], 1, "it is recorded all the same");
    assert!(endpoint.arrived.try_recv().is_err());
    let resumed = world.call("POST", "/v1/subscribers/acme/resume", "").await.expect(200);
    assert_eq!((&resumed["state"], &resumed["pause"]), (&json!("active"), &json!(null)));
    endpoint.next().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_subscriber_is_gone_and_its_name_is_free() {
    let world = World::new().await;
    let id = world.subscribe("acme", URL, json!({})).await;
    let answer = world.call("DELETE", "/v1/subscribers/acme", "").await;
    assert_eq!((answer.status.as_u16(), &*answer.text), (204, ""));
    for (method, path) in
        [("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/rotate")]
    {
        for whom in ["acme", &id] {
            let answer = world.call(method, &format!("/v1/subscribers/{whom}{path}"), "{}").await;
            answer.refuses(404, "unknown_subscriber", Some("subscriber"));
        }
    }
    let event = world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    assert_eq!(event["deliveries"], 0);
    world.subscribe("acme", URL, json!({})).await;
    world.stop().await;
}

async fn carries_headers_of_its_own(world: World) {
    let mut endpoint = Endpoint::answering(204).await;
    let own = |header: &str| json!({ "headers": [header] });
    world.subscribe("acme", &endpoint.url, own("X-Team: orders")).await;
    for (changed, expected) in [(None, "orders"), (Some(own("X-Team: payments")), "payments")] {
        if let Some(changed) = changed {
            world.call("PATCH", "/v1/subscribers/acme", changed.to_string()).await.expect(200);
        }
        world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
        let (headers, _) = endpoint.next().await;
        assert_eq!(headers["x-team"], expected);
        assert!(headers.contains_key("webhook-signature"));
    }
    for (headers, code, field) in [
        (json!(["Host: elsewhere"]), "unreadable_field", "headers[0]"),
        (json!(["A: 1", "Webhook-Id: 1"]), "unreadable_field", "headers[1]"),
        (json!(["A: 1\r\nB: 2"]), "unreadable_field", "headers[0]"),
        (json!(["A: 1", "a: 2"]), "contradiction", "headers"),
    ] {
        let patch = json!({ "headers": headers }).to_string();
        world.call("PATCH", "/v1/subscribers/acme", patch).await.refuses(422, code, Some(field));
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_carry_the_headers_of_their_subscriber() {
    carries_headers_of_its_own(World::new().await).await;
    if let Some(world) = World::on_postgres("attempts_carry_the_headers_of_their_subscriber").await {
        carries_headers_of_its_own(world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_secret_is_shown_once_and_the_old_one_signs_beside_it() {
    let world = World::new().await;
    let mut endpoint = Endpoint::answering(204).await;
    world.subscribe("acme", &endpoint.url, json!({})).await;
    let path = "/v1/subscribers/acme/rotate";
    let rotated = world.call("POST", path, r#"{"overlap":"1h"}"#).await.expect(200);
    assert!(rotated["secret"].as_str().unwrap().starts_with("whsec_"));
    world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    let (headers, _) = endpoint.next().await;
    let signatures = headers["webhook-signature"].to_str().unwrap();
    assert_eq!(signatures.split(' ').count(), 2, "{signatures}");
    let rows = [
        (r#"{"overlap":"1000d"}"#, "bad_length", "overlap"),
        (r#"{"secret":"x"}"#, "bad_secret", "secret"),
        (r#"{"secrets":"x"}"#, "unknown_field", "secrets"),
        (r#"{"secret":"a-plain-text-that-is-long-enough"}"#, "bad_secret", "secret"),
    ];
    for (body, code, field) in rows {
        world.call("POST", path, body).await.refuses(422, code, Some(field));
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_private_key_comes_with_its_public_one() {
    let world = World::new().await;
    for (sign, length) in [("discord", 64), ("plaid", 204), ("sendgrid", 124)] {
        let subscriber = json!({ "name": sign, "url": URL, "sign": sign });
        let (path, rotate) = (format!("/v1/subscribers/{sign}"), format!("/v1/subscribers/{sign}/rotate"));
        let added = world.post("/v1/subscribers", subscriber).await.expect(201);
        let rotated = world.post(&rotate, json!({})).await.expect(200);
        for answer in [&added, &rotated] {
            assert_eq!(answer["public_key"].as_str().map(str::len), Some(length), "{answer}");
            assert!(answer["secret"].as_str().unwrap().starts_with("whsk_"), "{answer}");
        }
        assert_ne!(added["public_key"], rotated["public_key"]);
        let shown = world.get(&path).await.expect(200);
        assert_eq!(shown["public_key"], rotated["public_key"], "{shown}");
        assert_eq!(shown.get("secret"), None);
        let public = json!({ "secret": added["public_key"] });
        world.post(&rotate, public).await.refuses(422, "bad_secret", Some("secret"));
    }
    let slack = json!({ "name": "other", "url": URL, "sign": "slack" });
    assert_eq!(world.post("/v1/subscribers", slack).await.expect(201).get("public_key"), None);
    assert_eq!(world.get("/v1/subscribers/other").await.expect(200).get("public_key"), None);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_secret_is_of_the_old_ones_kind() {
    let world = World::new().await;
    let p256 = "MEECAQAwEwYHKoZIzj0CAQYIKoZIzj0DAQcEJzAlAgEBBCAAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHw==";
    let ed25519 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    for (name, secret, algorithm) in [("p", p256, "ES256"), ("e", ed25519, "EdDSA")] {
        let secret = format!("whsk_{secret}");
        let subscriber = json!({ "name": name, "url": URL, "sign": "rfc9421", "secret": secret });
        let added = world.post("/v1/subscribers", subscriber).await.expect(201);
        let path = format!("/v1/subscribers/{name}/rotate");
        for answer in [added, world.post(&path, json!({})).await.expect(200)] {
            let public = answer["public_key"].as_str().unwrap_or_default();
            assert!(public.contains(algorithm), "{answer}");
        }
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_secrets_as_are_ever_live_sign_together() {
    let world = World::new().await;
    world.subscribe("acme", URL, json!({})).await;
    let rotate = |overlap: &'static str| world.call("POST", "/v1/subscribers/acme/rotate", overlap);
    let mut live = 1;
    let refused = loop {
        let answer = rotate(r#"{"overlap":"1h"}"#).await;
        if answer.status != 200 {
            break answer;
        }
        live += 1;
    };
    refused.refuses(409, "too_many_secrets", None);
    let event = json!({ "type": "x", "data": 1 });
    assert_eq!(world.post("/v1/events", event).await.expect(202)["deliveries"], 1);
    assert_eq!(live, Keys::COUNT_MAX);
    // As after a leak: all old secrets may retire at once, regardless of their number.
    rotate(r#"{"overlap":"0s"}"#).await.expect(200);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_tells_what_the_endpoint_answered() {
    let world = World::new().await;
    for status in [204, 403] {
        let mut endpoint = Endpoint::answering(status).await;
        let name = format!("acme-{status}");
        world.subscribe(&name, &endpoint.url, json!({ "events": ["order.*"] })).await;
        let path = format!("/v1/subscribers/{name}/test");
        let tried = world.call("POST", &path, "").await.expect(200);
        assert_eq!(tried["status"], status);
        assert_eq!(tried["place"] == "delivered", status == 204, "{tried}");
        assert!(tried["latency_us"].as_u64().is_some_and(|latency| latency > 0), "{tried}");
        let (headers, body) = endpoint.next().await;
        assert!(headers.contains_key("webhook-signature"));
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&body["type"], &body["data"]), (&json!("order.test"), &json!({ "test": true })));
    }
    let path = "/v1/subscribers/acme-204/test";
    let own = json!({ "type": "order.paid", "data": [1] });
    assert_eq!(world.post(path, own).await.expect(200)["place"], "delivered");
    world.post(path, json!({ "type": "video.new" })).await.refuses(409, "not_to_be_tested", None);
    world.post(path, json!({ "type": 5 })).await.refuses(422, "not_text", Some("type"));
    world.post(path, json!({ "kind": "x" })).await.refuses(422, "unknown_field", Some("kind"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_of_an_endpoint_that_does_not_answer_tells_where_to_ask_on() {
    let world = World::new().await;
    let answers = Arc::new(Notify::new());
    let answer = Arc::clone(&answers);
    let router = Router::new().fallback(async move || answer.notified().await);
    let url = format!("http://{}/", listen(router, std::future::pending()).await);
    world.subscribe("acme", &url, json!({ "retry": { "attempts": 1 } })).await;
    for body in ["", r#"{"wait":"0s"}"#] {
        // The endpoint answers only after the API does.
        let accepted = world.call("POST", "/v1/subscribers/acme/test", body).await;
        let location = accepted.headers["location"].to_str().unwrap().to_owned();
        let accepted = accepted.expect(202);
        assert_eq!(location, format!("/v1/deliveries/{}", accepted["id"].as_str().unwrap()));
        let [place, status, latency] = ["place", "status", "latency_us"].map(|field| &accepted[field]);
        assert_eq!((place, status, latency), (&json!("waiting"), &Value::Null, &Value::Null));
        answers.notify_one();
        let tried = world.until(&location, |value| value["state"] == "delivered").await;
        assert_eq!(tried["tried"][0]["status"], 200);
    }
    let path = "/v1/subscribers/acme/test";
    for wait in [json!("21s"), json!("soon"), json!(1), Value::Null] {
        world.post(path, json!({ "wait": wait })).await.refuses(422, "bad_length", Some("wait"));
    }
    world.stop().await;
}

#[test]
fn nothing_that_is_said_of_a_subscriber_breaks_anything() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(World::new());
    runtime.block_on(world.subscribe("acme", URL, json!({})));
    let value = r#""[a-z0-9/:.*\\u{e9} ]{0,12}"|-?[0-9]{1,20}|null|\[\]|\{\}|\["[a-z.*]{0,5}"\]|true"#;
    let name = "name|url|events|limit|queue|retry|sign|secret|version|timeout|shape|coalesce|[a-z]{1,5}";
    let field = (name, value).prop_map(|(name, value)| format!("\"{name}\":{value}"));
    let body = proptest::collection::vec(field, 0..4).prop_map(|fields| format!("{{{}}}", fields.join(",")));
    let path = prop_oneof![Just("/v1/subscribers".to_owned()), Just("/v1/subscribers/acme".to_owned())];
    proptest!(ProptestConfig::with_cases(200), |(body in body, path in path)| {
        let method = if path.ends_with("acme") { "PATCH" } else { "POST" };
        let answer: Answer = runtime.block_on(world.call(method, &path, body));
        prop_assert!(answer.status.as_u16() < 500, "{:?}", answer);
        prop_assert!(answer.status.is_success() || answer.json()["error"]["code"].is_string());
        if answer.status.is_success() && method == "PATCH" {
            let id = answer.json()["id"].as_str().unwrap().to_owned();
            let back = runtime.block_on(world.call("PATCH", &format!("/v1/subscribers/{id}"), r#"{"name":"acme"}"#));
            prop_assert!(back.status.is_success(), "{:?}", back);
        }
    });
    runtime.block_on(world.stop());
}

async fn a_pause_has_a_reason_and_an_end(world: World) {
    world.subscribe("acme", URL, json!({})).await;
    let path = "/v1/subscribers/acme/pause";
    let hour = world.post(path, json!({ "for": "1h" })).await.expect(200);
    let until = hour["pause"]["until"].as_str().unwrap();
    let paused = world.post(path, json!({ "reason": "move", "until": until })).await.expect(200);
    assert_eq!(paused["pause"], json!({ "reason": "move", "until": until }));
    let shown = world.get("/v1/subscribers/acme").await.expect(200);
    let reason = format!("an operator paused it (move) until {until}");
    assert_eq!((&shown["flow"]["reason"], &shown["flow"]["until"]), (&json!(reason), &json!(until)));
    assert_eq!(world.get("/v1/status").await.expect(200)["held_up"][0]["reason"], json!(reason));
    let again = world.post(path, json!({ "reason": "move", "until": until })).await.expect(200);
    assert_eq!(again["version"], paused["version"], "nothing changes");
    let rows = [
        (json!({ "reason": "" }), "bad_pause", "reason"),
        (json!({ "reason": "x".repeat(201) }), "bad_pause", "reason"),
        (json!({ "for": "0s" }), "bad_pause", "for"),
        (json!({ "for": "366d" }), "bad_length", "for"),
        (json!({ "until": "2020-01-01T00:00:00Z" }), "bad_pause", "until"),
        (json!({ "until": "soon" }), "bad_pause", "until"),
        (json!({ "for": "1h", "until": until }), "bad_pause", "until"),
        (json!({ "hours": 1 }), "unknown_field", "hours"),
    ];
    for (body, code, field) in rows {
        world.post(path, body).await.refuses(422, code, Some(field));
    }
    let open = world.post(path, json!({})).await.expect(200);
    assert_eq!(open["pause"], json!({ "reason": null, "until": null }));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_says_its_reason_and_its_end() {
    a_pause_has_a_reason_and_an_end(World::new().await).await;
    if let Some(world) = World::on_postgres("a_pause_says_its_reason_and_its_end").await {
        a_pause_has_a_reason_and_an_end(world).await;
    }
}
