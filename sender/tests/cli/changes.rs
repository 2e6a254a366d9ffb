use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::cli::world::{Endpoint, Serving, World, user};

const NOWHERE: &str = "http://127.0.0.1:9/";

/// Routes that are no `GET` and change nothing that an operator sets: an event, and a look at a change.
const NO_CHANGES: [&str; 3] = ["emitEvents", "findSubject", "planChange"];

/// Every other route that is no `GET`, in an order in which each succeeds: its operation, its path, and its body.
const CHANGES: [(&str, &str, &str); 22] = [
    (
        "addSubscriber",
        "/v1/subscribers",
        r#"{"name":"new","url":"http://127.0.0.1:9/","limit":{"rate":"2/s"}}"#,
    ),
    (
        "changeSubscriber",
        "/v1/subscribers/new",
        r#"{"limit":{"rate":"3/s"},"headers":["X-Key: in-a-header"],
            "oauth":{"token_url":"https://a/","client_id":"b","client_secret":"in-oauth"}}"#,
    ),
    ("rotateSecret", "/v1/subscribers/new/rotate", "{}"),
    ("pauseSubscriber", "/v1/subscribers/new/pause", r#"{"reason":"move"}"#),
    ("resumeSubscriber", "/v1/subscribers/new/resume", "{}"),
    ("testSubscriber", "/v1/subscribers/new/test", r#"{"wait":"0s"}"#),
    ("retrySubscriber", "/v1/subscribers/far/retry", "{}"),
    ("retryDelivery", "/v1/deliveries/{waiting}/retry", "{}"),
    ("resendDelivery", "/v1/deliveries/{delivered}/resend", "{}"),
    ("replaySubscriber", "/v1/subscribers/near/replay", r#"{"since":"2020-01-01T00:00:00Z"}"#),
    ("shedSubscriber", "/v1/subscribers/new/shed", r#"{"all":true}"#),
    ("purgeDead", "/v1/dead/purge", r#"{"subscriber":"new"}"#),
    ("redriveDead", "/v1/dead/redrive", r#"{"subscriber":"full"}"#),
    ("pauseJob", "/v1/jobs/{job}/pause", "{}"),
    ("resumeJob", "/v1/jobs/{job}/resume", "{}"),
    ("cancelJob", "/v1/jobs/{job}/cancel", "{}"),
    ("forgetSubject", "/v1/forget", r#"{"key":"a-person","plan":false}"#),
    ("createToken", "/v1/tokens", r#"{"name":"bob","scope":"read"}"#),
    ("revokeToken", "/v1/tokens/bob", ""),
    ("drainNode", "/v1/nodes/a/drain", "{}"),
    ("resumeNode", "/v1/nodes/a/resume", "{}"),
    ("removeSubscriber", "/v1/subscribers/new", ""),
];

/// On a file, and on a server if there is one.
fn worlds(test: &str) -> impl Iterator<Item = World> {
    [Some(World::new()), World::on_postgres(test)].into_iter().flatten()
}

/// The method and path of each operation that is no `GET`.
fn documented(serving: &Serving, token: &str) -> BTreeMap<String, (String, String)> {
    let (_, document) = serving.ask("GET /v1/openapi.json", Some(token), "");
    let document: Value = serde_json::from_str(&document).unwrap();
    let mut all = BTreeMap::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["post", "patch", "delete", "put"] {
            if let Some(operation) = item[method]["operationId"].as_str() {
                all.insert(operation.to_owned(), (method.to_uppercase(), path.clone()));
            }
        }
    }
    all
}

/// `near` accepts, `far` does not, and `full` is paused with one dead letter and no room for it. Returns the delivered one of `near`
/// and the waiting one of `far`.
fn fill(world: &World, near: &Endpoint) -> [String; 2] {
    let add = |name, url, more: &[&str]| {
        let add = ["subscriber", "add", name, url, "--allow-private-targets", "--events", name];
        world.ok(&[&add, more].concat());
    };
    add("near", &near.url, &[]);
    add("far", NOWHERE, &["retry.backoff=fixed", "retry.schedule=1h"]);
    add("full", NOWHERE, &["queue.rows=1"]);
    world.ok(&["subscriber", "pause", "full"]);
    let emit = |kind| world.ok(&["emit", "--type", kind, "--data", "1", "--key", "a-person"]);
    emit("full");
    world.ok(&["subscriber", "shed", "full", "--yes"]);
    for kind in ["full", "near", "far"] {
        emit(kind);
    }
    ["near", "far"].map(|name| {
        let list = world.json(&["delivery", "list", "--subscriber", name]);
        list["id"].as_str().unwrap().to_owned()
    })
}

fn log(serving: &Serving, token: &str, query: &str) -> Vec<Value> {
    let (status, page) = serving.ask(&format!("GET /v1/changes?{query}"), Some(token), "");
    assert_eq!(status, 200, "{page}");
    serde_json::from_str::<Value>(&page).unwrap()["items"].as_array().unwrap().clone()
}

fn last_number(serving: &Serving, token: &str) -> u64 {
    log(serving, token, "limit=1")[0]["number"].as_u64().unwrap()
}

fn changed(change: &Value, field: &str) -> Value {
    let fields = change["changed"].as_array().unwrap();
    fields.iter().find(|one| one["field"] == field).cloned().unwrap_or_default()
}

fn token_of(world: &World, name: &str, scope: &str) -> String {
    world.json(&["token", "create", name, "--scope", scope])["token"].as_str().unwrap().to_owned()
}

fn check_every_route(world: &World) {
    let near = Endpoint::answering(204);
    let [delivered, waiting] = fill(world, &near);
    let ann = token_of(world, "ann", "admin");
    let reader = token_of(world, "reader", "read");
    let serving = world.serve_with(&["--node", "a"]);
    near.bodies.recv().unwrap();
    while world.json(&["delivery", "show", &delivered])["state"] != "delivered" {}
    let documented = documented(&serving, &ann);
    let tried = CHANGES.iter().map(|(operation, ..)| (*operation).to_owned()).collect::<BTreeSet<_>>();
    let expected = documented.keys().filter(|operation| !NO_CHANGES.contains(&operation.as_str()));
    assert_eq!(tried, expected.cloned().collect(), "a route that changes something has a line in CHANGES");

    let (mut job, mut secrets) = (String::new(), vec![ann.clone(), reader.clone()]);
    secrets.extend(["in-a-header", "in-oauth"].map(str::to_owned));
    for (operation, path, body) in CHANGES {
        let (method, template) = &documented[operation];
        // A scope that does not allow it, an unknown subject, a body that no route takes.
        let unknown = template.split('/').map(|part| if part.starts_with('{') { "nobody" } else { part });
        let unknown = unknown.collect::<Vec<_>>().join("/");
        let path =
            path.replace("{delivered}", &delivered).replace("{waiting}", &waiting).replace("{job}", &job);
        let before = last_number(&serving, &ann);
        for (path, token, body) in [(&path, &reader, body), (&unknown, &ann, r#"{"nope":1}"#)] {
            let (status, answer) = serving.ask(&format!("{method} {path}"), Some(token), body);
            assert!((400..500).contains(&status), "{method} {path}: {status} {answer}");
        }
        assert_eq!(last_number(&serving, &ann), before, "{operation}: a refused change leaves no record");
        let (status, answer) = serving.ask(&format!("{method} {path}"), Some(&ann), body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        let found = log(&serving, &ann, "limit=2");
        assert_eq!(found[0]["number"], before + 1, "{operation}: one record");
        assert_eq!((&found[0]["operation"], &found[0]["by"]), (&json!(operation), &json!("token ann")));
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        secrets
            .extend(["secret", "token"].iter().filter_map(|field| Some(answer[field].as_str()?.to_owned())));
        if operation == "redriveDead" {
            job = answer["id"].to_string();
        }
        check_record(operation, &found[0], (&delivered, &waiting, &job));
    }
    let all = serving.ask("GET /v1/changes?limit=1000", Some(&ann), "").1;
    assert_eq!(secrets.len(), 7, "{secrets:?}");
    for secret in secrets.iter().map(String::as_str).chain(["whsec_", "hookproof_", "a-person"]) {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
    let of_new = log(&serving, &reader, "subscriber=new");
    assert_eq!(of_new.len(), 9, "a removed one too: {of_new:?}");
    assert_eq!(log(&serving, &reader, "subscriber=near&by=ann").len(), 2);
}

/// The subject, and the values before and after.
fn check_record(operation: &str, record: &Value, (delivered, waiting, job): (&str, &str, &str)) {
    let subject = match operation {
        "retryDelivery" => Some(waiting),
        "resendDelivery" => Some(delivered),
        "redriveDead" | "pauseJob" | "resumeJob" | "cancelJob" => Some(job),
        "forgetSubject" => Some("key"),
        "createToken" | "revokeToken" => Some("bob"),
        "drainNode" | "resumeNode" => Some("a"),
        _ => None,
    };
    if let Some(subject) = subject {
        assert_eq!(record["subject"], subject, "{record}");
    }
    let pair = |field, before: Value, after: Value| {
        assert_eq!(
            changed(record, field),
            json!({ "field": field, "before": before, "after": after }),
            "{record}"
        );
    };
    match operation {
        "addSubscriber" => pair("limit.rate", Value::Null, json!("2/s")),
        "changeSubscriber" => {
            pair("limit.rate", json!("2/s"), json!("3/s"));
            let secret = "oauth.client_secret";
            assert_eq!(changed(record, secret), json!({ "field": secret }));
        }
        "rotateSecret" => assert_eq!(record["changed"], json!([{ "field": "secret" }])),
        "pauseSubscriber" => pair("pause.reason", Value::Null, json!("move")),
        "resumeSubscriber" => pair("state", json!("paused"), json!("active")),
        "retrySubscriber" | "retryDelivery" | "resendDelivery" | "testSubscriber" => {
            assert_eq!(record["changed"], json!([]), "no setting: {record}");
        }
        "removeSubscriber" => pair("state", json!("active"), json!("removed")),
        "redriveDead" => pair("planned", Value::Null, json!(1)),
        "cancelJob" => pair("state", json!("running"), json!("cancelled")),
        "createToken" => pair("scope", Value::Null, json!("read")),
        _ => {}
    }
}

#[test]
fn every_route_that_changes_something_leaves_one_record_and_none_if_it_is_refused() {
    for world in worlds("every_route_that_changes_something_leaves_one_record") {
        check_every_route(&world);
    }
}

/// Commands, in an order in which each succeeds, and their records.
const COMMANDS: [(&[&str], &str); 20] = [
    (&["subscriber", "add", "new", NOWHERE, "--allow-private-targets"], "addSubscriber new  "),
    (&["subscriber", "set", "new", "limit.rate=3/s"], "changeSubscriber new  limit.rate none → 3/s"),
    (&["subscriber", "set", "new", "name=newer"], "changeSubscriber newer  name new → newer"),
    (&["subscriber", "rotate", "newer"], "rotateSecret newer  secret changed"),
    (
        &["subscriber", "pause", "newer", "--reason", "move"],
        "pauseSubscriber newer  pause.reason none → move; state active → paused",
    ),
    (
        &["subscriber", "resume", "--reason", "move"],
        "resumeSubscriber newer  pause.reason move → none; state paused → active",
    ),
    (&["subscriber", "retry", "far"], "retrySubscriber far"),
    (
        &["subscriber", "shed", "newer", "--yes"],
        "shedSubscriber newer 2  planned none → 0; state none → running",
    ),
    (&["delivery", "resend", "{delivered}"], "resendDelivery near {delivered}"),
    (&["subscriber", "replay", "near", "--since", "1h", "--yes"], "replaySubscriber near 3  planned none → "),
    (&["dead", "purge", "--subscriber", "newer"], "purgeDead newer 4  planned none → 0"),
    (&["dead", "redrive", "--subscriber", "full"], "redriveDead full 5  planned none → 1"),
    (&["job", "pause", "5"], "pauseJob full 5  state running → paused"),
    (&["job", "resume", "5"], "resumeJob full 5  state paused → running"),
    (&["job", "cancel", "5"], "cancelJob full 5  state running → cancelled"),
    (&["delivery", "retry", "{waiting}"], "retryDelivery far {waiting}"),
    (&["forget", "--key", "a-person", "--yes"], "forgetSubject key"),
    (&["subscriber", "test", "near"], "testSubscriber near"),
    (&["node", "drain", "a"], "drainNode a"),
    (&["node", "resume", "a"], "resumeNode a"),
];

fn check_that_refused_ones_and_plans_leave_none(world: &World, waiting: &str) {
    let before = world.ok(&["changes", "--max", "1"]);
    for refused in [
        &["subscriber", "add", "near", NOWHERE, "--allow-private-targets"][..],
        &["subscriber", "set", "near", "limit.burst=0"],
        &["job", "cancel", "5"],
        &["token", "revoke", "nobody"],
        &["delivery", "resend", waiting],
    ] {
        assert_ne!(world.run(refused).code, 0, "{refused:?}");
    }
    for plan in [
        &["subscriber", "shed", "near"][..],
        &["subscriber", "replay", "near", "--since", "1h"],
        &["subscriber", "set", "far", "retry.backoff=fixed"],
        &["forget", "--key", "a-person"],
    ] {
        world.ok(plan);
    }
    assert_eq!(world.ok(&["changes", "--max", "1"]), before);
}

#[test]
fn changes_by_the_command_line_name_the_user_of_the_system() {
    for world in worlds("changes_by_the_command_line_name_the_user_of_the_system") {
        let near = Endpoint::answering(204);
        let [_, waiting] = fill(&world, &near);
        let serving = world.serve_with(&["--node", "a"]);
        near.bodies.recv().unwrap();
        let delivered = loop {
            let list =
                world.run(&["delivery", "list", "--subscriber", "near", "--state", "delivered", "--json"]);
            if let Ok(found) = serde_json::from_str::<Value>(list.stdout.trim_end()) {
                break found["id"].as_str().unwrap().to_owned();
            }
        };
        for (arguments, expected) in COMMANDS {
            let named = |text: &str| text.replace("{waiting}", &waiting).replace("{delivered}", &delivered);
            let arguments: Vec<_> = arguments.iter().map(|one| named(one)).collect();
            world.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            let shown = world.ok(&["changes", "--max", "1"]);
            let (_, what) = shown.trim_end().split_once(&format!("  {}  ", user())).expect(&shown);
            assert!(what.starts_with(&named(expected)), "{arguments:?}: {what}");
        }
        check_that_refused_ones_and_plans_leave_none(&world, &waiting);
        assert_eq!(world.ok(&["changes", "--by", "nobody"]), "no such changes\n");
        let of_newer = || world.ok(&["changes", "--subscriber", "newer"]);
        assert_eq!(of_newer().lines().count(), 8, "under its former name too");
        world.ok(&["subscriber", "remove", "newer"]);
        let found = of_newer();
        assert_eq!(found.lines().count(), 7, "a removed one by the name that it had");
        assert!(found.ends_with("removeSubscriber newer  state active → removed\n"), "{found}");
        drop(serving);
    }
}

#[test]
fn a_copy_has_the_log_of_changes() {
    let world = World::new();
    world.ok(&["subscriber", "add", "shop", NOWHERE, "--allow-private-targets"]);
    world.ok(&["backup", "copy.db"]);
    let told = world.ok(&["changes", "--json"]);
    world.ok(&["subscriber", "remove", "shop"]);
    world.ok(&["restore", "copy.db", "--replace"]);
    let found = world.ok(&["changes", "--json"]);
    let restored = found.strip_prefix(&told).expect(&found);
    let paused: Value = serde_json::from_str(restored.trim_end()).unwrap();
    assert_eq!((&paused["by"], &paused["operation"]), (&json!("restore"), &json!("pauseSubscriber")));
}
