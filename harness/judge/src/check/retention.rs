//! - *Age*: no listed item was delivered longer ago than `age`. A sample shows the items of its query or later, and a
//!   time with few digits counts as the latest possible one, so an item is at least as old as assumed. The check
//!   follows the sender's own clock (`epochs`), and tolerates old items during and shortly after a fault. It needs a
//!   delivery longer than `age` before a sample, a listed item if a sample came sooner, and an untouched wall clock.
//! - *Size*: the sender's database on disk has at most `bytes` beside the waiting deliveries. As a file need not
//!   shrink, the largest backlog so far counts, with twice the largest body for each delivery. It needs a delivery
//!   before a sample.
//!
//! A database on a server has no size to judge.

use super::evidence::{ENVELOPE_BYTES, Evidence, NOTED};
use super::fault_windows::Outages;
use super::judge::{lacking, unless_clock_set};
use super::verdict::{Finding, Found, Tally, Witness, show, show_bytes};
use crate::check::{Check, Picture, Simulated, Stall};
use crate::entry::Severity;
use crate::scenario::{Duration, SECOND, Size, Store};
use crate::trace::{Depth, Lack, Retained};

pub(super) const CHECK: Check = Check {
    id: "queue.retention",
    severity: Severity::Should,
    source: "derived: data that is never deleted fills every disk",
    requirement: "the sender keeps past deliveries within the declared age and size",
    why: "a store that only grows fills the disk some day, and keeps data that the sender promised to delete",
    remedy: "delete old deliveries in small steps, faster than new ones arrive, also while the sender is \
        idle",
    figure: Some("kept"),
    stall: Stall::Delays,
    simulated: Simulated::Beyond("a simulated process keeps past deliveries as long as its model says"),
    picture: Picture::Backlog,
    find: judge,
    ..Check::PLAIN
};

pub(super) fn judge(evidence: &Evidence<'_>) -> Finding {
    let bound = evidence.scenario.expect.holds.kept;
    let last = samples(evidence).filter(|(_, kept)| kept.listed).map(|(depth, _)| depth.t).max();
    // The age depends on the time of day; the size does not.
    let aged = |age| unless_clock_set(aged(evidence, age), evidence, last);
    let judged = [bound.age.map(aged), bound.bytes.map(|bytes| sized(evidence, bytes))];
    let unasked = Finding::unasked("the scenario sets no `kept` bound");
    judged.into_iter().flatten().reduce(together).unwrap_or(unasked)
}

/// A check passes only if both halves can be judged.
fn together(one: Finding, other: Finding) -> Finding {
    let rank = |found| match found {
        Found::Broken => 0,
        Found::Unseen => 1,
        Found::Unasked => 2,
        Found::Held => 3,
    };
    let (mut first, second) = if rank(one.found) <= rank(other.found) { (one, other) } else { (other, one) };
    first.sentence = format!("{}; {}", first.sentence, second.sentence);
    first.figures.extend(second.figures);
    first.witness.extend(second.witness);
    first
}

/// As the endpoints saw them; sorted.
fn delivered(evidence: &Evidence<'_>) -> Vec<u64> {
    let made = |delivery| {
        let exchanges = evidence.attempts(delivery).iter().map(|n| evidence.exchange(*n));
        exchanges.filter(|one| one.is_delivered()).map(|one| one.end).min()
    };
    let mut times: Vec<u64> = evidence.deliveries.iter().filter_map(made).collect();
    times.sort_unstable();
    times
}

fn samples<'a>(evidence: &'a Evidence<'_>) -> impl Iterator<Item = (&'a Depth, &'a Retained)> {
    evidence.trace.depths.iter().filter_map(|depth| Some((depth, depth.kept.as_ref()?)))
}

fn aged(evidence: &Evidence<'_>, most: Duration) -> Finding {
    let trace = evidence.trace;
    if trace.declared.lacks(Lack::Kept) {
        return lacking(Lack::Kept);
    }
    let delivered = delivered(evidence);
    let first = delivered.first().copied().unwrap_or(u64::MAX);
    let outages = Outages::of(evidence);
    let unsure = match &trace.offset {
        Some(offset) => offset.error,
        None if trace.declared.lacks(Lack::Start) => SECOND,
        None => 0,
    };
    let (mut tally, mut telling, mut oldest) = (Tally::default(), false, 0);
    let (mut lists, mut missed) = (false, false);
    for (depth, kept) in samples(evidence).filter(|(_, kept)| kept.listed) {
        tally.see();
        telling |= first.saturating_add(most.0) < depth.t;
        let noted = delivered.partition_point(|t| t.saturating_add(NOTED) < depth.t);
        missed |= noted.checked_sub(1).is_some_and(|last| delivered[last].saturating_add(most.0) > depth.t);
        lists |= kept.oldest_unix_ns.is_some();
        let now =
            trace.header.began_unix_ns.saturating_add(depth.t).saturating_add_signed(evidence.ahead.likely);
        let age = kept.oldest_unix_ns.map_or(0, |t| now.saturating_sub(unsure).saturating_sub(t));
        oldest = oldest.max(age);
        let due = depth.t.saturating_sub(age.saturating_sub(most.0));
        if evidence.late(due, depth.t) > 0 && !outages.overlap(depth.t, depth.t) {
            let what = format!("a delivery was kept {} after it was made; the bound is {most}", show(age));
            tally.broke(|| at(depth, what));
        }
    }
    let finding = tally.finding("samples of the kept deliveries", "none too old", "with one that is too old");
    let finding = if finding.found == Found::Held && !telling {
        Finding::unseen(format!("no sample of the kept deliveries came more than {most} after a delivery"))
    } else if finding.found == Found::Held && missed && !lists {
        Finding::unseen(format!("no sample lists a kept delivery, even within {most} of one"))
    } else {
        finding
    };
    finding.with("oldest kept", show(oldest))
}

fn sized(evidence: &Evidence<'_>, most: Size) -> Finding {
    let declared = &evidence.trace.declared;
    if let Some(lack) = [Lack::Start, Lack::Database].into_iter().find(|what| declared.lacks(*what)) {
        return lacking(lack);
    }
    if evidence.scenario.sender.store == Store::Postgres {
        return Finding::unasked(
            "the database is on a server, and its files do not show the size of the kept deliveries",
        );
    }
    let delivered = delivered(evidence);
    let each = evidence.scenario.events.data_bytes.most.0.saturating_add(ENVELOPE_BYTES).saturating_mul(2);
    let crowds = crowds(evidence, &delivered);
    let measured: Vec<(&Depth, u64)> =
        samples(evidence).filter_map(|(depth, kept)| Some((depth, kept.disk_bytes?))).collect();
    let (mut tally, mut largest) = (Tally::default(), 0);
    for (place, (depth, bytes)) in measured.iter().enumerate() {
        if delivered.first().is_none_or(|first| *first >= depth.t) {
            continue;
        }
        tally.see();
        let measured_by = measured.get(place + 1).map_or(evidence.end, |(next, _)| next.t);
        let waiting = crowds.partition_point(|(t, _)| *t <= measured_by);
        let waiting = waiting.checked_sub(1).map_or(0, |last| crowds[last].1);
        let kept = bytes.saturating_sub(waiting.saturating_mul(each));
        largest = largest.max(*bytes);
        if kept > most.0 {
            let (bytes, most) = (show_bytes(*bytes), show_bytes(most.0));
            let what = format!(
                "{bytes} on disk with at most {waiting} deliveries waiting; the bound without them is {most}"
            );
            tally.broke(|| at(depth, what));
        }
    }
    tally
        .finding("disk samples after a delivery", "within the declared size", "above the declared size")
        .with("most on disk", show_bytes(largest))
}

/// Offered, undelivered deliveries: each moment at which their largest number grew, with the new number.
fn crowds(evidence: &Evidence<'_>, delivered: &[u64]) -> Vec<(u64, u64)> {
    let mut offered: Vec<(u64, u64)> =
        evidence.trace.offers.iter().map(|offer| (offer.t, offer.owed.len() as u64)).collect();
    offered.sort_unstable();
    let (mut owed, mut most, mut crowds) = (0_u64, 0, Vec::new());
    for (t, count) in offered {
        owed += count;
        let waiting = owed.saturating_sub(delivered.partition_point(|made| *made < t) as u64);
        if waiting > most {
            most = waiting;
            crowds.push((t, most));
        }
    }
    crowds
}

fn at(depth: &Depth, what: String) -> Witness {
    Witness { subscriber: None, from: depth.t, until: depth.t, what, arrivals: Vec::new() }
}
