use serde_json::Value;

use crate::cli::world::{Serving, World, user};

const NOWHERE: &str = "http://127.0.0.1:9/";
const EVENT: &str = r#"{"type":"order.paid","data":1}"#;

/// On a file, and on a server if there is one.
fn worlds(test: &str) -> impl Iterator<Item = World> {
    [Some(World::with_shop(NOWHERE, &[]).0), World::with_shop_on_postgres(test, NOWHERE)]
        .into_iter()
        .flatten()
}

fn create(world: &World, name: &str, scope: &str) -> String {
    let made = world.json(&["token", "create", name, "--scope", scope]);
    made["token"].as_str().unwrap().to_owned()
}

/// The status of the answer.
fn ask(serving: &Serving, line: &str, token: Option<&str>, body: &str) -> u16 {
    serving.ask(line, token, body).0
}

fn read(serving: &Serving, token: Option<&str>) -> u16 {
    ask(serving, "GET /v1/subscribers", token, "")
}

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

#[test]
fn a_token_made_anywhere_holds_in_each_process_until_it_is_revoked() {
    for world in worlds("a_token_made_anywhere_holds_in_each_process") {
        let both = [world.serve_with(&["--node", "a"]), world.serve_with(&["--node", "b"])];
        for serving in &both {
            assert_eq!(read(serving, None), 200, "no token exists");
        }
        let shop = create(&world, "shop", "emit");
        for serving in &both {
            wait_until(|| read(serving, None) == 401);
            assert_eq!(read(serving, Some(&shop)), 403);
            assert_eq!(ask(serving, "POST /v1/events", Some(&shop), EVENT), 202);
            assert_eq!(read(serving, Some("hookproof_of-somebody-else")), 401);
            assert_eq!(ask(serving, "GET /readyz", None, ""), 200, "health needs none");
        }
        let ann = create(&world, "ann", "admin");
        wait_until(|| read(&both[0], Some(&ann)) == 200);
        // Made by a process, revoked by the other one.
        assert_eq!(ask(&both[0], "GET /v1/tokens", Some(&ann), ""), 200, "who only reads is not in the log");
        let bob = r#"{"name":"bob","scope":"operate"}"#;
        assert_eq!(ask(&both[0], "POST /v1/tokens", Some(&ann), bob), 201);
        let made = world.run(&["token", "list", "--json"]).stdout;
        let bob = made.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let bob = bob.into_iter().find(|token| token["name"] == "bob").unwrap();
        assert_eq!(bob["by"], "token ann");
        wait_until(|| read(&both[1], Some(&ann)) == 200);
        assert_eq!(ask(&both[1], "DELETE /v1/tokens/shop", Some(&ann), ""), 204);
        assert_eq!(ask(&both[1], "POST /v1/events", Some(&shop), EVENT), 401);
        wait_until(|| ask(&both[0], "POST /v1/events", Some(&shop), EVENT) == 401);
        for name in ["bob", "ann"] {
            world.ok(&["token", "revoke", name]);
        }
        for serving in &both {
            wait_until(|| read(serving, Some(&ann)) == 401);
            assert_eq!(read(serving, None), 401, "it goes on to demand one");
        }
        let [first, _second] = both;
        let (_, log) = first.terminate();
        let acts: Vec<&str> = log.lines().filter(|line| line.contains("an operator's request")).collect();
        assert!(acts.len() == 1 && acts[0].contains(r#""by":"token ann""#), "{log}");
        assert!(!log.contains(&shop) && !log.contains(&ann), "{log}");
    }
}

#[test]
fn beyond_loopback_a_valid_token_of_either_kind_is_needed_at_the_start() {
    for world in worlds("beyond_loopback_a_valid_token_is_needed") {
        let refused = || {
            let ran = world.run(&["serve", "--listen", "0.0.0.0:0"]);
            assert_eq!(ran.code, 64, "{}", ran.stderr);
            assert!(
                ran.stderr.contains("--token-env") && ran.stderr.contains("token create"),
                "{}",
                ran.stderr
            );
        };
        refused();
        world.ok(&["token", "create", "brief", "--scope", "admin", "--expires", "1s"]);
        wait_until(|| world.json(&["token", "list"])["expired"] == true);
        refused();
        let ann = create(&world, "ann", "read");
        let serving = world.serve_at("0.0.0.0:0", &[], &[]);
        assert_eq!([read(&serving, None), read(&serving, Some(&ann))], [401, 200]);
        world.ok(&["token", "revoke", "ann"]);
        wait_until(|| read(&serving, Some(&ann)) == 401);
        assert_eq!(read(&serving, None), 401);
    }
    let world = World::new();
    let ran = world.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    assert_eq!(std::fs::read_dir(world.folder()).unwrap().count(), 0, "no database is made");
}

#[test]
fn an_expired_token_is_refused_and_shown_as_expired() {
    for world in worlds("an_expired_token_is_refused") {
        let made = world.json(&["token", "create", "brief", "--scope", "admin", "--expires", "1s"]);
        assert_eq!((&made["by"], &made["expired"]), (&user().into(), &false.into()));
        let serving = world.serve();
        wait_until(|| world.json(&["token", "list"])["expired"] == true);
        let brief = made["token"].as_str().unwrap();
        assert_eq!([read(&serving, Some(brief)), read(&serving, None)], [401, 401]);
        assert!(world.ok(&["token", "list"]).contains(", expired"));
        let lasting = create(&world, "lasting", "read");
        wait_until(|| read(&serving, Some(&lasting)) == 200);
    }
}

#[test]
fn while_tokens_cannot_be_read_the_last_known_hold_and_subscribers_still_change() {
    for world in worlds("while_tokens_cannot_be_read_the_last_known_hold") {
        let ann = create(&world, "ann", "admin");
        let serving = world.serve();
        world.sql_does("ALTER TABLE tokens RENAME TO elsewhere");
        let pause = "POST /v1/subscribers/shop/pause";
        assert_eq!(ask(&serving, pause, Some(&ann), "{}"), 200, "the change is in use");
        assert_eq!([read(&serving, Some(&ann)), read(&serving, None)], [200, 401]);
        world.sql_does("DELETE FROM elsewhere");
        world.sql_does("ALTER TABLE elsewhere RENAME TO tokens");
        wait_until(|| read(&serving, Some(&ann)) == 401);
    }
}

#[test]
fn beside_tokens_of_the_environment_both_hold_and_the_log_tells_them_apart() {
    let (world, _) = World::with_shop(NOWHERE, &[]);
    let (given, stored) = ("a-token-of-the-environment", create(&world, "SENDER_TOKEN", "operate"));
    let serving = world.serve_by(&["--token-env", "SENDER_TOKEN"], &[("SENDER_TOKEN", given)]);
    for token in [given, &stored] {
        assert_eq!(ask(&serving, "POST /v1/subscribers/shop/pause", Some(token), ""), 200);
    }
    wait_until(|| {
        let mut status = world.command(&["status", "--token-env", "STORED"]);
        let shown = String::from_utf8(status.env("STORED", &stored).output().unwrap().stdout).unwrap();
        shown.contains("in flight              0, 0 of them in doubt")
    });
    let (_, log) = serving.terminate();
    let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let acts: Vec<_> = entries.filter_map(|entry| Some(entry["fields"]["by"].as_str()?.to_owned())).collect();
    assert_eq!(acts, ["SENDER_TOKEN", "token SENDER_TOKEN"]);
}

#[test]
fn a_token_is_printed_once_and_kept_by_its_digest() {
    let (world, _) = World::with_shop(NOWHERE, &[]);
    let token = world.ok(&["token", "create", "shop", "--scope", "emit", "--expires", "90d"]);
    let secret = token.trim_end().strip_prefix("hookproof_").unwrap();
    assert_eq!(secret.len(), 43, "32 random bytes");
    let shown = world.json(&["token", "list"]);
    let [name, scope, by] = ["name", "scope", "by"].map(|field| shown[field].as_str().unwrap());
    assert_eq!([name, scope, by], ["shop", "emit", &user()]);
    assert!(shown["expires"].is_string() && shown["token"].is_null(), "{shown}");
    assert!(!world.ok(&["token", "list"]).contains(secret));
    let file = std::fs::read(world.folder().join("sender.db")).unwrap();
    assert!(!file.windows(secret.len()).any(|bytes| bytes == secret.as_bytes()), "the file has it");
    for (arguments, code, says) in [
        (&["token", "create", "shop", "--scope", "read"][..], 1, "revoke it first"),
        (&["token", "create", "other"], 64, "--scope"),
        (&["token", "create", "other", "--scope", "all"], 64, "admin, operate, read, emit"),
        (&["token", "create", "a/b", "--scope", "read"], 64, "'/'"),
        (&["token", "create", "other", "--scope", "read", "--expires", "0s"], 64, "1s to 3650d"),
        (&["token", "revoke", "nobody"], 1, "there is no token \"nobody\""),
    ] {
        let ran = world.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{arguments:?}: {}", ran.stderr);
    }
    assert_eq!(world.json(&["token", "revoke", "shop"])["revoked"], true);
    assert_eq!(world.ok(&["token", "list"]), "no tokens\n");
}

#[test]
fn a_backup_of_an_encrypted_database_brings_a_token_back() {
    let world = World::new().with_key(&"ab".repeat(32));
    world.ok(&["subscriber", "add", "shop", NOWHERE, "--allow-private-targets"]);
    let token = create(&world, "ann", "admin");
    world.ok(&["backup", "copy.db"]);
    world.ok(&["token", "revoke", "ann"]);
    let told = world.ok(&["restore", "copy.db", "--replace"]);
    assert!(told.contains("`token list`"), "{told}");
    let serving = world.serve();
    assert_eq!([read(&serving, Some(&token)), read(&serving, None)], [200, 401]);
}

#[test]
fn a_restriction_that_matches_no_subscriber_is_noted() {
    for world in worlds("a_restriction_that_matches_no_subscriber") {
        for (number, (names, noted)) in [
            (&["shop"][..], false),
            (&["nobody", "sh*"], false),
            (&["acme-shop,globex-shop"], true),
            (&["shops*", "sho"], true),
        ]
        .into_iter()
        .enumerate()
        {
            let token = number.to_string();
            let given = names.iter().flat_map(|name| ["--subscriber", name]);
            let create = ["token", "create", &token, "--scope", "read"].into_iter().chain(given);
            let ran = world.run(&create.collect::<Vec<_>>());
            assert_eq!(
                (ran.code, ran.stderr.contains("no present subscriber")),
                (0, noted),
                "{}",
                ran.stderr
            );
            assert!(!noted || names.iter().all(|name| ran.stderr.contains(&format!("`{name}`"))));
        }
        for refused in ["sub_*", "a/*", " *"] {
            let ran = world.run(&["token", "create", "b", "--scope", "read", "--subscriber", refused]);
            let named = format!("the name {:?} ", refused.trim_end_matches('*').trim_end());
            assert!(ran.code == 64 && ran.stderr.contains(&named), "{named}: {}", ran.stderr);
        }
    }
}
