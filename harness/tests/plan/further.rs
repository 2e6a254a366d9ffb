use hookproof_judge::scenario::Scenario;
use hookproof_simulator::plan::scale::scaled;
use hookproof_simulator::plan::{Plan, PlanRequest, answer, page, plan, table};
use hookproof_simulator::sim::Model;

use crate::plan::plan_request;

fn stretched(text: &str, slos: &[&str], carry: Option<u64>) -> Plan {
    let scenario = Scenario::from_text(text, "further.toml").unwrap();
    plan(&scenario, &PlanRequest { headroom: true, carry, ..plan_request(slos) }).unwrap()
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
    assert!(
        headroom.carries.is_some() && headroom.too_many && headroom.advice.changes.is_empty(),
        "{headroom:?}"
    );
    assert!(table(&plan).contains("to carry 1000000×: too many events to simulate"), "{}", table(&plan));
}

#[test]
fn all_that_fail_are_named() {
    let more: String = (2..=10)
        .map(|at| format!("[[subscriber]]\nname = \"p-{at}\"\nlimit = {{ rate = \"5/s\", burst = 5 }}\n"))
        .collect();
    let text = steady("10/s", "2s", "name = \"p-1\"\nlimit = { rate = \"5/s\", burst = 5 }") + &more;
    let plan = stretched(&text, &["p95<1s"], None);
    let headroom = plan.headroom.clone().unwrap();
    let unchanged: Vec<&str> = headroom.advice.unchanged.iter().map(|one| one.subscriber.as_str()).collect();
    assert_eq!(unchanged.len(), 2, "{headroom:?}");
    assert!(
        answer(&plan).ends_with(", plus the changes below for other subscribers (9)"),
        "{}",
        answer(&plan)
    );
    let named = format!("{}: not examined, since more than 8 subscribers fail", unchanged.join(", "));
    assert!(table(&plan).contains(&named) && page(&plan).contains(&named), "{}", table(&plan));
}

#[test]
fn a_group_is_one_to_be_changed() {
    let text = steady("10/s", "2s", "name = \"p\"\ncount = 10\nlimit = { rate = \"5/s\", burst = 5 }");
    let headroom = stretched(&text, &["p95<1s"], None).headroom.unwrap();
    let whom: Vec<&str> = headroom.advice.changes.iter().map(|one| one.subscriber.as_str()).collect();
    assert!(!whom.is_empty() && whom.iter().all(|one| *one == "p"), "{whom:?}");
    assert_eq!(headroom.advice.unchanged, []);
    let trial = headroom.advice.trial.unwrap();
    assert_eq!((trial.held, trial.patch.matches("[[subscriber]]").count()), (1, 1), "{trial:?}");
}

#[test]
fn commits_take_as_long_at_every_load() {
    // At three times this traffic, a run's commits would be longer.
    let text = steady("20000/s", "10s", "name = \"s\"\nevents = [\"a\"]")
        + "[events]\ntypes = { \"a\" = 1, \"b\" = 999 }\ndata_bytes = \"100..100\"\n";
    let more = scaled(&Scenario::from_text(&text, "further.toml").unwrap(), 3_000);
    let plan = plan(&more, &PlanRequest { headroom: false, ..plan_request(&["p95<150ms"]) }).unwrap();
    assert_eq!((plan.breaches.len(), plan.model_errors.len()), (0, 0), "{:?}", plan.breaches);
    assert!(table(&plan).contains("model: a commit takes 300 µs to 2 ms at every load"), "{}", table(&plan));
}

#[test]
fn a_plan_with_long_commits_has_bounds_that_know_them() {
    let text = steady("20/s", "10s", "name = \"s\"\nlimit = { rate = \"40/s\", burst = 20, in_flight = 20 }");
    let scenario = Scenario::from_text(&text, "further.toml").unwrap();
    let mut long = plan_request(&["p95<150ms"]);
    long.options.model = Some(Model { commit_ns: (500_000_000, 700_000_000), ..Model::CLOSE });
    let plan = plan(&scenario, &long).unwrap();
    assert_eq!(plan.model_errors, [""; 0]);
    assert_eq!(plan.breaches.len(), 1, "a commit alone takes longer");
}

#[test]
fn any_limit_alone_can_be_what_is_raised() {
    let knobs = |subscriber: &str| {
        let text = steady("10/s", "5s", &format!("name = \"a\"\n{subscriber}"));
        let changes = stretched(&text, &["p95<2s"], Some(3_000)).headroom.unwrap().advice.changes;
        changes.iter().map(|one| (one.raises[0].knob, one.raises[0].from.clone())).collect::<Vec<_>>()
    };
    let told = |knob, from: &str| (knob, from.to_owned());
    assert_eq!(knobs("limit = { windows = [\"5 per 1s\"] }"), [told("windows", "5 per 1s")]);
    assert_eq!(knobs("limit = { in_flight = 1 }\nanswers = \"200ms\""), [told("requests in flight", "1")]);
    // The rate scales its windows too.
    let both = knobs("limit = { rate = \"50/s\", burst = 50, windows = [\"5 per 1s\"] }");
    assert!(
        both.contains(&told("rate", "50/s (5 per 1s)")) && both.contains(&told("windows", "5 per 1s")),
        "{both:?}"
    );
}
