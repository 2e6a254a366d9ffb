use hookproof_judge::check::Status;
use hookproof_judge::trace::{Answer, Cut, CutKind, Process, ProcessEvent, Trace};

use crate::build::{self, check};

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
        trace.cuts.push(Cut {
            t: SECOND + length,
            endpoint,
            n: Some(0),
            how,
            began: None,
            token: None,
            why: None,
        });
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

/// The sender ends the first request after `length`, before or during its answer, and sends it again or not.
fn gave_up_after(length: u64, begun: bool, again: bool) -> impl Fn(&mut Trace) {
    move |trace| {
        hung_up_after(length)(trace);
        if begun {
            let t = SECOND + SECOND / 10;
            trace.answers.push(Answer {
                t,
                end: SECOND + length,
                n: 0,
                status: 200,
                retry_after: None,
                whole: false,
            });
            trace.cuts.clear();
        }
        if !again {
            build::without(trace, 1);
            trace.answers.retain(|answer| answer.n != 2);
            trace.arrivals.truncate(1);
        }
    }
}

#[test]
fn no_attempt_is_given_up_before_its_deadline() {
    let timeout = "timeout = \"4s\"";
    let drips = "timeout = \"4s\"\n[[subscriber.behaviour]]\nanswer = \"drip\"\npace = \"1s\"";
    for more in [timeout, drips] {
        for (length, begun, expected) in [
            (1, false, Status::Fail),
            (1, true, Status::Fail),
            (4, false, Status::Pass),
            (4, true, Status::Pass),
        ] {
            check("network.timeout", more, gave_up_after(length * SECOND, begun, true), expected);
        }
    }
    // Near its deadline a request may have been sent before it was read.
    check("network.timeout", timeout, gave_up_after(4 * SECOND - SECOND / 5, false, true), Status::Pass);
    // A sender that has read enough of a 200 need not read the rest.
    check("network.timeout", timeout, gave_up_after(SECOND, true, false), Status::NotApplicable);
}

#[test]
fn the_end_of_a_process_ends_its_requests() {
    let killed = |trace: &mut Trace| {
        gave_up_after(SECOND, false, true)(trace);
        let killed = |t, event| Process { t, worker: 0, event, status: None };
        trace
            .processes
            .extend([killed(2 * SECOND, ProcessEvent::Killed), killed(2 * SECOND + 1, ProcessEvent::Ready)]);
    };
    check("network.timeout", "timeout = \"4s\"", killed, Status::NotApplicable);
}
