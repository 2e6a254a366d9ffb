//! Breaks of the contract at special moments are in [`super::implied`].

use super::Row;
use super::run::{Run, crowded};

pub(super) const ROWS: [Row; 5] = [
    Row {
        check: "rate.envelope",
        broken: "six come at once, and five are allowed",
        good: || crowded("", 6),
        breaks: |run| {
            run.moved(5, 5_010);
        },
    },
    Row {
        check: "rate.window",
        broken: "five come at the end of a second of the clock, one at the beginning of the next; the cap is five in a second",
        good: windowed,
        breaks: |run| {
            run.moved(5, 6_000);
        },
    },
    Row {
        check: "rate.in-flight",
        broken: "a third request comes before the first of two is answered; the cap is two",
        good: overlapping,
        breaks: |run| {
            run.answered(0, 1_250);
        },
    },
    Row {
        check: "rate.utilisation",
        broken: "a backlog is sent at five a second, and ten are allowed",
        good: || crowded("", 45),
        breaks: |run| {
            (5..45).for_each(|n: u64| {
                run.moved(usize::try_from(n).expect("small"), 5_010 + (n - 4) * 200);
            });
        },
    },
    Row {
        check: "pressure.holds",
        broken: "an endpoint that works on one request after another has nine open, and answers after 900 ms; half a second \
                 is the target",
        good: served,
        breaks: |run| {
            (0..40).for_each(|n: u64| {
                run.answered(usize::try_from(n).expect("small"), 5_910 + n * 100);
            });
        },
    },
];

/// The endpoint takes 100 ms for each of 40 waiting events, one request at a time.
fn served() -> Run {
    let serves = "[[subscriber.behaviour]]\nanswer = 204\nserves = \"100ms\"";
    let more = format!("{serves}\n[expect.pressure.a]\ntarget = \"500ms\"");
    let mut run = Run::limited("rate = \"100/s\", burst = 50, in_flight = 20", &more);
    for n in 0..40 {
        run.event(n, 5_000).request(n, 5_010 + n * 100, 204);
        run.answered(usize::try_from(n).expect("small"), 5_110 + n * 100);
    }
    run
}

/// Six events are due at 5.9 s, under a cap of five a second.
fn windowed() -> Run {
    let mut run = Run::limited("rate = \"100/s\", burst = 50, windows = [\"5 per 1s\"]", "");
    (0..5).for_each(|token| {
        run.delivery(token, 5_900);
    });
    run.event(5, 5_900).request(5, 6_910, 204);
    run
}

fn overlapping() -> Run {
    let mut run = Run::limited("rate = \"10/s\", burst = 5, in_flight = 2", "");
    for (token, t) in [(0, 1_000), (1, 1_100), (2, 1_200)] {
        run.event(token, t).request(token, t, 204);
    }
    run.answered(0, 1_150).answered(1, 1_250).answered(2, 1_350);
    run
}
