//! What is given up, or turned away, has a cause.

use hookproof::check::Status;
use hookproof::trace::{Dead, Refused, Trace};

use crate::build::check;

const SECOND: u64 = 1_000_000_000;

fn bury(trace: &mut Trace, token: u64, reason: &str) {
    let id = Some(format!("msg_{token}"));
    let (subscriber, reason) = ("a".to_owned(), reason.to_owned());
    trace.dead.push(Dead { t: 3 * SECOND, subscriber, token: Some(token), id, reason, attempts: None });
}

#[test]
fn a_reason_that_cannot_be_true_is_a_loss() {
    let rows = [
        ("expired", "", Status::Fail),
        ("expired", "retry = { ttl = \"2s\" }", Status::Pass),
        ("gone", "", Status::Fail),
        ("overflow", "", Status::Fail),
        ("overflow", "queue = { rows = 3 }", Status::Fail),
        ("overflow", "queue = { rows = 2 }", Status::Pass),
        ("overflow", "queue = { bytes = \"1KB\" }", Status::Pass),
        ("a word of its own", "", Status::Fail),
    ];
    for (reason, more, expected) in rows {
        let given_up = |trace: &mut Trace| {
            trace.arrivals.pop();
            trace.answers.pop();
            bury(trace, 2, reason);
        };
        check("loss.none", more, given_up, expected);
    }
}

#[test]
fn what_is_gone_by_its_own_word_is_given_up() {
    let gone = |trace: &mut Trace| {
        trace.arrivals.pop();
        trace.answers.pop();
        trace.answers[1].status = 410;
        (1..3).for_each(|token| bury(trace, token, "gone"));
    };
    check("loss.none", "", gone, Status::Pass);
}

#[test]
fn one_attempt_of_twelve_exhausts_nothing() {
    let once = |trace: &mut Trace| {
        trace.answers[2].status = 500;
        bury(trace, 2, "exhausted");
    };
    check("retry.attempts", "", once, Status::Fail);
    check("retry.attempts", "retry = { attempts = 1 }", once, Status::Pass);
}

#[test]
fn what_nothing_is_too_full_for_is_taken() {
    let refused = |trace: &mut Trace| {
        let (t, token, why) = (SECOND, 2, String::new());
        trace.accepted.pop();
        let (status, retry_after) = (Some(503), Some("1".to_owned()));
        trace.refused.push(Refused { t, token, status, retry_after, unknown: false, why });
    };
    check("queue.visible", "", refused, Status::Fail);
    check("queue.visible", "queue = { rows = 1, when_full = \"refuse\" }", refused, Status::Pass);
}
