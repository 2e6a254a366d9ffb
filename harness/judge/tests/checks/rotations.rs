use hookproof_judge::check::Status;
use hookproof_judge::scenario::FaultKind;
use hookproof_judge::trace::{ENDPOINTS, Fault, Stall, Trace, Verified};

use crate::build::{check, deliver, end, named, trace, verdict};

const S: u64 = 1_000_000_000;

/// Planned at 1.5 s, with this overlap.
fn rotated(overlap_ms: u64) -> String {
    format!("[[fault]]\nat = \"1500ms\"\ndo = \"rotate\"\nsubscriber = \"a\"\nlasts = \"{overlap_ms}ms\"")
}

fn rotation(t: u64, overlap_ms: u64) -> Fault {
    let until = (overlap_ms > 0).then_some(1_500_000_000 + overlap_ms * 1_000_000);
    Fault { t, kind: FaultKind::Rotate, until, detail: Some("a".to_owned()), delay: None, plan: Some(0) }
}

fn signed(trace: &mut Trace, n: usize, verified: &Verified) {
    trace.arrivals[n].signed.verified = verified.clone();
}

#[test]
fn a_secret_that_the_harness_could_not_know_yet_is_held_against_nobody() {
    let wrong = Verified::No("no signature was made with a known key".into());
    for id in ["identity.secret", "format.signature"] {
        // The sender signs with it at 2 s; the answer comes at 2.5 s.
        let late = |trace: &mut Trace| {
            trace.faults.push(rotation(2_500_000_000, 0));
            signed(trace, 1, &wrong);
            signed(trace, 2, &Verified::Keys(vec![1].into()));
        };
        check(id, &rotated(0), late, Status::Pass);
        // Without an answer the secret stays unknown.
        check(id, &rotated(0), |trace| signed(trace, 1, &wrong), Status::Inconclusive);
        check(id, &rotated(0), |_| {}, Status::Pass);
        // Before the request there is nothing to explain.
        check(id, &rotated(0), |trace| signed(trace, 0, &wrong), Status::Fail);
        let for_good = |trace: &mut Trace| {
            trace.faults.push(rotation(1_600_000_000, 0));
            signed(trace, 2, &wrong);
        };
        check(id, &rotated(0), for_good, Status::Fail);
    }
}

#[test]
fn a_secret_that_was_retired_signs_no_more() {
    for (keys, expected) in [(vec![0], Status::Fail), (vec![1], Status::Pass), (vec![0, 1], Status::Fail)] {
        let change = |trace: &mut Trace| {
            trace.faults.push(rotation(1_600_000_000, 0));
            signed(trace, 2, &Verified::Keys(keys.clone().into()));
        };
        check("identity.secret", &rotated(0), change, expected);
    }
    // An old secret may sign during the overlap, and for a second in flight.
    let overlapping = |trace: &mut Trace| {
        trace.faults.push(rotation(1_600_000_000, 600));
        signed(trace, 2, &Verified::Keys(vec![0].into()));
    };
    check("identity.secret", &rotated(600), overlapping, Status::Pass);
}

#[test]
fn a_request_that_a_stalled_endpoint_stamps_late_was_signed_before() {
    for (stalled, expected) in [(false, Status::Fail), (true, Status::Inconclusive)] {
        let change = |trace: &mut Trace| {
            trace.faults.push(rotation(1_600_000_000, 0));
            signed(trace, 2, &Verified::Keys(vec![0].into()));
            let stall = Stall { thread: ENDPOINTS.to_owned(), from: S, until: 3 * S };
            trace.stalls.extend(stalled.then_some(stall));
        };
        check("identity.secret", &rotated(0), change, expected);
    }
}

#[test]
fn a_rotation_of_one_subscriber_of_a_group_concerns_that_one() {
    let text = "name = \"x\"\n[[traffic]]\nshape = \"steady\"\nrate = \"1/s\"\nlasts = \"1s\"\n[[subscriber]]\n\
                name = \"a\"\ncount = 2\n[[fault]]\nat = \"1500ms\"\ndo = \"rotate\"\nsubscriber = \"a-1\"\n\
                lasts = \"5s\"\n";
    let scenario = named(text);
    for (endpoint, expected) in [("a-1", Status::Fail), ("a-2", Status::Pass)] {
        let mut trace = trace(&scenario, &[]);
        deliver(&mut trace, endpoint, 1, 3 * S, 204);
        let until = Some(6_500_000_000);
        let detail = Some("a-1".to_owned());
        trace.faults.push(Fault { t: 1_600_000_000, until, detail, ..rotation(0, 0) });
        end(&mut trace, 8 * S);
        verdict("identity.secret", &scenario, &trace, expected);
    }
}

#[test]
fn a_signature_of_another_secret_and_a_secret_that_is_shown_are_held_against_the_sender() {
    check("identity.secret", "", |trace| trace.arrivals[1].signed.surplus = 1, Status::Fail);
    // The harness learns a new secret a little later than the sender uses it.
    let early = |trace: &mut Trace| {
        trace.faults.push(rotation(2_500_000_000, 600));
        trace.arrivals[1].signed.surplus = 1;
        signed(trace, 2, &Verified::Keys(vec![0, 1].into()));
    };
    check("identity.secret", &rotated(600), early, Status::Pass);
    let shown = |trace: &mut Trace| trace.arrivals[1].signed.disclosed = Some("its body".into());
    check("identity.secret", "", shown, Status::Fail);
    let unchecked = |trace: &mut Trace| {
        shown(trace);
        (0..3).for_each(|n| signed(trace, n, &Verified::Unchecked("unknown".into())));
    };
    check("identity.secret", "", unchecked, Status::Fail);
}
