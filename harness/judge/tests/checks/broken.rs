//! Broken traces for checks that no real sender can break: tests cannot set clocks, and some faults are the harness's
//! own. Checks of disks, databases, coalescing and speed are here too, although the small sender of
//! `tests/sender_mutants` also breaks them.

use hookproof_judge::check::{Status, Strictness, judge};
use hookproof_judge::scenario::{FaultKind, Scenario};
use hookproof_judge::trace::{Ceiling, ClockKind, ENDPOINTS, ProcessEvent, Stall, Stray, StrayKind, Trace};

use crate::build;
use crate::excuses::{fault, process};

const SECOND: u64 = 1_000_000_000;

struct Broken {
    check: &'static str,
    /// Extends the scenario with one subscriber.
    more: &'static str,
    /// The break, after deliveries at 1, 2 and 3 s.
    breaks: fn(&mut Trace),
    status: Status,
}

const BROKEN: [Broken; 11] = [
    Broken {
        check: "fault.clock-step",
        more: "[sender]\ntakeover_within = \"2s\"\n\
               [[fault]]\nat = \"1500ms\"\nlasts = \"1s\"\ndo = \"clock-step\"\nby = \"-1h\"",
        breaks: stands_still_until_its_clock_is_right,
        status: Status::Fail,
    },
    Broken {
        check: "fault.clock-skew",
        more: "[[fault]]\nat = \"1500ms\"\nlasts = \"1s\"\ndo = \"clock-skew\"\nby = \"90s\"",
        breaks: dies_of_a_clock,
        status: Status::Fail,
    },
    Broken {
        check: "fault.disk-full",
        more: "[[fault]]\nat = \"1500ms\"\nlasts = \"1s\"\ndo = \"disk-full\"",
        breaks: acknowledges_what_it_cannot_write,
        status: Status::Fail,
    },
    Broken {
        check: "fault.locked",
        more: "[[fault]]\nat = \"1500ms\"\nlasts = \"1s\"\ndo = \"lock-database\"",
        breaks: dies_of_a_lock,
        status: Status::Fail,
    },
    Broken {
        check: "fault.database-restart",
        more: "[sender]\nstore = \"postgres\"\n\
               [[fault]]\nat = \"1500ms\"\nlasts = \"1s\"\ndo = \"database-restart\"",
        breaks: dies_with_its_database,
        status: Status::Fail,
    },
    Broken {
        check: "fault.partition",
        more: "[sender]\nstore = \"postgres\"\n\
               [[fault]]\nat = \"1500ms\"\nlasts = \"1s\"\ndo = \"partition\"",
        breaks: dies_of_being_cut_off,
        status: Status::Fail,
    },
    Broken {
        check: "efficiency",
        more: "[expect]\nefficiency_min = 0.35",
        breaks: is_slower_than_the_machine,
        status: Status::Fail,
    },
    Broken {
        check: "coalesce.window",
        more: "coalesce = [{ type = \"video.rank\", window = \"1s\" }]",
        breaks: delivers_what_it_should_replace,
        status: Status::Warn,
    },
    Broken { check: "harness.schedule", more: "", breaks: releases_late, status: Status::Inconclusive },
    Broken { check: "harness.stall", more: "", breaks: stands_still, status: Status::Inconclusive },
    Broken { check: "harness.strays", more: "", breaks: is_called_elsewhere, status: Status::Warn },
];

fn is_called_elsewhere(trace: &mut Trace) {
    let said = "GET /favicon.ico at h.example".to_owned();
    trace.reached.strays.push(Stray { t: SECOND, kind: StrayKind::Request, token: None, said, count: 1 });
}

fn stands_still_until_its_clock_is_right(trace: &mut Trace) {
    trace.faults.push(fault(3 * SECOND / 2, FaultKind::ClockStep, Some(5 * SECOND / 2)));
    for (arrival, answer) in trace.arrivals.iter_mut().zip(&mut trace.answers).skip(1) {
        (arrival.t, arrival.read) = (3_600 * SECOND, 3_600 * SECOND);
        (answer.t, answer.end) = (arrival.t, arrival.t);
    }
    build::end(trace, 3_700 * SECOND);
}

fn acknowledges_what_it_cannot_write(trace: &mut Trace) {
    trace.faults.push(fault(3 * SECOND / 2, FaultKind::DiskFull, Some(5 * SECOND / 2)));
    build::offer(trace, 3, 2 * SECOND, &["a"]);
    build::end(trace, 600 * SECOND);
}

fn dies_of(trace: &mut Trace, kind: FaultKind) {
    trace.faults.push(fault(3 * SECOND / 2, kind, Some(5 * SECOND / 2)));
    trace.processes.push(process(2 * SECOND, ProcessEvent::Exited));
    build::end(trace, 600 * SECOND);
}

fn dies_of_a_clock(trace: &mut Trace) {
    dies_of(trace, FaultKind::ClockSkew);
}

fn dies_of_a_lock(trace: &mut Trace) {
    dies_of(trace, FaultKind::LockDatabase);
}

fn dies_with_its_database(trace: &mut Trace) {
    dies_of(trace, FaultKind::DatabaseRestart);
}

fn dies_of_being_cut_off(trace: &mut Trace) {
    dies_of(trace, FaultKind::Partition);
}

fn is_slower_than_the_machine(trace: &mut Trace) {
    trace.host.ceiling = Some(Ceiling { t: 0, per_second: 1_000 });
}

/// Three events at 5 s, where at most two windows meet, and all arrive.
fn delivers_what_it_should_replace(trace: &mut Trace) {
    (3..6).for_each(|token| {
        build::offer(trace, token, 5 * SECOND, &["a"]);
        trace.offers.iter_mut().skip(3).for_each(|offer| offer.kind = "video.rank".into());
        build::deliver(trace, "a", token, 6 * SECOND, 204);
    });
    build::end(trace, 7 * SECOND);
}

fn releases_late(trace: &mut Trace) {
    trace.offers.iter_mut().for_each(|offer| offer.t = SECOND / 2);
}

fn stands_still(trace: &mut Trace) {
    trace.header.clock = ClockKind::Real;
    (3..10).for_each(|token| {
        build::offer(trace, token, 0, &["a"]);
        build::deliver(trace, "a", token, 4 * SECOND, 204);
    });
    trace.stalls.push(Stall { thread: ENDPOINTS.to_owned(), from: 7 * SECOND / 2, until: 4 * SECOND });
    build::end(trace, 5 * SECOND);
}

fn verdict_of(broken: &Broken, breaks: bool) -> (Status, String) {
    let scenario: Scenario = build::scenario_with(broken.more);
    let mut trace = build::trace(&scenario, &[SECOND, 2 * SECOND, 3 * SECOND]);
    if breaks {
        (broken.breaks)(&mut trace);
    }
    let judgement = judge(&scenario, &trace, Strictness::Usual);
    let verdict = judgement.verdicts.into_iter().find(|one| one.id == broken.check).expect("judged");
    (verdict.status, verdict.sentence)
}

#[test]
fn each_of_these_checks_is_broken_by_its_trace_and_not_without_it() {
    for broken in &BROKEN {
        let (status, sentence) = verdict_of(broken, true);
        assert_eq!(status, broken.status, "{}: {sentence}", broken.check);
        let (status, sentence) = verdict_of(broken, false);
        assert_ne!(status, broken.status, "{}: {sentence}", broken.check);
    }
}
