use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cli::world::{World, user};

const NOWHERE: &str = "http://127.0.0.1:9/";

/// The answers to these messages, numbered from 0; a text is sent as it is.
fn talk(world: &World, more: &[&str], messages: &[Value]) -> (Vec<Value>, String) {
    let line = |(id, message): (usize, &Value)| match message {
        Value::String(text) => format!("{text}\n"),
        message => {
            let mut message = message.clone();
            message["id"] = id.into();
            format!("{message}\n")
        }
    };
    let input: String = messages.iter().enumerate().map(line).collect();
    let ran = world.feed(&[&["mcp"], more].concat(), &input);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    (ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), ran.stderr)
}

fn call(name: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

#[track_caller]
fn content(answer: &Value) -> Value {
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
}

fn names(tools: &Value) -> BTreeSet<&str> {
    tools["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// Tokens are beyond a model.
fn documented(method: &str) -> BTreeSet<String> {
    let document: Value = serde_json::from_str(include_str!("../../src/api/openapi.json")).unwrap();
    let paths = document["paths"].as_object().unwrap().iter();
    let offered = paths.filter(|(path, _)| {
        path.starts_with("/v1/") && !path.ends_with("openapi.json") && *path != "/v1/tokens"
    });
    offered.filter_map(|(_, item)| Some(item[method]["operationId"].as_str()?.to_owned())).collect()
}

#[test]
fn without_leave_to_act_a_model_has_every_look_and_no_act() {
    let (world, secret) = World::with_shop(NOWHERE, &[]);
    world.ok(&["emit", "--type", "order.paid", "--data", "{\"order\":4711}"]);
    let list = json!({"jsonrpc": "2.0", "method": "tools/list"});
    let asked = [
        json!({"jsonrpc": "2.0", "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}),
        list.clone(),
        call("listSubscribers", &json!({})),
        call("listDeliveries", &json!({"subscriber": "shop", "limit": 1, "state": null})),
        call("pauseSubscriber", &json!({"id": "shop"})),
    ];
    let (answers, _) = talk(&world, &[], &asked);
    assert_eq!(
        answers.iter().map(|answer| answer["id"].as_u64()).collect::<Vec<_>>(),
        (0..5).map(Some).collect::<Vec<_>>()
    );
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(names(&answers[1]), documented("get").iter().map(String::as_str).collect());
    assert_eq!(content(&answers[2])["items"][0]["name"], "shop");
    let delivery = &content(&answers[3])["items"][0];
    assert_eq!(delivery["type"], "order.paid");
    assert_eq!(answers[4]["error"]["code"], -32_602);
    assert_eq!(world.json(&["subscriber", "show", "shop"])["state"], "active");

    let shown = call("showDelivery", &json!({"id": delivery["id"]}));
    let (answers_of_act, _) = talk(&world, &["--act"], &[list, shown]);
    assert_eq!(content(&answers_of_act[1])["id"], delivery["id"]);
    let acts: BTreeSet<&str> = names(&answers_of_act[0]).difference(&names(&answers[1])).copied().collect();
    let mut expected = documented("post");
    let kept_back = ["addSubscriber", "emitEvents", "rotateSecret"];
    assert!(kept_back.iter().all(|name| expected.remove(*name)), "{expected:?}");
    assert_eq!(acts, expected.iter().map(String::as_str).collect());
    for tool in answers_of_act[0]["result"]["tools"].as_array().unwrap() {
        let is_look = documented("get").contains(tool["name"].as_str().unwrap());
        assert_eq!(tool["annotations"]["readOnlyHint"], is_look, "{tool}");
        let schema = tool["inputSchema"].to_string();
        assert!(!schema.contains("$ref") && !schema.contains("\"description\":null"), "{tool}");
    }
    let all = format!("{answers:?}{answers_of_act:?}");
    assert!(!all.contains(&secret) && !all.contains("whsec_"), "{all}");
}

fn check_an_act(world: &World) {
    let pause = call("pauseSubscriber", &json!({"id": "a shop é", "body": {"reason": "asked by a model"}}));
    let (answers, log) = talk(world, &["--act"], &[pause]);
    content(&answers[0]);
    let shown = world.json(&["subscriber", "show", "a shop é"]);
    assert_eq!(shown["state"], "paused");
    assert!(shown.to_string().contains("asked by a model"), "{shown}");
    let by = format!("mcp of {}", user());
    let line = format!("by=\"{by}\" method=POST path=\"/v1/subscribers/a%20shop%20%C3%A9/pause\" status=200");
    assert!(log.contains(&line), "{log}");
    let change = world.json(&["changes", "--max", "1"]);
    assert_eq!((&change["by"], &change["operation"]), (&by.into(), &"pauseSubscriber".into()), "{change}");
}

#[test]
fn with_leave_to_act_an_act_is_done_and_logged() {
    let world = World::new();
    world.ok(&["subscriber", "add", "a shop é", NOWHERE, "--allow-private-targets"]);
    check_an_act(&world);
    let Some(world) = World::on_postgres("mcp") else { return };
    world.ok(&["subscriber", "add", "a shop é", NOWHERE, "--allow-private-targets"]);
    check_an_act(&world);
}

#[test]
fn a_wrong_message_is_refused_and_the_next_one_answered() {
    let (world, _) = World::with_shop(NOWHERE, &[]);
    let method = |name: &str| json!({"jsonrpc": "2.0", "method": name});
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    let rows = [
        (json!("no json"), -32_700, "not JSON"),
        (json!("[1]"), -32_600, "one JSON-RPC request"),
        (Value::String(long), -32_600, "longer than 1048576 bytes"),
        (method("tools/burn"), -32_601, "no method \"tools/burn\""),
        (call("showSubscriber", &json!({})), -32_602, "needs the argument \"id\""),
        (call("status", &json!({"nope": 1})), -32_602, "no argument \"nope\""),
        (call("status", &json!([])), -32_602, "expected an object"),
        (call("burn", &json!({})), -32_602, "expected one of analyseDead, audit"),
    ];
    let notified = json!("{\"jsonrpc\": \"2.0\", \"method\": \"notifications/initialized\"}");
    let unknown = call("showSubscriber", &json!({"id": "nobody"}));
    let asked = rows.iter().map(|(message, ..)| message.clone());
    let (answers, _) =
        talk(&world, &[], &asked.chain([notified, unknown, method("ping")]).collect::<Vec<_>>());
    for ((_, code, text), answer) in rows.iter().zip(&answers) {
        let error = &answer["error"];
        assert_eq!(error["code"], *code, "{answer}");
        assert!(error["message"].as_str().unwrap().contains(text), "{answer}");
    }
    let [unknown, pong] = &answers[rows.len()..] else { panic!("{answers:?}") };
    assert_eq!(unknown["result"]["isError"], true);
    assert!(unknown.to_string().contains("there is no subscriber"), "{unknown}");
    assert_eq!(pong["result"], json!({}));
}
