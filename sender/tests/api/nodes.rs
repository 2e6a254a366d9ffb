use serde_json::{Value, json};

use crate::api::world::{Endpoint, World, postgres_address, server};
use crate::postgres_server::execute;

async fn world() -> World {
    World::with(None, |options| {
        options.name = Some("here".into());
        options.address = Some("127.0.0.1:4711".into());
    })
    .await
}

fn is(field: &'static str, value: Value) -> impl Fn(&Value) -> bool {
    move |answer| answer["items"][0][field] == value
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_listed_drained_and_resumed() {
    let (world, mut endpoint) = (world().await, Endpoint::answering(204).await);
    world.subscribe("acme", &endpoint.url, json!({})).await;
    let nodes = world.until("/v1/nodes", is("home_of", json!(1))).await;
    let node = &nodes["items"][0];
    assert_eq!(nodes["items"].as_array().unwrap().len(), 1);
    assert_eq!((&node["name"], &node["address"]), (&json!("here"), &json!("127.0.0.1:4711")));
    assert_eq!(node["version"], json!(env!("CARGO_PKG_VERSION")));
    assert!(node["lease_ms"].as_u64().unwrap() > 0 && node["since"].is_string(), "{node}");

    world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    endpoint.next().await;
    world.until("/v1/nodes", is("lanes", json!(1))).await;
    let drained = world.post("/v1/nodes/here/drain", json!({})).await.expect(200);
    assert_eq!((&drained["draining"], &drained["takes_lanes"]), (&json!(true), &json!(false)));
    world.until("/v1/nodes", is("lanes", json!(0))).await;
    let status = world.get("/v1/status").await.expect(200);
    assert_eq!(status["nodes"], json!({ "living": 1, "draining": 1 }));
    world.post("/v1/events", json!({ "type": "x", "data": 2 })).await.expect(202);

    let id = node["id"].as_str().unwrap();
    let resumed = world.post(&format!("/v1/nodes/{id}/resume"), json!({})).await.expect(200);
    assert_eq!(resumed["draining"], json!(false));
    endpoint.next().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_not_there_and_a_word_too_many_are_refused() {
    let world = world().await;
    world.until("/v1/nodes", is("name", json!("here"))).await;
    world.post("/v1/nodes/nowhere/drain", json!({})).await.refuses(404, "unknown_node", None);
    world.post("/v1/nodes/here/drain", json!({ "all": true })).await.refuses(
        422,
        "unknown_field",
        Some("all"),
    );
    world.get("/v1/nodes?all=1").await.expect(400);
    world.stop().await;
}

/// As after a failover to a server with a slow clock. Leases follow the server's clock, not the store's time.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_lives_by_the_servers_clock_where_that_was_set_back() {
    let test = "a_node_lives_by_the_servers_clock_where_that_was_set_back";
    let Some(address) = postgres_address(test).await else { return };
    World::with(None, |options| options.database = server(&address)).await.stop().await;
    let ahead = address.clone();
    let set_ahead = move || execute(&ahead, "UPDATE totals SET clock = clock + 30000000000");
    tokio::task::spawn_blocking(set_ahead).await.unwrap();
    let world = World::with(None, |options| {
        options.database = server(&address);
        options.name = Some("here".into());
    })
    .await;
    let nodes = world.until("/v1/nodes", is("name", json!("here"))).await;
    let lease = nodes["items"][0]["lease_ms"].as_u64().unwrap();
    assert!((1..=10_000).contains(&lease), "{nodes}");
    assert_eq!(world.get("/v1/status").await.expect(200)["nodes"], json!({ "living": 1, "draining": 0 }));
    let drained = world.post("/v1/nodes/here/drain", json!({})).await.expect(200);
    assert_eq!(drained["draining"], json!(true));
    world.stop().await;
}
