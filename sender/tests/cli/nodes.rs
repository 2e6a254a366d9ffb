//! The processes that deliver, as the command line shows and drains them.

use crate::world::World;

#[test]
fn processes_that_deliver_are_shown_drained_and_resumed() {
    let (world, _) = World::with_shop("http://127.0.0.1:9/", &[]);
    assert_eq!(world.ok(&["nodes"]), "no process delivers from this database now\n");
    let serving = world.serve_with(&["--node", "web-1"]);
    // It listens a moment before it has said that it is there.
    let node = loop {
        let shown = world.ok(&["nodes", "--json"]);
        if let Some(line) = shown.lines().next() {
            break serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    };
    assert_eq!((&node["name"], &node["home_of"]), (&"web-1".into(), &1.into()));
    let table = world.ok(&["nodes"]);
    assert!(
        table.starts_with("NAME") && table.contains("web-1") && table.contains("(protocol 1)"),
        "{table}"
    );

    let unknown = world.run(&["node", "drain", "web-2"]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.stderr.contains("no node with that name"), "{}", unknown.stderr);
    let told = world.ok(&["node", "drain", "web-1"]);
    assert!(told.contains("nobody delivers until it is resumed"), "{told}");
    assert_eq!(world.json(&["nodes"])["draining"], true);
    assert!(world.ok(&["status"]).contains("1 node, 1 of them draining"), "{}", world.ok(&["status"]));
    world.ok(&["node", "resume", "web-1"]);
    let node = world.json(&["nodes"]);
    assert_eq!((&node["draining"], &node["takes_lanes"]), (&false.into(), &true.into()));
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
