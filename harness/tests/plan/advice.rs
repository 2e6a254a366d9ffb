use hookproof_judge::scenario::{Rate, SECOND, Scenario};
use hookproof_simulator::plan::advice::Why;
use hookproof_simulator::plan::judge::breaches;
use hookproof_simulator::plan::scale::scaled;
use hookproof_simulator::plan::{Plan, PlanRequest, answer, page, plan, table, with_patch};
use hookproof_simulator::sim::{Keep, Options, simulate};

use crate::plan::{launch, plan_request};

const SLOS: [&str; 1] = ["p95<20s"];

fn planned(scenario: &Scenario, slos: &[&str], carry: u64, seeds: u64) -> Plan {
    plan(scenario, &PlanRequest { headroom: true, carry: Some(carry), seeds, ..plan_request(slos) }).unwrap()
}

fn holds(scenario: &Scenario, slos: &[&str], seed: u64) -> bool {
    let options = Options { keep: Keep::Figures, seed: Some(seed), ..plan_request(&[]).options };
    breaches(scenario, &plan_request(slos).slos, &simulate(scenario, &options).unwrap().figures).is_empty()
}

#[test]
fn the_advised_change_carries_the_load_in_every_tried_seed() {
    let plan = planned(&launch(), &SLOS, 2_000, 2);
    let headroom = plan.headroom.clone().unwrap();
    let trial = headroom.advice.trial.clone().unwrap();
    assert_eq!((trial.held, trial.seeds), (2, 2));
    let patched = scaled(&with_patch(&launch(), &trial.patch).unwrap(), 2_000);
    for seed in 0..2 {
        assert!(holds(&patched, &SLOS, launch().seed + seed), "{}", trial.patch);
        assert!(!holds(&scaled(&launch(), 2_000), &SLOS, launch().seed + seed));
    }
    assert!(table(&plan).contains(&trial.patch) && page(&plan).contains("--patch"), "{}", table(&plan));

    let rate = headroom.advice.changes.iter().find(|change| change.raises[0].knob == "rate").unwrap();
    let raise = &rate.raises[0];
    let [to, from] = [&raise.to, &raise.from].map(|told| told.parse::<Rate>().unwrap());
    assert_eq!(raise.factor, to.count * 1_000 * from.per.0 / (from.count * to.per.0), "{raise:?}");
    assert!(raise.factor > 1_000, "{raise:?}");
    let tenths = to.count * 10 * SECOND / to.per.0;
    let told = if tenths.is_multiple_of(10) {
        format!("{}/s", tenths / 10)
    } else {
        format!("{}.{}/s", tenths / 10, tenths % 10)
    };
    assert_eq!(rate.cost, format!("partner-c must accept {told} instead of {}", raise.from));
}

const TWO: &str = "name = \"two\"\nseed = 3\ndrain = \"60s\"\n[[traffic]]\nshape = \"burst\"\nevents = 60\n\
    [[subscriber]]\nname = \"a\"\nlimit = { rate = \"2/s\", burst = 2, in_flight = 2 }\nqueue = { rows = 20 }\n";

#[test]
fn limits_are_raised_together_where_no_single_one_is_enough() {
    let scenario = Scenario::from_text(TWO, "two.toml").unwrap();
    let slos = ["shed=0", "p95<10s"];
    let headroom = planned(&scenario, &slos, 1_000, 1).headroom.unwrap();
    assert_eq!(headroom.advice.changes.len(), 1, "{:?}", headroom.advice.changes);
    let knobs: Vec<&str> = headroom.advice.changes[0].raises.iter().map(|raise| raise.knob).collect();
    assert!(knobs.contains(&"queue") && knobs.len() > 1, "{knobs:?}");
    assert!(
        headroom.advice.changes[0].cost.contains("no cost for a: the queue of the sender holds "),
        "{:?}",
        headroom.advice.changes
    );
    let trial = headroom.advice.trial.unwrap();
    assert_eq!(trial.held, 1);
    let patched = with_patch(&scenario, &trial.patch).unwrap();
    assert!(!holds(&scenario, &slos, 3) && holds(&patched, &slos, 3), "{}", trial.patch);
    // Neither suffices alone.
    for part in 0..2 {
        let mut half = scenario.clone();
        let (from, to) = (&patched.subscribers[0], &mut half.subscribers[0]);
        if part == 0 {
            to.queue = from.queue.clone();
        } else {
            to.limit = from.limit.clone();
        }
        assert!(!holds(&half, &slos, 3), "part {part}");
    }
}

#[test]
fn of_two_raises_alike_the_one_that_raises_less_comes_first() {
    let text = "name = \"w\"\nseed = 3\ndrain = \"60s\"\n[[traffic]]\nshape = \"burst\"\nevents = 60\n[[subscriber]]\n\
                name = \"a\"\nlimit = { rate = \"50/s\", burst = 50, windows = [\"2 per 1s\"] }\n";
    let scenario = Scenario::from_text(text, "w.toml").unwrap();
    let headroom = planned(&scenario, &["p95<15s"], 1_000, 1).headroom.unwrap();
    let knobs: Vec<&str> = headroom.advice.changes.iter().map(|change| change.raises[0].knob).collect();
    assert_eq!(knobs, ["windows", "rate"], "{:?}", headroom.advice.changes);
}

#[test]
fn changes_without_cost_for_the_partner_come_first() {
    let text = TWO.replace("rows = 20", "rows = 40").replace("2/s", "20/s");
    let scenario = Scenario::from_text(&text, "two.toml").unwrap();
    let headroom = planned(&scenario, &["shed=0"], 1_000, 1).headroom.unwrap();
    assert_eq!(headroom.advice.changes[0].raises[0].knob, "queue", "{:?}", headroom.advice.changes);
}

#[test]
fn an_endpoint_that_never_answers_is_helped_by_no_limit() {
    let text = TWO.to_owned() + "[[subscriber.behaviour]]\nanswer = \"refuse\"\n";
    let scenario = Scenario::from_text(&text, "two.toml").unwrap();
    let plan = planned(&scenario, &["a.p95<10s"], 1_000, 1);
    let headroom = plan.headroom.clone().unwrap();
    let advice = headroom.advice;
    assert_eq!((advice.unchanged[0].why, advice.trial), (Why::NothingHelps, None));
    assert!(
        answer(&plan).contains(": to carry 1×, a: no change of its limits is enough"),
        "{}",
        answer(&plan)
    );
    assert!(table(&plan).contains("a: no change of its limits is enough"), "{}", table(&plan));
    // Other seeds agree: the plan claims no part of the traffic as carried.
    let plan = planned(&scenario, &["a.p95<10s"], 1_000, 3);
    assert_eq!(plan.headroom.clone().unwrap().seeds, [None; 3]);
    assert!(
        answer(&plan).starts_with("does not carry today's traffic, nor any tried part of it"),
        "{}",
        answer(&plan)
    );
}
