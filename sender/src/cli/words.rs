//! The sender's figures in the words that people and machines read.

use crate::engine::{Nanos, StoreTime};
pub(super) use crate::operate::shown::{moment, place, reason, state};
use crate::store::latency::{Histogram, Percentiles, TOO_HIGH_PERMILLE};

/// A length of time as a person would say it: to the second below two minutes, to the minute below two hours, …
pub(super) fn rough(length: Nanos) -> Nanos {
    const STEPS: [(Nanos, Nanos); 5] = [
        (Nanos::from_millis(1), Nanos::from_micros(1)),
        (Nanos::from_secs(2), Nanos::from_millis(1)),
        (Nanos::from_secs(120), Nanos::SECOND),
        (Nanos::HOUR.times(2), Nanos::MINUTE),
        (Nanos::DAY.times(2), Nanos::HOUR),
    ];
    let step = STEPS.iter().find(|(below, _)| length < *below).map_or(Nanos::DAY, |(_, step)| *step);
    Nanos(length.0 - length.0 % step.0)
}

/// How long ago.
pub(super) fn ago(at: StoreTime, now: StoreTime) -> String {
    format!("{} ago", rough(now.since(at)))
}

/// When, as seen from now.
pub(super) fn when(at: StoreTime, now: StoreTime) -> String {
    if at > now { format!("in {}", rough(at.since(now))) } else { ago(at, now) }
}

/// How long the attempts of a day took.
pub(super) fn latency(counted: Option<&Histogram>) -> String {
    let is_slow = counted.and_then(Histogram::percentiles).is_some_and(|found| found.is_slow());
    format!("{}{}", lengths(counted, "attempts"), if is_slow { "; SLOW" } else { "" })
}

/// What was measured of some things in a day.
pub(super) fn lengths(counted: Option<&Histogram>, what: &str) -> String {
    counted.and_then(Histogram::percentiles).map_or_else(
        || format!("no {what} in the last 24 h"),
        |Percentiles { samples, p50, p95, p99 }| {
            let [p50, p95, p99] = [p50, p95, p99].map(rough);
            let (percent, rest) = (TOO_HIGH_PERMILLE / 10, TOO_HIGH_PERMILLE % 10);
            format!(
                "p50 {p50}, p95 {p95}, p99 {p99} (at most {percent}.{rest} % too high) over {samples} {what} in the last 24 h"
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_as_exact_as_anybody_wants_them() {
        let rows = [
            (Nanos(1_234), "1us"),
            (Nanos::from_micros(1_234_567), "1234ms"),
            (Nanos::from_millis(61_900), "61s"),
            (Nanos::from_secs(3_700), "61min"),
            (Nanos::from_secs(90_000), "25h"),
            (Nanos::from_secs(200_000), "2d"),
            (Nanos::ZERO, "0ns"),
        ];
        for (length, expected) in rows {
            assert_eq!(rough(length).to_string(), expected);
        }
    }
}
