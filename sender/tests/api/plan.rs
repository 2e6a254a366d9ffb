use serde_json::json;

use crate::api::world::{Endpoint, World};

const PATH: &str = "/v1/subscribers/acme/plan";

async fn with_waiting(count: usize) -> World {
    let world = World::new().await;
    world.subscribe("acme", "http://127.0.0.1:9/hook", json!({ "limit": { "burst": 30 } })).await;
    world.post("/v1/subscribers/acme/pause", json!({})).await.expect(200);
    for number in 0..count {
        world.post("/v1/events", json!({ "type": "x", "data": number })).await.expect(202);
    }
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_limits_is_told_with_what_follows_and_not_made() {
    let world = with_waiting(30).await;
    let before = world.get("/v1/subscribers/acme").await.expect(200);
    let change = json!({ "limit": { "rate": "60/min", "windows": ["2 per 4s"], "burst": null } });
    let plan = world.post(PATH, change).await.expect(200);
    assert_eq!((&plan["waiting"], &plan["version"]), (&json!(30), &before["version"]));
    assert_eq!(plan["now"]["limit"], before["limit"]);
    assert_eq!(plan["now"]["backlog"], json!({ "takes_ms": 6_000, "bound_by": "limit.rate" }));
    let then = &plan["then"]["limit"];
    let seen = [&then["rate"], &then["windows"], &then["burst"], &then["in_flight"]];
    assert_eq!(seen, [&json!("60/min"), &json!(["2 per 4s"]), &json!(10), &json!(5)]);
    assert_eq!(plan["then"]["backlog"], json!({ "takes_ms": 60_000, "bound_by": "limit.windows" }));
    assert_eq!(world.get("/v1/subscribers/acme").await.expect(200), before);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn measured_latencies_bound_the_backlog_too() {
    let world = World::new().await;
    let endpoint = Endpoint::answering(204).await;
    world.subscribe("acme", &endpoint.url, json!({})).await;
    world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    world.until("/v1/subscribers/acme", |acme| acme["latency_last_day"]["samples"] == 1).await;
    world.post("/v1/subscribers/acme/pause", json!({})).await.expect(200);
    for number in 0..3 {
        world.post("/v1/events", json!({ "type": "x", "data": number })).await.expect(202);
    }
    let wide = json!({ "limit": { "rate": "1000000/s", "burst": 1_000_000, "in_flight": 1 } });
    let plan = world.post(PATH, wide).await.expect(200);
    assert_eq!(plan["then"]["backlog"]["bound_by"], "limit.in_flight", "{plan}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_refuses_what_a_change_would() {
    let world = with_waiting(0).await;
    let version = world.get("/v1/subscribers/acme").await.expect(200)["version"].as_u64().unwrap();
    let rows = [
        (json!({ "limit": { "rate": "fast" } }), 422, "unreadable_field", Some("limit.rate")),
        (json!({ "limit": { "burst": 0 } }), 422, "out_of_range", Some("limit.burst")),
        (json!({ "colour": "red" }), 422, "unknown_field", Some("colour")),
        (json!({ "version": "1" }), 422, "bad_version", Some("version")),
        (json!({ "version": version + 1 }), 409, "changed_meanwhile", Some("version")),
    ];
    for (body, status, code, field) in rows {
        world.post(PATH, body.clone()).await.refuses(status, code, field);
        world.call("PATCH", "/v1/subscribers/acme", body.to_string()).await.refuses(status, code, field);
    }
    world.post(PATH, json!({ "version": version })).await.expect(200);
    let nobody = world.post("/v1/subscribers/nobody/plan", json!({})).await;
    nobody.refuses(404, "unknown_subscriber", Some("subscriber"));
    world.stop().await;
}
