//! The judge is judged: each check of the catalogue has something that it must catch.

use hookproof::catalogue;

/// Senders with a bug each, and traces that are wrong, each with the check that says so.
const WRONG: [&str; 3] = [
    include_str!("../sender_mutants/scenarios.rs"),
    include_str!("../checks/broken.rs"),
    include_str!("../checks/pressure.rs"),
];

#[test]
fn each_check_has_a_bug_or_a_trace_that_breaks_it() {
    let is_named = |id: &str| WRONG.iter().any(|text| text.contains(&format!("\"{id}\"")));
    let ids = catalogue::sender().iter().map(|entry| entry.id.as_str());
    let unjudged: Vec<&str> = ids.filter(|id| !is_named(id)).collect();
    assert!(unjudged.is_empty(), "no bug in sender_mutants and no trace in checks/ breaks {unjudged:?}");
}
