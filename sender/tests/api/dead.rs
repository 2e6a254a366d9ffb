use serde_json::{Value, json};

use crate::api::world::{Endpoint, World};

async fn with_dead(count: usize, status: u16) -> (World, Endpoint) {
    let world = World::new().await;
    let endpoint = Endpoint::answering(status).await;
    let settings = json!({
        "limit": { "rate": "1000/s", "burst": 1000, "in_flight": 100 },
        "retry": { "attempts": 1 },
        "breaker": { "failures": 1000, "failures_when_slow": 1000 },
        "pressure": { "failures_percent": 100 },
    });
    world.subscribe("acme", &endpoint.url, settings).await;
    for number in 0..count {
        world.post("/v1/events", json!({ "type": "x", "data": number })).await.expect(202);
    }
    let all = |page: &Value| page["items"].as_array().is_some_and(|items| items.len() == count);
    world.until("/v1/dead?limit=1000", all).await;
    (world, endpoint)
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_with_their_reasons_and_understood() {
    let (world, _endpoint) = with_dead(5, 401).await;
    let page = world.get("/v1/dead?subscriber=acme&limit=2").await.expect(200);
    let letter = &page["items"][0];
    let seen = [&letter["reason"], &letter["status"], &letter["state"]];
    assert_eq!(seen, [&json!("exhausted"), &json!(401), &json!("dead")]);
    assert!(page["next"].is_string());
    let analysis = world.get("/v1/dead/analysis").await.expect(200);
    let acme = &analysis["subscribers"][0];
    assert_eq!((&acme["dead"], &acme["main_status"]), (&json!(5), &json!(401)));
    assert_eq!(acme["findings"][0]["pattern"], "rotated-credentials");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_sent_after_all_by_id_and_by_subscriber() {
    let (world, mut endpoint) = with_dead(3, 400).await;
    for _ in 0..3 {
        endpoint.next().await;
    }
    let page = world.get("/v1/dead").await.expect(200);
    let one = json!({ "ids": [page["items"][0]["id"]] });
    assert_eq!(world.job("/v1/dead/redrive", one).await["done"], 1);
    endpoint.next().await;
    world.until("/v1/dead", |page| page["items"].as_array().unwrap().len() == 3).await;
    let all = world.job("/v1/dead/redrive", json!({ "subscriber": "acme" })).await;
    assert_eq!((&all["state"], &all["done"], &all["skipped"]), (&json!("done"), &json!(3), &json!(0)));
    for _ in 0..3 {
        endpoint.next().await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_forgotten_when_asked_to() {
    let (world, _endpoint) = with_dead(3, 400).await;
    assert_eq!(world.job("/v1/dead/purge", json!({ "all": true })).await["done"], 3);
    assert_eq!(world.get("/v1/dead").await.expect(200)["items"], json!([]));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_dead_letters_than_one_step_takes_are_forgotten_by_their_ids() {
    const COUNT: usize = 501;
    let world = World::new().await;
    let endpoint = Endpoint::answering(204).await;
    let acme = world.subscribe("acme", &endpoint.url, json!({ "retry": { "ttl": "1s" } })).await;
    world.post(&format!("/v1/subscribers/{acme}/pause"), json!({})).await.expect(200);
    for number in 0..COUNT {
        world.post("/v1/events", json!({ "type": "x", "data": number })).await.expect(202);
    }
    let all = |page: &Value| page["items"].as_array().is_some_and(|items| items.len() == COUNT);
    let page = world.until("/v1/dead?limit=1000", all).await;
    let letters = page["items"].as_array().unwrap();
    let ids: Vec<_> = letters.iter().map(|letter| &letter["id"]).collect();
    assert_eq!(world.job("/v1/dead/purge", json!({ "ids": ids })).await["done"], 501);
    assert_eq!(world.get("/v1/dead").await.expect(200)["items"], json!([]));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_selection_of_dead_letters_must_be_unambiguous() {
    let world = World::new().await;
    let rows = [
        (json!({}), 422, "unclear", None),
        (json!({ "all": false }), 422, "unclear", None),
        (json!({ "all": true, "subscriber": "acme" }), 422, "unclear", None),
        (json!({ "all": true, "everything": true }), 422, "unknown_field", Some("everything")),
        (json!({ "subscriber": "nobody" }), 404, "unknown_subscriber", Some("subscriber")),
        (json!({ "subscriber": 5 }), 422, "not_text", Some("subscriber")),
        (json!({ "ids": [] }), 422, "bad_ids", Some("ids")),
        (json!({ "ids": ["evt_1"] }), 422, "bad_ids", Some("ids")),
        (json!({ "ids": "all" }), 422, "bad_ids", Some("ids")),
        (json!({ "all": true, "since": "yesterday" }), 422, "bad_moment", Some("since")),
        (json!({ "all": true, "plan": 1 }), 422, "bad_plan", Some("plan")),
    ];
    for (body, status, code, field) in rows {
        for path in ["/v1/dead/redrive", "/v1/dead/purge"] {
            world.post(path, body.clone()).await.refuses(status, code, field);
        }
    }
    let nothing = world.call("POST", "/v1/dead/purge", "").await;
    nothing.refuses(400, "not_json", None);
    world.stop().await;
}
