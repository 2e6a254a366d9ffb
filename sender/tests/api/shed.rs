use serde_json::{Value, json};

use crate::api::world::{Endpoint, World};

const PATH: &str = "/v1/subscribers/acme/shed";

async fn with_waiting(count: usize) -> (World, Endpoint) {
    let world = World::new().await;
    let endpoint = Endpoint::answering(204).await;
    let settings = json!({ "limit": { "rate": "1000/s", "burst": 1000, "in_flight": 100 } });
    world.subscribe("acme", &endpoint.url, settings).await;
    world.post("/v1/subscribers/acme/pause", json!({})).await.expect(200);
    let lines: String = (0..count).map(|number| format!("{{\"type\":\"x\",\"data\":{number}}}\n")).collect();
    let answer = world.call_with("POST", "/v1/events", "application/x-ndjson", lines).await;
    assert_eq!(answer.status.as_u16(), 202, "{}", answer.text);
    (world, endpoint)
}

async fn places(world: &World) -> [Value; 2] {
    let status = world.get("/v1/status").await.expect(200);
    ["waiting", "dead_kept"].map(|place| status["deliveries"][place].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_tells_how_many_would_be_given_up_and_changes_nothing() {
    let (world, _endpoint) = with_waiting(5).await;
    for (asked, would_shed) in
        [(json!({ "all": true }), 5), (json!({ "max": 2 }), 2), (json!({ "max": 9 }), 5)]
    {
        let mut asked = asked;
        asked["plan"] = json!(true);
        let plan = world.post(PATH, asked).await.expect(200);
        let expected = json!({ "waiting": 5, "claimed": 0, "would_shed": would_shed, "would_forget": 0 });
        assert_eq!(plan, expected);
        assert_eq!(places(&world).await, [json!(5), json!(0)]);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shed_delivery_is_a_dead_letter_and_can_be_redriven() {
    let (world, mut endpoint) = with_waiting(3).await;
    assert_eq!(world.job(PATH, json!({ "max": 2, "plan": false })).await["done"], 2);
    assert_eq!(places(&world).await, [json!(1), json!(2)]);
    let letters = world.get("/v1/dead").await.expect(200);
    assert!(
        letters["items"].as_array().unwrap().iter().all(|letter| letter["reason"] == "shed"),
        "{letters}"
    );
    assert_eq!(world.job("/v1/dead/redrive", json!({ "subscriber": "acme" })).await["done"], 2);
    world.post("/v1/subscribers/acme/resume", json!({})).await.expect(200);
    for _ in 0..3 {
        endpoint.next().await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_done_in_small_commits_and_for_exactly_as_many_as_asked_for() {
    let (world, _endpoint) = with_waiting(5_300).await;
    let commits = || world.sender.health().written.commits;
    let before = commits();
    assert_eq!(world.job(PATH, json!({ "max": 5_200 })).await["done"], 5_200);
    assert!(commits() - before > 10, "five hundred in each commit at most");
    assert_eq!(places(&world).await, [json!(100), json!(5_200)]);
    assert_eq!(world.job(PATH, json!({ "all": true })).await["done"], 100);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_to_shed_must_be_given() {
    let (world, _endpoint) = with_waiting(1).await;
    let rows = [
        (json!({}), "unclear", None),
        (json!({ "plan": true }), "unclear", None),
        (json!({ "all": false }), "unclear", None),
        (json!({ "all": true, "max": 1 }), "unclear", None),
        (json!({ "max": 0 }), "bad_max", Some("max")),
        (json!({ "max": -1 }), "bad_max", Some("max")),
        (json!({ "max": "all" }), "bad_max", Some("max")),
        (json!({ "all": true, "plan": 1 }), "bad_plan", Some("plan")),
        (json!({ "all": true, "dry": true }), "unknown_field", Some("dry")),
    ];
    for (body, code, field) in rows {
        world.post(PATH, body).await.refuses(422, code, field);
    }
    world.call("POST", PATH, "").await.refuses(400, "not_json", None);
    let nobody = world.post("/v1/subscribers/nobody/shed", json!({ "all": true })).await;
    nobody.refuses(404, "unknown_subscriber", Some("subscriber"));
    assert_eq!(places(&world).await, [json!(1), json!(0)]);
    world.stop().await;
}
