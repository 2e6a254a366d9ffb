use serde_json::{Value, json};

use crate::api::world::World;

const NOWHERE: &str = "http://127.0.0.1:9/";

async fn emit(world: &World, id: &str, key: &str, name: &str) {
    let event = json!({ "id": id, "type": "a", "key": key, "data": { "name": name } });
    world.post("/v1/events", event).await.expect(202);
}

fn events(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item["event"].as_str().unwrap().to_owned()).collect()
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
    let found = world.post("/v1/find", json!({ "field": "/data/name=ann" })).await.expect(200);
    assert_eq!(
        (events(&found), &found["next"]),
        (["3", "3", "1", "1"].map(String::from).into(), &Value::Null)
    );
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
    let found = world.post("/v1/find", json!({ "key": "ann" })).await.expect(200);
    assert_eq!(found, json!({ "items": [], "next": null }));
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
async fn all_that_is_found_comes_page_by_page() {
    for world in [Some(World::new().await), World::on_postgres("found").await].into_iter().flatten() {
        world.subscribe("one", NOWHERE, json!({})).await;
        world.post("/v1/subscribers/one/pause", json!({})).await.expect(200);
        let event = |id: u32| json!({ "id": id.to_string(), "type": "a", "key": "ann", "data": 1 });
        let lines: String = (0..700).map(|id| format!("{}\n", event(id))).collect();
        let taken = world.call_with("POST", "/v1/events", "application/x-ndjson", lines).await;
        assert_eq!(taken.status.as_u16(), 202, "{taken:?}");
        let (mut all, mut next, mut pages) = (Vec::new(), Value::Null, 0);
        while pages == 0 || !next.is_null() {
            let page = world.post("/v1/find", json!({ "key": "ann", "cursor": next })).await.expect(200);
            all.extend(events(&page));
            (next, pages) = (page["next"].clone(), pages + 1);
        }
        let expected: Vec<_> = (0..700).rev().map(|id| id.to_string()).collect();
        assert_eq!((all, pages), (expected, 2));
        world.stop().await;
    }
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
    for (body, code, field) in [
        (json!({}), "unclear", "key"),
        (json!({ "field": "name=ann" }), "bad_field", "field"),
        (json!({ "key": "k", "cursor": 1 }), "bad_cursor", "cursor"),
        (json!({ "key": "k", "plan": true }), "unknown_field", "plan"),
    ] {
        world.post("/v1/find", body).await.refuses(422, code, Some(field));
    }
    world.stop().await;
}
