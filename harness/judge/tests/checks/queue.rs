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
