use hookproof_judge::check::Status;
use hookproof_judge::scenario::FaultKind;
use hookproof_judge::trace::{Cut, CutKind, Dead, Declared, Depth, Lack, Process, ProcessEvent, Text, Trace};

use crate::build::{self, check};
use crate::excuses::fault;

const SECOND: u64 = 1_000_000_000;

fn started(trace: &mut Trace) {
    trace.processes.push(Process { t: 0, worker: 0, event: ProcessEvent::Started, status: None });
}

fn bury(trace: &mut Trace, token: u64, reason: &str) {
    let (subscriber, reason) = ("a".to_owned(), reason.to_owned());
    let t = 3 * SECOND;
    trace.dead.push(Dead { t, subscriber, token: Some(token), id: None, reason, attempts: None });
}

#[test]
fn one_answer_delivers_all_events_of_its_request() {
    let said = |delivered: u64| {
        move |trace: &mut Trace| {
            started(trace);
            build::without(trace, 2);
            trace.arrivals[1].more = Box::new([2]);
            let t = 5 * SECOND / 2;
            trace.depths.push(Depth { delivered: Some(delivered), ..build::depth(t, None, 0) });
            build::end(trace, 4 * SECOND);
        }
    };
    check("queue.truth", "", said(3), Status::Pass);
    check("queue.truth", "", said(4), Status::Fail);
}

/// The last delivery never came, and is listed as dead; samples report dead letters and the backlog.
fn dead(reason: &'static str, samples: &'static [(u64, u64, u64)]) -> impl Fn(&mut Trace) {
    move |trace| {
        started(trace);
        build::without(trace, 2);
        bury(trace, 2, reason);
        for (t, dead, waiting) in samples {
            let said = build::depth(t * SECOND + SECOND / 2, None, *waiting);
            trace.depths.push(Depth { dead: Some(*dead), ..said });
        }
        build::end(trace, 60 * SECOND);
    }
}

#[test]
fn a_delivery_given_up_as_expired_had_passed_its_ttl() {
    let brief = "retry = { ttl = \"10s\" }";
    check(
        "queue.truth",
        brief,
        dead("expired", &[(2, 0, 1), (4, 0, 1), (20, 1, 0), (59, 1, 0)]),
        Status::Pass,
    );
    check(
        "queue.truth",
        brief,
        dead("expired", &[(2, 0, 1), (4, 1, 0), (5, 1, 0), (59, 1, 0)]),
        Status::Fail,
    );
}

#[test]
fn the_final_count_of_dead_letters_equals_the_list() {
    let brief = "retry = { ttl = \"10s\" }";
    check("queue.truth", brief, dead("expired", &[(2, 0, 1), (20, 1, 0), (59, 2, 0)]), Status::Fail);
    check("queue.truth", brief, dead("expired", &[(2, 0, 1), (20, 0, 0), (59, 0, 0)]), Status::Fail);
}

#[test]
fn a_delivery_reported_as_coalesced_could_be_coalesced() {
    let said = |coalesced: u64| {
        move |trace: &mut Trace| {
            started(trace);
            let t = 7 * SECOND / 2;
            trace.depths.push(Depth { coalesced: Some(coalesced), ..build::depth(t, None, 0) });
            build::end(trace, 4 * SECOND);
        }
    };
    check("queue.truth", "", said(0), Status::Pass);
    check("queue.truth", "", said(1), Status::Fail);
    let coalesces = "coalesce = [{ type = \"video.trending\", window = \"1s\" }]";
    check("queue.truth", coalesces, said(1), Status::Fail);
}

/// An event was accepted at 2 s and never came, while others did; the sender keeps no dead letters.
fn passed_over(more: &str, expected: Status) {
    let scenario = build::scenario_with(&format!("retry = {{ ttl = \"5s\" }}\n{more}"));
    let mut trace = build::trace(&scenario, &[]);
    for token in 0..20 {
        let t = (token + 1) * SECOND;
        build::offer(&mut trace, token, t, &["a"]);
        if token != 1 {
            build::deliver(&mut trace, "a", token, t + SECOND / 10, 204);
        }
    }
    trace.trailer.as_mut().expect("whole").dead_listed = false;
    trace.declared = Declared { lacks: vec![Lack::Depth, Lack::DeadLetters], ..Declared::default() };
    build::end(&mut trace, 120 * SECOND);
    build::verdict("loss.none", &scenario, &trace, expected);
}

#[test]
fn silence_is_no_expiry_where_nothing_held_a_lane_back() {
    passed_over("", Status::Fail);
    passed_over("[[subscriber.behaviour]]\nat = \"2s\"\nlasts = \"6s\"\nanswer = \"refuse\"", Status::Pass);
}

/// With equal sizes, a bound on bytes bounds rows.
const SAME_SIZE: &str = "[events]\ndata_bytes = 500\n";

#[test]
fn a_queue_that_was_seen_to_hold_more_sheds_less() {
    let shed = |waiting: u64| {
        move |trace: &mut Trace| {
            build::without(trace, 2);
            bury(trace, 2, "overflow");
            trace.depths.push(build::depth(0, Some("a"), waiting));
        }
    };
    let bounded = format!("queue = {{ rows = 2 }}\n{SAME_SIZE}[sender]\narguments = [\"--rows-max=9\"]");
    check("loss.none", &bounded, shed(2), Status::Pass);
    check("loss.none", &bounded, shed(3), Status::Fail);
    // A queue full of three small ones may be full of two larger ones.
    check("loss.none", &bounded.replace(SAME_SIZE, ""), shed(3), Status::Pass);
}

/// Each of two lanes took three deliveries, and `a` shed its last; reported backlogs of `a` and in all.
#[track_caller]
fn shed_by_one_of_two(more: &str, [own, all]: [u64; 2], expected: Status) {
    let more =
        format!("{more}\n{SAME_SIZE}[sender]\narguments = [\"--rows-max=9\"]\n[[subscriber]]\nname = \"b\"");
    let shed = |trace: &mut Trace| {
        build::without(trace, 2);
        bury(trace, 2, "overflow");
        trace
            .offers
            .iter_mut()
            .for_each(|offer| offer.owed = ["a", "b"].map(Text::from).into_iter().collect());
        (0..3).for_each(|token| build::deliver(trace, "b", token, (token + 1) * SECOND, 204));
        trace.depths.extend([build::depth(0, Some("a"), own), build::depth(0, None, all)]);
        build::end(trace, 4 * SECOND);
    };
    check("loss.none", &more, shed, expected);
}

#[test]
fn a_bound_on_all_lanes_sheds_no_more_than_it_must() {
    // All six waited at once, and neither lane was full.
    shed_by_one_of_two("", [3, 6], Status::Fail);
    shed_by_one_of_two("queue = { rows = 3 }", [0, 6], Status::Fail);
    // A bound of five in all, or of two for `a`, explains one.
    shed_by_one_of_two("", [3, 5], Status::Pass);
    shed_by_one_of_two("queue = { rows = 3 }", [0, 5], Status::Pass);
    shed_by_one_of_two("", [2, 6], Status::Pass);
    shed_by_one_of_two("queue = { rows = 2 }", [0, 6], Status::Pass);
}

#[test]
fn a_malformed_request_is_not_in_form() {
    let broken = |how: CutKind| {
        move |trace: &mut Trace| {
            let (t, endpoint) = (2 * SECOND, "a".into());
            trace.cuts.push(Cut { t, endpoint, n: None, how, began: Some(t), token: None, why: None });
        }
    };
    check("format.http", "", broken(CutKind::PeerGone), Status::Pass);
    check("format.http", "", broken(CutKind::Malformed), Status::Fail);
}

#[test]
fn an_id_fits_into_a_header() {
    let long = "x".repeat(256);
    for (id, expected) in [
        (long.as_str(), Status::Pass),
        ("msg-2_b", Status::Pass),
        (&format!("{long}x"), Status::Fail),
        ("msg 2", Status::Fail),
        ("msg.2", Status::Fail),
        ("msg\u{fffd}2", Status::Fail),
    ] {
        check("format.id", "", |trace| trace.arrivals[1].id = Some(id.into()), expected);
    }
}

#[test]
fn a_clock_that_was_stepped_back_is_asked_for_the_time_again() {
    let stepped = |until: Option<u64>| {
        move |trace: &mut Trace| {
            trace.faults.push(fault(3 * SECOND / 2, FaultKind::ClockStep, until));
            trace.arrivals[2].signed.timestamp = Some("3603".into());
        }
    };
    let steps = "[[fault]]\nat = \"1500ms\"\nlasts = \"1s\"\ndo = \"clock-step\"\nby = \"1h\"";
    check("format.timestamp", steps, stepped(None), Status::Pass);
    check("format.timestamp", steps, stepped(Some(19 * SECOND / 10)), Status::Fail);
}

/// A process's clock is 90 s ahead from 1.5 to 2.5 s, by two timestamps.
fn skewed(stamps: [&'static str; 2]) -> impl Fn(&mut Trace) {
    move |trace| {
        trace.faults.push(fault(3 * SECOND / 2, FaultKind::ClockSkew, Some(5 * SECOND / 2)));
        for (arrival, stamp) in trace.arrivals.iter_mut().skip(1).zip(stamps) {
            arrival.signed.timestamp = Some(stamp.into());
        }
    }
}

const SKEW: &str = "[[fault]]\nat = \"1500ms\"\nlasts = \"1s\"\ndo = \"clock-skew\"\nby = \"90s\"";

#[test]
fn a_clock_that_is_set_wrong_excuses_a_timestamp_that_is_off_by_as_much_and_then_alone() {
    for (stamps, expected) in [
        (["92", "3"], Status::Pass),
        (["2", "3"], Status::Pass),
        (["92", "93"], Status::Pass),
        (["47", "3"], Status::Fail),
    ] {
        check("format.timestamp", SKEW, skewed(stamps), expected);
    }
    let later = |trace: &mut Trace| {
        skewed(["92", "93"])(trace);
        trace.faults[0].until = Some(19 * SECOND / 10);
    };
    check("format.timestamp", SKEW, later, Status::Fail);
}

#[test]
fn a_clock_that_no_timestamp_shows_to_be_wrong_was_not_tried() {
    check("fault.clock-skew", SKEW, skewed(["92", "3"]), Status::Pass);
    check("fault.clock-skew", SKEW, skewed(["2", "3"]), Status::Inconclusive);
    check("fault.clock-skew", SKEW, |_| (), Status::Inconclusive);
}
