//! An operator watches attempts.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cli::world::{Endpoint, World};

fn check_attempts_followed(world: &World) {
    let (ill, well) = (Endpoint::answering(500), Endpoint::answering(204));
    let add = |name: &str, url: &str| {
        world.ok(&[
            "subscriber",
            "add",
            name,
            url,
            "--allow-private-targets",
            "retry.backoff=equal-jitter",
            "retry.base=1h",
            "retry.cap=1h",
        ]);
    };
    add("ill", &ill.url);
    add("well", &well.url);
    assert_eq!(world.ok(&["attempts"]), "no such attempts\n");
    let serving = world.serve();
    world.ok(&["emit", "--type", "a", "--data", "1"]);
    let has_ended = |count| {
        while world.ok(&["attempts"]).lines().count() != count || world.ok(&["attempts"]).starts_with("no ") {
        }
    };
    has_ended(2);
    let shown = world.ok(&["attempts", "--failed"]);
    assert_eq!(shown.lines().count(), 1, "{shown}");
    let id = world.json(&["delivery", "list", "--subscriber", "ill"])["id"].as_str().unwrap().to_owned();
    assert!(shown.contains(&format!("  ill  {id}  attempt 1 rejected in ")), "{shown}");
    assert!(shown.ends_with(": answered 500\n"), "{shown}");

    let follow = ["attempts", "--follow", "--subscriber", "well", "--max", "1", "--json"];
    let mut following = world.command(&follow).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let earlier = next();
    assert_eq!((&earlier["name"], &earlier["status"]), (&"well".into(), &204.into()));
    for number in ["2", "3"] {
        world.ok(&["emit", "--type", "a", "--data", number]);
        let found = next();
        assert_ne!(found["delivery"], earlier["delivery"], "each is told once");
        assert_eq!((&found["name"], &found["outcome"]), (&"well".into(), &"delivered".into()));
    }
    let killed = Command::new("kill").args(["-INT", &following.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(following.wait().unwrap().code(), Some(0));
    assert_eq!(serving.terminate().0, 0);
}

#[test]
fn attempts_are_shown_as_they_end() {
    check_attempts_followed(&World::new());
    if let Some(world) = World::on_postgres("attempts_are_shown_as_they_end") {
        check_attempts_followed(&world);
    }
}
