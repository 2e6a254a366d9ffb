//! `coalesce.window`.
//!
//! A window opens no sooner than the one before ends, so windows begin at least one length apart. Events that were all
//! accepted within less than one length belong to at most two windows, so at most two of them may arrive. Three
//! arrivals break the check if the last acknowledgement is less than one window after the first offer;
//! `retry_after_late` is left for the sender's clock.
//!
//! Not judged: events that were offered twice, lanes with redriven dead letters (a shed event leaves its window early),
//! and runs with a clock step, which changes the length of windows.

use std::collections::BTreeMap;

use super::evidence::{Delivery, Evidence, Lane};
use super::verdict::{Finding, Tally, show};
use crate::check::Check;
use crate::entry::Severity;
use crate::scenario::{Coalesce, FaultAction, FaultKind};

const WINDOWS_MET: usize = 2;

#[derive(Clone, Copy)]
struct AcceptedEvent {
    offered: u64,
    acknowledged: u64,
    came: Option<u32>,
}

pub(super) const CHECK: Check = Check {
    id: "coalesce.window",
    severity: Severity::Should,
    source: "existing senders",
    requirement: "of several events with one type and key inside a subscriber's window, only the newest \
        is delivered",
    why: "a subscriber asks for the newest event alone because its limit, cache or bill covers no more",
    remedy: "while the first event waits for its window to end, replace it with each newer event of its key",
    find: judge,
    ..Check::PLAIN
};

pub(super) fn judge(evidence: &Evidence<'_>) -> Finding {
    if evidence.lanes.iter().all(|lane| rules(lane).is_empty()) {
        return Finding::unasked("no subscriber has `coalesce`");
    }
    let steps = |action: &FaultAction| action.kind() == FaultKind::ClockStep;
    if evidence.has_redrives() || evidence.scenario.faults.iter().any(|fault| steps(&fault.action)) {
        return Finding::unasked(
            "coalescing windows cannot be judged: the scenario redrives dead letters \
            or steps a clock",
        );
    }
    let (mut tally, mut counts) = (Tally::default(), Vec::new());
    for (at, lane) in (0..).zip(&evidence.lanes) {
        let (mut taken, mut came) = (0, 0);
        for rule in rules(lane) {
            for events in keys(evidence, at, rule).values() {
                taken += events.len();
                came += events.iter().filter(|one| one.came.is_some()).count();
                hold(evidence, at, rule, events, &mut tally);
            }
        }
        if taken > 0 {
            counts.push((lane.subscriber.name.clone(), format!("{came} of {taken} events delivered")));
        }
    }
    let finding = tally.finding(
        "events with a newer one inside their window",
        "only the newest was delivered",
        "older events were delivered too",
    );
    counts.into_iter().fold(finding, |finding, (name, count)| finding.with(name, count))
}

fn rules<'a>(lane: &Lane<'a>) -> &'a [Coalesce] {
    &lane.subscriber.handling.coalesce
}

fn keys<'e>(evidence: &'e Evidence<'_>, at: u32, rule: &Coalesce) -> BTreeMap<&'e str, Vec<AcceptedEvent>> {
    let first = |kind: &str| rules(&evidence.lanes[at as usize]).iter().find(|one| one.kind == kind);
    let read = |delivery: &Delivery| {
        let event = evidence.event(delivery).filter(|event| delivery.owed && event.offers == 1)?;
        let offer = &evidence.trace.offers[event.offer as usize];
        let came = evidence.attempts(delivery).first().copied();
        let taken = AcceptedEvent { offered: offer.t, acknowledged: event.accepted?, came };
        first(&offer.kind).is_some_and(|one| one == rule).then_some((offer.key.as_str(), taken))
    };
    let mut keys: BTreeMap<&str, Vec<AcceptedEvent>> = BTreeMap::new();
    for (key, taken) in evidence.deliveries_of(at).iter().filter_map(read) {
        keys.entry(key).or_default().push(taken);
    }
    keys.values_mut().for_each(|events| events.sort_unstable_by_key(|one| one.offered));
    keys
}

fn hold(evidence: &Evidence<'_>, at: u32, rule: &Coalesce, events: &[AcceptedEvent], tally: &mut Tally) {
    let window = rule.window.0.saturating_sub(evidence.scenario.expect.retry_after_late.0);
    for place in 0..events.len() {
        if within(&events[place..], window).nth(WINDOWS_MET).is_some() {
            tally.see();
        }
    }
    let came: Vec<AcceptedEvent> = events.iter().filter(|one| one.came.is_some()).copied().collect();
    for place in 0..came.len() {
        let arrivals = within(&came[place..], window).take(WINDOWS_MET + 1).filter_map(|one| one.came);
        let arrivals: Vec<u32> = arrivals.collect();
        if arrivals.len() > WINDOWS_MET {
            let what = format!(
                "several deliveries of one key; their events were accepted within less \
                than {}",
                show(rule.window.0)
            );
            tally.broke(|| evidence.witness(at, &arrivals, what));
        }
    }
}

/// The first event, and the later ones certainly accepted less than a window after it.
fn within(events: &[AcceptedEvent], window: u64) -> impl Iterator<Item = &AcceptedEvent> {
    let until = events.first().map_or(0, |first| first.offered.saturating_add(window));
    let near = events.iter().take_while(move |one| one.offered < until);
    near.filter(move |one| one.acknowledged < until)
}
