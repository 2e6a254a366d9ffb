use std::convert::Infallible;

use axum::body::Body;
use axum::http::Request;
use futures_util::StreamExt as _;
use futures_util::stream::once;
use hookproof_sender::engine::StoreTime;
use hookproof_sender::store::token::{Scope, StoredToken, TOKENS_MAX};
use hookproof_sender::store::{Command, Reply};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::api::world::{Answer, Endpoint, World};

async fn ask(world: &World, method: &str, path: &str, token: &str, body: &Value) -> Answer {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.header("authorization", format!("Bearer {token}"));
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    world.send(request.body(body).unwrap()).await
}

async fn first(world: &World) -> String {
    let made = world.post("/v1/tokens", json!({ "name": "ann", "scope": "admin" })).await.expect(201);
    made["token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_holds_from_the_answer_on_until_it_is_revoked() {
    let test = "a_token_holds_from_the_answer_on";
    for world in [Some(World::new().await), World::on_postgres(test).await].into_iter().flatten() {
        let ann = first(&world).await;
        world.get("/v1/subscribers").await.refuses(401, "unauthorized", Some("authorization"));
        let new = json!({ "name": "shop", "scope": "emit", "expires_in": "90d" });
        let made = ask(&world, "POST", "/v1/tokens", &ann, &new).await.expect(201);
        let shop = made["token"].as_str().unwrap();
        let event = json!({ "type": "x", "data": 1 });
        ask(&world, "POST", "/v1/events", shop, &event).await.expect(202);
        let listed = ask(&world, "GET", "/v1/tokens", &ann, &Value::Null).await.expect(200);
        assert_eq!(listed["items"].as_array().unwrap().len(), 2);
        let mut told = made.clone();
        told.as_object_mut().unwrap().remove("token");
        assert_eq!(listed["items"][1], told);
        assert_eq!((&told["by"], &told["scope"]), (&json!("token ann"), &json!("emit")));
        assert_eq!(listed["items"][0]["by"], "a client without a token");
        assert_eq!((&listed["items"][0]["expires"], told["expires"].is_string()), (&Value::Null, true));
        ask(&world, "DELETE", "/v1/tokens/shop", &ann, &Value::Null).await.expect(204);
        ask(&world, "POST", "/v1/events", shop, &event).await.refuses(
            401,
            "unauthorized",
            Some("authorization"),
        );
        let again = ask(&world, "DELETE", "/v1/tokens/shop", &ann, &Value::Null).await;
        again.refuses(404, "unknown_token", None);
        ask(&world, "DELETE", "/v1/tokens/ann", &ann, &Value::Null).await.expect(204);
        for shown in [&*ann, "a-token-of-nobody"] {
            let answer = ask(&world, "GET", "/v1/subscribers", shown, &Value::Null).await;
            answer.refuses(401, "unauthorized", Some("authorization"));
        }
        world.get("/v1/subscribers").await.refuses(401, "unauthorized", Some("authorization"));
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_cannot_be_made_is_refused_by_its_field() {
    let world = World::new().await;
    let ann = first(&world).await;
    let rows = [
        (json!({ "scope": "read" }), 422, "bad_name", Some("name")),
        (json!({ "name": "a/b", "scope": "read" }), 422, "bad_name", Some("name")),
        (json!({ "name": "a" }), 422, "bad_scope", Some("scope")),
        (json!({ "name": "a", "scope": "all" }), 422, "bad_scope", Some("scope")),
        (json!({ "name": "a", "scope": "read", "expires_in": "0s" }), 422, "bad_length", Some("expires_in")),
        (json!({ "name": "a", "scope": "read", "expires_in": "90" }), 422, "bad_length", Some("expires_in")),
        (json!({ "name": "a", "scope": "read", "expires": "90d" }), 422, "unknown_field", Some("expires")),
        (
            json!({ "name": "a", "scope": "read", "subscribers": "a" }),
            422,
            "bad_subscribers",
            Some("subscribers"),
        ),
        (
            json!({ "name": "a", "scope": "read", "subscribers": [] }),
            422,
            "bad_subscribers",
            Some("subscribers"),
        ),
        (
            json!({ "name": "a", "scope": "read", "subscribers": ["*"] }),
            422,
            "bad_subscribers",
            Some("subscribers"),
        ),
        (
            json!({ "name": "a", "scope": "read", "subscribers": ["a/b*"] }),
            422,
            "bad_subscribers",
            Some("subscribers"),
        ),
        (json!({ "name": "ann", "scope": "read" }), 409, "name_taken", Some("name")),
    ];
    for (body, status, code, field) in rows {
        println!("{body}");
        ask(&world, "POST", "/v1/tokens", &ann, &body).await.refuses(status, code, field);
    }
    for number in 1..TOKENS_MAX {
        let token = StoredToken {
            name: format!("{number}").into(),
            digest: [0; 32],
            scope: Scope::Read,
            created: StoreTime(0),
            by: "ann".into(),
            expires: None,
            subscribers: None,
        };
        assert_eq!(world.sender.command(Command::CreateToken(token)).await.unwrap(), Reply::Done);
    }
    let body = json!({ "name": "one more", "scope": "read" });
    ask(&world, "POST", "/v1/tokens", &ann, &body).await.refuses(409, "too_many_tokens", None);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_restricted_token_reach_its_subscribers_alone() {
    let world = World::new().await;
    let mut endpoints = Vec::new();
    for name in ["acme-one", "shop", "acme"] {
        let endpoint = Endpoint::answering(204).await;
        world.subscribe(name, &endpoint.url, json!({})).await;
        endpoints.push(endpoint);
    }
    let ann = first(&world).await;
    let new = json!({ "name": "acme", "scope": "emit", "subscribers": ["acme-*"] });
    let made = ask(&world, "POST", "/v1/tokens", &ann, &new).await.expect(201);
    assert_eq!(made["subscribers"], json!(["acme-*"]));
    let lines = "{\"id\":\"one\",\"type\":\"x\",\"data\":1}\n{\"type\":\"x\",\"data\":2}\n";
    let request = Request::post("/v1/events").header("content-type", "application/x-ndjson");
    let request = request.header("authorization", format!("Bearer {}", made["token"].as_str().unwrap()));
    let answer = world.send(request.body(Body::from(lines)).unwrap()).await;
    assert_eq!(
        (answer.status.as_u16(), answer.text.matches("\"deliveries\":1").count()),
        (202, 2),
        "{answer:?}"
    );
    let again = json!({ "id": "one", "type": "x", "data": 3 });
    let told = ask(&world, "POST", "/v1/events", &ann, &again).await.expect(202);
    assert_eq!((&told["deliveries"], &told["duplicates"]), (&json!(2), &json!(1)));
    for (endpoint, expected) in endpoints.iter_mut().zip([&[1, 2][..], &[3], &[3]]) {
        let mut data = Vec::new();
        for _ in expected {
            let body: Value = serde_json::from_slice(&endpoint.next().await.1).unwrap();
            data.push(body["data"].as_u64().unwrap());
        }
        data.sort_unstable();
        assert_eq!(data, expected);
    }
    world.stop().await;
    for endpoint in &mut endpoints {
        assert!(endpoint.arrived.try_recv().is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rename_during_a_body_takes_the_subscriber_out_of_a_tokens_restriction() {
    let world = World::new().await;
    let endpoint = Endpoint::answering(204).await;
    let id = world.subscribe("acme-one", &endpoint.url, json!({})).await;
    let ann = first(&world).await;
    let new = json!({ "name": "acme", "scope": "admin", "subscribers": ["acme-*"] });
    let made = ask(&world, "POST", "/v1/tokens", &ann, &new).await.expect(201);
    let acme = made["token"].as_str().unwrap();
    ask(&world, "POST", "/v1/events", acme, &json!({ "type": "x", "data": 1 })).await.expect(202);
    let listed = ask(&world, "GET", "/v1/deliveries", acme, &Value::Null).await.expect(200);
    let delivery = listed["items"][0]["id"].as_str().unwrap();
    let replay = json!({ "since": "2020-01-01T00:00:00Z" });
    let job = ask(&world, "POST", &format!("/v1/subscribers/{id}/replay"), acme, &replay).await.expect(202);
    let shown = format!("/v1/subscribers/{id}");
    let rename =
        async |name: &str| ask(&world, "PATCH", &shown, &ann, &json!({ "name": name })).await.expect(200);
    let since = r#""since":"2020-01-01T00:00:00Z"}"#;
    for (path, rest) in [
        (format!("{shown}/pause"), "}"),
        (format!("{shown}/resume"), "}"),
        (format!("{shown}/retry"), "}"),
        (format!("{shown}/rotate"), "}"),
        (format!("{shown}/test"), "}"),
        (format!("{shown}/plan"), "}"),
        (format!("{shown}/shed"), r#""all":true}"#),
        (format!("{shown}/replay"), since),
        (format!("/v1/deliveries/{delivery}/retry"), "}"),
        (format!("/v1/deliveries/{delivery}/resend"), "}"),
        (format!("/v1/jobs/{}/cancel", job["id"]), "}"),
    ] {
        let (tell, told) = oneshot::channel();
        let (send, sent) = oneshot::channel();
        let begun = once(async move {
            tell.send(()).unwrap();
            Ok::<_, Infallible>("{")
        });
        let body = begun.chain(once(async move { Ok(sent.await.unwrap()) }));
        let request = Request::post(&path).header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {acme}"));
        let asked = world.send(request.body(Body::from_stream(body)).unwrap());
        let moved = async {
            told.await.unwrap();
            let before = rename("moved").await;
            send.send(rest).unwrap();
            before
        };
        let (answer, before) = tokio::join!(asked, moved);
        assert_eq!(answer.status.as_u16(), 404, "{path}: {answer:?}");
        let after = ask(&world, "GET", &shown, &ann, &Value::Null).await.expect(200);
        assert_eq!((&after["state"], &after["version"]), (&json!("active"), &before["version"]), "{path}");
        rename("acme-one").await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_token_finds_its_event_behind_any_number_of_others() {
    let world = World::new().await;
    for name in ["acme-one", "shop"] {
        let id = world.subscribe(name, "http://127.0.0.1:9/", json!({})).await;
        world.post(&format!("/v1/subscribers/{id}/pause"), json!({})).await.expect(200);
    }
    let ann = first(&world).await;
    let mut tokens = Vec::new();
    for name in ["acme-*", "shop"] {
        let new = json!({ "name": &name[..4], "scope": "admin", "subscribers": [name] });
        let made = ask(&world, "POST", "/v1/tokens", &ann, &new).await.expect(201);
        tokens.push(made["token"].as_str().unwrap().to_owned());
    }
    for token in &tokens {
        let event = json!({ "id": "both", "type": "x", "data": 1 });
        ask(&world, "POST", "/v1/events", token, &event).await.expect(202);
    }
    let lines = "{\"type\":\"x\",\"data\":1}\n".repeat(1_000);
    for _ in 0..11 {
        let request = Request::post("/v1/events").header("content-type", "application/x-ndjson");
        let request = request.header("authorization", format!("Bearer {}", tokens[1]));
        let answer = world.send(request.body(Body::from(lines.clone())).unwrap()).await;
        assert_eq!(answer.status.as_u16(), 202, "{answer:?}");
    }
    for (token, expected) in [(&tokens[0], 1), (&tokens[1], 1), (&ann, 2)] {
        let found = ask(&world, "GET", "/v1/deliveries?event=both", token, &Value::Null).await.expect(200);
        assert_eq!(found["items"].as_array().unwrap().len(), expected, "{found}");
    }
    world.stop().await;
}
