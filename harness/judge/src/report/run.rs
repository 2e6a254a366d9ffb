//! The report of a run. Its JSON is published: fields are added, never renamed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::drawn::{Drawn, Series};
use crate::check::Evidence;
use crate::check::Judgement;
use crate::check::by_standards::{ByStandards, by_standards};
use crate::check::evidence::{Exchange, Outcome};
use crate::check::figures;
use crate::check::outcomes::{Fate, fates_of};
use crate::scenario::{Retry, SECOND, Scenario, Subscriber};
use crate::trace::{ClockKind, Declared, Ended, Fault, Machine, Signs, Trace};

const FORMAT: u32 = 1;
/// In a longer run, several seconds share a place.
const SECONDS_MAX: u64 = 7_200;
/// The worst of all: series for all of them could take gigabytes.
const SERIES_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub format: u32,
    pub version: String,
    pub scenario: String,
    pub about: String,
    pub seed: u64,
    pub driver: String,
    pub repeat: String,
    pub ended: Option<Ended>,
    pub machine: Option<Machine>,
    pub judgement: Judgement,
    #[serde(flatten)]
    pub speed: Speed,
    pub generator: Lag,
    pub subscribers: Vec<SubscriberReport>,
    #[serde(flatten)]
    pub course: Course,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// Hexadecimal; empty in an older report.
    #[serde(default)]
    pub scenario_sha256: String,
    /// The date of the run, in Unix nanoseconds; 0 in virtual time and in an older report.
    #[serde(default)]
    pub began_unix_ns: u64,
    /// Nanoseconds; 0 in an older report.
    #[serde(default)]
    pub lasted: u64,
    /// The seconds in each place of a series, which has the fullest of them: 1, except in a very long run.
    #[serde(default = "one")]
    pub seconds_each: u64,
    pub waiting: Series,
    #[serde(default)]
    pub faults: Vec<FaultReport>,
    /// The figures that checks judge by though the scenario does not set them; empty in an older report.
    #[serde(default)]
    pub defaults: Vec<String>,
    #[serde(default)]
    pub profiles: BTreeSet<String>,
    /// The checks that a standard judges otherwise than the scenario, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_standards: BTreeMap<String, ByStandards>,
    #[serde(default)]
    pub drawn: Drawn,
}

const fn one() -> u64 {
    1
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultReport {
    /// Nanoseconds since the run began.
    pub at: u64,
    pub until: Option<u64>,
    pub what: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    pub efficiency: Option<serde_json::Number>,
    pub ceiling_per_second: Option<u64>,
    pub delivered_per_second: Option<u64>,
    /// Events that the sender's API accepted, where it delayed later events.
    #[serde(default)]
    pub accepted_per_second: Option<u64>,
    #[serde(default)]
    pub offered_per_second: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lag {
    pub events: u64,
    /// Nanoseconds, as the next two.
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
    /// The most in each second of the run, in microseconds.
    #[serde(default)]
    pub by_second: Series,
    /// Never written to the sender's API.
    #[serde(default)]
    pub not_offered: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriberReport {
    pub name: String,
    pub contract: String,
    pub allowed: Option<u64>,
    pub bound: Option<u64>,
    pub arrivals: u64,
    pub delivered: u64,
    pub dead: u64,
    /// From emit to first arrival, in nanoseconds: p50, p95, p99, max.
    pub latency: [u64; 4],
    /// Arrivals per second. This and the next three are empty except for the hundred worst subscribers.
    pub arriving: Series,
    pub taken: Series,
    pub held: Series,
    pub failed: Series,
}

impl Report {
    #[must_use]
    pub fn new(scenario: &Scenario, trace: &Trace, mut judgement: Judgement, repeat: String) -> Self {
        let evidence = Evidence::new(scenario, trace);
        let seconds = Seconds::of(evidence.end);
        let lags = figures::lags(&evidence);
        let held_back = figures::held_back(&evidence);
        let efficiency = figures::efficiency_thousandths(&evidence).map(figures::thousandths);
        let drawn = Drawn::new(&evidence, &judgement.verdicts);
        let followed: BTreeSet<usize> = drawn.order.iter().take(SERIES_MAX).copied().collect();
        Self {
            format: FORMAT,
            version: trace.header.version.clone(),
            scenario: scenario.name.clone(),
            about: scenario.about.clone(),
            seed: trace.header.seed,
            driver: trace.header.driver.clone(),
            repeat,
            ended: trace.trailer.as_ref().map(|trailer| trailer.ended),
            machine: trace.host.machine.clone(),
            speed: Speed {
                efficiency: efficiency.and_then(|text| serde_json::from_str(&text).ok()),
                ceiling_per_second: trace.host.ceiling.as_ref().map(|ceiling| ceiling.per_second),
                delivered_per_second: figures::delivered_per_second_milli(&evidence)
                    .map(|milli| milli / 1_000),
                accepted_per_second: held_back.map(|(_, accepted)| accepted),
                offered_per_second: held_back.map(|(offered, _)| offered),
            },
            generator: Lag {
                events: lags.len() as u64,
                p50: figures::percentile(&lags, 500),
                p99: figures::percentile(&lags, 990),
                max: lags.last().copied().unwrap_or(0),
                by_second: lag_by_second(trace, seconds),
                not_offered: trace.unoffered.len() as u64,
            },
            subscribers: (0..evidence.lanes.len())
                .map(|at| subscriber(&evidence, at, followed.contains(&at).then_some(seconds)))
                .collect(),
            course: Course {
                scenario_sha256: trace.header.scenario_sha256.clone(),
                began_unix_ns: match trace.header.clock {
                    ClockKind::Real => trace.header.began_unix_ns,
                    ClockKind::Virtual => 0,
                },
                lasted: evidence.end,
                seconds_each: seconds.each,
                waiting: waiting(trace, seconds),
                faults: trace.faults.iter().map(fault).collect(),
                defaults: defaults(scenario),
                profiles: profiles(scenario, trace),
                by_standards: by_standards(scenario, trace, &mut judgement),
                drawn,
            },
            judgement,
        }
    }

    pub(super) fn cut_short(&self) -> Option<&'static str> {
        match self.ended {
            Some(Ended::Done) => None,
            Some(Ended::Interrupted) => Some("it was interrupted"),
            Some(Ended::SenderGone) => Some("the sender ended before the run did"),
            None => Some("the trace was cut short"),
        }
    }
}

fn fault(fault: &Fault) -> FaultReport {
    let whom = fault.detail.as_ref().map_or(String::new(), |whom| format!(" ({whom})"));
    FaultReport { at: fault.t, until: fault.until, what: format!("{}{whom}", fault.kind) }
}

#[derive(Clone, Copy)]
struct Seconds {
    places: usize,
    each: u64,
}

impl Seconds {
    fn of(end: u64) -> Self {
        let seconds = end / SECOND + 1;
        let each = seconds.div_ceil(SECONDS_MAX);
        Self { places: usize::try_from(seconds.div_ceil(each)).unwrap_or(1), each }
    }

    /// The highest figure in each place, so that no peak is averaged away.
    fn highest(self, figures: impl Iterator<Item = (u64, u64)>) -> Vec<Option<u64>> {
        let mut highest: Vec<Option<u64>> = vec![None; self.places];
        for (second, figure) in figures {
            let place = usize::try_from(second / self.each).unwrap_or(usize::MAX);
            if let Some(slot) = highest.get_mut(place) {
                *slot = Some(slot.unwrap_or(0).max(figure));
            }
        }
        highest
    }

    fn counted(self, times: impl Iterator<Item = u64>) -> Series {
        let mut seconds: Vec<u64> = times.map(|t| t / SECOND).collect();
        seconds.sort_unstable();
        let counts = seconds.chunk_by(|one, next| one == next).map(|same| (same[0], same.len() as u64));
        Series(self.highest(counts).into_iter().map(Option::unwrap_or_default).collect())
    }
}

fn lag_by_second(trace: &Trace, seconds: Seconds) -> Series {
    let lags =
        trace.offers.iter().map(|offer| (offer.intended / SECOND, figures::own_lag(offer).div_ceil(1_000)));
    Series(seconds.highest(lags).into_iter().map(Option::unwrap_or_default).collect())
}

fn subscriber(evidence: &Evidence<'_>, at: usize, seconds: Option<Seconds>) -> SubscriberReport {
    let lane = &evidence.lanes[at];
    let at = u32::try_from(at).unwrap_or(u32::MAX);
    let limit = &lane.subscriber.limit;
    let is_held = |one: &Exchange| matches!(one.outcome, Outcome::Answered { status: 429, .. });
    let came = |wanted: &dyn Fn(&Exchange) -> bool| {
        let exchanges = lane.arrivals.iter().map(|n| evidence.exchange(*n));
        let times = exchanges.filter(|one| wanted(one)).map(|one| one.t);
        seconds.map_or_else(Series::default, |seconds| seconds.counted(times))
    };
    let deliveries = evidence.deliveries_of(at);
    let latencies = figures::latencies_of(evidence, at);
    let latency = [500, 950, 990, 1_000].map(|thousandths| figures::percentile(&latencies, thousandths));
    let by_bucket = limit.bucket.map(|bucket| {
        let second = u128::from(bucket.rate.count) * u128::from(SECOND) / u128::from(bucket.rate.per.0);
        u64::try_from(second).unwrap_or(u64::MAX).saturating_add(u64::from(bucket.burst))
    });
    let windows = limit.windows.iter().filter(|window| window.length.0 >= SECOND).map(|window| window.count);
    SubscriberReport {
        name: lane.subscriber.name.clone(),
        contract: contract_text(contract(limit), &evidence.trace.declared, &lane.subscriber.name),
        allowed: by_bucket.into_iter().chain(windows).min(),
        bound: lane.subscriber.queue.rows,
        arrivals: lane.arrivals.len() as u64,
        delivered: delivered(evidence, at),
        dead: deliveries.iter().filter(|one| one.dead.is_some()).count() as u64,
        latency,
        arriving: came(&|_| true),
        taken: came(&Exchange::is_delivered),
        held: came(&is_held),
        failed: came(&|one| !one.is_delivered() && !is_held(one)),
    }
}

fn delivered(evidence: &Evidence<'_>, at: u32) -> u64 {
    let in_full = evidence.deliveries_of(at).iter().filter(|one| evidence.is_delivered(one));
    let fates = fates_of(evidence, at).into_iter();
    let besides = fates.filter(|(one, fate)| *fate == Fate::Delivered && !evidence.is_delivered(one));
    (in_full.count() + besides.count()) as u64
}

fn profiles(scenario: &Scenario, trace: &Trace) -> BTreeSet<String> {
    match &trace.declared.signs {
        Some(Signs::Profile(name)) => BTreeSet::from([name.clone()]),
        Some(Signs::Prefixed { profile, header_prefix }) => {
            BTreeSet::from([format!("{profile} with {header_prefix} headers")])
        }
        Some(Signs::Own { .. }) => BTreeSet::from(["a scheme of its own".to_owned()]),
        None => scenario.subscribers.iter().map(|one| one.sign.to_string()).collect(),
    }
}

fn defaults(scenario: &Scenario) -> Vec<String> {
    let expect = &scenario.expect;
    let own = [
        ("lost", expect.lost.to_string()),
        ("retry_after_late", expect.retry_after_late.to_string()),
        ("utilisation_min", expect.utilisation_min.to_string()),
        ("ack_max", expect.ack_max.to_string()),
        ("schedule_late", expect.schedule_late.to_string()),
        ("slower_beside_slow", expect.slower_beside_slow.to_string()),
        ("gap_max", expect.gap_max.to_string()),
        ("recovery_gap_max", expect.recovery_gap_max.to_string()),
        ("no_storm", expect.no_storm.to_string()),
    ];
    let own = own.into_iter().filter(|(key, _)| !expect.written.contains(key));
    let setup = &scenario.sender;
    let sender = [
        ("takeover_within", setup.takeover_within),
        ("confirm_within", setup.confirm_within),
        ("stop_within", setup.stop_within),
    ];
    let sender = sender.into_iter().filter(|(key, _)| !setup.written.contains(key));
    let figures = own.chain(sender.map(|(key, value)| (key, value.to_string())));
    let retry = Retry::default();
    let policy = format!(
        "retry {} from {} to {}, {} attempts",
        retry.backoff.name(),
        retry.base,
        retry.cap,
        retry.attempts
    );
    let subscribers = &scenario.subscribers;
    let groups = |is: &dyn Fn(&Subscriber) -> bool| {
        let names: BTreeSet<&str> =
            subscribers.iter().filter(|one| is(one)).map(|one| one.group.as_str()).collect();
        let whom = names.into_iter().collect::<Vec<_>>().join(", ");
        (!whom.is_empty()).then_some(whom)
    };
    let of_retry = groups(&|one| one.retry == retry && !one.written.contains("retry"))
        .map(|whom| format!("{policy} ({whom})"));
    let of_timeout = groups(&|one| one.timeout == Subscriber::TIMEOUT && !one.written.contains("timeout"))
        .map(|whom| format!("timeout {} ({whom})", Subscriber::TIMEOUT));
    of_retry
        .into_iter()
        .chain(of_timeout)
        .chain(figures.map(|(key, value)| format!("{key} {value}")))
        .collect()
}

fn contract_text(contract: String, declared: &Declared, name: &str) -> String {
    let own = declared.told.iter().filter(|told| told.subscriber == name).map(|told| told.what.clone());
    std::iter::once(contract).chain(own).collect::<Vec<_>>().join("; ")
}

fn contract(limit: &crate::scenario::Limit) -> String {
    let bucket = limit.bucket.map(|bucket| format!("{} burst {}", bucket.rate, bucket.burst));
    let windows = limit.windows.iter().map(ToString::to_string);
    let in_flight = limit.in_flight_told().map(|cap| {
        let by_default = if limit.in_flight.is_none() { " by default" } else { "" };
        format!("{cap} in flight{by_default}")
    });
    let slack = limit.slack;
    let forgiven = [(u64::from(slack.burst), "burst"), (slack.window, "window")];
    let forgiven = forgiven.into_iter().filter(|(more, _)| *more > 0);
    let forgiven = forgiven.map(|(more, what)| format!("{what} slack {more}"));
    let parts: Vec<String> = bucket.into_iter().chain(windows).chain(in_flight).chain(forgiven).collect();
    if parts.is_empty() { "no limit".to_owned() } else { parts.join(", ") }
}

/// A second without a sample repeats the one before. Empty if the sender never reported one.
fn waiting(trace: &Trace, seconds: Seconds) -> Series {
    let whole = trace.depths.iter().filter(|depth| depth.subscriber.is_none());
    let told = whole.filter_map(|depth| Some((depth.t / SECOND, depth.waiting?)));
    let (mut last, mut is_told) = (0, false);
    let kept = seconds.highest(told).into_iter().map(|sample| {
        is_told |= sample.is_some();
        last = sample.unwrap_or(last);
        last
    });
    let kept: Vec<u64> = kept.collect();
    Series(if is_told { kept } else { Vec::new() })
}

#[must_use]
pub fn schema() -> serde_json::Value {
    use serde_json::json;
    let (text, count) = (json!({ "type": "string" }), json!({ "type": "integer", "minimum": 0 }));
    let status =
        json!({ "enum": ["pass", "fail", "warn", "inconclusive", "not-applicable", "harness-error"] });
    let maybe = |form: &str| json!({ "type": [form, "null"] });
    let series = json!({ "type": "array", "items": count });
    let witness = json!({ "type": "object", "required": ["from", "until", "what", "arrivals"], "properties": {
        "subscriber": text, "from": count, "until": count, "what": text, "arrivals": series } });
    let figure = json!({ "type": "object", "required": ["name", "value"], "properties": { "name": text, "value": text } });
    let verdict = json!({ "type": "object", "required": ["id", "severity", "status", "sentence", "figures", "witness"],
        "properties": { "id": text, "severity": { "enum": ["must", "should", "may", "info"] }, "status": status,
            "sentence": text, "known": text, "figures": { "type": "array", "items": figure },
            "witness": { "type": "array", "items": witness } } });
    let judgement = json!({ "type": "object", "required": ["status", "sentence", "verdicts"], "properties": {
        "status": status, "sentence": text, "verdicts": { "type": "array", "items": verdict } } });
    let by_second = json!({ "type": "array", "items": count,
        "description": "requests per second, the highest of each `seconds_each`; for the hundred worst \
            subscribers, and empty for the others" });
    let subscriber = json!({ "type": "object", "required": ["name", "arrivals", "delivered", "dead", "latency"],
        "properties": { "name": text, "contract": text, "allowed": maybe("integer"), "bound": maybe("integer"),
            "arrivals": count, "delivered": count, "dead": count, "latency": series, "arriving": by_second,
            "taken": by_second, "held": by_second, "failed": by_second } });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hookproof report",
        "type": "object",
        "required": ["format", "version", "scenario", "seed", "driver", "repeat", "judgement", "subscribers"],
        "properties": {
            "format": { "const": FORMAT }, "version": text, "scenario": text, "about": text, "seed": count,
            "driver": text, "repeat": text, "defaults": { "type": "array", "items": text }, "profiles": { "type": "array", "items": text }, "by_standards": maybe("object"), "ended": { "enum": ["done", "interrupted", "sender-gone", null] },
            "lasted": count, "seconds_each": count, "scenario_sha256": text, "began_unix_ns": count, "drawn": maybe("object"),
            "machine": maybe("object"), "judgement": judgement, "efficiency": maybe("number"),
            "ceiling_per_second": maybe("integer"), "delivered_per_second": maybe("integer"),
            "accepted_per_second": maybe("integer"), "offered_per_second": maybe("integer"),
            "generator": { "type": "object", "properties": { "events": count, "p50": count, "p99": count, "max": count,
                "by_second": series, "not_offered": count } },
            "subscribers": { "type": "array", "items": subscriber }, "waiting": series,
            "faults": { "type": "array", "items": { "type": "object", "required": ["at", "what"],
                "properties": { "at": count, "until": maybe("integer"), "what": text } } }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_a_day_is_there_to_its_end_with_its_fullest_second() {
        let seconds = Seconds::of(86_400 * SECOND - 1);
        assert_eq!((seconds.places, seconds.each), (7_200, 12));
        let times = (0..86_400).chain([86_395; 4]).map(|second| second * SECOND);
        let Series(counts) = seconds.counted(times);
        assert_eq!((counts.len(), counts[7_199], counts[7_198]), (7_200, 5, 1));
        assert_eq!(Seconds::of(7_200 * SECOND - 1).each, 1);
        assert_eq!(Seconds::of(7_200 * SECOND).places, 3_601);
        assert!(Seconds::of(u64::MAX).places <= 7_200, "whatever a trace says");
    }
}
