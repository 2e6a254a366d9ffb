use std::collections::BTreeSet;

use serde_json::Value;

use crate::cli::world::{Endpoint, World};

const PRIVATE: &str = "--allow-private-targets";
const OPEN_AT_ONCE: [&str; 2] = ["breaker.failures=1", "breaker.failures_when_slow=1"];

fn add(world: &World, name: &str, endpoint: &Endpoint, events: &str, settings: &[&str]) {
    let add = ["subscriber", "add", name, &endpoint.url, PRIVATE, "--events", events];
    world.ok(&[&add[..], settings].concat());
}

fn emit(world: &World) {
    world.ok(&["emit", "--type", "a", "--data", "1"]);
}

/// The subscriber's name, the type without its prefix, and the data.
fn next(operators: &Endpoint) -> (String, String, Value) {
    let event: Value = serde_json::from_str(&operators.bodies.recv().unwrap()).unwrap();
    let event_type = event["type"].as_str().unwrap().trim_start_matches("hookproof.").to_owned();
    (event["data"]["name"].as_str().unwrap().to_owned(), event_type, event["data"].clone())
}

fn check_each_change(world: &World) {
    let (operators, shop, well) =
        (Endpoint::answering(200), Endpoint::answering(500), Endpoint::answering(200));
    // One request at a time, so that none overtakes another.
    add(world, "operators", &operators, "hookproof.*", &["limit.in_flight=1"]);
    add(world, "shop", &shop, "a", &[&OPEN_AT_ONCE[..], &["retry.attempts=3"]].concat());
    add(world, "customer", &well, "*", &[]);
    let forged = world.run(&["emit", "--type", "hookproof.endpoint.failing", "--data", "1"]);
    let refused = "the event type hookproof.endpoint.failing is reserved";
    assert!(forged.code != 0 && forged.stderr.contains(refused), "{}", forged.stderr);
    let (one, two) = (world.serve(), world.serve());
    emit(world);
    let (name, event_type, data) = next(&operators);
    assert_eq!((name.as_str(), event_type.as_str()), ("shop", "endpoint.failing"), "{data}");
    assert_eq!((&data["health"], &data["flow"]["state"]), (&"failing".into(), &"breaker_open".into()));
    assert!(data["flow"]["reason"].as_str().unwrap().contains("(last: it answered 500)"), "{data}");
    let shown = world.json(&["subscriber", "show", "shop"]);
    assert_eq!((&shown["id"], &shown["flow"]["health"]), (&data["subscriber"], &"failing".into()));
    assert!(world.ok(&["subscriber", "show", "shop"]).contains("failing"));
    let listed = world.ok(&["subscriber", "list"]);
    assert!(listed.lines().any(|line| line.starts_with("shop") && line.contains("failing")), "{listed}");

    assert_eq!((one.terminate().0, two.terminate().0), (0, 0));
    let again = world.serve();
    shop.answers(200);
    world.ok(&["subscriber", "retry", "shop"]);
    let expect = |expected: &[&str]| {
        let mut left = BTreeSet::from_iter(expected.iter().copied());
        while !left.is_empty() {
            let (name, event_type, data) = next(&operators);
            // The breaker may open a moment before the 410 is recorded.
            let is_early = event_type == "endpoint.failing" && expected.contains(&"endpoint.disabled");
            assert!(left.remove(event_type.as_str()) || is_early, "{expected:?}: {event_type}: {data}");
            assert_eq!(name, "shop");
        }
    };
    expect(&["endpoint.recovered"]);
    shop.answers(410);
    emit(world);
    expect(&["endpoint.disabled", "dead_letters.growing"]);
    // Its breaker is open still.
    world.ok(&["subscriber", "resume", "shop"]);
    expect(&["endpoint.failing"]);
    shop.answers(200);
    emit(world);
    world.ok(&["subscriber", "retry", "shop"]);
    expect(&["endpoint.recovered"]);

    // Its contract holds deliveries back for an hour, and the rows say for longer.
    world.ok(&["subscriber", "set", "shop", "limit.rate=1/1h", "limit.burst=1"]);
    (0..3).for_each(|_| emit(world));
    world.sql("UPDATE deliveries SET at = 1 WHERE state = 0");
    world.move_heads_back();
    expect(&["backlog.behind"]);
    assert_eq!(again.terminate().0, 0);
    let customer: Vec<_> = well.bodies.try_iter().collect();
    assert!(
        !customer.is_empty() && customer.iter().all(|body| body.contains("\"type\":\"a\"")),
        "{customer:?}"
    );
}

#[test]
fn operators_are_notified_once_of_each_change_of_an_endpoint() {
    check_each_change(&World::new());
    if let Some(world) = World::on_postgres("operators_are_notified_once_of_each_change_of_an_endpoint") {
        check_each_change(&world);
    }
}

/// Both fail for such events only, and neither is notified of itself. Only the first hears of the second.
fn check_no_loop(world: &World) {
    let [first, second] = [(); 2].map(|()| Endpoint::refusing("\"type\":\"hookproof.", 200, ""));
    let shop = Endpoint::answering(500);
    let quick = ["breaker.cooldown=10ms", "breaker.cooldown_max=10ms", "retry.attempts=2", "retry.base=1ms"];
    let settings = [&OPEN_AT_ONCE[..], &quick].concat();
    add(world, "first", &first, "*,hookproof.*", &settings);
    add(world, "second", &second, "*,hookproof.*", &settings);
    add(world, "shop", &shop, "a", &OPEN_AT_ONCE);
    let serving = world.serve();
    emit(world);
    // After that, each condition is known, and nothing but the shop's delivery is to be sent.
    let expected = ["endpoint.failing shop", "endpoint.failing second", "dead_letters.growing second"];
    while world.sql("SELECT count(*) FROM notified") != [3]
        || world.json(&["status"])["deliveries"]["waiting"] != 1
    {}
    assert_eq!(serving.terminate().0, 0);
    let heard = |endpoint: &Endpoint| {
        let bodies: BTreeSet<_> = endpoint.bodies.try_iter().collect();
        let events = bodies.iter().map(|body| serde_json::from_str::<Value>(body).unwrap());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut names: Vec<_> = events
            .filter_map(|event| {
                let event_type = text(&event["type"]).strip_prefix("hookproof.")?.to_owned();
                Some(format!("{event_type} {}", text(&event["data"]["name"])))
            })
            .collect();
        names.sort();
        names
    };
    let sorted = |mut expected: Vec<&str>| {
        expected.sort_unstable();
        expected.into_iter().map(ToOwned::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(heard(&first), sorted(expected.to_vec()));
    assert_eq!(heard(&second), sorted(expected[..1].to_vec()));
    assert_eq!(world.sql("SELECT count(*) FROM events WHERE kind <> 'a'"), [3]);
}

#[test]
fn subscribers_of_such_events_do_not_notify_each_other_without_end() {
    check_no_loop(&World::new());
    if let Some(world) = World::on_postgres("subscribers_of_such_events_do_not_notify_each_other") {
        check_no_loop(&world);
    }
}

fn check_disabled_by_failures(world: &World) {
    let (operators, shop, other) =
        (Endpoint::answering(200), Endpoint::answering(503), Endpoint::answering(503));
    // Each failed probe is a line of a log that nobody reads until the end.
    let slower = ["breaker.cooldown=50ms", "breaker.cooldown_max=1s", "limit.rate=100/s", "limit.burst=100"];
    let quick = [&OPEN_AT_ONCE[..], &slower, &["retry.base=1ms", "retry.cap=10ms", "retry.attempts=1000"]];
    let with = |disable_after: &'static str| [&quick.concat()[..], &[disable_after]].concat();
    add(world, "operators", &operators, "hookproof.endpoint.*", &[]);
    add(world, "shop", &shop, "a", &with("breaker.disable_after=100ms"));
    add(world, "patient", &other, "a", &with("breaker.disable_after=0s"));
    let serving = world.serve();
    emit(world);
    let show = |name: &str| world.json(&["subscriber", "show", name]);
    while show("shop")["state"] != "disabled" {}
    let why = "nothing but failures for 100ms, last: it answered 503";
    let flow = &show("shop")["flow"];
    assert_eq!((&flow["state"], &flow["health"]), (&"disabled".into(), &"disabled".into()));
    assert!(flow["reason"].as_str().unwrap().starts_with(why), "{flow}");
    assert!(world.ok(&["subscriber", "show", "shop"]).contains(why));
    let listed = world.ok(&["subscriber", "list"]);
    assert!(listed.lines().any(|line| line.starts_with("shop") && line.contains("disabled")), "{listed}");
    let data = loop {
        let (name, event_type, data) = next(&operators);
        assert!(name != "patient" || event_type == "endpoint.failing", "{data}");
        if event_type == "endpoint.disabled" {
            break data;
        }
    };
    assert!(data["flow"]["reason"].as_str().unwrap().starts_with(why), "{data}");
    let (code, log) = serving.terminate();
    assert!(code == 0 && log.contains(&format!("disabled shop: {why}")), "{log}");

    let tested = world.run(&["subscriber", "test", "shop", "--wait", "1h"]);
    assert!(tested.code == 1 && tested.stderr.contains(&format!("shop is disabled: {why} at 20")));
    let serving = world.serve();
    emit(world);
    let waiting = |name: &str| show(name)["deliveries"]["waiting"].clone();
    assert_eq!((waiting("shop"), waiting("patient")), (1.into(), 2.into()));
    assert_eq!(show("patient")["state"], "active");
    shop.answers(200);
    world.ok(&["subscriber", "resume", "shop"]);
    while waiting("shop") != 0 {}
    assert_eq!(show("shop")["state"], "active");
    while next(&operators).1 != "endpoint.recovered" {}
    assert_eq!(serving.terminate().0, 0);
}

#[test]
fn an_endpoint_that_only_fails_is_disabled_until_an_operator_resumes_it() {
    check_disabled_by_failures(&World::new());
    if let Some(world) = World::on_postgres("an_endpoint_that_only_fails_is_disabled") {
        check_disabled_by_failures(&world);
    }
}
