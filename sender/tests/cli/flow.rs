use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

use crate::cli::world::{Endpoint, World};

const ADD: [&str; 2] = ["subscriber", "add"];
const PRIVATE: &str = "--allow-private-targets";

fn words<'a>(lanes: impl IntoIterator<Item = &'a Value>) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    lanes.into_iter().map(|lane| (text(&lane["name"]), text(&lane["flow"]["state"]))).collect()
}

fn expected(rows: &[(&str, &str)]) -> BTreeMap<String, String> {
    rows.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect()
}

fn listed(world: &World) -> Vec<Value> {
    let lines = world.ok(&["subscriber", "list", "--json"]);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn get(address: &str, path: &str) -> Value {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn check_the_moment_of_a_410(world: &World, held_up: &str) {
    assert!(held_up.contains(": its endpoint answered 410 Gone at 20"), "{held_up}");
    assert!(held_up.contains("then emit those since then again, with the same ids"), "{held_up}");
    let flow = world.json(&["subscriber", "show", "gone"])["flow"].take();
    let since = flow["since"].as_str().expect("the moment of the 410");
    assert!(flow["reason"].as_str().unwrap().contains(since), "{flow}");
}

fn check_each_word(world: &World) {
    let ends = [500, 410, 200].map(Endpoint::answering);
    let [ill, gone, well] = &ends;
    let busy = Endpoint::answering_with(429, "retry-after: 3600\r\n");
    // Connections wait in its queue for ever.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}/", silent.local_addr().unwrap());
    let once = ["limit.rate=1/1h", "limit.burst=1"];
    let add = |name: &str, url: &str, settings: &[&str]| {
        world.ok(&[&ADD[..], &[name, url, PRIVATE], settings].concat());
    };
    add("ill", &ill.url, &["breaker.failures=1", "breaker.failures_when_slow=1"]);
    add("gone", &gone.url, &[]);
    add("busy", &busy.url, &[]);
    add("silent", &silent_url, &[&once[..], &["timeout=100ms", "limit.doubt=1h"]].concat());
    add("slow", &well.url, &once);
    add("held", &well.url, &[]);
    add("well", &well.url, &[]);
    world.ok(&["subscriber", "pause", "held"]);
    for number in ["1", "2"] {
        world.ok(&["emit", "--type", "a", "--data", number]);
    }
    let idle = [("gone", "no_process"), ("held", "paused"), ("ill", "no_process"), ("silent", "no_process")];
    let more = [("busy", "no_process"), ("slow", "no_process"), ("well", "no_process")];
    assert_eq!(words(&listed(world)), expected(&[&idle[..], &more].concat()));

    let serving = world.serve();
    let stands = expected(&[
        ("busy", "asked_to_wait"),
        ("gone", "disabled"),
        ("held", "paused"),
        ("ill", "breaker_open"),
        ("silent", "in_doubt"),
        ("slow", "rate_limited"),
        ("well", "active"),
    ]);
    let lanes = |status: &Value| words(status["lanes"]["items"].as_array().unwrap());
    while lanes(&get(&serving.address, "/v1/status")) != stands {}
    let shown = get(&serving.address, "/v1/subscribers");
    assert_eq!(words(shown["items"].as_array().unwrap()), stands);
    assert_eq!(get(&serving.address, "/v1/subscribers/ill")["flow"]["state"], "breaker_open");
    while words(&listed(world)) != stands {}
    let table = world.ok(&["subscriber", "list"]);
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(row("ill").contains("  breaker open  ") && row("well").contains("  active  "), "{table}");

    let told = world.joined(&["status"]);
    let longest = world.ok(&["status"]).lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(120), "{longest:?}");
    let held_up: Vec<_> = told.lines().filter(|line| line.starts_with("held up")).collect();
    let names: Vec<_> =
        held_up.iter().map(|line| line.split_whitespace().nth(2).unwrap().trim_end_matches(':')).collect();
    assert_eq!(names, ["gone", "ill", "silent", "busy", "slow", "held"], "{told}");
    assert!(
        held_up[1].contains(": breaker open: ") && held_up[1].contains("no attempt starts before 20"),
        "{told}"
    );
    assert!(held_up[5].ends_with("`subscriber resume held` continues"), "{told}");
    check_the_moment_of_a_410(world, held_up[0]);
    let shown = world.ok(&["subscriber", "show", "silent"]);
    assert!(shown.contains("in doubt: requests without an answer"), "{shown}");

    let (code, log) = serving.terminate();
    assert_eq!(code, 0, "{log}");
    let mut alone = stands;
    alone.insert("slow".to_owned(), "no_process".to_owned());
    assert_eq!(words(&listed(world)), alone);
}

#[test]
fn each_subscriber_that_does_not_flow_is_named_with_its_reason() {
    check_each_word(&World::new());
    let test = "each_subscriber_that_does_not_flow_is_named_with_its_reason";
    if let Some(world) = World::on_postgres(test) {
        check_each_word(&world);
    }
}

fn check_a_lower_rate(world: &World) {
    let allows = "webhook-allowed-origin: *\r\nwebhook-allowed-rate: 60\r\n";
    let endpoint = Endpoint::answering_with(200, allows);
    world.ok(&[&ADD[..], &["shop", &endpoint.url, PRIVATE, "permission.origin=events.example"]].concat());
    world.ok(&["emit", "--type", "a", "--data", "1"]);
    let serving = world.serve();
    let flow = || get(&serving.address, "/v1/subscribers/shop")["flow"].take();
    while flow()["state"] != "unpermitted" {}
    let state = || world.json(&["subscriber", "show", "shop"])["flow"]["state"].take();
    while state() != "unpermitted" {}
    let reason = "its endpoint allows 60 requests a minute, and limit allows up to 310 in one minute";
    for text in [world.joined(&["status"]), world.joined(&["subscriber", "show", "shop"]), doctor(world).1] {
        assert!(text.contains(&format!("unpermitted: {reason}, and is asked again ")), "{text}");
        assert!(text.contains("`subscriber set shop 'limit.windows=[\"60 per 1min\"]'`"), "{text}");
    }
    assert!(world.ok(&["subscriber", "list"]).contains("  unpermitted  "));
    assert!(endpoint.bodies.try_iter().all(|body| body.is_empty()));
    world.ok(&["subscriber", "set", "shop", r#"limit.windows=["60 per 1min"]"#]);
    while endpoint.bodies.recv().unwrap().is_empty() {}
    while state() != "active" {}
    assert_eq!(world.ok(&["attempts", "--failed"]), "no such attempts\n");
    assert_eq!(serving.terminate().0, 0);
}

#[test]
fn an_endpoint_that_allows_less_than_the_contract_is_named_with_both_rates() {
    check_a_lower_rate(&World::new());
    let test = "an_endpoint_that_allows_less_than_the_contract_is_named_with_both_rates";
    if let Some(world) = World::on_postgres(test) {
        check_a_lower_rate(&world);
    }
}

fn check_a_permission_unset(world: &World) {
    let endpoint = Endpoint::answering_with(200, "");
    world.ok(&[&ADD[..], &["shop", &endpoint.url, PRIVATE, "permission.origin=events.example"]].concat());
    world.ok(&["emit", "--type", "a", "--data", "1"]);
    let state = || world.json(&["subscriber", "show", "shop"])["flow"]["state"].take();
    let serving = world.serve();
    (0..4).for_each(|_| assert_eq!(endpoint.bodies.recv().unwrap(), ""));
    let again = loop {
        let flow = get(&serving.address, "/v1/subscribers/shop")["flow"].take();
        if let Some(again) = flow["until"].as_str().filter(|_| flow["state"] == "unpermitted") {
            break again.to_owned();
        }
    };
    world.ok(&["subscriber", "set", "shop", "permission.origin=null"]);
    assert!(!endpoint.bodies.recv().unwrap().is_empty());
    while state() != "active" {}
    let made = get(&serving.address, "/v1/attempts")["items"][0]["at"].take();
    assert!(made.as_str().unwrap() < again.as_str(), "{made} {again}");
    assert_eq!(serving.terminate().0, 0);
}

#[test]
fn a_permission_that_is_no_longer_asked_holds_nothing_up() {
    check_a_permission_unset(&World::new());
    if let Some(world) = World::on_postgres("a_permission_that_is_no_longer_asked_holds_nothing_up") {
        check_a_permission_unset(&world);
    }
}

fn doctor(world: &World) -> (String, String) {
    let ran = world.run(&["doctor", "--json"]);
    let findings = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let finding = findings.into_iter().find(|finding| finding["check"] == "flow").unwrap();
    let text = |key: &str| finding[key].as_str().unwrap().to_owned();
    (text("state"), text("detail"))
}

fn check_a_test_of_an_open_breaker(world: &World) {
    let ill = Endpoint::answering(500);
    world.ok(&[
        "subscriber",
        "add",
        "shop",
        &ill.url,
        PRIVATE,
        "breaker.failures=1",
        "breaker.failures_when_slow=1",
    ]);
    assert_eq!(doctor(world), ("well".to_owned(), String::new()));
    let serving = world.serve();
    let tested = world.run(&["subscriber", "test", "shop", "--wait", "5min"]);
    assert_eq!(
        (tested.code, tested.stdout.starts_with("waiting: answered 500")),
        (1, true),
        "{}",
        tested.stdout
    );
    let again = world.run(&["subscriber", "test", "shop", "--wait", "1ms"]);
    assert_eq!((again.code, again.stdout.as_str()), (1, ""));
    let why = "no attempt ended within 1ms; shop: breaker open: its endpoint failed again and again";
    assert!(again.stderr.contains(why) && again.stderr.contains("mend the endpoint"), "{}", again.stderr);
    world.ok(&["subscriber", "add", "held", &ill.url, PRIVATE]);
    world.ok(&["subscriber", "pause", "held"]);
    let (state, detail) = doctor(world);
    assert_eq!(state, "off", "{detail}");
    assert!(detail.starts_with("shop: breaker open: ") && !detail.contains("held: "), "{detail}");
    world.ok(&["subscriber", "remove", "held"]);
    world.ok(&["subscriber", "pause", "shop"]);
    let (state, detail) = doctor(world);
    assert_eq!(state, "well", "{detail}");
    assert!(detail.contains("shop: paused: an operator paused it"), "{detail}");
    assert_eq!(serving.terminate().0, 0);
}

#[test]
fn a_test_event_and_doctor_name_an_open_breaker() {
    let world = World::new();
    check_a_test_of_an_open_breaker(&world);
    assert_eq!(world.run(&["doctor"]).code, 0);
    if let Some(world) = World::on_postgres("a_test_event_and_doctor_name_an_open_breaker") {
        check_a_test_of_an_open_breaker(&world);
    }
}

#[test]
fn a_new_database_by_a_bare_file_name_takes_events() {
    let world = World::new();
    let serving = world.serve_with(&["--db", "fresh.db"]);
    let status = get(&serving.address, "/v1/status");
    assert_eq!(status["store"]["reserve_left_bytes"], Value::Null, "{status}");
    assert_eq!(serving.terminate().0, 0);
}

/// Nothing resumes it but the end of its pause, also where no process runs at that time.
fn check_a_pause_with_an_end(world: &World) {
    let endpoint = Endpoint::answering(200);
    world.ok(&[&ADD[..], &["shop", &endpoint.url, PRIVATE]].concat());
    let why = "their database moves";
    let pause = |length: &str| world.ok(&["subscriber", "pause", "shop", "--reason", why, "--for", length]);
    let told = pause("2h");
    assert!(told.starts_with("shop is paused (their database moves) until 20"), "{told}");
    let known = world.json(&["subscriber", "show", "shop"]);
    let until = known["pause"]["until"].as_str().unwrap().to_owned();
    assert_eq!((&known["pause"]["reason"], &known["flow"]["until"]), (&why.into(), &until.clone().into()));
    let flow = format!(
        "paused: an operator paused it ({why}) until {until}; `subscriber resume shop` continues sooner"
    );
    let shown = [&["subscriber", "show", "shop"][..], &["status"]].map(|arguments| world.joined(arguments));
    for shown in shown.into_iter().chain([doctor(world).1]) {
        assert!(shown.contains(&flow), "{shown}");
    }
    let listed = world.ok(&["subscriber", "list"]);
    assert!(listed.contains(&format!("paused ({why}) until {until}")), "{listed}");

    pause("1s");
    let emit = |data: &str| world.ok(&["emit", "--type", "a", "--data", data]);
    emit("1");
    let serving = world.serve();
    endpoint.bodies.recv().unwrap();
    let subscriber = get(&serving.address, "/v1/subscribers/shop");
    assert_eq!((&subscriber["state"], &subscriber["pause"]), (&"active".into(), &Value::Null));
    let paused = world.json(&["subscriber", "pause", "shop", "--for", "1s"]);
    let until = &paused["pause"]["until"];
    assert!(paused["state"] == "paused" && until.as_str().is_some_and(|it| it.starts_with("20")), "{paused}");
    emit("2");
    endpoint.bodies.recv().unwrap();
    assert_eq!(serving.terminate().0, 0);
}

#[test]
fn a_pause_says_its_reason_and_ends_by_itself() {
    check_a_pause_with_an_end(&World::new());
    if let Some(world) = World::on_postgres("a_pause_says_its_reason_and_ends_by_itself") {
        check_a_pause_with_an_end(&world);
    }
}
