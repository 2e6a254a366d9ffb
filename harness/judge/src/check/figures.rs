//! `latency.first-attempt`: percentiles of the time from an event's *intended* moment to its first arrival, over all
//! events or those of a span. The intended moment keeps the wait behind a slow call visible (coordinated omission).
//! Percentiles are by nearest rank. A delivery that never arrived counts with the end of the run, unless a newer event
//! replaced it.
//!
//! `efficiency`: the sender's deliveries per second, from the first acknowledgement to the last delivery, over the rate
//! of a bare client on the same machine and endpoints. Without a measured ceiling the check says nothing.
//!
//! `harness.schedule`: the 99th percentile of the generator's lag is at most `schedule_late`, no record was dropped,
//! and at most one event in `UNOFFERED_SHARE` was never offered. Otherwise the load is less than the scenario states,
//! and the run is inconclusive.

use super::evidence::{Delivery, Evidence};
use super::isolation::unexplained;
use super::outcomes::replaced;
use super::verdict::{Finding, Found, Tally, Witness, show, show_beside};
use crate::check::{Check, Picture, Simulated, Stall};
use crate::entry::Severity;
use crate::scenario::{Duration, LatencyBound, Percentiles, SECOND};
use crate::trace::Offer;

/// By nearest rank: the smallest value that at least this share doesn't exceed. `sorted` isn't empty.
#[must_use]
pub fn percentile(sorted: &[u64], thousandths: usize) -> u64 {
    let rank = (sorted.len() * thousandths).div_ceil(1_000).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// Sorted.
fn latencies(evidence: &Evidence<'_>, wanted: impl Fn(&Delivery) -> bool) -> Vec<u64> {
    let lanes = (0..).zip(&evidence.lanes);
    let timed = lanes.flat_map(|(at, _)| latencies_where(evidence, at, &wanted));
    let mut latencies: Vec<u64> = timed.map(|(_, latency)| latency).collect();
    latencies.sort_unstable();
    latencies
}

/// Sorted.
pub(crate) fn latencies_of(evidence: &Evidence<'_>, lane: u32) -> Vec<u64> {
    let mut latencies: Vec<u64> =
        timed_latencies(evidence, lane).into_iter().map(|(_, latency)| latency).collect();
    latencies.sort_unstable();
    latencies
}

/// Intended moment and latency, unsorted.
pub(crate) fn timed_latencies(evidence: &Evidence<'_>, lane: u32) -> Vec<(u64, u64)> {
    latencies_where(evidence, lane, &|_| true)
}

/// Deliveries replaced by a newer event have none.
fn latencies_where(
    evidence: &Evidence<'_>,
    lane: u32,
    wanted: &impl Fn(&Delivery) -> bool,
) -> Vec<(u64, u64)> {
    let replaced = replaced(evidence, lane);
    let counts = |one: &&Delivery| wanted(one) && replaced.binary_search(&one.token).is_err();
    let deliveries = evidence.deliveries_of(lane).iter().filter(counts);
    deliveries.filter_map(|one| latency(evidence, one)).collect()
}

const UNOFFERED_SHARE: u64 = 100;

/// None for a delivery that is not owed or was not acknowledged.
fn latency(evidence: &Evidence<'_>, delivery: &Delivery) -> Option<(u64, u64)> {
    let event = evidence.event(delivery).filter(|event| delivery.owed && event.accepted.is_some())?;
    // The wait for the sender's API is reported apart (`harness.schedule`).
    let offer = &evidence.trace.offers[event.offer as usize];
    let intended = offer.intended.saturating_add(offer.held);
    let first = evidence.attempts(delivery).first().map_or(evidence.end, |n| evidence.exchange(*n).t);
    Some((intended, evidence.late(intended, first)))
}

pub(super) const FIRST_ATTEMPT: Check = Check {
    id: "latency.first-attempt",
    severity: Severity::Should,
    source: "existing senders",
    requirement: "the percentiles of the time from emit to first arrival meet the scenario's figures",
    why: "on a normal day, subscribers notice the delay until an event arrives",
    remedy: "wake the sender on emit instead of polling; look at queueing before the limiter",
    figure: Some("latency"),
    stall: Stall::Delays,
    simulated: Simulated::Figure,
    picture: Picture::Backlog,
    find: first_attempt,
    ..Check::PLAIN
};

pub(super) fn first_attempt(evidence: &Evidence<'_>) -> Finding {
    let expected = &evidence.scenario.expect.speeds.latency;
    let mut tally = Tally::default();
    let longest = unexplained(evidence, &mut tally);
    if expected.is_empty() && tally.seen == 0 {
        return Finding::unasked("the scenario sets no latency, and no endpoint is healthy throughout");
    }
    let (mut figures, mut unseen) = (Vec::new(), None);
    for bound in expected {
        let latencies = latencies(evidence, |delivery| concerns(evidence, bound, delivery));
        if latencies.is_empty() {
            unseen = unseen.or(Some(title(bound)));
            continue;
        }
        hold(evidence, bound, &latencies, &mut tally, &mut figures);
    }
    figures.extend(
        longest.map(|(most, name)| (format!("longest wait at a healthy endpoint ({name})"), show(most))),
    );
    let finding = tally.finding(
        "latencies",
        "within the expected figures, none late without a cause",
        "above the expected figures, or late without a cause",
    );
    let finding = match unseen.filter(|_| finding.found == Found::Held) {
        Some(title) => Finding::unseen(format!("no accepted event is for {title}")),
        None => finding,
    };
    figures.into_iter().fold(finding, |finding, (name, value)| finding.with(name, value))
}

fn concerns(evidence: &Evidence<'_>, bound: &LatencyBound, delivery: &Delivery) -> bool {
    let subscriber = evidence.subscriber(delivery);
    let named = subscriber.name == bound.name || subscriber.group == bound.name;
    let intended =
        || evidence.event(delivery).map(|event| evidence.trace.offers[event.offer as usize].intended);
    named && intended().is_some_and(|t| bound.covers(t))
}

fn title(bound: &LatencyBound) -> String {
    let name = &bound.name;
    match bound.lasts {
        None if bound.at == Duration(0) => name.clone(),
        None => format!("{name} from {}", bound.at),
        Some(lasts) => {
            format!("{name} from {} to {}", bound.at, Duration(bound.at.0.saturating_add(lasts.0)))
        }
    }
}

/// `latencies` ascend and are not empty.
fn hold(
    evidence: &Evidence<'_>,
    bound: &LatencyBound,
    latencies: &[u64],
    tally: &mut Tally,
    figures: &mut Vec<(String, String)>,
) {
    let Percentiles { p50, p95, p99, max } = bound.most;
    for (label, thousandths, allowed) in
        [("p50", 500, p50), ("p95", 950, p95), ("p99", 990, p99), ("max", 1_000, max)]
    {
        let value = percentile(latencies, thousandths);
        figures.push((format!("{} {label}", title(bound)), show(value)));
        let Some(Duration(allowed)) = allowed else { continue };
        tally.see();
        if value > allowed {
            let what =
                format!("{label} is {}; expected at most {}", show_beside(value, allowed), show(allowed));
            let until =
                bound.lasts.map_or(u64::MAX, |lasts| bound.at.0.saturating_add(lasts.0)).min(evidence.end);
            let subscriber = Some(bound.name.clone());
            tally.broke(|| Witness { subscriber, from: bound.at.0, until, what, arrivals: Vec::new() });
        }
    }
}

pub fn delivered_per_second_milli(evidence: &Evidence<'_>) -> Option<u64> {
    let first = evidence.trace.accepted.iter().map(|one| one.t).min()?;
    let delivered = evidence.exchanges.iter().filter(|exchange| exchange.is_delivered());
    let last = delivered.clone().map(|exchange| exchange.end).max()?;
    let elapsed = Some(evidence.late(first, last)).filter(|elapsed| *elapsed > 0)?;
    u64::try_from(delivered.count() as u128 * 1_000 * u128::from(SECOND) / u128::from(elapsed)).ok()
}

fn ceiling(evidence: &Evidence<'_>) -> Option<u64> {
    evidence.trace.host.ceiling.as_ref().map(|ceiling| ceiling.per_second).filter(|rate| *rate > 0)
}

pub(crate) fn efficiency_thousandths(evidence: &Evidence<'_>) -> Option<u64> {
    let ceiling = ceiling(evidence)?;
    delivered_per_second_milli(evidence).map(|delivered| delivered / ceiling)
}

pub(super) const EFFICIENCY: Check = Check {
    id: "efficiency",
    severity: Severity::Should,
    source: "derived: a rate depends on the machine",
    requirement: "the sender's rate divided by the machine's ceiling, measured in the same run, reaches \
        efficiency_min",
    why: "a rate per second alone says more about the machine than about the sender",
    remedy: "batch commits (group commit), keep connections alive, and sign without copying the body",
    figure: Some("efficiency_min"),
    stall: Stall::Delays,
    simulated: Simulated::Beyond("a simulation does not measure this machine's speed"),
    find: efficiency,
    ..Check::PLAIN
};

pub(super) fn efficiency(evidence: &Evidence<'_>) -> Finding {
    let Some(least) = evidence.scenario.expect.efficiency_min else {
        return Finding::unasked("the scenario sets no efficiency_min");
    };
    let Some(ceiling) = ceiling(evidence) else {
        return Finding::unseen("the machine's ceiling was not measured");
    };
    let (Some(delivered), Some(share)) =
        (delivered_per_second_milli(evidence), efficiency_thousandths(evidence))
    else {
        return Finding::unseen("no event was delivered");
    };
    let sentence = format!("{} of the machine's ceiling; expected at least {least}", thousandths(share));
    let finding = if share * 1_000 >= least.0 {
        Finding::held(sentence)
    } else {
        Finding::broken(sentence, Vec::new())
    };
    finding
        .with("efficiency", thousandths(share))
        .with("ceiling_per_second", ceiling)
        .with("delivered_per_second", delivered / 1_000)
}

pub(crate) fn thousandths(value: u64) -> String {
    format!("{}.{:03}", value / 1_000, value % 1_000)
}

/// Without the wait for the sender's API; sorted.
pub(crate) fn lags(evidence: &Evidence<'_>) -> Vec<u64> {
    let mut lags: Vec<u64> = evidence.trace.offers.iter().map(own_lag).collect();
    lags.sort_unstable();
    lags
}

pub(crate) const fn own_lag(offer: &Offer) -> u64 {
    offer.t.saturating_sub(offer.intended).saturating_sub(offer.held)
}

/// Intended and accepted events per second, if the API made events wait longer than `schedule_late`.
pub(crate) fn held_back(evidence: &Evidence<'_>) -> Option<(u64, u64)> {
    let trace = evidence.trace;
    let patience = evidence.scenario.expect.schedule_late.0;
    if trace.unoffered.is_empty() && !trace.offers.iter().any(|offer| offer.held > patience) {
        return None;
    }
    let intended = trace.offers.iter().map(|offer| offer.intended);
    let intended: Vec<u64> = intended.chain(trace.unoffered.iter().map(|one| one.intended)).collect();
    let accepted: Vec<u64> = trace.accepted.iter().map(|one| one.t).collect();
    Some((per_second(&intended)?, per_second(&accepted).unwrap_or(0)))
}

/// Rounded to the nearest.
fn per_second(times: &[u64]) -> Option<u64> {
    let (first, last) = (times.iter().min()?, times.iter().max()?);
    let elapsed = u128::from((last - first).max(1));
    let gaps = times.len().saturating_sub(1) as u128;
    u64::try_from((gaps * u128::from(SECOND) + elapsed / 2) / elapsed).ok()
}

/// Whether the sender's API made no event wait, and deliveries ended soon after the last acceptance.
#[must_use]
pub fn keeps_up(evidence: &Evidence<'_>) -> bool {
    const PART: u64 = 20;
    let accepted = || evidence.trace.accepted.iter().map(|one| one.t);
    let delivered = evidence.exchanges.iter().filter(|exchange| exchange.is_delivered());
    let (first, last) = (accepted().min().unwrap_or(0), accepted().max().unwrap_or(0));
    let end = delivered.map(|exchange| exchange.end).max().unwrap_or(0);
    held_back(evidence).is_none() && end.saturating_sub(last) * PART <= last - first
}

pub(super) const SCHEDULE: Check = Check {
    id: "harness.schedule",
    severity: Severity::Info,
    source: "derived: a late load generator measures its own delay",
    requirement: "the generator kept its schedule and offered at least 99 % of the events; otherwise the \
        run is inconclusive",
    why: "a generator that falls behind offers less load than the scenario says, and the sender gets the \
        blame",
    remedy: "run fewer other jobs on the machine, or lower the scenario's rate",
    simulated: Simulated::Beyond("a simulation offers every event on time"),
    find: schedule,
    ..Check::PLAIN
};

pub(super) fn schedule(evidence: &Evidence<'_>) -> Finding {
    let lags = lags(evidence);
    let unoffered = evidence.trace.unoffered.len() as u64;
    let Some(most) = lags.last() else {
        let why = evidence.trace.unoffered.first().map(|one| &one.why);
        let told = why.map(|why| format!("none of {unoffered} events was offered: {why}"));
        return Finding::unseen(told.unwrap_or_else(|| "no event was offered".to_owned()));
    };
    let (p50, p99) = (percentile(&lags, 500), percentile(&lags, 990));
    let (late, dropped) =
        evidence.trace.trailer.as_ref().map_or((0, 0), |trailer| (trailer.late, trailer.dropped));
    let allowed = evidence.scenario.expect.schedule_late.0;
    let api = held_back(evidence)
        .map(|(offered, accepted)| format!("the sender's API accepted {accepted}/s of {offered}/s offered"));
    let told = api.as_ref().map_or(String::new(), |api| format!("; {api}"));
    let finding = if dropped > 0 {
        Finding::unseen(format!("records that the harness could not write: {dropped}"))
    } else if p99 > allowed {
        Finding::unseen(format!(
            "the generator was late: p99 {}; `schedule_late` allows {}",
            show_beside(p99, allowed),
            show(allowed)
        ))
    } else if unoffered * UNOFFERED_SHARE > lags.len() as u64 + unoffered {
        Finding::unseen(format!("events not offered: {unoffered}{told}"))
    } else {
        Finding::held(format!("events offered on time: {}{told}", lags.len()))
    };
    let finding = finding
        .with("lag p50", show(p50))
        .with("lag p99", show(p99))
        .with("lag max", show(*most))
        .with("late", late)
        .with("not offered", unoffered);
    match api {
        Some(api) => finding.with("sender", api),
        None => finding,
    }
}
