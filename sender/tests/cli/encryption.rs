use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::cli::world::{Endpoint, World};
use crate::postgres_server::query;

const OLD: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const NEW: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHiA=";

/// In a body, in one that only some subscribers get, in the name of a custom header, so in the log of changes too, in an
/// answer, and as a client secret.
const MARKS: [&str; 5] = [
    "in-the-body-7f3a",
    "in-the-shape-7f3a",
    "in-the-header-7f3a",
    "in-the-answer-7f3a",
    "client-secret-7f3a",
];
const DATA: &str = r#"{"note":"in-the-body-7f3a","extra":"in-the-shape-7f3a"}"#;

fn add<'a>(name: &'a str, url: &'a str) -> [&'a str; 9] {
    let header = "headers=in-the-header-7f3a: 1";
    [
        "subscriber",
        "add",
        name,
        url,
        "--allow-private-targets",
        "--json",
        "retry.backoff=fixed",
        "retry.schedule=1h",
        header,
    ]
}

/// Leaves two deliveries, each with a failed attempt and its answer. Returns the secrets, and the request of each.
fn fill(world: &World, endpoint: &Endpoint) -> (Vec<String>, Vec<String>) {
    let secret = |added: Value| added["secret"].as_str().unwrap().to_owned();
    let whole = secret(world.json(&add("whole", &endpoint.url)));
    let part = [&add("part", &endpoint.url)[..], &["shape.allow=note"]].concat();
    let secrets = vec![whole, secret(world.json(&part))];
    let client = ["--events", "never", "--client-secret-env", "CLIENT_SECRET", "oauth.client_id=me"];
    let idle = [&add("idle", &endpoint.url)[..], &client, &["oauth.token_url=http://127.0.0.1:9/"]].concat();
    assert!(world.command(&idle).env("CLIENT_SECRET", MARKS[4]).output().unwrap().status.success());
    world.ok(&["emit", "--type", "order.paid", "--key", "k", "--data", DATA]);
    let serving = world.serve();
    let sent = [(); 2].map(|()| endpoint.bodies.recv().unwrap());
    while !deliveries(world).iter().all(|delivery| delivery["attempts"] == 1) {}
    if world.server().is_none() {
        world.ok(&["backup", "copy.db"]);
        assert!(found(world, "order.paid"), "the log is there");
    }
    assert_eq!(serving.terminate().0, 0);
    (secrets, sent.into())
}

fn deliveries(world: &World) -> Vec<Value> {
    let listed = world.ok(&["delivery", "list", "--json"]);
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn contains(bytes: &[u8], mark: &str) -> bool {
    bytes.windows(mark.len()).any(|part| part == mark.as_bytes())
}

/// Whether any file of the folder, or row of the server, has this text.
fn found(world: &World, mark: &str) -> bool {
    let Some(server) = world.server() else {
        let files = fs::read_dir(world.folder()).unwrap().map(|file| file.unwrap().path());
        return files.filter(|file| file.is_file()).any(|file| contains(&fs::read(file).unwrap(), mark));
    };
    let hex: String = mark.bytes().map(|byte| format!("{byte:02x}")).collect();
    let tables = query(server, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()");
    assert!(tables.len() > 15, "{tables:?}");
    let rows = tables.iter().flat_map(|table| query(server, &format!("SELECT t::text FROM {table} t")));
    rows.into_iter().any(|row| row.contains(mark) || row.contains(&hex))
}

fn check_nothing_is_plain(plain: &World, encrypted: &World) {
    for (world, is_plain) in [(plain, true), (encrypted, false)] {
        let endpoint = Endpoint::answering_in_full(500, "", MARKS[3].into());
        let (secrets, sent) = fill(world, &endpoint);
        for mark in MARKS.into_iter().chain(secrets.iter().map(String::as_str)) {
            assert_eq!(found(world, mark), is_plain, "{mark}");
        }
        // All of it can be read with the key.
        let both = deliveries(world);
        assert_eq!(both.len(), 2, "{both:?}");
        for delivery in &both {
            let id = delivery["id"].as_str().unwrap();
            let shown = world.json(&["delivery", "show", id]);
            assert!(sent.iter().any(|sent| shown["body"] == sent.as_str()), "{shown}");
            assert_eq!(shown["tried"][0]["answer"]["body"], MARKS[3], "{shown}");
            world.ok(&["delivery", "retry", id]);
        }
        let by_field = world.ok(&["find", "--field", "/data/extra=in-the-shape-7f3a", "--json"]);
        assert_eq!(by_field.lines().count(), 1, "{by_field}");
        let settings = world.ok(&["subscriber", "show", "part", "--json"]);
        assert!(settings.contains(MARKS[2]), "{settings}");
        // The same bytes go out again, after a restart.
        endpoint.answers(200);
        let serving = world.serve();
        let mut again = [(); 2].map(|()| endpoint.bodies.recv().unwrap());
        let mut sent = sent;
        again.sort();
        sent.sort();
        assert_eq!(again[..], sent[..]);
        assert_eq!(serving.terminate().0, 0);
    }
}

#[test]
fn no_body_secret_header_or_answer_is_in_an_encrypted_file_its_log_or_its_backup() {
    let encrypted = World::new().with_key(OLD);
    check_nothing_is_plain(&World::new(), &encrypted);
    fs::remove_file(encrypted.folder().join("sender.db")).unwrap();
    encrypted.ok(&["restore", "copy.db", "--replace"]);
    let id = deliveries(&encrypted)[0]["id"].as_str().unwrap().to_owned();
    assert!(encrypted.json(&["delivery", "show", &id])["body"].to_string().contains(MARKS[0]));
    assert_eq!(encrypted.run(&["doctor"]).code, 0);
    encrypted.ok(&["vacuum"]);
}

#[test]
fn no_body_secret_header_or_answer_is_in_the_tables_of_an_encrypted_server() {
    let test = "no_body_secret_header_or_answer_is_in_the_tables_of_an_encrypted_server";
    let worlds = (World::on_postgres(test), World::on_postgres(test));
    if let (Some(plain), Some(encrypted)) = worlds {
        check_nothing_is_plain(&plain, &encrypted.with_key(OLD));
    }
}

fn check_keys(world: World) {
    let refused = |world: &World, expected: &str| {
        for arguments in [&["status"][..], &["emit", "--type", "a", "--data", "1"], &["subscriber", "list"]] {
            let ran = world.run(arguments);
            assert!(
                ran.code == 64 && ran.stderr.contains(expected),
                "{arguments:?}: {} {}",
                ran.code,
                ran.stderr
            );
        }
    };
    let (endpoint, mut world) = (Endpoint::answering_in_full(500, "", MARKS[3].into()), world);
    let (secrets, _) = fill(&world, &endpoint);
    let plain = |world: &World| {
        MARKS.into_iter().chain(secrets.iter().map(String::as_str)).filter(|mark| found(world, mark)).count()
    };
    if world.server().is_none() {
        fs::remove_file(world.folder().join("copy.db")).unwrap();
    }
    assert_eq!(plain(&world), MARKS.len() + secrets.len());

    // A first key needs all values to be sealed.
    world = world.with_key(OLD);
    refused(&world, "it is not encrypted, and a key is given; encrypt it with");
    let sealed = world.json(&["encrypt"]);
    assert_eq!((&sealed["sealed"], &sealed["damaged"]), (&json!(13), &json!(0)), "{sealed}");
    if world.server().is_none() {
        world.ok(&["vacuum"]);
    }
    assert_eq!(plain(&world), 0);
    let old = sealed["key"].as_str().unwrap().to_owned();
    assert_eq!(world.json(&["encrypt"])["sealed"], 0);

    // Without the key, or with another, no command does anything.
    world = world.with_key("");
    refused(&world, &format!("it is encrypted with the key {old}, and no key is given"));
    world = world.with_key(NEW);
    refused(&world, &format!("it is encrypted with the key {old}; expected that key among those given"));
    assert_eq!(world.run(&["encrypt"]).code, 64);

    // A new key above the old one.
    world = world.with_key(&format!("{NEW}\n{OLD}\n"));
    world.ok(&["emit", "--type", "order.paid", "--data", r#"{"note":"by the new key"}"#]);
    let sealed = world.json(&["encrypt"]);
    assert!(sealed["sealed"] == 13 && sealed["key"] != old.as_str(), "{sealed}");
    world = world.with_key(OLD);
    refused(&world, "expected that key among those given");
    world = world.with_key(NEW);
    for delivery in deliveries(&world) {
        let shown = world.json(&["delivery", "show", delivery["id"].as_str().unwrap()]);
        assert!(shown["body"].to_string().contains("note"), "{shown}");
    }
    endpoint.answers(200);
    world.ok(&["subscriber", "retry", "whole"]);
    let serving = world.serve();
    while deliveries(&world).iter().filter(|delivery| delivery["state"] == "delivered").count() < 3 {}
    assert_eq!(serving.terminate().0, 0);
}

#[test]
fn a_store_is_encrypted_later_and_its_key_is_changed() {
    check_keys(World::new());
    if let Some(world) = World::on_postgres("a_store_is_encrypted_later_and_its_key_is_changed") {
        check_keys(world);
    }
}

fn check_a_moved_value_is_refused(world: &World, body: &str) {
    let endpoint = Endpoint::answering(200);
    world.ok(&add("shop", &endpoint.url));
    for note in ["first", "second"] {
        world.ok(&["emit", "--type", "order.paid", "--data", &format!(r#"{{"note":"{note}"}}"#)]);
    }
    world.sql_does(&format!("UPDATE events SET {body} = (SELECT {body} FROM events ORDER BY event LIMIT 1)"));
    let serving = world.serve();
    assert!(endpoint.bodies.recv().unwrap().contains("first"));
    while deliveries(world).iter().any(|delivery| delivery["state"] == "waiting") {}
    assert_eq!(serving.terminate().0, 0);
    let dead = world.ok(&["dead", "list", "--json"]);
    assert!(dead.contains("unreadable") && dead.lines().count() == 1, "{dead}");
    assert!(endpoint.bodies.try_recv().is_err(), "a body was sent to another event's subscriber");
}

#[test]
fn a_body_that_was_moved_to_another_event_becomes_a_dead_letter_and_is_not_sent() {
    check_a_moved_value_is_refused(&World::new().with_key(OLD), "body");
    let test = "a_body_that_was_moved_to_another_event_becomes_a_dead_letter_and_is_not_sent";
    if let Some(world) = World::on_postgres(test) {
        check_a_moved_value_is_refused(&world.with_key(OLD), "bytes");
    }
}

#[test]
fn a_body_that_a_process_without_the_key_still_wrote_is_sealed_and_sent_after_all() {
    let world = World::new().with_key(OLD);
    let endpoint = Endpoint::answering(200);
    world.ok(&add("shop", &endpoint.url));
    world.ok(&["emit", "--type", "order.paid", "--data", "1"]);
    world.sql_does(r#"UPDATE events SET body = CAST('{"note":"late-7f3a"}' AS BLOB)"#);
    let serving = world.serve();
    while deliveries(&world)[0]["state"] != "dead" {}
    assert_eq!(serving.terminate().0, 0);
    assert!(world.ok(&["dead", "list", "--json"]).contains("unreadable"));
    let sealed = world.json(&["encrypt"]);
    assert_eq!((&sealed["sealed"], &sealed["damaged"]), (&json!(1), &json!(0)), "{sealed}");
    assert!(!found(&world, "late-7f3a"));
    world.ok(&["dead", "redrive", "--all"]);
    let serving = world.serve();
    assert_eq!(endpoint.bodies.recv().unwrap(), r#"{"note":"late-7f3a"}"#);
    assert_eq!(serving.terminate().0, 0);
}

#[test]
fn an_encrypted_store_moves_to_a_server_and_back() {
    let Some(server) = World::on_postgres("an_encrypted_store_moves_to_a_server_and_back") else { return };
    let world = World::new().with_key(OLD);
    let endpoint = Endpoint::answering_in_full(500, "", MARKS[3].into());
    fill(&world, &endpoint);
    let address = server.server().unwrap();
    world.ok(&["move", "--from", "sender.db", "--to", address]);
    world.ok(&["move", "--from", address, "--to", "back.db"]);
    for database in [address, "back.db"] {
        let listed = world.ok(&["delivery", "list", "--json", "--db", database]);
        assert_eq!(listed.lines().count(), 2);
        for line in listed.lines() {
            let delivery: Value = serde_json::from_str(line).unwrap();
            let shown = world.json(&["delivery", "show", delivery["id"].as_str().unwrap(), "--db", database]);
            assert!(shown["body"].to_string().contains(MARKS[0]), "{database}: {shown}");
            assert_eq!(shown["tried"][0]["answer"]["body"], MARKS[3]);
        }
    }
    assert!(Path::new(&world.folder().join("back.db")).exists());
}

#[test]
fn a_key_that_cannot_be_used_is_named_with_its_place() {
    let world = World::new().with_key("short");
    let ran = world.run(&["status"]);
    let expected = "cannot be used: key 1 has 5 characters and cannot be read; expected 32 bytes in base64";
    assert!(
        ran.code == 64 && ran.stderr.contains("the key file") && ran.stderr.contains(expected),
        "{}",
        ran.stderr
    );
    let mut both = world.command(&["status"]);
    let told = both.env("HOOKPROOF_ENCRYPTION_KEYS", OLD).output().unwrap();
    assert!(String::from_utf8(told.stderr).unwrap().contains("are both given; expected one of them"));
    let world = World::new();
    let told = world.command(&["status"]).env("HOOKPROOF_ENCRYPTION_KEYS", "").output().unwrap();
    let stderr = String::from_utf8(told.stderr).unwrap();
    assert!(stderr.contains("HOOKPROOF_ENCRYPTION_KEYS cannot be used: it has no key"), "{stderr}");
    let ran = world.run(&["encrypt"]);
    assert!(ran.code == 64, "{}", ran.stderr);
}
