//! What a search finds at the ends of what can be simulated, and whom it names.

use hookproof::plan::{Asked, Plan, answer, plan, table};
use hookproof::scenario::Scenario;

use crate::asked;

fn stretched(text: &str, slos: &[&str], carry: Option<u64>) -> Plan {
    let scenario = Scenario::from_text(text, "further.toml").unwrap();
    plan(&scenario, &Asked { headroom: true, carry, ..asked(slos) }).unwrap()
}

fn steady(rate: &str, lasts: &str, subscriber: &str) -> String {
    format!(
        "name = \"further\"\ndrain = \"60s\"\n[[traffic]]\nshape = \"steady\"\nrate = \"{rate}\"\nlasts = \"{lasts}\"\n\
         [[subscriber]]\n{subscriber}\n"
    )
}

#[test]
fn a_load_that_cannot_be_simulated_ends_the_search_and_not_the_plan() {
    let text = steady("10/s", "5s", "name = \"a\"\nlimit = { rate = \"20/s\", burst = 5 }");
    let plan = stretched(&text, &["p95<1s"], Some(1_000_000_000));
    let headroom = plan.headroom.clone().unwrap();
    assert!(headroom.carries.is_some() && headroom.too_many && headroom.changes.is_empty(), "{headroom:?}");
    assert!(
        table(&plan).contains("to carry 1000000×: so many events can't be simulated"),
        "{}",
        table(&plan)
    );
}

#[test]
fn all_that_fail_are_named() {
    let text = steady("10/s", "2s", "name = \"p\"\ncount = 10\nlimit = { rate = \"5/s\", burst = 5 }");
    let plan = stretched(&text, &["p95<1s"], None);
    let headroom = plan.headroom.clone().unwrap();
    assert_eq!(headroom.unexamined, ["p-9", "p-10"]);
    assert!(answer(&plan).ends_with(", and change 9 more below"), "{}", answer(&plan));
    assert!(
        table(&plan).contains("2 more fail, and no change was looked for: p-9, p-10"),
        "{}",
        table(&plan)
    );
}
