use hookproof_judge::check::Status;
use hookproof_judge::trace::{Cut, CutKind, Trace};

use crate::build::check;

const SECOND: u64 = 1_000_000_000;

fn answered_after(length: u64) -> impl Fn(&mut Trace) {
    move |trace| {
        let t = SECOND + length;
        (trace.answers[0].t, trace.answers[0].end) = (t, t);
        trace.trailer.as_mut().expect("whole").t = 60 * SECOND;
    }
}

/// The sender closes the first request after `length`; its next request is answered.
fn hung_up_after(length: u64) -> impl Fn(&mut Trace) {
    move |trace| {
        trace.answers.remove(0);
        let (endpoint, how) = ("a".into(), CutKind::PeerGone);
        trace.cuts.push(Cut { t: SECOND + length, endpoint, n: Some(0), how, began: None, token: None });
        trace.arrivals[2].token = Some(0);
        trace.offers.pop();
        trace.accepted.pop();
        trace.trailer.as_mut().expect("whole").t = 60 * SECOND;
    }
}

const SLOW: &str = "timeout = \"1s\"\n[[subscriber.behaviour]]\nanswer = 200\nlatency = \"6s\"\n";

#[test]
fn a_request_that_is_open_past_its_deadline_is_no_matter_of_silence_alone() {
    check("network.timeout", "timeout = \"1s\"", answered_after(6 * SECOND), Status::Fail);
    check("network.timeout", SLOW, answered_after(6 * SECOND), Status::Fail);
    check("network.timeout", SLOW, hung_up_after(SECOND), Status::Pass);
    check("network.timeout", "timeout = \"1s\"", answered_after(SECOND / 2), Status::NotApplicable);
}

#[test]
fn an_answer_that_comes_after_the_deadline_is_not_taken_for_one() {
    check("network.deadline", SLOW, answered_after(6 * SECOND), Status::Fail);
    // Below the tolerance of `network.timeout`, but past the sender's deadline.
    check("network.deadline", "timeout = \"1s\"", answered_after(3 * SECOND / 2), Status::Fail);
    check("network.timeout", "timeout = \"1s\"", answered_after(3 * SECOND / 2), Status::Pass);
    check("network.deadline", SLOW, hung_up_after(SECOND), Status::Pass);
    let tried_again = |trace: &mut Trace| {
        answered_after(3 * SECOND / 2)(trace);
        trace.arrivals[2].token = Some(0);
    };
    check("network.deadline", "timeout = \"1s\"", tried_again, Status::Pass);
}
