//! Faults are judged as planned, and excuse only their own effects.

use hookproof_judge::check::Status;
use hookproof_judge::scenario::FaultKind;
use hookproof_judge::trace::{Fault, Trace};

use crate::build::{self, check};

const SECOND: u64 = 1_000_000_000;

fn fault(t: u64, kind: FaultKind, detail: Option<&str>, plan: Option<u32>) -> Fault {
    Fault { t, kind, until: None, detail: detail.map(str::to_owned), delay: None, plan }
}

/// Two limits are planned, and only the second is set; three arrivals follow within a second.
fn second_alone(plan: Option<u32>) -> impl Fn(&mut Trace) {
    move |trace| {
        let change = fault(SECOND / 2, FaultKind::Limit, Some("b"), plan);
        trace.faults.push(change);
        for (at, t) in (0..).zip([SECOND + 800_000_000, SECOND + 850_000_000, SECOND + 900_000_000]) {
            let at: usize = at;
            (trace.arrivals[at].t, trace.arrivals[at].read) = (t, t);
            (trace.answers[at].t, trace.answers[at].end) = (t, t);
        }
    }
}

#[test]
fn a_change_that_was_not_made_does_not_take_the_next_one_for_its_own() {
    let limit = |whose: &str, at: &str| {
        format!(
            "[[fault]]\nat = {at:?}\ndo = \"limit\"\nsubscriber = {whose:?}\nlimit = {{ rate = \"1/s\", burst = 1 }}\n"
        )
    };
    let more = format!("[[subscriber]]\nname = \"b\"\n{}{}", limit("a", "100ms"), limit("b", "400ms"));
    for plan in [Some(1), None] {
        check("rate.live-change", &more, second_alone(plan), Status::Inconclusive);
    }
    // These arrivals would break the first limit.
    let first = |trace: &mut Trace| {
        second_alone(None)(trace);
        trace.faults[0] = fault(SECOND / 2, FaultKind::Limit, Some("a"), Some(0));
    };
    check("rate.live-change", &more, first, Status::Warn);
}

/// Delivery 2 comes again as an attempt of delivery 0, which was answered with this status.
fn again(status: u16) -> impl Fn(&mut Trace) {
    move |trace| {
        trace.answers[0].status = status;
        (trace.arrivals[2].token, trace.arrivals[2].id) = (Some(0), trace.arrivals[0].id.clone());
        let answered = trace.answers[2].clone();
        let mut third = trace.arrivals[2].clone();
        (third.n, third.t, third.read) = (3, answered.t + 1, answered.t + 1);
        trace.arrivals.push(third);
        trace.answers.push(hookproof_judge::trace::Answer {
            n: 3,
            t: answered.t + 1,
            end: answered.t + 1,
            ..answered
        });
        trace.trailer.as_mut().expect("whole").t += 1;
        trace.faults.push(fault(2 * SECOND + SECOND / 2, FaultKind::Redrive, None, Some(0)));
    }
}

#[test]
fn a_redrive_excuses_what_was_a_dead_letter_alone() {
    let redrive = "[[fault]]\nat = \"2500ms\"\ndo = \"redrive\"";
    for id in ["duplicate.bounded", "retry.status"] {
        check(id, redrive, again(204), Status::Fail);
        check(id, redrive, again(500), Status::Pass);
    }
}

/// Worker 0 is cut off for ten seconds from 3 s on; an event of 4 s arrives at `t`.
fn cut_off(t: u64, others: &'static [(u64, FaultKind)]) -> impl Fn(&mut Trace) {
    move |trace| {
        let lasting = |from: u64, kind: FaultKind, whom: &str| Fault {
            until: Some((from + 10) * SECOND),
            ..fault(from * SECOND, kind, Some(whom), None)
        };
        trace.faults.push(lasting(3, FaultKind::Partition, "worker 0"));
        trace.faults.extend(others.iter().map(|(from, kind)| lasting(*from, *kind, "worker 1")));
        build::offer(trace, 3, 4 * SECOND, &["a"]);
        build::deliver(trace, "a", 3, t * SECOND, 204);
        build::end(trace, 60 * SECOND);
    }
}

#[test]
fn while_one_process_is_cut_off_the_others_serve_its_lanes() {
    let plan = |workers: u32, within: u64| {
        format!(
            "[sender]\nstore = \"postgres\"\nworkers = {workers}\ntakeover_within = \"{within}s\"\n\
             [[fault]]\nat = \"3s\"\nlasts = \"10s\"\ndo = \"partition\"\nworker = 0"
        )
    };
    for (workers, within, t, others, expected) in [
        (2, 6, 8, &[][..], Status::Pass),
        (2, 6, 13, &[], Status::Fail),
        (2, 11, 13, &[], Status::Pass),
        (1, 6, 13, &[], Status::Pass),
        (2, 6, 13, &[(5, FaultKind::Partition)], Status::Pass),
    ] {
        check("fault.partition", &plan(workers, within), cut_off(t, others), expected);
    }
}
