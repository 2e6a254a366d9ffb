use hookproof_sender::engine::{DeliveryId, StoreTime};
use hookproof_sender::store::command::{Command, Dead};
use hookproof_sender::store::job::{JobKind, OPEN_JOBS_MAX, StartJob, Task};
use hookproof_sender::store::lane::OwnerId;
use hookproof_sender::store::{Refusal, Reply};
use serde_json::{Value, json};

use crate::api::world::{Endpoint, World};

const NOWHERE: &str = "http://127.0.0.1:1/";

async fn with_dead(world: &World, count: usize) {
    world.subscribe("acme", NOWHERE, json!({ "limit": { "rate": "2/s" }, "queue": { "rows": 5 } })).await;
    world.post("/v1/subscribers/acme/pause", json!({})).await.expect(200);
    for _ in 0..count {
        world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
        world.job("/v1/subscribers/acme/shed", json!({ "all": true })).await;
    }
}

/// Its worker died a moment ago.
async fn job_of_another_process(world: &World) -> Reply {
    let task = Task {
        kind: JobKind::Redrive,
        which: Dead::All,
        since: StoreTime(0),
        before: StoreTime(0),
        events: None,
        last: DeliveryId(1_000),
        planned: 7,
        by: "ann".into(),
    };
    world.sender.command(Command::StartJob(StartJob { task, worker: OwnerId(7) })).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_letters_tells_how_many_and_how_long_and_changes_nothing() {
    let world = World::new().await;
    with_dead(&world, 7).await;
    let plan = async |path: &str, body: Value| {
        let mut body = body;
        body["plan"] = json!(true);
        world.post(path, body).await.expect(200)
    };
    let expected = json!({ "dead": 7, "without_room": 2, "takes_ms": 3_500 });
    assert_eq!(plan("/v1/dead/redrive", json!({ "subscriber": "acme" })).await, expected);
    let expected = json!({ "dead": 7, "without_room": null, "takes_ms": null });
    assert_eq!(plan("/v1/dead/purge", json!({ "all": true })).await, expected);
    let letters = world.get("/v1/dead").await.expect(200);
    let since = letters["items"][2]["settled"].clone();
    assert_eq!(
        plan("/v1/dead/redrive", json!({ "all": true, "since": since })).await["dead"],
        3,
        "{letters}"
    );
    let done = world.job("/v1/dead/redrive", json!({ "all": true, "since": since })).await;
    assert_eq!((&done["planned"], &done["done"], &done["since"]), (&json!(3), &json!(3), &since));
    let rest = world.post("/v1/dead/redrive", json!({ "subscriber": "acme" })).await.expect(202);
    let path = format!("/v1/jobs/{}", rest["id"]);
    world.until(&path, |job| job["done"] == 2).await;
    let waits = world.post(&format!("{path}/cancel"), json!({})).await.expect(200);
    assert_eq!((&waits["planned"], &waits["skipped"]), (&json!(4), &json!(0)), "two wait for room");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_delivered_is_sent_again_as_planned() {
    let (world, mut endpoint) = (World::new().await, Endpoint::answering(204).await);
    world.subscribe("acme", &endpoint.url, json!({ "limit": { "rate": "100/s" } })).await;
    for _ in 0..2 {
        world.post("/v1/events", json!({ "type": "x", "data": 1 })).await.expect(202);
    }
    let all = "/v1/deliveries?state=delivered";
    let delivered = world.until(all, |page| page["items"].as_array().unwrap().len() == 2).await;
    let since = delivered["items"][1]["received"].clone();
    let path = "/v1/subscribers/acme/replay";
    let plan = world.post(path, json!({ "since": since, "plan": true })).await.expect(200);
    assert_eq!(plan["delivered"], 2);
    let none = json!({ "since": since, "before": since, "plan": true });
    world.post(path, none).await.refuses(422, "bad_span", Some("since"));
    world.post(path, json!({})).await.refuses(422, "no_since", Some("since"));
    world.post(path, json!({ "since": "noon" })).await.refuses(422, "bad_moment", Some("since"));
    let done = world.job(path, json!({ "since": since })).await;
    let seen = ["kind", "planned", "done", "skipped", "state"].map(|field| &done[field]);
    assert_eq!(seen, [&json!("replay"), &json!(2), &json!(2), &json!(0), &json!("done")]);
    assert_eq!((&done["since"], done["before"].is_string()), (&since, true));
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(endpoint.next().await.0["webhook-id"].clone());
    }
    ids[..2].sort();
    ids[2..].sort();
    assert_eq!((&ids[..2], ids[0] == ids[1]), (&ids[2..], false), "the same again");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_shown_paused_resumed_by_this_process_and_cancelled() {
    let world = World::new().await;
    with_dead(&world, 2).await;
    let Reply::Job(job) = job_of_another_process(&world).await else { panic!() };
    let path = format!("/v1/jobs/{}", job.id.0);
    let shown = world.get(&path).await.expect(200);
    let seen = ["kind", "subscriber", "by", "state", "planned", "done", "ended"].map(|field| &shown[field]);
    let none = &Value::Null;
    assert_eq!(seen, [&json!("redrive"), none, &json!("ann"), &json!("running"), &json!(7), &json!(0), none]);
    assert_eq!(world.post(&format!("{path}/pause"), json!({})).await.expect(200)["state"], "paused");
    assert_eq!(world.post(&format!("{path}/resume"), json!({})).await.expect(200)["state"], "running");
    let done = world.until(&path, |job| job["ended"].is_string()).await;
    assert_eq!((&done["state"], &done["done"]), (&json!("done"), &json!(2)));
    world.post(&format!("{path}/cancel"), json!({})).await.refuses(409, "job_over", None);

    let Reply::Job(job) = job_of_another_process(&world).await else { panic!() };
    let path = format!("/v1/jobs/{}", job.id.0);
    let cancelled = world.post(&format!("{path}/cancel"), json!({})).await.expect(200);
    assert_eq!((&cancelled["state"], cancelled["ended"].is_string()), (&json!("cancelled"), true));
    let all = world.get("/v1/jobs").await.expect(200);
    assert_eq!(all["items"][0], cancelled, "the newest first");
    assert_eq!(all["items"][1], done);
    for unknown in ["/v1/jobs/99", "/v1/jobs/-1", "/v1/jobs/x"] {
        world.get(unknown).await.refuses(404, "unknown_job", None);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_more_than_may_be_open_is_refused_with_the_limit() {
    let world = World::new().await;
    let mut started = 0;
    while let Reply::Job(job) = job_of_another_process(&world).await {
        world.post(&format!("/v1/jobs/{}/pause", job.id.0), json!({})).await.expect(200);
        started += 1;
    }
    assert_eq!(started, OPEN_JOBS_MAX);
    assert_eq!(job_of_another_process(&world).await, Reply::Refused(Refusal::TooManyJobs));
    let refused = world.post("/v1/dead/purge", json!({ "all": true })).await;
    refused.refuses(409, "too_many_jobs", None);
    assert!(refused.text.contains("32 jobs"), "{}", refused.text);
    world.stop().await;
}
