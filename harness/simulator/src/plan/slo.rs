//! Objectives as users write them: `p95<60s`, `shed=0`, `drain<10min`, `partner-c.p99<5min`.

use std::fmt;
use std::str::FromStr;

use hookproof_judge::scenario::{Duration, Subscriber};
use serde::Serialize;

use super::service::never_recovers;
use crate::sim::figures::{Figures, LaneFigures};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slo {
    /// None for every subscriber.
    pub whom: Option<String>,
    pub measure: Measure,
    /// Nanoseconds, or a count.
    pub most: u64,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A percentile, in thousandths, of the time from an event's moment until its delivery is taken.
    Latency(u32),
    /// The time from the end of the traffic until the backlog is gone.
    Drain,
    Shed,
    Expired,
    Dead,
    Backlog,
}

const MEASURES: [(&str, Measure); 8] = [
    ("p50", Measure::Latency(500)),
    ("p95", Measure::Latency(950)),
    ("p99", Measure::Latency(990)),
    ("drain", Measure::Drain),
    ("shed", Measure::Shed),
    ("expired", Measure::Expired),
    ("dead", Measure::Dead),
    ("backlog", Measure::Backlog),
];

/// A time that did not come: the delivery was never taken, the backlog never gone.
pub const NEVER: u64 = u64::MAX;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Breach {
    pub subscriber: String,
    /// Several subscribers may share it.
    pub group: String,
    pub objective: String,
    pub figure: String,
    /// Ratio to the limit, in thousandths.
    pub excess: u64,
}

impl Measure {
    pub(super) const fn is_time(self) -> bool {
        matches!(self, Self::Latency(_) | Self::Drain)
    }

    /// Percentiles are of one kind.
    pub(super) fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    #[must_use]
    pub fn of(self, lane: &LaneFigures, figures: &Figures) -> u64 {
        match self {
            Self::Latency(thousandths) => latency_ns(lane, thousandths),
            Self::Drain if lane.left > 0 => NEVER,
            Self::Drain => lane.drain_ns(figures.traffic_end),
            Self::Shed => lane.dead[2].saturating_add(lane.refused),
            Self::Expired => lane.dead[1],
            Self::Dead => lane.given_up(),
            Self::Backlog => lane.peak.rows,
        }
    }
}

/// A percentile over all owed deliveries. Those given up, refused or left count as infinitely late, so that
/// an endpoint that takes only the easy half has a median and no p95.
fn latency_ns(lane: &LaneFigures, thousandths: u32) -> u64 {
    let taken = lane.taken_us.len();
    let missing = lane.given_up().saturating_add(lane.left).saturating_add(lane.refused);
    let all = u128::from(taken) + u128::from(missing);
    if missing == 0 {
        return lane.taken_ns(thousandths);
    }
    // The percentile among the taken ones that corresponds to it.
    let millionths = (u128::from(thousandths) * all * 1_000).div_ceil(u128::from(taken.max(1)));
    match u32::try_from(millionths) {
        Ok(millionths) if taken > 0 && millionths <= 1_000_000 => {
            let quantile = f64::from(millionths) / 1_000_000.0;
            lane.taken_us.value_at_quantile(quantile).saturating_mul(1_000)
        }
        _ => NEVER,
    }
}

impl Slo {
    /// One whose endpoint never recovers must be named.
    #[must_use]
    pub fn concerns(&self, subscriber: &Subscriber) -> bool {
        match self.whom.as_deref() {
            Some(whom) => whom == subscriber.name || whom == subscriber.group,
            None => !never_recovers(subscriber),
        }
    }

    #[must_use]
    pub fn show(&self, figure: u64) -> String {
        match figure {
            NEVER if self.measure.is_time() => "never".to_owned(),
            length if self.measure.is_time() => hookproof_judge::check::verdict::show(length),
            count => count.to_string(),
        }
    }
}

impl FromStr for Slo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            |why: &str| format!("{text:?} is not an objective: {why}; expected one like p95<60s or shed=0");
        let place = text.find(['<', '=']).ok_or_else(|| wrong("it has neither < nor ="))?;
        let (left, right) = text.split_at(place);
        let (sign, figure) = right.split_at(1);
        let is_equal = sign == "=" || figure.starts_with('=');
        let figure = figure.trim_start_matches('=').trim();
        let (whom, name) = match left.trim().rsplit_once('.') {
            Some((whom, name)) => (Some(whom.to_owned()), name),
            None => (None, left.trim()),
        };
        let known = MEASURES.iter().find(|(word, _)| *word == name);
        let names: Vec<&str> = MEASURES.iter().map(|(word, _)| *word).collect();
        let (_, measure) =
            *known.ok_or_else(|| wrong(&format!("{name:?} is not one of {}", names.join(", "))))?;
        let most =
            if measure.is_time() { length(figure) } else { figure.parse().map_err(|_| "a count".to_owned()) };
        let most = most.map_err(|why| wrong(&format!("{figure:?} is not {why}")))?;
        if !is_equal && most == 0 {
            return Err(wrong("no figure is below 0"));
        }
        let most = if is_equal { most } else { most - 1 };
        Ok(Self { whom, measure, most, text: text.to_owned() })
    }
}

/// A duration; minutes may also be written `10m`.
fn length(text: &str) -> Result<u64, String> {
    let minutes = text.strip_suffix('m').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let text = minutes.map_or_else(|| text.to_owned(), |digits| format!("{digits}min"));
    text.parse::<Duration>().map(|length| length.0).map_err(|_| "a duration".to_owned())
}

impl Serialize for Slo {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.text)
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(Option<&str>, Measure, u64), &str>) {
        let read: Result<Slo, String> = text.parse();
        match (read, expected) {
            (Ok(slo), Ok((whom, measure, most))) => {
                assert_eq!((slo.whom.as_deref(), slo.measure, slo.most), (whom, measure, most), "{text}");
                assert_eq!(slo.to_string(), text);
            }
            (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
            (read, expected) => panic!("{text}: {read:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn objectives_are_read_as_people_write_them() {
        let minute = 60_000_000_000;
        check("p95<60s", Ok((None, Measure::Latency(950), minute - 1)));
        check("p95<=60s", Ok((None, Measure::Latency(950), minute)));
        check("drain<10m", Ok((None, Measure::Drain, 10 * minute - 1)));
        check("shed=0", Ok((None, Measure::Shed, 0)));
        check("partner-c.backlog<100", Ok((Some("partner-c"), Measure::Backlog, 99)));
        check("p95", Err("neither"));
        check("p90<1s", Err("not one of p50, p95"));
        check("p95<60", Err("not a duration"));
        check("shed<0", Err("no figure is below 0"));
    }
}
