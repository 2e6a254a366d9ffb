use hookproof_judge::check::Status;
use hookproof_judge::trace::{Process, ProcessEvent, Refused, Trace};

use crate::build::{self, check};

const SECOND: u64 = 1_000_000_000;

/// Of a hundred further events, `count` are refused at 1 s, with this status or none.
fn refused(count: u64, status: Option<u16>, unknown: bool) -> impl Fn(&mut Trace) {
    move |trace| {
        for token in 10..110 {
            build::offer(trace, token, SECOND, &["a"]);
            if token - 10 < count {
                trace.accepted.pop();
                let (why, retry_after) = ("connection refused".to_owned(), Some("1".to_owned()));
                trace.refused.push(Refused {
                    t: SECOND,
                    token,
                    status,
                    retry_after,
                    unknown,
                    cut_off: false,
                    why,
                });
            }
        }
        build::end(trace, 10 * SECOND);
    }
}

#[test]
fn a_sender_accepts_nearly_all_where_no_bound_explains_less() {
    check("emit.accepted", "", refused(1, Some(503), false), Status::Pass);
    check("emit.accepted", "", refused(2, Some(503), false), Status::Fail);
    check(
        "emit.accepted",
        "queue = { rows = 1, when_full = \"refuse\" }",
        refused(50, Some(429), false),
        Status::Pass,
    );
    // Neither a queue larger than the offer nor one without a bound may refuse.
    check("emit.accepted", "queue = { rows = 1000 }", refused(50, Some(429), false), Status::Fail);
    check("emit.accepted", "queue = { when_full = \"refuse\" }", refused(50, Some(429), false), Status::Fail);
    check("emit.accepted", "queue = { rows = 1 }", refused(50, Some(429), false), Status::Pass);
    check(
        "emit.accepted",
        "queue = { rows = 1, when_full = \"shed-oldest\" }",
        refused(50, Some(429), false),
        Status::Fail,
    );
    check("emit.accepted", "[expect]\naccepted_min = 0.4", refused(50, Some(503), false), Status::Pass);
    check(
        "emit.accepted",
        "[expect]\nqueue_rows_max = 5\naccepted_min = 0.6",
        refused(50, Some(503), false),
        Status::Fail,
    );
}

#[test]
fn no_event_is_left_without_an_answer() {
    for unknown in [true, false] {
        check(
            "emit.accepted",
            "queue = { rows = 1, when_full = \"refuse\" }",
            refused(1, None, unknown),
            Status::Fail,
        );
    }
}

#[test]
fn a_call_that_was_cut_off_hides_no_refusals() {
    let cut_off = |count| {
        move |trace: &mut Trace| {
            refused(count, Some(503), false)(trace);
            let last = trace.refused.last_mut().expect("some are refused");
            (last.status, last.unknown, last.cut_off) = (None, true, true);
        }
    };
    check("emit.accepted", "", cut_off(50), Status::Fail);
    check("emit.accepted", "", cut_off(2), Status::Inconclusive);
}

#[test]
fn nobody_answers_while_the_process_is_dead() {
    let killed = |trace: &mut Trace| {
        refused(50, None, true)(trace);
        for (t, event) in [(SECOND / 2, ProcessEvent::Killed), (2 * SECOND, ProcessEvent::Ready)] {
            trace.processes.push(Process { t, worker: 0, event, status: None });
        }
    };
    check("emit.accepted", "", killed, Status::Pass);
}
