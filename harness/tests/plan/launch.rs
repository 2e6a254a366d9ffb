use hookproof_judge::scenario::Scenario;
use hookproof_simulator::plan::headroom::Headroom;
use hookproof_simulator::plan::judge::breaches;
use hookproof_simulator::plan::scale::scaled;
use hookproof_simulator::plan::slo::Slo;
use hookproof_simulator::plan::{Plan, PlanRequest, answer, page, plan, table};
use hookproof_simulator::sim::{Keep, Model, Options, simulate};

use crate::plan::{launch, plan_request};

const SLOS: [&str; 3] = ["p95<20s", "shed=0", "drain<10m"];

fn planned() -> (Plan, Headroom) {
    let plan = plan(&launch(), &PlanRequest { headroom: true, ..plan_request(&SLOS) }).unwrap();
    let headroom = plan.headroom.clone().unwrap();
    (plan, headroom)
}

fn holds(scenario: &Scenario, slos: &[Slo]) -> bool {
    let options = Options { keep: Keep::Figures, ..plan_request(&[]).options };
    breaches(scenario, slos, &simulate(scenario, &options).unwrap().figures).is_empty()
}

#[test]
fn the_headroom_is_confirmed_by_simulation_on_both_sides() {
    let (plan, headroom) = planned();
    let slos = plan_request(&SLOS).slos;
    let carries = headroom.carries.unwrap();
    assert!(carries > 1_000, "{headroom:?}");
    assert!(holds(&scaled(&launch(), carries * 95 / 100), &slos), "fails at 0.95 of {carries}");
    assert!(!holds(&scaled(&launch(), carries * 110 / 100), &slos), "holds at 1.1 of {carries}");
    assert!(plan.model_errors.is_empty(), "{:?}", plan.model_errors);
    assert_eq!(headroom.breaks[0].subscriber, "partner-c");
    let told = answer(&plan);
    assert!(told.starts_with("carries ") && told.contains("; partner-c breaks first (p95<20s: "), "{told}");
    assert!(told.ends_with(&headroom.advice.changes[0].cost), "{told}");
}

#[test]
fn simulated_figures_stay_inside_their_bounds() {
    let honest = plan(&launch(), &plan_request(&[])).unwrap();
    assert!(honest.model_errors.is_empty(), "{:?}", honest.model_errors);
    for lane in &honest.lanes {
        let bound = lane.bound.unwrap();
        assert!(lane.peak_rows > 0 && lane.peak_rows <= bound.backlog, "{lane:?}");
    }
}

#[test]
fn a_service_is_no_faster_than_its_requests_in_flight() {
    let mut slow = launch();
    slow.subscribers[2].limit.in_flight = Some(1);
    let found =
        hookproof_simulator::plan::service(&slow, &slow.subscribers[2], Model::CLOSE.commit_ns.1, false);
    assert!(found.millihertz < 5_000, "one request in flight cannot reach the contract: {found:?}");
}

#[test]
fn an_endpoint_that_fails_for_good_has_no_bound_and_its_reason() {
    let text = launch().text + "\n[[subscriber.behaviour]]\nanswer = 500\nshare = 0.1\n";
    let scenario = Scenario::from_text(&text, "launch.toml").unwrap();
    let plan = plan(&scenario, &plan_request(&[])).unwrap();
    assert_eq!(plan.lanes[2].bound.err(), Some("it may fail at any time, so no rate is guaranteed"));
    assert!(table(&plan).contains("no bound for partner-c: it may fail at any time"));
}

#[test]
fn the_page_holds_everything_and_needs_nothing() {
    let plan = plan(&launch(), &plan_request(&SLOS)).unwrap();
    let page = page(&plan);
    for part in ["prefers-color-scheme:dark", "<svg", "class=\"bound\"", "partner-c", "Backlog", "Latency"] {
        assert!(page.contains(part), "no {part}");
    }
    for foreign in [" src=", "http://", "https://", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}
