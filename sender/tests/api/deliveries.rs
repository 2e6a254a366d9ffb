use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::api::world::{Endpoint, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_found_by_its_event_its_subscriber_and_its_state_with_its_attempts() {
    let world = World::new().await;
    let mut endpoint = Endpoint::answering(204).await;
    let id = world.subscribe("acme", &endpoint.url, json!({})).await;
    let event = world.post("/v1/events", json!({ "type": "x", "key": "k", "data": 1 })).await.expect(202);
    let event = event["id"].as_str().unwrap();
    endpoint.next().await;
    let is_there = |page: &Value| page["items"].as_array().is_some_and(|items| items.len() == 1);
    let page = world.until("/v1/deliveries?state=delivered", is_there).await;
    let delivery = &page["items"][0];
    let seen = [&delivery["event"], &delivery["subscriber"], &delivery["key"], &delivery["attempts"]];
    assert_eq!(seen, [&json!(event), &json!(id), &json!("k"), &json!(1)]);
    for query in
        [format!("event={event}"), "subscriber=acme".into(), format!("subscriber={id}&state=delivered")]
    {
        let found = world.get(&format!("/v1/deliveries?{query}")).await.expect(200);
        assert_eq!(found["items"][0]["id"], delivery["id"], "{query}");
    }
    let none = world.get("/v1/deliveries?subscriber=acme&state=waiting").await.expect(200);
    assert_eq!(none["items"], json!([]));
    let shown = world.get(&format!("/v1/deliveries/{}", delivery["id"].as_str().unwrap())).await.expect(200);
    let tried = &shown["tried"][0];
    assert_eq!(
        (&tried["number"], &tried["outcome"], &tried["status"]),
        (&json!(1), &json!("delivered"), &json!(204))
    );
    assert!(tried["connect_us"].is_u64() && tried["first_byte_us"].is_u64(), "{tried}");
    assert_eq!((&tried["retried_by"], &shown["waits_for"]), (&Value::Null, &Value::Null));
    world.post("/v1/subscribers/acme/pause", json!({})).await.expect(200);
    world.post("/v1/events", json!({ "type": "x", "data": 2 })).await.expect(202);
    let page = world.until("/v1/deliveries?state=waiting", is_there).await;
    let path = format!("/v1/deliveries/{}", page["items"][0]["id"].as_str().unwrap());
    let waits_for = world.get(&path).await.expect(200)["waits_for"].take();
    let why = "the subscriber: paused: an operator paused it; `subscriber resume acme` continues";
    assert_eq!(waits_for, why);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_deliveries_of_an_event_are_found_page_by_page() {
    const SUBSCRIBERS: usize = 101;
    let world = World::new().await;
    let endpoint = Endpoint::answering(204).await;
    for number in 0..SUBSCRIBERS {
        world.subscribe(&format!("s{number}"), &endpoint.url, json!({})).await;
    }
    let event = world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    let first_page = format!("/v1/deliveries?event={}", event["id"].as_str().unwrap());
    let mut page = world.get(&first_page).await.expect(200);
    let mut found = BTreeSet::new();
    loop {
        let items = page["items"].as_array().unwrap();
        found.extend(items.iter().map(|delivery| delivery["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        page = world.get(&format!("{first_page}&cursor={next}")).await.expect(200);
    }
    assert_eq!(found.len(), SUBSCRIBERS);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_is_not_there_is_not_found() {
    let world = World::new().await;
    for id in ["1", "dlv_", "dlv_01hf7yat00zzzzzzzzzzzzzzzz", "x", "%00", "-1"] {
        let answer = world.get(&format!("/v1/deliveries/{id}")).await;
        answer.refuses(404, "unknown_delivery", None);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_counts_attempts_in_each_second_against_the_contract() {
    let world = World::new().await;
    let mut endpoint = Endpoint::answering(429).await;
    let id = world.subscribe("acme", &endpoint.url, json!({ "limit": { "rate": "2/s", "burst": 3 } })).await;
    world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    endpoint.next().await;
    let tried = |audit: &Value| audit["seconds"][0]["attempts"].is_u64();
    let audit = world.until("/v1/audit?per=second&subscriber=acme", tried).await;
    let second = &audit["seconds"][0];
    assert_eq!((&second["subscriber"], &second["attempts"]), (&json!(id), &json!(1)));
    assert_eq!((&second["answered_429"], &second["allowed"]), (&json!(1), &json!(5)));
    assert_eq!((&second["above_rate"], &second["above_contract"]), (&json!(false), &json!(false)));
    let earlier = "/v1/audit?from=2020-01-01T00:00:00Z&until=2020-01-01T00:01:00Z";
    assert_eq!(world.get(earlier).await.expect(200)["seconds"], json!([]));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_tells_where_everything_is() {
    let world = World::new().await;
    let mut endpoint = Endpoint::answering(204).await;
    let id = world.subscribe("acme", &endpoint.url, json!({})).await;
    world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    endpoint.next().await;
    let status = world.until("/v1/status", |status| status["deliveries"]["delivered"] == 1).await;
    assert_eq!((&status["deliveries"]["accepted"], &status["deliveries"]["waiting"]), (&json!(1), &json!(0)));
    assert_eq!((&status["subscribers"]["active"], &status["store"]["failing"]), (&json!(1), &Value::Null));
    let lane = &status["lanes"]["items"][0];
    assert_eq!((&lane["subscriber"], &lane["here"]["breaker_open"]), (&json!(id), &json!(false)));
    let told = |status: &Value| status["lanes"]["items"][0]["last_hour"]["delivered"] == 1;
    world.until("/v1/status", told).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_latest_attempts_are_listed_and_failed_ones_alone() {
    let world = World::new().await;
    let (mut well, mut ill) = (Endpoint::answering(204).await, Endpoint::answering(500).await);
    let ids = [
        world.subscribe("well", &well.url, json!({})).await,
        world
            .subscribe(
                "ill",
                &ill.url,
                json!({ "retry": { "base": "1h", "cap": "1h", "backoff": "equal-jitter" } }),
            )
            .await,
    ];
    world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    well.next().await;
    ill.next().await;
    let are = |count| move |page: &Value| page["items"].as_array().is_some_and(|items| items.len() == count);
    let all = world.until("/v1/attempts", are(2)).await;
    assert_eq!(all["next"], Value::Null);
    let failed = world.until("/v1/attempts?failed=true", are(1)).await["items"][0].take();
    assert_eq!((&failed["subscriber"], &failed["status"]), (&json!(ids[1]), &json!(500)));
    assert_eq!((&failed["number"], &failed["outcome"]), (&json!(1), &json!("rejected")));
    let shown =
        world.get(&format!("/v1/deliveries/{}", failed["delivery"].as_str().unwrap())).await.expect(200);
    assert_eq!(shown["tried"][0]["at"], failed["at"]);
    let of_well = world.get("/v1/attempts?subscriber=well&failed=false").await.expect(200);
    assert_eq!(
        (&of_well["items"][0]["subscriber"], of_well["items"].as_array().unwrap().len()),
        (&json!(ids[0]), 1)
    );
    world.stop().await;
}
