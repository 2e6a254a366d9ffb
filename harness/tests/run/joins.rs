use std::collections::{BTreeMap, BTreeSet};

use hookproof_judge::trace::ProcessEvent::{Ready, Started};

use super::{served_by_two, start};

const JOINS: &str = r#"
[[fault]]
at     = "1500ms"
do     = "start"
worker = 1
[expect]
duplicates = 0
"#;

/// By then lanes have moved to the new node.
const SETTLES: u64 = 3_000_000_000;

#[test]
fn a_process_that_joins_is_not_there_before_and_takes_its_share() {
    let (_, said, trace, _) = start("joined", &(served_by_two("joined", 24) + JOINS), &[]).end();
    let trace = trace.unwrap();
    let events = trace.processes.iter().filter(|one| one.worker == 1);
    let first: Vec<_> = events.take(2).map(|one| (one.event, one.t >= 1_500_000_000)).collect();
    assert_eq!(first, [(Started, true), (Ready, true)], "{said}");
    let ready = trace.processes.iter().find(|one| one.worker == 1 && one.event == Ready).unwrap().t;
    // Each process has its own connections.
    let mut lanes: BTreeMap<&str, [BTreeSet<u64>; 2]> = BTreeMap::new();
    for arrival in &trace.arrivals {
        let lane = lanes.entry(arrival.endpoint.as_str()).or_default();
        match arrival.t {
            t if t < ready => drop(lane[0].insert(arrival.connection)),
            t if t > ready + SETTLES => drop(lane[1].insert(arrival.connection)),
            _ => {}
        }
    }
    let moved =
        lanes.values().filter(|[before, after]| !after.is_empty() && before.is_disjoint(after)).count();
    assert!((1..lanes.len()).contains(&moved), "{moved} of {} lanes have moved: {said}", lanes.len());
}
