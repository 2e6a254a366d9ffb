use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use crate::cli::world::World;

fn requests_once(world: &World, more: &[&str], is_there: impl Fn(&Value) -> bool) -> Value {
    loop {
        let requests = world.json(&[&["status"], more].concat())["requests"].take();
        if is_there(&requests) {
            return requests;
        }
    }
}

fn in_flight(world: &World, more: &[&str]) -> String {
    let status = world.ok(&[&["status"], more].concat());
    let line = status.lines().find_map(|line| line.strip_prefix("in flight")).unwrap();
    line.trim_start().to_owned()
}

#[test]
fn the_processes_report_their_requests_in_flight() {
    let endpoint = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", endpoint.local_addr().unwrap());
    let (world, _) = World::with_shop(&url, &["timeout=5min", "limit.burst=10", "limit.in_flight=3"]);
    assert_eq!(in_flight(&world, &[]), "no running process");
    let serving = world.serve_with(&["--node", "web-1"]);
    requests_once(&world, &[], |requests| requests["nodes_asked"] == 1);
    assert_eq!(in_flight(&world, &[]), "0, 0 of them in doubt");
    for n in 0..5 {
        world.ok(&["emit", "--type", "order.paid", "--data", &n.to_string()]);
    }
    let requests = requests_once(&world, &[], |requests| requests["in_flight"] == 3);
    let expected = json!({ "in_flight": 3, "in_doubt": 0, "nodes_asked": 1, "nodes_silent": [] });
    assert_eq!(requests, expected, "three at a time");
    assert_eq!(in_flight(&world, &[]), "3, 0 of them in doubt");

    let (other, _) = World::with_shop(&url, &[]);
    let stranger = other.serve();
    world.sql(&format!("UPDATE nodes SET address = '{}'", stranger.address));
    let why = format!("another node answers at {}", stranger.address);
    assert_eq!(in_flight(&world, &[]), format!("unknown: web-1: {why}"));
    let silent = json!([{ "name": "web-1", "why": why }]);
    assert_eq!(requests_once(&world, &[], |_| true)["nodes_silent"], silent);
    drop((serving, stranger));
}

#[test]
fn a_process_that_asks_for_a_token_is_shown_it() {
    let (world, _) = World::with_shop("http://127.0.0.1:9/", &[]);
    let token = "a-token-of-sixteen-letters-or-more";
    let serving = world.serve_by(&["--token-env", "SENDER_TOKEN"], &[("SENDER_TOKEN", token)]);
    requests_once(&world, &[], |requests| requests["nodes_asked"] == 1);
    assert!(in_flight(&world, &[]).contains("needs a token (--token-env NAME)"));
    let mut status = world.command(&["status", "--token-env", "SENDER_TOKEN"]);
    let shown = status.env("SENDER_TOKEN", token).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("in flight              0, 0 of them in doubt"), "{shown}");
    assert_eq!(world.run(&["status", "--token-env", "NOT_SET"]).code, 64);
    drop(serving);
}

#[test]
fn the_log_names_the_token_of_each_request_that_acts() {
    let (world, _) = World::with_shop("http://127.0.0.1:9/", &[]);
    let tokens = [("ON_CALL", "operate"), ("WEB_SHOP", "emit")];
    let text = |name: &str| format!("the-token-of-{name}");
    let options = tokens.map(|(name, scope)| ["--token-env".to_owned(), format!("{name}={scope}")]).concat();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let (on_call, web_shop) = (text("ON_CALL"), text("WEB_SHOP"));
    let serving = world.serve_by(&options, &[("ON_CALL", &on_call), ("WEB_SHOP", &web_shop)]);
    for (line, name, status) in [
        ("POST /v1/subscribers/shop/pause", "ON_CALL", "200"),
        ("DELETE /v1/subscribers/shop", "ON_CALL", "403"),
        ("POST /v1/subscribers/shop/resume", "WEB_SHOP", "403"),
        ("GET /v1/subscribers", "ON_CALL", "200"),
    ] {
        let mut stream = TcpStream::connect(&serving.address).unwrap();
        let head = format!("{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n", text(name));
        stream.write_all(format!("{head}connection: close\r\ncontent-length: 0\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {answer}");
    }
    let (_, log) = serving.terminate();
    let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["fields"].clone());
    let acts: Vec<_> = entries.filter(|fields| !fields["by"].is_null()).collect();
    let [act] = &acts[..] else { panic!("{log}") };
    assert_eq!(
        [&act["by"], &act["method"], &act["path"], &act["status"]],
        [&json!("ON_CALL"), &json!("POST"), &json!("/v1/subscribers/shop/pause"), &json!(200)]
    );
}

/// A lease outlasts its process, and any program may listen at its address.
#[test]
fn a_stranger_on_the_port_of_an_ended_process_gets_no_token() {
    let (world, _) = World::with_shop("http://127.0.0.1:9/", &[]);
    let serving = world.serve();
    requests_once(&world, &[], |requests| requests["nodes_asked"] == 1);
    drop(serving);
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = stranger.local_addr().unwrap();
    world.sql(&format!("UPDATE nodes SET address = '{address}'"));
    world.sql("UPDATE owners SET until = until + 3600000000000");
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = stranger.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
        let heard: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        stream.write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n").unwrap();
        heard
    });
    let token = "a-token-of-sixteen-letters-or-more";
    let mut status = world.command(&["status", "--token-env", "SENDER_TOKEN"]);
    let shown = String::from_utf8(status.env("SENDER_TOKEN", token).output().unwrap().stdout).unwrap();
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let heard = heard.join().unwrap();
    assert!(heard[0].starts_with("GET /v1/status"), "{heard:?}");
    assert!(!heard.iter().any(|line| line.contains(token)), "{heard:?}");
    assert!(shown.contains(&format!("GET http://{address}/v1/status")), "{shown}");
}

#[test]
fn processes_that_deliver_are_shown_drained_and_resumed() {
    let (world, _) = World::with_shop("http://127.0.0.1:9/", &[]);
    assert_eq!(world.ok(&["nodes"]), "no process is delivering from this database\n");
    let serving = world.serve_with(&["--node", "web-1"]);
    // The process listens before it announces itself.
    let node = loop {
        let shown = world.ok(&["nodes", "--json"]);
        if let Some(line) = shown.lines().next() {
            break serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    };
    assert_eq!((&node["name"], &node["home_of"]), (&"web-1".into(), &1.into()));
    let table = world.ok(&["nodes"]);
    assert!(
        table.starts_with("NAME") && table.contains("web-1") && table.contains(env!("CARGO_PKG_VERSION")),
        "{table}"
    );

    let unknown = world.run(&["node", "drain", "web-2"]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.stderr.contains("no running node with that name"), "{}", unknown.stderr);
    let told = world.ok(&["node", "drain", "web-1"]);
    assert!(told.contains("deliveries wait until one is resumed"), "{told}");
    assert_eq!(world.json(&["nodes"])["draining"], true);
    assert!(world.ok(&["status"]).contains("1 node, 1 of them draining"), "{}", world.ok(&["status"]));
    world.ok(&["node", "resume", "web-1"]);
    let node = world.json(&["nodes"]);
    assert_eq!((&node["draining"], &node["takes_lanes"]), (&false.into(), &true.into()));
    drop(serving);
}

/// As after a failover to a server with a slow clock.
#[test]
fn liveness_on_a_server_follows_its_clock_after_it_was_set_back() {
    let test = "liveness_on_a_server_follows_its_clock";
    let Some(world) = World::with_shop_on_postgres(test, "http://127.0.0.1:9/") else { return };
    let serving = world.serve_with(&["--node", "web-1"]);
    world.ok(&["emit", "--type", "order.paid", "--data", "1"]);
    while world.json(&["status"])["delivering_processes"] != 1 {}
    world.sql("UPDATE totals SET clock = clock + 3600000000000");
    assert_eq!(world.json(&["nodes"])["name"], "web-1");
    let status = world.json(&["status"]);
    let told =
        [&status["nodes"]["living"], &status["delivering_processes"], &status["requests"]["nodes_asked"]];
    assert_eq!(told, [1, 1, 1]);
    // By the store's time the deliveries are late.
    let findings = world.run(&["doctor", "--json"]).stdout;
    let mut findings = findings.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lanes = findings.find(|finding| finding["check"] == "lanes").unwrap();
    assert_eq!(lanes["state"], "well", "{lanes}");
    let told = world.ok(&["node", "drain", "web-1"]);
    assert!(told.contains("deliveries wait until one is resumed"), "{told}");
    world.ok(&["node", "resume", "web-1"]);
    drop(serving);
}

#[test]
fn a_name_that_no_table_or_path_can_show_is_refused() {
    let world = World::new();
    for name in ["", "a b", "a/b", "grün", &"a".repeat(65)] {
        let ran = world.run(&["serve", "--node", name]);
        assert_eq!(ran.code, 64, "{name:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("visible ASCII"), "{}", ran.stderr);
    }
}
