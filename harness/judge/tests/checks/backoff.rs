use hookproof_judge::check::{Status, Strictness, judge};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::Trace;

use crate::build;

const SECOND: u64 = 1_000_000_000;
const BEHAVIOUR: &str = "[[subscriber.behaviour]]\nanswer = 500\nattempts = \"1\"\n";

/// Each delivery fails once, and comes again after `gap`.
fn trace(scenario: &Scenario, count: u64, gap: impl Fn(u64) -> u64) -> Trace {
    let firsts: Vec<u64> = (0..count).map(|n| 10 * n * SECOND).collect();
    let mut trace = build::trace(scenario, &firsts);
    for n in 0..count {
        let at = usize::try_from(n).expect("small");
        trace.answers[at].status = 500;
        let t = firsts[at] + gap(n);
        let (mut arrival, mut answer) = (trace.arrivals[at].clone(), trace.answers[at].clone());
        (arrival.n, arrival.t, arrival.read) = (count + n, t, t);
        (answer.n, answer.t, answer.end, answer.status) = (count + n, t, t, 204);
        trace.arrivals.push(arrival);
        trace.answers.push(answer);
    }
    let end = trace.arrivals.iter().map(|arrival| arrival.t).max().unwrap_or(0) + 1;
    trace.trailer.as_mut().expect("whole").t = end;
    trace
}

#[track_caller]
fn check(count: u64, gap: impl Fn(u64) -> u64, expected: Status, sentence: &str) {
    let retry = "retry = { base = \"5s\", cap = \"60s\" }\n";
    let text = format!("{}{retry}{BEHAVIOUR}", build::scenario("rate = \"100/s\", burst = 50").text);
    let scenario = Scenario::from_text(&text, "backoff.toml").expect("valid");
    let judgement = judge(&scenario, &trace(&scenario, count, gap), Strictness::Usual);
    let verdict = judgement.verdicts.iter().find(|one| one.id == "retry.backoff-bounds").expect("judged");
    assert_eq!(verdict.status, expected, "{}", verdict.sentence);
    assert!(verdict.sentence.contains(sentence), "{}", verdict.sentence);
}

#[test]
fn retries_at_once_are_no_full_jitter() {
    check(8, |_| 1_000_000, Status::Fail, "outside their bounds");
}

#[test]
fn retries_over_the_whole_width_are() {
    check(20, |n| n * SECOND / 4, Status::Pass, "within their bounds");
}

#[test]
fn a_retry_long_after_the_longest_delay_is_late() {
    check(20, |n| if n == 7 { 9 * SECOND } else { n * SECOND / 4 }, Status::Fail, "outside their bounds");
}
