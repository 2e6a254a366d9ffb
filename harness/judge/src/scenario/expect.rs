//! Expectations: the figures of checks, and expected failures.

use std::collections::{BTreeMap, BTreeSet};

use super::quantity::{Day, Duration, Millionths, Size};
use super::reader::{Form, Reader, Section, WordOrCount, may, must};

pub(super) const EXPECT: Section = Section {
    about: "Figures for the checks, and known failures. Every check is on by default.",
    fields: &[
        may("lost", Form::Count, "how many deliveries may be lost (default 0)"),
        may(
            "duplicates",
            Form::Either(&Form::Count, &Form::Word(&["in-flight-at-kill"])),
            "how many duplicates there may be (default in-flight-at-kill: deliveries that were open, or just answered, \
             when a process was killed)",
        ),
        may("queue_rows_max", Form::Count, "how many deliveries may wait in total"),
        may(
            "queue_rows_min",
            Form::Count,
            "how many deliveries must wait at once at some moment; with fewer the run is inconclusive",
        ),
        may(
            "retry_after_late",
            Form::Duration,
            "how much later a retry may come than Retry-After and the contract ask for (default 250ms)",
        ),
        may("utilisation_min", Form::Decimal, "the share of its rate that a backlog must use (default 0.98)"),
        may(
            "accepted_min",
            Form::Decimal,
            "the share of the offered events that the sender must accept (default 0.99, unless a bound explains less)",
        ),
        may("ack_max", Form::Duration, "the longest time until the sender answers an emit (default 10s)"),
        may("efficiency_min", Form::Decimal, "the least ratio of the sender's rate to the machine's ceiling"),
        may("rss_growth_max", Form::Size, "how much the sender's resident memory may grow"),
        may("kept", Form::Table(&KEPT), "the age and size of the past deliveries that the sender may keep"),
        may(
            "latency",
            Form::Map(&Form::Either(&Form::Table(&PERCENTILES), &Form::Tables(&PERCENTILES))),
            "by subscriber or group: from emit to first arrival; several tables for several parts of the run",
        ),
        may(
            "pressure",
            Form::Map(&Form::Table(&PRESSURE)),
            "by subscriber or group: the endpoint answers within its target, and is not left idle",
        ),
        may(
            "schedule_late",
            Form::Duration,
            "how late the generator may be at its 99th percentile (default 100ms)",
        ),
        may(
            "slower_beside_slow",
            Form::Duration,
            "how much later healthy subscribers may be served beside slow endpoints (default 500ms)",
        ),
        may(
            "gap_max",
            Form::Duration,
            "how long a healthy subscriber with due deliveries may wait for a request (default 2s)",
        ),
        may(
            "recovery_gap_max",
            Form::Duration,
            "how long a subscriber with due deliveries may wait after a restart, beyond its contract \
                (default 1s)",
        ),
        may(
            "no_storm",
            Form::Duration,
            "how long an endpoint is watched for a storm, from the first request after its recovery (default 10s)",
        ),
        may("known", Form::Map(&Form::Table(&KNOWN)), "expected failures, by the check's id"),
    ],
};

const PERCENTILES: Section = Section {
    about: "The upper bound of each percentile, for the events of a part of the run.",
    fields: &[
        may("at", Form::Duration, "events count from this moment, since the run began (default 0s)"),
        may("lasts", Form::Duration, "its length (default: to the end)"),
        may("p50", Form::Duration, "the median"),
        may("p95", Form::Duration, "the 95th percentile"),
        may("p99", Form::Duration, "the 99th percentile"),
        may("max", Form::Duration, "the longest"),
    ],
};

const KEPT: Section = Section {
    about: "The age and size of the past deliveries that the sender may keep.",
    fields: &[
        may(
            "age",
            Form::Duration,
            "how long it may keep a delivery after it was made, by the driver's `[depth.kept]`",
        ),
        may("bytes", Form::Size, "the size of its database beyond the deliveries that wait"),
    ],
};

const PRESSURE: Section = Section {
    about: "The endpoint answers within its target, and is not left idle.",
    fields: &[
        must("target", Form::Duration, "the longest time of an answer"),
        may("at", Form::Duration, "judged from this moment, since the run began (default 0s)"),
        may("within", Form::Decimal, "the share of answers that must be within the target (default 0.8)"),
        may("used", Form::Decimal, "the share of the endpoint's capacity that must be used (default 0.5)"),
    ],
};

const KNOWN: Section = Section {
    about: "An expected failure. One that no longer happens fails the run.",
    fields: &[
        must("why", Form::Text, "the reason"),
        may("until", Form::Day, "the day from which the failure counts again"),
    ],
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expect {
    pub lost: u64,
    pub duplicates: Duplicates,
    pub queue_rows: QueueRows,
    /// Beyond the request and the contract.
    pub retry_after_late: Duration,
    pub utilisation_min: Millionths,
    /// None for 0.99, unless a bound explains less.
    pub accepted_min: Option<Millionths>,
    pub ack_max: Duration,
    pub efficiency_min: Option<Millionths>,
    pub holds: Holds,
    pub speeds: Speeds,
    /// The generator's lag at its 99th percentile.
    pub schedule_late: Duration,
    /// Additional latency of healthy subscribers.
    pub slower_beside_slow: Duration,
    /// The gap of a healthy subscriber with due deliveries.
    pub gap_max: Duration,
    /// Idle time of a lane with due work after a restart, beyond its contract.
    pub recovery_gap_max: Duration,
    /// From the first request after the recovery.
    pub no_storm: Duration,
    pub known: BTreeMap<String, Known>,
    /// They distinguish an explicit figure from a default.
    pub written: BTreeSet<&'static str>,
}

/// Bounds over all subscribers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueRows {
    pub max: Option<u64>,
    /// A run that never reaches it misses its purpose.
    pub min: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Speeds {
    pub latency: Vec<LatencyBound>,
    pub pressure: Vec<PressureBound>,
}

impl Speeds {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let latency = self.latency.iter().map(|bound| bound.name.as_str());
        latency.chain(self.pressure.iter().map(|bound| bound.name.as_str()))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    pub rss_growth_max: Option<Size>,
    pub kept: KeptBound,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptBound {
    pub age: Option<Duration>,
    /// Beside the backlog.
    pub bytes: Option<Size>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Duplicates of attempts that were open, or just answered, when a process was killed.
    InFlightAtKill,
    AtMost(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PressureBound {
    pub name: String,
    pub target: Duration,
    /// Since the start of the run.
    pub at: Duration,
    pub within: Millionths,
    /// A share of the endpoint's capacity.
    pub used: Millionths,
}

impl PressureBound {
    fn read(name: String, reader: &Reader<'_>) -> Option<Self> {
        let share = |key, default| {
            let share = reader.or(key, Millionths(default));
            if share > Millionths::ONE {
                reader.wrong(key, "expected a share from 0 to 1");
            }
            share
        };
        let (within, used) = (share("within", 800_000), share("used", 500_000));
        let at = reader.or("at", Duration::default());
        Some(Self { name, target: reader.get("target")?, at, within, used })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyBound {
    pub name: String,
    /// Events count from this moment on, since the run began.
    pub at: Duration,
    /// None to the end of the run.
    pub lasts: Option<Duration>,
    pub most: Percentiles,
}

impl LatencyBound {
    /// `t` is the intended moment, in nanoseconds since the run began.
    #[must_use]
    pub fn covers(&self, t: u64) -> bool {
        t >= self.at.0 && self.lasts.is_none_or(|lasts| t - self.at.0 < lasts.0)
    }

    fn read(name: String, reader: &Reader<'_>) -> Self {
        let [p50, p95, p99, max] = ["p50", "p95", "p99", "max"].map(|key| reader.get(key));
        if ["p50", "p95", "p99", "max"].iter().all(|key| !reader.has(key)) {
            reader.wrong("p95", "missing; expected p50, p95, p99 or max");
        }
        let most = Percentiles { p50, p95, p99, max };
        Self { name, at: reader.or("at", Duration(0)), lasts: reader.get("lasts"), most }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    pub p50: Option<Duration>,
    pub p95: Option<Duration>,
    pub p99: Option<Duration>,
    pub max: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub why: String,
    /// The excuse ends on this day.
    pub until: Option<Day>,
}

impl Default for Expect {
    fn default() -> Self {
        Self {
            lost: 0,
            duplicates: Duplicates::InFlightAtKill,
            queue_rows: QueueRows::default(),
            retry_after_late: Duration::from_millis(250),
            utilisation_min: Millionths(980_000),
            accepted_min: None,
            ack_max: Duration::from_secs(10),
            efficiency_min: None,
            holds: Holds::default(),
            speeds: Speeds::default(),
            schedule_late: Duration::from_millis(100),
            slower_beside_slow: Duration::from_millis(500),
            gap_max: Duration::from_secs(2),
            recovery_gap_max: Duration::from_secs(1),
            no_storm: Duration::from_secs(10),
            known: BTreeMap::new(),
            written: BTreeSet::new(),
        }
    }
}

impl Expect {
    pub(super) fn read(reader: &Reader<'_>) -> Self {
        let default = Self::default();
        let utilisation_min = reader.or("utilisation_min", default.utilisation_min);
        if utilisation_min > Millionths::ONE {
            reader.wrong("utilisation_min", "expected a share from 0 to 1");
        }
        let accepted_min: Option<Millionths> = reader.get("accepted_min");
        if accepted_min.is_some_and(|share| share > Millionths::ONE) {
            reader.wrong("accepted_min", "expected a share from 0 to 1");
        }
        Self {
            lost: reader.or("lost", default.lost),
            duplicates: duplicates(reader),
            queue_rows: QueueRows { max: reader.get("queue_rows_max"), min: reader.get("queue_rows_min") },
            retry_after_late: reader.or("retry_after_late", default.retry_after_late),
            utilisation_min,
            accepted_min,
            ack_max: reader.or("ack_max", default.ack_max),
            efficiency_min: reader.get("efficiency_min"),
            holds: Holds { rss_growth_max: reader.get("rss_growth_max"), kept: kept_bound(reader) },
            speeds: Speeds { latency: latency(reader), pressure: pressure(reader) },
            schedule_late: reader.or("schedule_late", default.schedule_late),
            slower_beside_slow: reader.or("slower_beside_slow", default.slower_beside_slow),
            gap_max: reader.or("gap_max", default.gap_max),
            recovery_gap_max: reader.or("recovery_gap_max", default.recovery_gap_max),
            no_storm: reader.or("no_storm", default.no_storm),
            known: reader.map("known").into_iter().filter_map(|(id, one)| Some((id, known(&one)?))).collect(),
            written: reader.written(),
        }
    }
}

fn kept_bound(reader: &Reader<'_>) -> KeptBound {
    let Some(table) = reader.table("kept") else { return KeptBound::default() };
    if !table.has("age") && !table.has("bytes") {
        table.wrong("age", "missing; expected age or bytes");
    }
    KeptBound { age: table.get("age"), bytes: table.get("bytes") }
}

fn duplicates(reader: &Reader<'_>) -> Duplicates {
    match reader.get("duplicates") {
        Some(WordOrCount::Count(count)) => Duplicates::AtMost(count),
        Some(WordOrCount::Word(_)) => {
            let words = [("in-flight-at-kill", Duplicates::InFlightAtKill)];
            reader.word("duplicates", &words).unwrap_or(Duplicates::InFlightAtKill)
        }
        None => Duplicates::InFlightAtKill,
    }
}

/// Sorted by name, and stable within a name, so that a rewritten file means the same.
fn latency(reader: &Reader<'_>) -> Vec<LatencyBound> {
    let tables = reader.map("latency").into_iter();
    let mut bounds: Vec<_> = tables.map(|(name, one)| LatencyBound::read(name, &one)).collect();
    bounds.sort_by(|one, other| one.name.cmp(&other.name));
    bounds
}

fn pressure(reader: &Reader<'_>) -> Vec<PressureBound> {
    let tables = reader.map("pressure").into_iter();
    tables.filter_map(|(name, one)| PressureBound::read(name, &one)).collect()
}

fn known(reader: &Reader<'_>) -> Option<Known> {
    let why: String = reader.get("why")?;
    if why.trim().is_empty() {
        reader.wrong("why", "empty; an expected failure needs a reason");
    }
    Some(Known { why, until: reader.get("until") })
}
