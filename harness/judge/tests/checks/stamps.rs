//! Each attempt has its own timestamp.

use hookproof_judge::check::Status;
use hookproof_judge::trace::Trace;

use crate::build::{self, check};

const SECOND: u64 = 1_000_000_000;
const FAILS: &str = "[[subscriber.behaviour]]\nanswer = 500\nattempts = \"1\"";

/// Event 0 comes again `gap` later, with this timestamp.
fn again(gap: u64, stamp: &'static str) -> impl Fn(&mut Trace) {
    move |trace| {
        trace.answers[0].status = 500;
        build::deliver(trace, "a", 0, SECOND + gap, 204);
        trace.arrivals[3].signed.timestamp = Some(stamp.into());
        build::end(trace, 60 * SECOND);
    }
}

#[test]
fn a_retry_has_a_later_timestamp_than_the_attempt_before() {
    for (gap, stamp, expected) in [
        (3 * SECOND, "4", Status::Pass),
        (3 * SECOND, "1", Status::Fail),
        (3 * SECOND, "2", Status::Pass),
        (SECOND, "1", Status::Pass),
        (4 * SECOND, "0", Status::Fail),
        (7 * SECOND, "1", Status::Fail),
    ] {
        check("format.timestamp", FAILS, again(gap, stamp), expected);
    }
}
