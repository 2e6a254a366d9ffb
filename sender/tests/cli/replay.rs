use serde_json::{Value, json};

use crate::cli::world::{Endpoint, World};

fn check_types(world: &World) {
    let endpoint = Endpoint::answering(204);
    world.ok(&["subscriber", "add", "shop", &endpoint.url, "--allow-private-targets"]);
    let emit = |kind| world.ok(&["emit", "--type", kind, "--data", "1"]);
    for kind in ["order.paid", "video.new", "order.made"] {
        emit(kind);
    }
    let serving = world.serve();
    for _ in 0..3 {
        endpoint.bodies.recv().unwrap();
    }
    while world.json(&["status"])["deliveries"]["delivered"] != 3 {}
    let replay = ["subscriber", "replay", "shop", "--since", "1h", "--events"];
    let planned = world.ok(&[&replay[..], &["order.*,refund.made"]].concat());
    assert!(planned.starts_with("delivered ones to send again: 2 of order.*, refund.made"), "{planned}");
    assert_eq!(world.json(&[&replay[..], &["video.made"]].concat())["delivered"], 0);
    assert_eq!(world.run(&[&replay[..], &["order*"]].concat()).code, 64);
    world.ok(&["subscriber", "set", "shop", "queue.rows=1"]);
    world.ok(&["subscriber", "pause", "shop"]);
    emit("video.new");
    let path = "POST /v1/subscribers/shop/replay";
    let (status, told) = serving.ask(path, None, r#"{"since":"2020-01-01T00:00:00Z","events":["order.*"]}"#);
    let job: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((status, &job["planned"], &job["events"]), (202, &json!(2), &json!(["order.*"])), "{told}");
    drop(serving);
    let show = || world.json(&["job", "show", &job["id"].to_string()]);
    assert_eq!((&show()["events"], &show()["state"]), (&json!(["order.*"]), &json!("running")));
    let _serving = world.serve();
    world.ok(&["subscriber", "resume", "shop"]);
    while show()["state"] != "done" {}
    assert_eq!(show()["done"], 2);
    let mut kinds = Vec::new();
    for _ in 0..3 {
        let body: Value = serde_json::from_str(&endpoint.bodies.recv().unwrap()).unwrap();
        kinds.push(body["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(kinds, ["video.new", "order.paid", "order.made"]);
}

#[test]
fn a_replay_of_some_types_sends_no_other_though_its_process_is_killed() {
    for world in [Some(World::new()), World::on_postgres("a_replay_of_some_types")].into_iter().flatten() {
        check_types(&world);
    }
}
