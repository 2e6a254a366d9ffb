use hookproof_judge::scenario::Scenario;
use hookproof_simulator::plan::plan;

use crate::plan::plan_request;

/// The simulation never exceeds the bound.
fn bound(traffic: &str, subscriber: &str) -> Result<u64, &'static str> {
    let text =
        format!("name = \"sure\"\ndrain = \"60s\"\n{traffic}[[subscriber]]\nname = \"a\"\n{subscriber}");
    let scenario = Scenario::from_text(&text, "sure.toml").unwrap();
    let plan = plan(&scenario, &plan_request(&["dead<1000"])).unwrap();
    assert_eq!(plan.model_errors, [""; 0]);
    plan.lanes[0].bound.map(|bound| bound.delay_ns)
}

const SLOW: &str = "[[traffic]]\nshape = \"steady\"\nrate = \"2/s\"\nlasts = \"5s\"\n";
const FAST: &str = "limit = { rate = \"100/s\", burst = 100 }\n";

#[test]
fn answers_that_may_come_too_late_are_not_sure() {
    let late = Err("it may answer later than the deadline");
    let retry = "retry = { attempts = 2, base = \"100ms\", cap = \"200ms\" }\n";
    let always = format!("{FAST}{retry}timeout = \"1s\"\nanswers = \"2s..3s\"\n");
    assert_eq!(bound(SLOW, &always), late);
    assert_eq!(bound(SLOW, &format!("{FAST}timeout = \"1s\"\nanswers = \"100ms..2s\"\n")), late);
    let for_a_while =
        "[[subscriber.behaviour]]\nanswer = 200\nlatency = \"2s\"\nat = \"1s\"\nlasts = \"1s\"\n";
    let pause = bound(SLOW, &format!("{FAST}timeout = \"1s\"\n{for_a_while}"));
    assert!(pause.is_ok_and(|delay_ns| delay_ns > 60_000_000_000), "it counts as failing: {pause:?}");
}

#[test]
fn a_coalescing_delivery_waits_for_its_window() {
    let coalesced = format!("{FAST}coalesce = [{{ type = \"video.trending\", window = \"10s\" }}]\n");
    let delay = bound(SLOW, &coalesced);
    assert!(delay.is_ok_and(|delay_ns| delay_ns > 10_000_000_000), "{delay:?}");
}

#[test]
fn dead_letters_that_are_sent_again_are_in_no_bound() {
    let traffic =
        "[[traffic]]\nshape = \"burst\"\nevents = 50\n[[traffic]]\nshape = \"pause\"\nlasts = \"31s\"\n";
    let redriven = "limit = { rate = \"10/s\", burst = 5 }\nqueue = { rows = 10, when_full = \"shed-oldest\" }\n\
                    [[fault]]\nat = \"30s\"\ndo = \"redrive\"\n";
    assert_eq!(bound(traffic, redriven), Err("its dead letters are sent again"));
}
