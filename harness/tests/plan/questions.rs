use hookproof_play::traffic::Schedule;
use hookproof_simulator::plan::headroom::Point;
use hookproof_simulator::plan::launch::With;
use hookproof_simulator::plan::{Plan, PlanRequest, page, plan, table};

use crate::plan::{launch, plan_request, shipped};

fn what_if(question: &str, headroom: bool) -> Plan {
    let mut scenario = launch();
    let schedule = Schedule::compute(&scenario.traffic, &scenario.events, scenario.seed, &shipped()).unwrap();
    if !question.is_empty() {
        question.parse::<With>().unwrap().apply(&mut scenario, &schedule).unwrap();
    }
    plan(&scenario, &PlanRequest { headroom, ..plan_request(&["p95<20s"]) }).unwrap()
}

fn p99(plan: &Plan, name: &str) -> u64 {
    let lane = plan.lanes.iter().find(|lane| lane.name == name).unwrap();
    lane.latency_ns[2].unwrap_or(u64::MAX) / 1_000_000_000
}

#[test]
fn a_partner_that_is_down_is_late_and_no_other() {
    let (calm, down) = (what_if("", false), what_if("partner-b down 30s", false));
    assert_eq!((p99(&calm, "partner-b"), p99(&calm, "partner-a")), (0, 0));
    assert!(p99(&down, "partner-b") >= 30 && p99(&down, "partner-a") == 0, "{:?}", down.lanes);
    assert_eq!(down.model_errors, [""; 0]);
}

#[test]
fn a_partner_that_answers_slowly_is_slow() {
    let slow = what_if("partner-a answers 2s", false);
    assert!(p99(&slow, "partner-a") >= 2 && p99(&slow, "partner-b") == 0, "{:?}", slow.lanes);
}

#[test]
fn a_kill_at_the_peak_refuses_what_comes_meanwhile() {
    let (calm, killed) = (what_if("", false), what_if("kill@peak 2s", false));
    assert_eq!(calm.refused, 0);
    // At the peak some forty events come in a second.
    assert!((40..200).contains(&killed.refused), "{}", killed.refused);
}

#[test]
fn the_curve_rises_and_says_where_it_breaks() {
    let plan = what_if("", true);
    let headroom = plan.headroom.clone().unwrap();
    let loads: Vec<u64> = headroom.curve.iter().map(|point| point.load).collect();
    assert!(loads.is_sorted() && loads.len() >= 6, "{loads:?}");
    let (held, broken): (Vec<Point>, Vec<Point>) = headroom.curve.iter().partition(|point| point.holds);
    assert_eq!(held.iter().map(|point| point.load).max(), headroom.carries);
    assert_eq!(broken.iter().map(|point| point.load).min(), headroom.fails);
    let slowest = held.iter().filter_map(|point| point.p95_ns).max();
    assert!(slowest < broken.iter().filter_map(|point| point.p95_ns).min(), "{:?}", headroom.curve);
    assert_eq!(table(&plan).matches("breaks from here on").count(), 1, "{}", table(&plan));
    let page = page(&plan);
    assert!(page.contains("Load against time") && page.contains("breaks from "), "no curve");
}
