//! An excess of less than a request is marginal, and says nothing of retries.

use hookproof_judge::check::{Status, Strictness, Verdict, judge};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::Trace;

use crate::build;

const MS: u64 = 1_000_000;

fn judged(scenario: &Scenario, trace: &Trace, id: &str) -> Verdict {
    let judgement = judge(scenario, trace, Strictness::Usual);
    judgement.verdicts.into_iter().find(|verdict| verdict.id == id).expect("judged")
}

#[test]
fn an_excess_of_less_than_a_request_is_marginal_and_fails_all_the_same() {
    let scenario = build::scenario("rate = \"10/s\", burst = 5");
    for (sixth, over) in [(99_800, Some("0.002 requests over")), (0, None), (100_000, None)] {
        let mut times = vec![1_000 * MS; 5];
        times.extend([1_000 * MS + sixth * 1_000, 9_000 * MS]);
        let verdict = judged(&scenario, &build::trace(&scenario, &times), "rate.envelope");
        let expected = if sixth == 100_000 { Status::Pass } else { Status::Fail };
        assert_eq!(verdict.status, expected, "{}", verdict.sentence);
        assert_eq!(over.is_some(), verdict.sentence.contains("marginal"), "{}", verdict.sentence);
        let says = |part: &str| verdict.sentence.contains(part);
        assert!(
            over.is_none_or(|over| says(over) && says("limit.burst_slack") && says("when an attempt ends"))
        );
    }
}

/// Five first attempts at once; the first `retried` of them fail and come again `spread` ms later and apart.
fn retried(scenario: &Scenario, retried: u64, spread: u64) -> Trace {
    let mut trace = build::trace(scenario, &[]);
    for token in 0..5 {
        build::offer(&mut trace, token, 1_000 * MS, &["a"]);
        build::deliver(&mut trace, "a", token, 1_000 * MS, if token < retried { 500 } else { 204 });
    }
    for token in 0..retried {
        build::deliver(&mut trace, "a", token, 1_000 * MS + (token + 1) * spread * MS, 204);
    }
    build::end(&mut trace, 60_000 * MS);
    trace
}

#[test]
fn retries_are_uncharged_where_they_come_on_top_of_a_burst_that_is_used_up_and_not_where_jitter_explains_it()
{
    let behaviour = "[[subscriber.behaviour]]\nanswer = 500\nattempts = \"1\"\n";
    let scenario =
        build::named(&format!("{}{behaviour}", build::scenario("rate = \"10/s\", burst = 5").text));
    for (count, spread, expected) in [
        (5, 10, Status::Fail),
        (2, 10, Status::Fail),
        (5, 99, Status::Pass),
        (1, 99, Status::Pass),
        (5, 100, Status::Pass),
    ] {
        let trace = retried(&scenario, count, spread);
        let verdict = judged(&scenario, &trace, "rate.retries-count");
        assert_eq!(verdict.status, expected, "{count} {spread}: {}", verdict.sentence);
    }
}

/// A limiter with a burst of seven in place of five, in front of first attempts and retries alike.
#[test]
fn a_burst_that_is_too_large_for_all_is_no_word_on_retries() {
    let behaviour = "[[subscriber.behaviour]]\nanswer = 500\nattempts = \"1\"\n";
    let scenario = build::named(&format!("{}{behaviour}", build::scenario("rate = \"1/s\", burst = 5").text));
    let mut trace = build::trace(&scenario, &[]);
    for token in 0..4 {
        build::offer(&mut trace, token, 1_000 * MS, &["a"]);
        build::deliver(&mut trace, "a", token, 1_000 * MS, if token < 3 { 500 } else { 204 });
    }
    (0..3).for_each(|token| build::deliver(&mut trace, "a", token, 1_001 * MS, 204));
    build::end(&mut trace, 60_000 * MS);
    assert_eq!(judged(&scenario, &trace, "rate.envelope").status, Status::Fail);
    assert_eq!(judged(&scenario, &trace, "rate.retries-count").status, Status::Pass);
}
