use std::io::{Read, Write};
use std::net::TcpStream;

use hookproof_sender::store::command::KeptAnswer;
use serde_json::json;

use crate::cli::world::{Endpoint, World};

#[test]
fn drain_delivers_what_is_due_and_ends_when_nothing_is_left() {
    let endpoint = Endpoint::answering(200);
    let (world, _) = World::with_shop(&endpoint.url, &[]);
    for n in ["1", "2", "3"] {
        world.ok(&["emit", "--type", "order.paid", "--data", n]);
    }
    let summary = world.json(&["drain", "--for", "5min", "--allow-private-targets"]);
    assert_eq!(
        (&summary["delivered"], &summary["waiting"], &summary["nothing_left"]),
        (&3.into(), &0.into(), &true.into())
    );
    assert_eq!(endpoint.bodies.try_iter().count(), 3);
    let text = world.ok(&["drain", "--allow-private-targets"]);
    assert!(
        text.ends_with(
            "delivered: 0; failed attempts: 0; given up: 0; waiting: 0; no more deliveries fall due in time\n"
        ),
        "{text}"
    );

    let shown = world.json(&["subscriber", "show", "shop"]);
    assert_eq!(
        (&shown["latency_last_day"]["samples"], &shown["latency_last_day"]["slow"]),
        (&3.into(), &false.into())
    );
    assert_eq!(world.json(&["status"])["latency_last_day"]["samples"], 3);
    let status = world.ok(&["status"]);
    assert!(status.contains("over 3 attempts in the last 24 h\n"), "{status}");

    let audit = world.json(&["audit", "--per", "minute", "--subscriber", "shop"]);
    assert_eq!((&audit["attempts"], &audit["above_contract"]), (&3.into(), &false.into()));
    assert!(world.ok(&["audit"]).contains("shop"));
    assert_eq!(world.ok(&["audit", "--over"]), "no attempts over in the last 1h\n");
}

#[test]
fn a_data_subject_is_found_by_key_and_by_a_field_of_the_body_in_both_stores() {
    let endpoint = Endpoint::answering(200);
    let file = World::with_shop(&endpoint.url, &[]).0;
    let worlds = [Some(file), World::with_shop_on_postgres("find", &endpoint.url)];
    for world in worlds.into_iter().flatten() {
        world.ok(&[
            "emit",
            "--type",
            "a",
            "--key",
            "k1",
            "--data",
            r#"{"customer":{"name":"ann","number":7}}"#,
        ]);
        world.ok(&[
            "emit",
            "--type",
            "a",
            "--key",
            "k2",
            "--data",
            r#"{"customer":{"name":"bob","number":8}}"#,
        ]);
        world.ok(&["drain", "--for", "5min", "--allow-private-targets"]);
        world.ok(&["emit", "--type", "b", "--key", "k1", "--data", r#"{"customer":{"name":"ann"}}"#]);
        let find = |options: &[&str]| -> Vec<(String, String)> {
            let found = world.ok(&[&["find", "--json"], options].concat());
            let lines = found.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            let of = |line: &serde_json::Value, name: &str| line[name].as_str().unwrap().to_owned();
            lines.map(|line| (of(&line, "type") + &of(&line, "key"), of(&line, "state"))).collect()
        };
        let pairs = |expected: &[(&str, &str)]| -> Vec<(String, String)> {
            expected.iter().map(|(event, state)| ((*event).to_owned(), (*state).to_owned())).collect()
        };
        let (sent, waits) = (("ak1", "delivered"), ("bk1", "waiting"));
        assert_eq!(find(&["--key", "k1"]), pairs(&[waits, sent]));
        assert_eq!(find(&["--field", "/data/customer/name=ann"]), pairs(&[waits, sent]));
        assert_eq!(find(&["--field", "/data/customer/number=7"]), pairs(&[sent]));
        assert_eq!(find(&["--field", "/data/customer/number=7", "--key", "k2"]), []);
        assert_eq!(find(&["--field", "/data/customer/name=bo"]), []);
        assert_eq!(find(&["--key", "k1", "--max", "1"]), pairs(&[waits]));
        let [(bob, _)] = &find(&["--field", "/data/customer/name=bob"])[..] else { panic!("one is bob's") };
        assert_eq!(bob, "ak2");
        assert!(world.ok(&["find", "--key", "k1"]).contains("shop"));
        assert_eq!(world.ok(&["find", "--key", "k3"]), "no such deliveries\n");
        assert_eq!(world.run(&["find"]).code, 64);
        assert_eq!(world.run(&["find", "--field", "customer=7"]).code, 64);
    }
}

#[test]
fn a_data_subject_is_forgotten_after_a_confirmation_in_both_stores() {
    let endpoint = Endpoint::answering(503);
    let file = World::with_shop(&endpoint.url, &[]).0;
    let worlds = [Some(file), World::with_shop_on_postgres("forget", &endpoint.url)];
    for world in worlds.into_iter().flatten() {
        for (id, key, name) in [("1", "ann", "ann"), ("2", "bob", "bob"), ("3", "shop", "ann")] {
            let data = format!(r#"{{"name":"{name}"}}"#);
            world.ok(&["emit", "--type", "a", "--id", id, "--key", key, "--data", &data]);
        }
        world.ok(&["drain", "--for", "2s", "--allow-private-targets"]);
        let found = |options: &[&str]| {
            let found = world.ok(&[&["find", "--json"], options].concat());
            found.lines().count()
        };
        let (by_key, by_field) = (["--key", "ann"], ["--field", "/data/name=ann"]);
        let told = world.ok(&["forget", "--key", "ann"]);
        let counts = "events: 1; deliveries: 1, of them waiting: 1, dead letters: 0; attempts: ";
        assert!(told.starts_with(counts) && told.ends_with("; repeat with --yes to forget them\n"), "{told}");
        let plan = world.json(&["forget", "--field", "/data/name=ann"]);
        assert_eq!(
            (&plan["plan"], &plan["events"], &plan["log_emptied"]),
            (&true.into(), &2.into(), &().into())
        );
        assert_eq!((found(&by_key), found(&by_field)), (1, 2), "nothing is done without --yes");
        let ran = world.run(&["forget", "--field", "/data/name=ann", "--yes", "--json"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let done: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(
            (&done["events"], &done["waiting"], &done["log_emptied"]),
            (&2.into(), &2.into(), &true.into())
        );
        let lines: Vec<_> =
            ran.stderr.lines().filter(|line| line.contains("a data subject was forgotten")).collect();
        assert!(lines.len() == 1 && lines[0].contains("by=\"field\" events=2"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("ann") && !ran.stdout.contains("ann"), "{} {}", ran.stderr, ran.stdout);
        assert_eq!((found(&by_key), found(&by_field), found(&["--key", "bob"])), (0, 0, 1));
        let listed = world.ok(&["delivery", "list", "--state", "forgotten", "--json"]);
        assert_eq!(listed.lines().count(), 2);
        let line: serde_json::Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
        let shown = world.ok(&["delivery", "show", line["id"].as_str().unwrap()]);
        assert!(
            shown.contains("forgotten") && !shown.contains("503 \"") && !shown.contains("ann"),
            "{shown}"
        );
        let again = world.json(&["emit", "--type", "a", "--id", "1", "--key", "ann", "--data", "1"]);
        assert_eq!((&again["deliveries"], &again["duplicates"]), (&0.into(), &1.into()), "{again}");
        assert_eq!(world.run(&["forget", "--yes"]).code, 64);
    }
}

#[test]
fn dead_letters_are_listed_analysed_redriven_and_purged() {
    let endpoint = Endpoint::answering(403);
    let settings = ["retry.attempts=1", "breaker.failures=100", "breaker.failures_when_slow=100"];
    let (world, _) = World::with_shop(&endpoint.url, &settings);
    world.ok(&["emit", "--type", "a", "--data", "1"]);
    world.ok(&["emit", "--type", "a", "--data", "2"]);
    let summary = world.json(&["drain", "--for", "5min", "--allow-private-targets"]);
    assert_eq!((&summary["dead"], &summary["waiting"]), (&2.into(), &0.into()));

    let listed = world.ok(&["dead", "list", "--json"]);
    let letters: Vec<serde_json::Value> =
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(letters.len(), 2);
    assert_eq!((&letters[0]["reason"], &letters[0]["status"]), (&"exhausted".into(), &403.into()));
    assert_eq!(world.ok(&["dead", "list", "--max", "1", "--subscriber", "shop"]).lines().count(), 2);
    assert!(world.ok(&["dead", "analyse"]).contains("rotated or wrong credentials"));

    let id = letters[0]["id"].as_str().unwrap();
    let shown = world.ok(&["delivery", "show", id]);
    assert!(shown.contains("dead: exhausted\n") && shown.contains("answered 403"), "{shown}");
    assert_eq!(world.json(&["dead", "redrive", id])["done"], 1);
    assert_eq!(world.run(&["dead", "redrive", id]).code, 1, "it waits again");
    assert_eq!(world.json(&["status"])["deliveries"]["waiting"], 1);
    assert_eq!(world.json(&["dead", "purge", "--subscriber", "shop", "--since", "1ns"])["done"], 0);
    assert_eq!(world.json(&["dead", "purge", "--subscriber", "shop", "--since", "1d"])["done"], 1);
    assert_eq!(world.ok(&["dead", "list"]), "no dead letters\n");

    let listed = world.ok(&["job", "list"]);
    assert_eq!(listed.lines().count(), 5, "{listed}");
    let shown = world.json(&["job", "show", "4"]);
    assert_eq!((&shown["kind"], &shown["subscriber"]), (&"purge".into(), &"shop".into()));
    let refused = world.run(&["job", "cancel", "4"]);
    assert!(refused.code == 1 && refused.stderr.contains("the job is done already"), "{}", refused.stderr);
}

#[test]
fn a_running_serve_takes_up_what_other_commands_do_and_ends_in_order() {
    let endpoint = Endpoint::answering(200);
    let world = World::new();
    let serving = world.serve();
    world.ok(&["subscriber", "add", "shop", &endpoint.url, "--allow-private-targets"]);
    world.ok(&["emit", "--type", "order.paid", "--data", "{\"n\":1}"]);
    assert!(endpoint.bodies.recv().unwrap().contains("{\"n\":1}"));
    let tested = world.json(&["subscriber", "test", "shop", "--wait", "5min"]);
    assert_eq!((&tested["place"], &tested["status"]), (&"delivered".into(), &200.into()));

    let mut stream = TcpStream::connect(&serving.address).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    let (code, rest) = serving.terminate();
    assert_eq!(code, 0, "{rest}");
    assert!(rest.contains("\"in_order\":true"), "{rest}");
    assert!(!rest.contains("whsec_"), "{rest}");
    assert_eq!(world.json(&["status"])["deliveries"]["delivered"], 2);
}

#[test]
fn with_one_socket_for_all_they_take_turns_and_nothing_counts_as_a_failure() {
    let endpoints = [Endpoint::answering(200), Endpoint::answering(200), Endpoint::answering(200)];
    let world = World::new();
    for (number, endpoint) in endpoints.iter().enumerate() {
        world.ok(&["subscriber", "add", &format!("s{number}"), &endpoint.url, "--allow-private-targets"]);
    }
    let serving = world.serve_with(&["--connections-max", "1"]);
    for n in ["1", "2", "3"] {
        world.ok(&["emit", "--type", "a", "--data", n]);
    }
    for endpoint in &endpoints {
        assert_eq!(endpoint.bodies.iter().take(3).count(), 3);
    }
    let (code, log) = serving.terminate();
    assert_eq!(code, 0, "{log}");
    let deliveries = world.json(&["status"])["deliveries"].clone();
    assert_eq!((&deliveries["delivered"], &deliveries["failed_attempts"]), (&9.into(), &0.into()));
}

fn check_the_look_at_deliveries(world: &World) {
    let ill = Endpoint::answering(500);
    let settings = ["breaker.failures=1", "breaker.failures_when_slow=1"];
    world.ok(&[&["subscriber", "add", "shop", &ill.url, "--allow-private-targets"], &settings[..]].concat());
    for key in ["k1", "k2"] {
        let id = format!("event-{key}");
        world.ok(&["emit", "--type", "order.paid", "--data", "{\"n\":1}", "--key", key, "--id", &id]);
    }
    let serving = world.serve();
    while world.json(&["status"])["held_up"][0]["state"] != "breaker_open" {}
    assert_eq!(serving.terminate().0, 0);

    let list = |more: &[&str]| -> Vec<serde_json::Value> {
        let printed = world.ok(&[&["delivery", "list", "--json"], more].concat());
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let keys = |found: &[serde_json::Value]| -> Vec<String> {
        found.iter().map(|delivery| delivery["key"].as_str().unwrap().to_owned()).collect()
    };
    let all = list(&[]);
    assert_eq!(keys(&all), ["k2", "k1"]);
    assert_eq!((&all[1]["name"], &all[1]["state"]), (&"shop".into(), &"waiting".into()));
    assert_eq!(list(&["--subscriber", "shop", "--state", "waiting"]).len(), 2);
    assert_eq!(keys(&list(&["--event", "event-k2"])), ["k2"]);
    assert_eq!(list(&["--max", "1"]).len(), 1);
    assert_eq!(world.ok(&["delivery", "list", "--state", "dead"]), "no such deliveries\n");
    assert_eq!(world.run(&["delivery", "list", "--event", "x", "--state", "dead"]).code, 64);

    world.ok(&["emit", "--type", "order.paid", "--key", "k3", "--data", "3"]);
    assert_eq!(keys(&list(&[])), ["k3", "k2", "k1"]);
    assert_eq!(keys(&list(&["--tried"])), ["k2", "k1"]);

    let tried = all.iter().find(|delivery| delivery["attempts"] == 1).unwrap();
    let id = tried["id"].as_str().unwrap();
    let shown = world.json(&["delivery", "show", id]);
    let attempt = &shown["tried"][0];
    assert_eq!(
        (&attempt["number"], &attempt["outcome"], &attempt["status"]),
        (&1.into(), &"rejected".into(), &500.into())
    );
    assert_eq!(attempt["retried_by"], "backoff");
    assert!(shown["body"].as_str().unwrap().contains("{\"n\":1}"), "{shown}");
    let waits_for = shown["waits_for"].as_str().unwrap();
    assert!(waits_for.contains("the subscriber: breaker open: its endpoint failed"), "{shown}");
    let text = world.ok(&["delivery", "show", id]);
    assert!(text.contains("the subscriber: breaker open: ") && text.contains("answered 500\n"), "{text}");

    let unknown = world.run(&["delivery", "show", "dlv_01hf7yat00zzzzzzzzzzzzzzzz"]);
    assert_eq!(unknown.code, 1);
    assert!(
        unknown.stderr.contains("there is no delivery dlv_01hf7yat00zzzzzzzzzzzzzzzz"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn deliveries_are_listed_and_one_is_shown_with_its_attempts_and_why_it_waits() {
    check_the_look_at_deliveries(&World::new());
    let test = "deliveries_are_listed_and_one_is_shown_with_its_attempts_and_why_it_waits";
    if let Some(world) = World::on_postgres(test) {
        check_the_look_at_deliveries(&world);
    }
}

fn check_an_attempt_is_shown(world: &World) {
    let body = [b"<b>\x1b[2J\n\xff".to_vec(), vec![b'x'; KeptAnswer::BODY_BYTES_MAX]].concat();
    let busy =
        Endpoint::answering_in_full(503, "Retry-After: 3600\r\nServer: shop/1\r\nx-a: b\r\n", body.clone());
    world.ok(&["subscriber", "add", "shop", &busy.url, "--allow-private-targets"]);
    world.ok(&["emit", "--type", "order.paid", "--data", "1"]);
    let serving = world.serve();
    let id = loop {
        let listed = world.ok(&["delivery", "list", "--json"]);
        let delivery: serde_json::Value = serde_json::from_str(listed.trim()).unwrap();
        if delivery["attempts"] == 1 {
            break delivery["id"].as_str().unwrap().to_owned();
        }
    };
    assert_eq!(serving.terminate().0, 0);
    let shown = world.json(&["delivery", "show", &id]);
    let attempt = &shown["tried"][0];
    let us = |part: &str| attempt[part].as_u64().unwrap_or_else(|| panic!("no {part}: {shown}"));
    assert!(us("connect_us") <= us("first_byte_us") && us("first_byte_us") <= us("latency_us"), "{shown}");
    assert_eq!(attempt["retried_by"], "retry_after");
    let waits_for = shown["waits_for"].as_str().unwrap();
    assert!(waits_for.contains(", as its answer asked by Retry-After (`delivery retry`"), "{waits_for}");
    let text = world.ok(&["delivery", "show", &id]);
    assert!(text.contains("answered 503; it asked by Retry-After to wait\n"), "{text}");
    let rest = "x".repeat(KeptAnswer::BODY_BYTES_MAX - 9);
    let answer = &attempt["answer"];
    assert_eq!(answer["headers"], json!({ "retry-after": "3600", "server": "shop/1" }));
    assert_eq!(
        (&answer["body"], &answer["cut"]),
        (&json!(format!("<b>\x1b[2J\n\u{fffd}{rest}")), &json!(true))
    );
    assert!(text.contains("answer to attempt 1  retry-after: 3600; server: shop/1\n"), "{text}");
    let gap = " ".repeat(13);
    let shown_body =
        format!("its body{gap}<b>\\u{{1b}}[2J\\n{}{rest} … (its rest was not kept)\n", '\u{fffd}');
    assert!(text.contains(&shown_body), "{text}");

    let ill = Endpoint::answering_in_full(500, "", body);
    world.ok(&["subscriber", "add", "ill", &ill.url, "--allow-private-targets"]);
    let serving = world.serve_with(&["--forget-answers"]);
    let tested = world.run(&["subscriber", "test", "ill", "--wait", "5min", "--json"]);
    let tested: serde_json::Value = serde_json::from_str(&tested.stdout).unwrap();
    assert_eq!(serving.terminate().0, 0);
    let shown = world.json(&["delivery", "show", tested["id"].as_str().unwrap()]);
    assert_eq!((&shown["tried"][0]["status"], &shown["tried"][0]["answer"]), (&json!(500), &json!(null)));
}

#[test]
fn an_attempt_is_shown_in_parts_with_its_answer_and_the_cause_of_its_retry() {
    check_an_attempt_is_shown(&World::new());
    if let Some(world) = World::on_postgres("an_attempt_is_shown_in_parts_with_its_answer") {
        check_an_attempt_is_shown(&world);
    }
}
