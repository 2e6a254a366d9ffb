use hookproof_judge::check::Status;
use hookproof_judge::scenario::FaultKind;
use hookproof_judge::trace::{Declared, Depth, Lack, Offset, Retained, Trace};

use crate::build::{self, check};
use crate::excuses::fault;

const SECOND: u64 = 1_000_000_000;
const ID: &str = "queue.retention";

/// At `t` the sender reports the delivery time of its oldest kept delivery.
fn lists(trace: &mut Trace, t: u64, oldest_unix_ns: Option<u64>) {
    let kept = Some(Retained { listed: true, oldest_unix_ns, disk_bytes: None });
    trace.depths.push(Depth { t, kept, ..Depth::default() });
    build::end(trace, t + SECOND);
}

fn holds(trace: &mut Trace, t: u64, bytes: u64) {
    let kept = Some(Retained { listed: false, oldest_unix_ns: None, disk_bytes: Some(bytes) });
    trace.depths.push(Depth { t, kept, ..Depth::default() });
    build::end(trace, t + SECOND);
}

const AGE: &str = "[expect]\nkept = { age = \"2s\" }";
const SIZE: &str = "[expect]\nkept = { bytes = \"1MB\" }";
const BOTH: &str = "[expect]\nkept = { age = \"2s\", bytes = \"1MB\" }";

#[test]
fn a_delivery_older_than_declared_is_retained_too_long() {
    let listed = |oldest: Option<u64>| move |trace: &mut Trace| lists(trace, 6 * SECOND, oldest);
    check(ID, AGE, listed(Some(4 * SECOND)), Status::Pass);
    check(ID, AGE, listed(Some(4 * SECOND - 1)), Status::Fail);
    check(ID, AGE, listed(None), Status::Pass);
    check(ID, "", listed(Some(0)), Status::NotApplicable);
}

#[test]
fn an_age_that_nothing_can_have_was_not_seen() {
    check(ID, AGE, |_| {}, Status::Inconclusive);
    check(ID, AGE, |trace| lists(trace, 2 * SECOND, Some(SECOND)), Status::Inconclusive);
    check(ID, AGE, |trace| holds(trace, 6 * SECOND, 1), Status::Inconclusive);
    let mute = |trace: &mut Trace| trace.declared.lacks = vec![Lack::Kept];
    check(ID, AGE, mute, Status::NotApplicable);
}

#[test]
fn a_fault_of_the_sender_excuses_old_deliveries_for_a_while() {
    let at = |struck: u64| {
        move |trace: &mut Trace| {
            trace.faults.push(fault(struck * SECOND, FaultKind::LockDatabase, Some((struck + 1) * SECOND)));
            lists(trace, 20 * SECOND, Some(17 * SECOND));
        }
    };
    check(ID, AGE, at(18), Status::Pass);
    check(ID, AGE, at(10), Status::Fail);
    check(ID, AGE, at(16), Status::Fail);
}

#[test]
fn the_senders_clock_is_taken_for_what_it_is() {
    let ahead = |ns: i64, error: u64, oldest: u64| {
        move |trace: &mut Trace| {
            trace.offset = Some(Offset { t: 0, ns, error });
            lists(trace, 6 * SECOND, Some(oldest));
        }
    };
    check(ID, AGE, ahead(5_000_000_000, 0, 9 * SECOND), Status::Pass);
    check(ID, AGE, ahead(5_000_000_000, 0, 8 * SECOND), Status::Fail);
    check(ID, AGE, ahead(5_000_000_000, SECOND, 8 * SECOND), Status::Pass);
}

#[test]
fn a_database_is_as_large_as_declared_beside_what_may_wait() {
    let held = |bytes: u64| move |trace: &mut Trace| holds(trace, 6 * SECOND, bytes);
    check(ID, SIZE, held(900_000), Status::Pass);
    check(ID, SIZE, held(2_000_000), Status::Fail);
    // Three were offered at once, so the size of three was needed.
    check(ID, SIZE, held(1_003_000), Status::Pass);
    // Before the first delivery the store keeps none.
    check(ID, SIZE, |trace| holds(trace, SECOND / 2, 2_000_000), Status::Inconclusive);
    check(ID, SIZE, |_| {}, Status::Inconclusive);
    let on_a_server = format!("{SIZE}\n[sender]\nstore = \"postgres\"");
    check(ID, &on_a_server, held(2_000_000), Status::NotApplicable);
    for lack in [Lack::Start, Lack::Database] {
        let mute = |trace: &mut Trace| {
            held(900_000)(trace);
            trace.declared = Declared { lacks: vec![lack], ..Declared::default() };
        };
        check(ID, SIZE, mute, Status::NotApplicable);
    }
}

#[test]
fn both_halves_must_be_seen_to_hold() {
    let seen = |oldest: u64, bytes: u64, lacks: &'static [Lack]| {
        move |trace: &mut Trace| {
            lists(trace, 6 * SECOND, Some(oldest));
            trace.depths[0].kept.as_mut().expect("listed").disk_bytes = Some(bytes);
            trace.declared.lacks = lacks.to_vec();
        }
    };
    check(ID, BOTH, seen(5 * SECOND, 900_000, &[]), Status::Pass);
    check(ID, BOTH, seen(5 * SECOND, 2_000_000, &[]), Status::Fail);
    check(ID, BOTH, seen(SECOND, 900_000, &[]), Status::Fail);
    check(ID, BOTH, seen(5 * SECOND, 900_000, &[Lack::Kept]), Status::NotApplicable);
    check(ID, BOTH, seen(5 * SECOND, 2_000_000, &[Lack::Kept]), Status::Fail);
    check(ID, BOTH, |trace| lists(trace, 6 * SECOND, Some(5 * SECOND)), Status::Inconclusive);
}

#[test]
fn a_list_that_is_always_empty_shows_no_retention() {
    let age = "[expect]\nkept = { age = \"10s\" }";
    let listed = |between: u64, oldest: Option<u64>| {
        move |trace: &mut Trace| {
            lists(trace, between, oldest);
            lists(trace, 20 * SECOND, None);
        }
    };
    check(ID, age, listed(9 * SECOND, None), Status::Inconclusive);
    check(ID, age, listed(9 * SECOND, Some(SECOND)), Status::Pass);
    // Neither sample came in time.
    check(ID, age, listed(15 * SECOND, None), Status::Pass);
    check(ID, age, listed(3 * SECOND, None), Status::Pass);
}
