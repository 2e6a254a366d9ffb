//! A bound that was never observed is not proved.

use hookproof_judge::check::Status;
use hookproof_judge::trace::{Depth, Trace};

use crate::build::check;

fn sample(subscriber: Option<&str>, waiting: u64, bytes: Option<u64>) -> impl Fn(&mut Trace) {
    let subscriber = subscriber.map(str::to_owned);
    let depth = Depth { t: 5, subscriber, waiting: Some(waiting), bytes, ..Depth::default() };
    move |trace| trace.depths.push(depth.clone())
}

const BESIDE: &str = "[[subscriber]]\nname = \"b\"";

#[test]
fn a_sample_of_the_whole_is_that_of_its_only_subscriber() {
    check("queue.bounded", "queue = { rows = 2 }", sample(None, 3, None), Status::Fail);
    check("queue.bounded", "queue = { rows = 2 }", sample(None, 2, None), Status::Pass);
}

#[test]
fn a_bound_that_no_sample_is_about_was_not_seen_to_hold() {
    let queue = format!("queue = {{ rows = 2 }}\n{BESIDE}");
    check("queue.bounded", &queue, sample(None, 3, None), Status::Inconclusive);
    check("queue.bounded", &queue, sample(Some("a"), 2, None), Status::Pass);
    // So few cannot exceed the bound of any lane.
    check("queue.bounded", &queue, sample(None, 2, None), Status::Pass);
    check("queue.bounded", &queue.replace('2', "3"), sample(None, 9, None), Status::Pass);
}

#[test]
fn a_queue_that_was_never_as_long_as_it_had_to_be_was_not_seen() {
    let least = "[expect]\nqueue_rows_min = 3";
    check("queue.bounded", least, sample(None, 3, None), Status::Pass);
    check("queue.bounded", least, sample(None, 2, None), Status::Inconclusive);
    let bound = format!("queue = {{ rows = 1 }}\n{least}");
    check("queue.bounded", &bound, sample(None, 2, None), Status::Fail);
    // One lane's backlog says nothing of the total.
    let beside = format!("{BESIDE}\n{least}");
    check("queue.bounded", &beside, sample(Some("a"), 3, None), Status::Inconclusive);
}

#[test]
fn bytes_are_bounded_by_samples_of_bytes() {
    let queue = "queue = { bytes = \"1KB\" }";
    check("queue.bounded", queue, sample(None, 3, None), Status::Inconclusive);
    check("queue.bounded", queue, sample(None, 3, Some(900)), Status::Pass);
    check("queue.bounded", queue, sample(None, 3, Some(1_900)), Status::Fail);
}

/// Three deliveries were accepted at 0, and arrive from 1 s on; three samples before that report one.
fn reported(listed: bool, change: fn(&mut Trace)) -> impl Fn(&mut Trace) {
    move |trace| {
        trace.depths.extend([100, 200, 300].map(|t| crate::build::depth(t * 1_000_000, Some("a"), 1)));
        trace.trailer.as_mut().expect("whole").dead_listed = listed;
        change(trace);
    }
}

#[test]
fn deliveries_that_came_later_had_waited_whatever_the_sender_reported() {
    for listed in [false, true] {
        for id in ["queue.bounded", "queue.truth"] {
            check(id, "queue = { rows = 2 }", reported(listed, |_| {}), Status::Fail);
        }
        check("queue.bounded", "queue = { rows = 3 }", reported(listed, |_| {}), Status::Pass);
    }
    // One that never came may be a dead letter.
    let given_up = |trace: &mut Trace| crate::build::without(trace, 2);
    check("queue.bounded", "queue = { rows = 2 }", reported(false, given_up), Status::Pass);
    check(
        "queue.truth",
        "",
        reported(false, |trace| (0..2).for_each(|_| crate::build::without(trace, 1))),
        Status::Pass,
    );
}

#[test]
fn what_waits_is_as_large_as_its_bodies() {
    let sized = |held: u64, came: u64| {
        move |trace: &mut Trace| {
            let depth = Depth { bytes: Some(held), ..crate::build::depth(200_000_000, Some("a"), 3) };
            trace.depths.extend([Depth { t: 100_000_000, ..depth.clone() }, depth]);
            trace.arrivals.iter_mut().for_each(|arrival| arrival.bytes = came);
        }
    };
    let events = "[events]\ndata_bytes = \"1000..1000\"";
    check("queue.truth", events, sized(2_999, 1_200), Status::Fail);
    check("queue.truth", events, sized(3_000, 1_200), Status::Pass);
    // The bodies do not hold their data.
    check("queue.truth", events, sized(2_999, 900), Status::Pass);
    let of_all = |trace: &mut Trace| {
        sized(2_999, 1_200)(trace);
        trace.depths.iter_mut().for_each(|depth| depth.subscriber = None);
    };
    check("queue.truth", events, of_all, Status::Fail);
    check("queue.truth", &format!("{BESIDE}\n{events}"), of_all, Status::Pass);
}
