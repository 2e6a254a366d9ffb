use serde_json::{Value, json};

use crate::api::world::World;

const NOWHERE: &str = "http://127.0.0.1:9/";

async fn emit(world: &World, id: &str, key: &str, name: &str) {
    let event = json!({ "id": id, "type": "a", "key": key, "data": { "name": name } });
    world.post("/v1/events", event).await.expect(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_counts_and_an_erasure_leaves_nothing_to_find() {
    let world = World::new().await;
    for name in ["one", "two"] {
        world.subscribe(name, NOWHERE, json!({})).await;
        world.post(&format!("/v1/subscribers/{name}/pause"), json!({})).await.expect(200);
    }
    for (id, key, name) in [("1", "ann", "ann"), ("2", "bob", "bob"), ("3", "shop", "ann")] {
        emit(&world, id, key, name).await;
    }
    let counts =
        |answer: &Value| ["events", "deliveries", "waiting"].map(|name| answer[name].as_u64().unwrap());
    let plan = world.post("/v1/forget", json!({ "field": "/data/name=ann", "plan": true })).await.expect(200);
    assert_eq!(
        (counts(&plan), &plan["cursor"], &plan["log_emptied"]),
        ([2, 4, 4], &Value::Null, &Value::Null)
    );
    let both = json!({ "key": "ann", "field": "/data/name=ann", "plan": false });
    let done = world.post("/v1/forget", both.clone()).await.expect(200);
    assert_eq!(
        (counts(&done), &done["plan"], &done["log_emptied"]),
        ([1, 2, 2], &json!(false), &json!(true))
    );
    assert_eq!(counts(&world.post("/v1/forget", both).await.expect(200)), [0; 3]);
    let shop = json!({ "key": "shop", "plan": false });
    assert_eq!(counts(&world.post("/v1/forget", shop).await.expect(200)), [1, 2, 2]);
    let listed = world.get("/v1/deliveries?state=forgotten").await.expect(200);
    let items = listed["items"].as_array().unwrap();
    assert!(items.len() == 4 && items.iter().all(|item| item["key"].is_null()), "{listed}");
    let shown = world.get(&format!("/v1/deliveries/{}", items[0]["id"].as_str().unwrap())).await.expect(200);
    assert_eq!((&shown["state"], &shown["body"]), (&json!("forgotten"), &Value::Null));
    let status = world.get("/v1/status").await.expect(200);
    assert_eq!(status["deliveries"]["waiting"], 2, "those of bob");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_in_two_calls_counts_an_event_once() {
    let world = World::new().await;
    for name in ["one", "two"] {
        world.subscribe(name, NOWHERE, json!({})).await;
        world.post(&format!("/v1/subscribers/{name}/pause"), json!({})).await.expect(200);
    }
    for id in ["1", "2"] {
        emit(&world, id, "ann", "ann").await;
    }
    // A call that ends between the deliveries of an event.
    let begun = world.get("/v1/deliveries?limit=1").await.expect(200);
    let key = json!({ "key": "ann", "plan": true, "cursor": begun["next"] });
    let plan = world.post("/v1/forget", key).await.expect(200);
    assert_eq!((&plan["events"], &plan["deliveries"]), (&json!(1), &json!(2)));
    let field = json!({ "field": "/data/name=ann", "plan": true, "cursor": begun["next"] });
    let plan = world.post("/v1/forget", field).await.expect(200);
    assert_eq!((&plan["events"], &plan["deliveries"]), (&json!(1), &json!(2)));
    let key = json!({ "key": "ann", "plan": false, "cursor": begun["next"] });
    let done = world.post("/v1/forget", key).await.expect(200);
    assert_eq!(
        (&done["events"], &done["deliveries"]),
        (&json!(2), &json!(4)),
        "an erasure needs no earlier call"
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_subject_must_be_named_and_the_filter_must_be_clear() {
    let world = World::new().await;
    for (body, code, field) in [
        (json!({ "plan": false }), "unclear", "key"),
        (json!({ "field": "name=ann", "plan": false }), "bad_field", "field"),
        (json!({ "key": "k" }), "bad_plan", "plan"),
        (json!({ "key": "k", "plan": null }), "bad_plan", "plan"),
        (json!({ "key": "k", "plan": 1 }), "bad_plan", "plan"),
        (json!({ "key": "k", "plan": false, "cursor": "x" }), "bad_cursor", "cursor"),
        (json!({ "key": "k", "plan": false, "yes": true }), "unknown_field", "yes"),
    ] {
        world.post("/v1/forget", body).await.refuses(422, code, Some(field));
    }
    world.stop().await;
}
