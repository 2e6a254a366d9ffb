//! `latency.first-attempt`: percentiles of the time from an event's *intended* moment to its first arrival, against the
//! scenario's figures, of all events or of those of a while. The intended moment, not the moment of sending: a generator that is held up would otherwise hide the
//! wait of every event behind it (coordinated omission). What an event waited for the sender's API to answer earlier calls
//! is no delivery latency; `harness.schedule` says it in a figure of its own. Percentiles are by nearest rank: the
//! smallest value that at least p of the values don't exceed. What never arrived counts as late as the run was long,
//! but for what a newer event stands for.
//!
//! `efficiency`: what the sender delivered a second, from the first acknowledgement to the last delivery, over what a bare
//! client does on the same machine to the same endpoints. Without a measured ceiling it says nothing.
//!
//! `harness.schedule`: the generator kept its own schedule: the 99th percentile of its lag is at most `schedule_late`, and
//! no record was dropped; and no more than one event in [`UNOFFERED_SHARE`] was never offered. A generator that lags offers less load than the scenario says, and nothing that the run shows
//! is worth much: that makes the run inconclusive, never the sender.

use super::evidence::{Delivery, Evidence};
use super::isolation::unexplained;
use super::outcomes::replaced;
use super::verdict::{Finding, Found, Tally, Witness, show};
use crate::check::{Check, Picture, Simulated, Stall};
use crate::entry::Severity;
use crate::scenario::{Duration, LatencyBound, Percentiles, SECOND};
use crate::trace::Offer;

/// The smallest value that at least so many thousandths of the values don't exceed. `sorted` ascends and isn't empty.
#[must_use]
pub fn percentile(sorted: &[u64], thousandths: usize) -> u64 {
    let rank = (sorted.len() * thousandths).div_ceil(1_000).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// From an event's intended moment to its first arrival, sorted; of all deliveries for which `wanted`.
fn latencies(evidence: &Evidence<'_>, wanted: impl Fn(&Delivery) -> bool) -> Vec<u64> {
    let lanes = (0..).zip(&evidence.lanes);
    let timed = lanes.flat_map(|(at, _)| latencies_where(evidence, at, &wanted));
    let mut latencies: Vec<u64> = timed.map(|(_, latency)| latency).collect();
    latencies.sort_unstable();
    latencies
}

/// The same of all deliveries of one lane.
pub(crate) fn latencies_of(evidence: &Evidence<'_>, lane: u32) -> Vec<u64> {
    let mut latencies: Vec<u64> =
        timed_latencies(evidence, lane).into_iter().map(|(_, latency)| latency).collect();
    latencies.sort_unstable();
    latencies
}

/// The same, each with its intended moment before it, in no order.
pub(crate) fn timed_latencies(evidence: &Evidence<'_>, lane: u32) -> Vec<(u64, u64)> {
    latencies_where(evidence, lane, &|_| true)
}

/// The same of those of one lane for which `wanted`. What a newer event stands for has none.
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

/// More than one in so many that were never offered leave another load than the scenario's.
const UNOFFERED_SHARE: u64 = 100;

/// The intended moment, and the time from then; none for what is not owed, or was not surely taken.
fn latency(evidence: &Evidence<'_>, delivery: &Delivery) -> Option<(u64, u64)> {
    let event = evidence.event(delivery).filter(|event| delivery.owed && event.accepted.is_some())?;
    // What it waited for the sender's own API is told apart (`harness.schedule`).
    let offer = &evidence.trace.offers[event.offer as usize];
    let intended = offer.intended.saturating_add(offer.held);
    let first = evidence.attempts(delivery).first().map_or(evidence.end, |n| evidence.exchange(*n).t);
    Some((intended, first.saturating_sub(intended)))
}

pub(super) const FIRST_ATTEMPT: Check = Check {
    id: "latency.first-attempt",
    severity: Severity::Should,
    source: "S0",
    requirement: "the percentiles from emit to first arrival meet the scenario's figures",
    why: "how soon an event arrives is what a subscriber notices of a sender on a good day",
    remedy: "wake the sender on emit instead of polling; look at queueing before the limiter",
    figure: Some("latency"),
    stall: Stall::Slows,
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
        return Finding::unasked("the scenario sets no latency, and no endpoint is well throughout");
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
        longest.map(|(most, name)| (format!("longest wait of those that are well ({name})"), show(most))),
    );
    let finding = tally.finding(
        "latencies",
        "inside their figures, none late without a cause",
        "beyond their figures, or late without a cause",
    );
    let finding = match unseen.filter(|_| finding.found == Found::Held) {
        Some(title) => Finding::unseen(format!("nothing was taken that is owed to {title}")),
        None => finding,
    };
    figures.into_iter().fold(finding, |finding, (name, value)| finding.with(name, value))
}

/// Whether a delivery is of the subscribers and of the while that a bound is for.
fn concerns(evidence: &Evidence<'_>, bound: &LatencyBound, delivery: &Delivery) -> bool {
    let subscriber = evidence.subscriber(delivery);
    let named = subscriber.name == bound.name || subscriber.group == bound.name;
    let intended =
        || evidence.event(delivery).map(|event| evidence.trace.offers[event.offer as usize].intended);
    named && intended().is_some_and(|t| bound.covers(t))
}

/// Whose latencies a bound is for, and of which while.
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

/// Holds percentiles against what they may be. `latencies` ascend, and are not empty.
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
            let what = format!("{label} is {}; {} is expected", show(value), show(allowed));
            let until =
                bound.lasts.map_or(u64::MAX, |lasts| bound.at.0.saturating_add(lasts.0)).min(evidence.end);
            let subscriber = Some(bound.name.clone());
            tally.broke(|| Witness { subscriber, from: bound.at.0, until, what, arrivals: Vec::new() });
        }
    }
}

/// Deliveries a second, times 1,000, from the first acknowledgement to the last delivery.
pub fn delivered_per_second_milli(evidence: &Evidence<'_>) -> Option<u64> {
    let first = evidence.trace.accepted.iter().map(|one| one.t).min()?;
    let delivered = evidence.exchanges.iter().filter(|exchange| exchange.is_delivered());
    let last = delivered.clone().map(|exchange| exchange.end).max()?;
    let elapsed = last.checked_sub(first).filter(|elapsed| *elapsed > 0)?;
    u64::try_from(delivered.count() as u128 * 1_000 * u128::from(SECOND) / u128::from(elapsed)).ok()
}

/// What the machine itself can do, where it was measured.
fn ceiling(evidence: &Evidence<'_>) -> Option<u64> {
    evidence.trace.host.ceiling.as_ref().map(|ceiling| ceiling.per_second).filter(|rate| *rate > 0)
}

/// The sender's rate over the ceiling, in thousandths, where both are known.
pub(crate) fn efficiency_thousandths(evidence: &Evidence<'_>) -> Option<u64> {
    let ceiling = ceiling(evidence)?;
    delivered_per_second_milli(evidence).map(|delivered| delivered / ceiling)
}

pub(super) const EFFICIENCY: Check = Check {
    id: "efficiency",
    severity: Severity::Should,
    source: "derived: a rate means little without the machine's own",
    requirement: "the sender's rate over the machine's ceiling, measured in the same run, reaches the scenario's \
        figure",
    why: "a figure per second tells more of the machine than of the sender",
    remedy: "group commits, keep connections alive, and sign without copying the body",
    figure: Some("efficiency_min"),
    stall: Stall::Slows,
    simulated: Simulated::Beyond("virtual time says nothing of this machine's speed"),
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
        return Finding::unseen("nothing was delivered");
    };
    let sentence = format!("{} of the ceiling; at least {least} is expected", thousandths(share));
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

/// As a decimal.
pub(crate) fn thousandths(value: u64) -> String {
    format!("{}.{:03}", value / 1_000, value % 1_000)
}

/// How late the harness itself was with every event, sorted: without what it waited for the sender's API.
pub(crate) fn lags(evidence: &Evidence<'_>) -> Vec<u64> {
    let mut lags: Vec<u64> = evidence.trace.offers.iter().map(own_lag).collect();
    lags.sort_unstable();
    lags
}

/// How late the harness itself was with an event.
pub(crate) const fn own_lag(offer: &Offer) -> u64 {
    offer.t.saturating_sub(offer.intended).saturating_sub(offer.held)
}

/// How many events a second were meant to be offered, and how many the sender's API accepted, where it made others wait for
/// longer than the generator itself may be late.
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

/// How many come in a second, from the first to the last, rounded to the nearest.
fn per_second(times: &[u64]) -> Option<u64> {
    let (first, last) = (times.iter().min()?, times.iter().max()?);
    let elapsed = u128::from((last - first).max(1));
    let gaps = times.len().saturating_sub(1) as u128;
    u64::try_from((gaps * u128::from(SECOND) + elapsed / 2) / elapsed).ok()
}

/// Whether the sender kept up with all that it was offered: its API let nothing wait, and deliveries went on for no longer than
/// a part of the time in which events were accepted.
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
    source: "derived: a late generator measures itself",
    requirement: "the generator kept its own schedule, and offered 99 of 100 events; else the run is inconclusive",
    why: "a generator that falls behind offers less than the scenario says, and blames the sender for the rest",
    remedy: "give the machine fewer other jobs, or the scenario a lower rate",
    simulated: Simulated::Beyond("virtual time offers every event at its moment"),
    find: schedule,
    ..Check::PLAIN
};

pub(super) fn schedule(evidence: &Evidence<'_>) -> Finding {
    let lags = lags(evidence);
    let unoffered = evidence.trace.unoffered.len() as u64;
    let Some(most) = lags.last() else {
        let why = evidence.trace.unoffered.first().map(|one| &one.why);
        let told = why.map(|why| format!("none of {unoffered} events was offered: {why}"));
        return Finding::unseen(told.unwrap_or_else(|| "nothing was offered".to_owned()));
    };
    let (p50, p99) = (percentile(&lags, 500), percentile(&lags, 990));
    let (late, dropped) =
        evidence.trace.trailer.as_ref().map_or((0, 0), |trailer| (trailer.late, trailer.dropped));
    let allowed = evidence.scenario.expect.schedule_late.0;
    let api = held_back(evidence)
        .map(|(offered, accepted)| format!("the sender's API accepted {accepted}/s of {offered}/s offered"));
    let told = api.as_ref().map_or(String::new(), |api| format!("; {api}"));
    let finding = if dropped > 0 {
        Finding::unseen(format!("{dropped} records could not be kept: the trace has holes"))
    } else if p99 > allowed {
        Finding::unseen(format!("the generator lagged: p99 {}, and {} is allowed", show(p99), show(allowed)))
    } else if unoffered * UNOFFERED_SHARE > lags.len() as u64 + unoffered {
        Finding::unseen(format!("{unoffered} events were not offered{told}"))
    } else {
        Finding::held(format!("{} events were released on time{told}", lags.len()))
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
