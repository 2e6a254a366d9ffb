use crate::engine::StoreTime;
pub(super) use crate::operate::shown::{moment, place, reason, state};
use crate::store::latency::{Histogram, Percentiles, TOO_HIGH_PERMILLE};
pub(super) use crate::units::rough;

pub(super) fn ago(at: StoreTime, now: StoreTime) -> String {
    format!("{} ago", rough(now.since(at)))
}

pub(super) fn when(at: StoreTime, now: StoreTime) -> String {
    if at > now { format!("in {}", rough(at.since(now))) } else { ago(at, now) }
}

pub(super) fn latency(counted: Option<&Histogram>) -> String {
    let is_slow = counted.and_then(Histogram::percentiles).is_some_and(|found| found.is_slow());
    format!("{}{}", lengths(counted, "attempts"), if is_slow { "; SLOW" } else { "" })
}

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
