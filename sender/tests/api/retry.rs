use serde_json::json;

use crate::api::world::{Endpoint, World};

const SETTINGS: &str =
    r#"{"limit":{"in_flight":1},"breaker":{"failures":1,"failures_when_slow":1,"cooldown":"1h"}}"#;

async fn check_a_probe(world: World) {
    let mut endpoint = Endpoint::answering(500).await;
    world.subscribe("acme", &endpoint.url, serde_json::from_str(SETTINGS).unwrap()).await;
    world.post("/v1/events", json!({ "type": "a", "data": 1 })).await.expect(202);
    endpoint.next().await;
    let path = "/v1/subscribers/acme";
    let open = |flow: &serde_json::Value| flow["flow"]["state"] == "breaker_open";
    let mut held_up = world.until(path, open).await["flow"].take();
    let list = world.get("/v1/deliveries").await.expect(200);
    let delivery = format!("/v1/deliveries/{}/retry", list["items"][0]["id"].as_str().unwrap());
    for path_to_retry in [format!("{path}/retry"), delivery] {
        let told = world.call("POST", &path_to_retry, "").await.expect(200);
        assert_eq!((&told["more"], &told["waits_until"]), (&json!(false), &json!(null)), "{told}");
        endpoint.next().await;
        // The same failure, and a later end of the cooldown.
        let before = held_up["until"].clone();
        let later =
            |shown: &serde_json::Value| open(shown) && shown["flow"]["until"].as_str() > before.as_str();
        held_up = world.until(path, later).await["flow"].take();
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_breaker_is_probed_at_once() {
    check_a_probe(World::new().await).await;
    if let Some(world) = World::on_postgres("an_open_breaker_is_probed_at_once").await {
        check_a_probe(world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_retried_is_refused() {
    let world = World::new().await;
    world.subscribe("acme", "http://127.0.0.1:1/", json!({})).await;
    let retry = "/v1/subscribers/acme/retry";
    let rows = [
        (json!({ "ignore_retry_after": 1 }), "bad_ignore_retry_after", "ignore_retry_after"),
        (json!({ "now": true }), "unknown_field", "now"),
    ];
    for (body, code, field) in rows {
        world.post(retry, body).await.refuses(422, code, Some(field));
    }
    let nobody = world.post("/v1/subscribers/nobody/retry", json!({})).await;
    nobody.refuses(404, "unknown_subscriber", Some("subscriber"));
    let nothing = world.post("/v1/deliveries/dlv_01hf7yat00000000000000000a/retry", json!({})).await;
    nothing.refuses(404, "unknown_delivery", None);
    world.post("/v1/subscribers/acme/pause", json!({})).await.expect(200);
    world.post(retry, json!({})).await.refuses(409, "not_active", None);
    world.stop().await;
}

async fn check_sending_again(world: World) {
    let mut endpoint = Endpoint::answering(204).await;
    world.subscribe("acme", &endpoint.url, json!({})).await;
    world.post("/v1/events", json!({ "type": "a", "data": 1 })).await.expect(202);
    let first = endpoint.next().await;
    let list = "/v1/deliveries?state=delivered";
    let settled = |shown: &serde_json::Value| !shown["items"].as_array().unwrap().is_empty();
    let id = world.until(list, settled).await["items"][0]["id"].as_str().unwrap().to_owned();
    let resend = format!("/v1/deliveries/{id}/resend");
    let again = world.call("POST", &resend, "").await.expect(200);
    assert_eq!((&again["id"], &again["state"]), (&json!(id), &json!("waiting")), "{again}");
    let second = endpoint.next().await;
    assert_eq!((&second.1, &second.0["webhook-id"]), (&first.1, &first.0["webhook-id"]));
    let tried = |shown: &serde_json::Value| shown["tried"].as_array().unwrap().len() == 2;
    let shown = world.until(&format!("/v1/deliveries/{id}"), tried).await;
    assert_eq!((&shown["tried"][0]["resent"], &shown["tried"][1]["resent"]), (&json!(true), &json!(false)));
    world.post(&resend, json!({ "now": true })).await.refuses(422, "unknown_field", Some("now"));
    world.post("/v1/subscribers/acme/pause", json!({})).await.expect(200);
    world.post(&resend, json!({})).await.refuses(409, "not_active", None);
    world.post("/v1/events", json!({ "type": "a", "data": 2 })).await.expect(202);
    let waiting = world.get("/v1/deliveries?state=waiting").await.expect(200)["items"][0]["id"].take();
    let pending = format!("/v1/deliveries/{}/resend", waiting.as_str().unwrap());
    world.post(&pending, json!({})).await.refuses(409, "pending", None);
    let nothing = world.post("/v1/deliveries/dlv_01hf7yat00000000000000000a/resend", json!({})).await;
    nothing.refuses(404, "unknown_delivery", None);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivered_one_is_sent_again_with_its_id_and_body() {
    check_sending_again(World::new().await).await;
    if let Some(world) = World::on_postgres("a_delivered_one_is_sent_again_with_its_id_and_body").await {
        check_sending_again(world).await;
    }
}
