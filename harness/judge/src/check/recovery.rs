//! `recovery.no-storm`: the level of [`super::rate::Level`], over the windows that begin within `no_storm` of the
//! first request after the recovery: a breaker may delay it.
//!
//! `recovery.drains`: unsettled deliveries count as far as the sender reports a backlog, or reports nothing. Deliveries
//! that it holds for an endpoint with a 410 do not count: it must not send them ([`super::retry`]), and may give them
//! up or keep them for an operator.

use super::dead_letters::{unaccounted, waiting_at_end};
use super::evidence::{Delivery, Evidence, Lane};
use super::outcomes::{Fate, fates, is_broken_off, not_settled_in_time};
use super::rate::envelope::limited;
use super::rate::peak_of;
use super::verdict::{Finding, Tally, show};
use crate::check::{Check, Picture, Stall};
use crate::entry::Severity;
use crate::scenario::Behaviour;
use crate::trace::Lack;

/// Ends at which no other behaviour holds.
fn recoveries(lane: &Lane<'_>) -> Vec<u64> {
    let behaviours = &lane.subscriber.behaviours;
    let mut ends: Vec<u64> = behaviours.iter().filter_map(Behaviour::until).collect();
    ends.retain(|end| !behaviours.iter().any(|behaviour| behaviour.covers(*end)));
    ends.sort_unstable();
    ends.dedup();
    ends
}

pub(super) const NO_STORM: Check = Check {
    id: "recovery.no-storm",
    severity: Severity::Must,
    source: "existing senders",
    requirement: "when an endpoint recovers, its backlog drains within the contract",
    why: "right after an outage an endpoint can bear the least, and its backlog is longest",
    remedy: "send the backlog through the limiter; do not release all retries at one moment",
    stall: Stall::Crowds,
    picture: Picture::Level,
    find: no_storm,
    ..Check::PLAIN
};

pub(super) fn no_storm(evidence: &Evidence<'_>) -> Finding {
    if !limited(evidence).any(|(_, lane, ..)| !recoveries(lane).is_empty()) {
        return Finding::unasked("no endpoint with a rate limit recovers from an outage");
    }
    let mut tally = Tally::default();
    let mut has_backlog = false;
    for (at, lane, stretch) in limited(evidence) {
        for recovery in recoveries(lane) {
            let waited = |one: &&Delivery| {
                evidence.accepted(one).is_some_and(|t| t <= recovery)
                    && evidence.attempts(one).last().is_some_and(|n| evidence.exchange(*n).t >= recovery)
            };
            let burst = usize::try_from(stretch.burst).unwrap_or(usize::MAX);
            has_backlog = has_backlog || evidence.deliveries_of(at).iter().filter(waited).count() > burst;
            let begun = lane.begun.iter().map(|n| evidence.exchange(*n).t);
            let Some(first) = begun.filter(|t| recovery <= *t).min() else { continue };
            let until = first.saturating_add(evidence.scenario.expect.no_storm.0);
            let inside = |n: &&u32| {
                let t = evidence.exchange(**n).t;
                first <= t && t <= until && stretch.from <= t && t <= stretch.until
            };
            let arrivals: Vec<u32> = lane.begun.iter().filter(inside).copied().collect();
            let times: Vec<u64> = arrivals.iter().map(|n| evidence.exchange(*n).t).collect();
            let Some(peak) = peak_of(&times, &stretch.drain) else { continue };
            tally.see();
            if !stretch.fits(peak.level) {
                let needed = stretch.needs(peak.level);
                let what = format!(
                    "{} arrivals in {} after its recovery need a burst of {needed}; the contract allows {}",
                    peak.to - peak.from + 1,
                    show(times[peak.to] - times[peak.from]),
                    stretch.burst
                );
                tally.broke(|| evidence.witness(at, &arrivals[peak.from..=peak.to], what));
            }
        }
    }
    let short = "no backlog at a recovery was longer than the burst".to_owned();
    let good = "the backlog drained within the contract";
    let finding = tally.finding("recoveries", good, "the backlog exceeded the contract");
    finding.unless_shown((!has_backlog).then_some(short))
}

pub(super) const DRAINS: Check = Check {
    id: "recovery.drains",
    severity: Severity::Must,
    source: "derived: a backlog that never drains is a loss",
    requirement: "all deliveries are settled within the scenario's `drain` after the last event",
    why: "a lane that missed its wake-up looks idle until somebody asks for the delivery",
    remedy: "wake the lane for due deliveries; look for lost wake-ups after failures",
    stall: Stall::Drains,
    picture: Picture::Backlog,
    find: drains,
    ..Check::PLAIN
};

pub(super) fn drains(evidence: &Evidence<'_>) -> Finding {
    let fates = fates(evidence);
    if fates.is_empty() {
        return Finding::unseen("no delivery was owed");
    }
    if is_broken_off(evidence) {
        return Finding::unseen("the run was interrupted before it could drain");
    }
    let unsettled: Vec<_> =
        fates.iter().filter(|(_, fate)| *fate == Fate::Unsettled).map(|(one, _)| *one).collect();
    let waiting = waiting_at_end(evidence);
    let open = unaccounted(evidence, &unsettled).len() as u64;
    let late = not_settled_in_time(evidence, &unsettled);
    if late > 0 {
        let (all, drain) = (fates.len(), evidence.scenario.drain);
        let what = format!("outstanding {drain} after the last event: {late} of {all} deliveries");
        return Finding::unseen(format!(
            "{what}; the sender does not report its backlog, and may have had \
            a reason to wait"
        ));
    }
    let open = if evidence.trace.declared.lacks(Lack::Depth) { 0 } else { open };
    let left = waiting.map_or(open, |waiting| waiting.saturating_sub(held_for_the_gone(evidence)));
    let finding = if left == 0 {
        let rest = if open == 0 { String::new() } else { format!("; neither arrived nor dead: {open}") };
        Finding::held(format!("no delivery waits at the end; owed: {}{rest}", fates.len()))
    } else {
        let shown = unsettled.iter().take(super::verdict::WITNESS_MAX);
        let witness =
            shown.map(|delivery| evidence.absent(delivery, "outstanding at the end".to_owned())).collect();
        let drain = evidence.scenario.drain;
        Finding::broken(
            format!("still waiting {drain} after the last event: {left} of {} deliveries", fates.len()),
            witness,
        )
    };
    finding
        .with("unsettled", unsettled.len())
        .with("waiting", waiting.map_or("-".to_owned(), |n| n.to_string()))
}

/// Deliveries that the sender reports for endpoints that are gone, at most those that were not delivered
/// there.
fn held_for_the_gone(evidence: &Evidence<'_>) -> u64 {
    let gone = (0..).zip(&evidence.lanes).filter(|(_, lane)| lane.gone.is_some());
    let held = gone.map(|(at, lane): (u32, _)| {
        let name = Some(lane.subscriber.name.as_str());
        let told = evidence.trace.depths.iter().filter(|depth| depth.subscriber.as_deref() == name);
        let last = told.max_by_key(|depth| depth.t).and_then(|depth| depth.waiting).unwrap_or(0);
        let open = evidence
            .deliveries_of(at)
            .iter()
            .filter(|delivery| delivery.owed && delivery.dead.is_none() && !evidence.is_delivered(delivery));
        last.min(open.count() as u64)
    });
    held.sum()
}
