//! An operator has a mended endpoint tried at once.

use serde_json::Value;

use crate::cli::world::{Endpoint, World};

/// It is tried at once or not within this test.
const NEVER_BY_ITSELF: [&str; 8] = [
    "--allow-private-targets",
    "breaker.failures=1",
    "breaker.failures_when_slow=1",
    "breaker.cooldown=1h",
    "retry.backoff=equal-jitter",
    "retry.base=1h",
    "retry.cap=1h",
    "limit.in_flight=1",
];

fn add(world: &World, name: &str, endpoint: &Endpoint) {
    world.ok(&[&["subscriber", "add", name, &endpoint.url], &NEVER_BY_ITSELF[..]].concat());
}

fn until_held_up(world: &World, name: &str, state: &str) -> Value {
    loop {
        let status = world.json(&["status"]);
        let found = status["held_up"].as_array().unwrap().iter().find(|lane| lane["name"] == name);
        if let Some(found) = found.filter(|lane| lane["state"] == state) {
            return found.clone();
        }
    }
}

fn until_delivered(world: &World, count: u64) {
    while world.json(&["status"])["deliveries"]["delivered"] != count {}
}

fn check_a_mended_endpoint(world: &World) {
    let endpoint = Endpoint::answering(500);
    add(world, "shop", &endpoint);
    let serving = world.serve();
    for number in ["1", "2", "3"] {
        world.ok(&["emit", "--type", "a", "--data", number]);
    }
    let held_up = until_held_up(world, "shop", "breaker_open");
    assert!(held_up["remedy"].as_str().unwrap().contains("`subscriber retry shop`"), "{held_up}");
    let told = world.ok(&["subscriber", "retry", "shop"]);
    assert!(told.starts_with("shop: retries brought forward: "), "{told}");
    while world.json(&["status"])["deliveries"]["failed_attempts"] != 2 {}
    assert_eq!(endpoint.bodies.try_iter().count(), 2);
    endpoint.answers(204);
    let told = world.json(&["subscriber", "retry", "shop"]);
    assert_eq!((&told["more"], &told["waits_until"]), (&false.into(), &Value::Null), "{told}");
    until_delivered(world, 3);

    endpoint.answers(500);
    world.ok(&["emit", "--type", "a", "--data", "4"]);
    until_held_up(world, "shop", "breaker_open");
    let (code, log) = serving.terminate();
    assert_eq!(code, 0, "{log}");
    assert_eq!(log.matches("an operator has shop tried at once").count(), 2, "{log}");
    // The next process takes the request up.
    endpoint.answers(204);
    world.ok(&["subscriber", "retry", "shop"]);
    let serving = world.serve();
    until_delivered(world, 4);

    endpoint.answers(500);
    let failed_attempts = || world.json(&["status"])["deliveries"]["failed_attempts"].clone();
    let failed_before = failed_attempts();
    world.ok(&["emit", "--type", "a", "--data", "5"]);
    while failed_attempts() == failed_before {}
    world.ok(&["subscriber", "pause", "shop"]);
    endpoint.answers(204);
    world.ok(&["subscriber", "resume", "shop"]);
    until_delivered(world, 5);
    assert_eq!(serving.terminate().0, 0);
}

#[test]
fn a_mended_endpoint_is_tried_at_once_now_or_by_the_next_process() {
    check_a_mended_endpoint(&World::new());
    let test = "a_mended_endpoint_is_tried_at_once_now_or_by_the_next_process";
    if let Some(world) = World::on_postgres(test) {
        check_a_mended_endpoint(&world);
    }
}

#[test]
fn a_retry_after_holds_unless_the_operator_insists() {
    let (world, endpoint) = (World::new(), Endpoint::answering_with(429, "retry-after: 3600\r\n"));
    add(&world, "busy", &endpoint);
    world.ok(&["emit", "--type", "a", "--data", "1"]);
    let serving = world.serve();
    let held_up = until_held_up(&world, "busy", "asked_to_wait");
    let remedy = held_up["remedy"].as_str().unwrap();
    assert!(remedy.contains("`subscriber retry busy --ignore-retry-after`"), "{held_up}");
    endpoint.answers(204);
    let told = world.json(&["subscriber", "retry", "busy"]);
    assert_eq!((&told["brought_forward"], told["waits_until"].is_string()), (&1.into(), true), "{told}");
    let told = world.ok(&["subscriber", "retry", "busy"]);
    assert!(told.contains("; the endpoint asked by Retry-After to wait until 20"), "{told}");
    assert_eq!(endpoint.bodies.try_iter().count(), 1);
    let told = world.json(&["subscriber", "retry", "busy", "--ignore-retry-after"]);
    assert_eq!(told["waits_until"], Value::Null, "{told}");
    until_delivered(&world, 1);
    assert_eq!(serving.terminate().0, 0);
}

#[test]
fn one_delivery_is_tried_at_once_and_a_settled_one_is_refused() {
    let (world, endpoint) = (World::new(), Endpoint::answering(500));
    add(&world, "shop", &endpoint);
    world.ok(&["emit", "--type", "a", "--data", "1"]);
    let serving = world.serve();
    until_held_up(&world, "shop", "breaker_open");
    let listed = world.json(&["delivery", "list"]);
    let id = listed["id"].as_str().unwrap();
    endpoint.answers(204);
    world.ok(&["delivery", "retry", id]);
    until_delivered(&world, 1);
    let again = world.run(&["delivery", "retry", id]);
    let why = "the delivery does not wait for an attempt: it is delivered";
    assert!(again.code == 1 && again.stderr.contains(why), "{}", again.stderr);
    world.ok(&["subscriber", "pause", "shop"]);
    let paused = world.run(&["subscriber", "retry", "shop"]);
    assert!(paused.code == 1 && paused.stderr.contains("the subscriber is paused"), "{}", paused.stderr);
    let nobody = world.run(&["subscriber", "retry", "nobody"]);
    assert!(nobody.code == 1 && nobody.stderr.contains("there is no subscriber"), "{}", nobody.stderr);
    assert_eq!(serving.terminate().0, 0);
}

fn check_a_delivery_sent_again(world: &World) {
    let endpoint = Endpoint::answering(204);
    add(world, "shop", &endpoint);
    world.ok(&["emit", "--type", "a", "--data", "1"]);
    let serving = world.serve();
    until_delivered(world, 1);
    let id = world.json(&["delivery", "list"])["id"].as_str().unwrap().to_owned();
    let first = endpoint.bodies.recv().unwrap();
    let told = world.json(&["delivery", "resend", &id]);
    assert_eq!((&told["id"], &told["state"]), (&id.as_str().into(), &"waiting".into()), "{told}");
    until_delivered(world, 2);
    assert_eq!(endpoint.bodies.recv().unwrap(), first);
    let shown = world.json(&["delivery", "show", &id]);
    let resent: Vec<_> = shown["tried"].as_array().unwrap().iter().map(|one| &one["resent"]).collect();
    assert_eq!(resent, [true, false], "{shown}");
    assert_eq!(shown["resent"].as_array().unwrap().len(), 1, "{shown}");
    assert!(world.ok(&["delivery", "show", &id]).contains("answered 204; an operator had it sent again"));
    world.ok(&["subscriber", "pause", "shop"]);
    let paused = world.run(&["delivery", "resend", &id]);
    assert!(paused.code == 1 && paused.stderr.contains("the subscriber is paused"), "{}", paused.stderr);
    let nothing = world.run(&["delivery", "resend", "dlv_01hf7yat00000000000000000a"]);
    assert!(nothing.code == 1 && nothing.stderr.contains("there is no delivery dlv_"), "{}", nothing.stderr);
    assert_eq!(serving.terminate().0, 0);
}

#[test]
fn a_delivered_one_is_sent_again_and_its_attempt_is_marked() {
    check_a_delivery_sent_again(&World::new());
    if let Some(world) = World::on_postgres("a_delivered_one_is_sent_again_and_its_attempt_is_marked") {
        check_a_delivery_sent_again(&world);
    }
}

#[test]
fn a_throttled_lane_is_named_so_to_other_processes_and_a_retry_ends_the_throttle() {
    let (world, endpoint) = (World::new(), Endpoint::answering(429));
    // After the first 429 the throttle alone holds the rest back, for two minutes.
    let settings = [
        "--allow-private-targets",
        "limit.rate=1/min",
        "pressure.slowest=1h",
        "limit.burst=100",
        "retry.base=1h",
        "retry.cap=1h",
    ];
    world.ok(&[&["subscriber", "add", "shop", &endpoint.url], &settings[..]].concat());
    let serving = world.serve();
    for number in ["1", "2", "3", "4"] {
        world.ok(&["emit", "--type", "a", "--data", number]);
    }
    let held_up = until_held_up(&world, "shop", "throttled");
    let reason = held_up["reason"].as_str().unwrap();
    assert!(reason.starts_with("it sends at 50 % of its contract since 20"), "{held_up}");
    assert!(reason.ends_with(": the endpoint answered 429"), "{held_up}");
    assert!(held_up["remedy"].as_str().unwrap().contains("`subscriber retry shop`"), "{held_up}");
    let shown = world.ok(&["subscriber", "show", "shop"]);
    assert!(shown.contains("throttled: it sends at 50 %") && !shown.contains("limit.rate; wait"), "{shown}");
    endpoint.answers(204);
    let told = world.ok(&["subscriber", "retry", "shop"]);
    let done = "; it was throttled to 50 % of its contract: it goes on at half or more, and at all of it after a good answer";
    assert!(told.contains(done) && !told.contains("breaker"), "{told}");
    until_delivered(&world, 4);
    assert_eq!(serving.terminate().0, 0);
}
