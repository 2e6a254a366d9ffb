//! Spans in which a fault excuses lateness, and in which the sender was unreachable: from the stop or end of a process
//! until [`GRACE`] after it is ready again, and during a fault.
//!
//! A kill counts only if it took a lane. A kill of all processes at about the same time did. A kill of one of several
//! processes took a lane if, at the lane's endpoint,
//!
//! - an open request broke off within [`SEEN_WITHIN`] of the kill, or
//! - connections that had carried several requests before the kill carried none after it, though others did.

use std::collections::BTreeSet;

use super::dead_letters::longest_delay;
use super::evidence::{Delivery, Evidence, Lane};
use super::retry::after::contract_wait;
use super::retry::pause_until;
use crate::scenario::{FaultKind, SECOND, Subscriber};
use crate::trace::{Fault, Lack, Process, ProcessEvent};

impl Evidence<'_> {
    /// Whether a fault hit the sender from `from` to `until`, or so shortly before that the sender may still
    /// recover.
    pub(crate) fn is_disturbed(&self, from: u64, until: u64) -> bool {
        self.is_hit(|_| true, from, until)
    }

    /// A limit change or a redrive disturbs only its own lane.
    pub(crate) fn is_lane_disturbed(&self, lane: &Lane<'_>, from: u64, until: u64) -> bool {
        self.is_hit(|fault| concerns(fault, lane.subscriber), from, until)
    }

    pub(super) fn is_clock_set(&self, from: u64, until: u64) -> bool {
        let mut steps = self.trace.faults.iter().filter(|fault| fault.kind == FaultKind::ClockStep);
        let host = self.trace.host.clock_sets.iter().any(|set| set.from <= until && from <= set.until);
        host || steps.any(|fault| {
            let moments = [Some(fault.t), fault.until];
            moments.iter().flatten().any(|t| (from..=until).contains(t))
        })
    }

    fn is_hit(&self, counts: impl Fn(&Fault) -> bool, from: u64, until: u64) -> bool {
        let from = from.saturating_sub(self.scenario.sender.takeover_within.0);
        let upset = self.strikes.upsets.partition_point(|t| *t < from);
        let faulty =
            |fault: &Fault| fault.t <= until && over(fault).is_some_and(|over| over >= from) && counts(fault);
        let stands_still = self.strikes.stops.iter().any(|stop| stop.from <= until && stop.until >= from);
        let upset = self.strikes.upsets.get(upset).is_some_and(|t| *t <= until);
        upset || stands_still || self.trace.faults.iter().any(faulty)
    }

    /// From when a lane's wait is timed: once it was served again after a fault. None if it was not, or if requests in
    /// doubt may have used its contract up.
    pub(super) fn timed_from(&self, lane: &Lane<'_>, since: u64, until: u64) -> Option<u64> {
        if !self.is_lane_disturbed(lane, since, until) {
            return Some(since);
        }
        let over = self.befallen_until(lane, until)?;
        let next = lane.begun.partition_point(|n| self.exchange(*n).t < over);
        let served = lane.begun.get(next).map(|n| self.exchange(*n).t)?;
        (served < until && !lane.lacks_room()).then_some(served.max(since))
    }

    /// Whether a fault excuses that a lane received nothing from `since` to `until`.
    pub(super) fn is_excused(&self, lane: &Lane<'_>, since: u64, until: u64) -> bool {
        self.timed_from(lane, since, until) != Some(since)
    }

    pub(super) fn befallen_until(&self, lane: &Lane<'_>, until: u64) -> Option<u64> {
        use ProcessEvent::{Asked, Continued, Exited, Killed, Ready, Stopped};
        let processes = &self.trace.processes;
        let back = |struck: &Process| {
            let own = processes.iter().filter(|one| one.worker == struck.worker && one.t >= struck.t);
            own.filter(|one| matches!(one.event, Ready | Continued)).map(|one| one.t).min()
        };
        let struck = processes.iter().filter(|one| matches!(one.event, Asked | Exited | Killed | Stopped));
        let struck = struck.filter(|one| one.t <= until).map(|one| back(one).unwrap_or(self.end));
        let faults = self.trace.faults.iter();
        let faults = faults.filter(|fault| fault.t <= until && concerns(fault, lane.subscriber));
        struck.chain(faults.filter_map(over)).max()
    }

    /// 0 without faults.
    pub(super) fn taken_over_by(&self) -> u64 {
        let stops = self.strikes.stops.iter().map(|stop| stop.until);
        let last = self.trace.faults.iter().filter_map(over).chain(stops).max();
        last.map_or(0, |t| t.saturating_add(self.scenario.sender.takeover_within.0))
    }

    /// Until when the sender could send: the stop of a process that was not started again, or the end of the
    /// run.
    pub(super) fn at_work_until(&self) -> u64 {
        let processes = &self.trace.processes;
        let asked = processes.iter().filter(|one| one.event == ProcessEvent::Asked);
        let is_last = |asked: &&Process| {
            let again = |one: &Process| one.event == ProcessEvent::Started && one.worker == asked.worker;
            !processes.iter().any(|one| again(one) && one.t >= asked.t)
        };
        asked.filter(is_last).map(|one| one.t).min().unwrap_or(self.end)
    }
}

/// An operator's action may be another subscriber's.
fn concerns(fault: &Fault, Subscriber { name, group, .. }: &Subscriber) -> bool {
    let is_own = |whom: &str| whom == name || whom == group;
    !matches!(fault.kind, FaultKind::Limit | FaultKind::Redrive) || fault.detail.as_deref().is_none_or(is_own)
}

impl Lane<'_> {
    pub(super) fn has_redrives(&self, evidence: &Evidence<'_>) -> bool {
        let redrive = |fault: &Fault| fault.kind == FaultKind::Redrive && concerns(fault, self.subscriber);
        evidence.trace.faults.iter().any(redrive)
    }
}

/// Until when a fault disturbs the sender. A limit change and a redrive are moments. So is a stop, as the process lines
/// hold its end. A rotation of secrets disturbs nothing, and a wrong wall clock must not.
fn over(fault: &Fault) -> Option<u64> {
    use FaultKind::{
        ClockSkew, ClockStep, DatabaseRestart, DiskFull, Kill, Limit, LockDatabase, Partition, Redrive,
        Restart, Rotate, Start, Stop,
    };
    match fault.kind {
        Rotate | ClockSkew => None,
        Limit | Redrive | Stop => Some(fault.t),
        Kill | Restart | Start | ClockStep | DiskFull | LockDatabase | DatabaseRestart | Partition => {
            Some(fault.until.unwrap_or(fault.t))
        }
    }
}

impl Lane<'_> {
    /// Requests that a new owner counts as in doubt may use up the contract. Only a written cap in flight bounds them.
    pub(super) fn lacks_room(&self) -> bool {
        let mut limits = self.epochs.iter().map(|epoch| &epoch.limit);
        limits.any(|limit| {
            let unknown = limit.in_flight.map_or(u64::MAX, |cap| u64::from(cap).saturating_mul(2));
            limit.lacks_room_for(unknown).is_some()
        })
    }
}

/// For this long after it is ready, a sender may still refuse events.
const GRACE: u64 = 2 * SECOND;

pub(super) struct Outages(Vec<(u64, u64)>);

impl Outages {
    pub(super) fn of(evidence: &Evidence<'_>) -> Self {
        use ProcessEvent::{Asked, Continued, Exited, Killed, Ready, Stopped};
        let processes = &evidence.trace.processes;
        let back = |worker: u32, t: u64| {
            let later = processes.iter().filter(|one| one.worker == worker && one.t >= t);
            later.filter(|one| matches!(one.event, Ready | Continued)).map(|one| one.t).min()
        };
        let struck = processes.iter().filter(|one| matches!(one.event, Asked | Exited | Killed | Stopped));
        let mut all: Vec<(u64, u64)> =
            struck.map(|one| (one.t, back(one.worker, one.t).unwrap_or(evidence.end))).collect();
        let faults = evidence.trace.faults.iter().filter(|fault| fault.hinders());
        all.extend(faults.map(|fault| (fault.t, fault.until.unwrap_or(fault.t))));
        all.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (from, until) in all.into_iter().map(|(from, until)| (from, until.saturating_add(GRACE))) {
            match merged.last_mut().filter(|last| from <= last.1) {
                Some(last) => last.1 = last.1.max(until),
                None => merged.push((from, until)),
            }
        }
        Self(merged)
    }

    pub(super) fn within(&self, from: u64, until: u64) -> u64 {
        let first = self.0.partition_point(|(_, end)| *end < from);
        let inside = self.0[first..].iter().take_while(|(begin, _)| *begin <= until);
        inside.map(|(begin, end)| (*end).min(until).saturating_sub((*begin).max(from))).sum()
    }

    pub(super) fn overlap(&self, from: u64, until: u64) -> bool {
        let at = self.0.partition_point(|(_, end)| *end < from);
        self.0.get(at).is_some_and(|(begin, _)| *begin <= until)
    }
}

/// Endpoints see the end of a process within this time.
const SEEN_WITHIN: u64 = 2 * SECOND;
/// A connection with a request within this time counts as in use.
const USED_WITHIN: u64 = 5 * SECOND;
/// Kills within this time count as one.
const AT_ONCE: u64 = SECOND / 2;

impl Evidence<'_> {
    pub(super) fn took_something(&self, kill: u64) -> bool {
        let workers = self.scenario.sender.workers;
        let killed = self.trace.processes.iter().filter(|one| one.event == ProcessEvent::Killed);
        let struck: BTreeSet<u32> =
            killed.filter(|one| one.t.abs_diff(kill) <= AT_ONCE).map(|one| one.worker).collect();
        struck.len() as u64 >= u64::from(workers) || self.lanes.iter().any(|lane| was_taken(self, lane, kill))
    }
}

fn was_taken(evidence: &Evidence<'_>, lane: &Lane<'_>, kill: u64) -> bool {
    let place = |t: u64| lane.begun.partition_point(|n| evidence.exchange(*n).t < t);
    let (from, at) = (place(kill.saturating_sub(USED_WITHIN)), place(kill));
    let until =
        place(kill.saturating_add(evidence.scenario.sender.takeover_within.0).saturating_add(USED_WITHIN));
    let broken_off = lane.begun[from..at]
        .iter()
        .map(|n| evidence.exchange(*n))
        .any(|one| one.ended_by_peer() && kill <= one.end && one.end <= kill.saturating_add(SEEN_WITHIN));
    let connections = |range: &[u32]| -> Vec<u64> {
        let whole = range.iter().filter_map(|n| evidence.trace.arrivals.get(*n as usize));
        whole.map(|arrival| arrival.connection).collect()
    };
    let (before, after) = (connections(&lane.begun[from..at]), connections(&lane.begun[at..until]));
    let used: BTreeSet<u64> = before.iter().copied().collect();
    let kept = used.len() < before.len();
    broken_off || kept && !after.is_empty() && after.iter().all(|connection| !used.contains(connection))
}

// Whether a lane is served again after a fault: if a delivery that was never tried is due then or later, a
// request arrives within `takeover_within` and the contract's wait for one attempt.
//
// A lane is not judged if
//
// - its endpoint misbehaves meanwhile or is gone (a requested pause only delays the deadline);
// - its endpoint failed last, so that a breaker may hold it, unless the sender is declared to have none;
// - another fault hits the sender meanwhile;
// - the delivery outlives its `ttl`, or the run ends.
//
// A lane that coalesces waits for its window on purpose, and an ordered lane for the retries of a key.

/// `Nothing`: no work was due, or the lane may stay unserved. `after` is the gap's length; none if no request came.
pub(super) enum Again<'e> {
    Nothing,
    InTime,
    Late { first: &'e Delivery, after: Option<u64> },
}

pub(super) fn served_again<'e>(evidence: &'e Evidence<'_>, at: u32, from: u64) -> Again<'e> {
    find_resumption(evidence, at, from, None)
}

pub(super) fn served_meanwhile<'e>(evidence: &'e Evidence<'_>, at: u32, fault: &Fault) -> Again<'e> {
    find_resumption(evidence, at, fault.t, Some(fault))
}

/// `despite` is a fault that has begun and lasts.
fn find_resumption<'e>(evidence: &'e Evidence<'_>, at: u32, from: u64, despite: Option<&Fault>) -> Again<'e> {
    let lane = &evidence.lanes[at as usize];
    let first_try = |one: &Delivery| evidence.attempts(one).first().map(|n| evidence.exchange(*n).t);
    let fresh = evidence.deliveries_of(at).iter().filter(|one| one.owed && one.dead.is_none());
    let due = fresh.filter_map(|one| {
        let accepted = evidence.accepted(one)?;
        first_try(one).is_none_or(|t| t > from).then_some((accepted.max(from), one))
    });
    let Some((due, first)) = due.min_by_key(|(due, _)| *due) else { return Again::Nothing };
    let next = lane.arrivals.partition_point(|n| evidence.exchange(*n).t < due);
    let next = lane.arrivals.get(next).map(|n| evidence.exchange(*n).t);
    // A request may arrive before the harness has read the acknowledgement.
    let came = [first_try(first), next].into_iter().flatten().min();
    let paused = pause_until(evidence, lane, came.unwrap_or(evidence.end));
    let since = due.max(paused).max(room_from(evidence, lane, due));
    let wait = evidence.scenario.sender.takeover_within.0.saturating_add(held_on_purpose(lane));
    let by = since.saturating_add(wait);
    let by = doubtful_until(evidence, lane, by).map_or(by, |over| by.max(over.saturating_add(wait)));
    // Steps of a takeover follow each other from the fault on, so each stall since counts.
    let is_late = |t: u64| t > by && evidence.late(from, t) > by.saturating_sub(from);
    if came.is_some_and(|t| !is_late(t)) {
        return Again::InTime;
    }
    let expires =
        evidence.accepted(first).is_some_and(|t| t.saturating_add(lane.subscriber.retry.ttl.0) <= by);
    if expires || !is_late(evidence.end) || may_be_left_alone(evidence, lane, (from, despite), (by, wait)) {
        return Again::Nothing;
    }
    Again::Late { first, after: came.map(|t| t - from) }
}

/// A new owner counts its whole contract as in doubt.
fn doubtful_until(evidence: &Evidence<'_>, lane: &Lane<'_>, by: u64) -> Option<u64> {
    let limit = &lane.subscriber.limit;
    let upset = evidence
        .strikes
        .upsets
        .partition_point(|t| *t <= by)
        .checked_sub(1)
        .map(|last| evidence.strikes.upsets[last]);
    let upset = upset
        .filter(|_| lane.epochs.iter().any(|epoch| epoch.limit.lacks_room_for_a_takeover().is_some()))?;
    Some(upset.saturating_add(limit.doubt.0))
}

pub(super) fn room_from(evidence: &Evidence<'_>, lane: &Lane<'_>, t: u64) -> u64 {
    let Some(cap) = lane.epochs.iter().filter_map(|epoch| epoch.limit.in_flight_told()).min() else {
        return t;
    };
    let open = lane.begun.iter().map(|n| evidence.exchange(*n)).filter(|one| one.t <= t && t < one.end);
    let mut ends: Vec<u64> = open.map(|one| one.end).collect();
    ends.sort_unstable();
    ends.len().checked_sub(cap as usize).and_then(|at| ends.get(at)).map_or(t, |end| *end)
}

fn held_on_purpose(lane: &Lane<'_>) -> u64 {
    let handling = &lane.subscriber.handling;
    let window = handling.coalesce.iter().map(|one| one.window.0).max().unwrap_or(0);
    let order = if handling.ordered { longest_delay(lane, lane.subscriber.retry.attempts) } else { 0 };
    contract_wait(lane).saturating_add(window).saturating_add(order)
}

fn may_be_left_alone(
    evidence: &Evidence<'_>,
    lane: &Lane<'_>,
    (from, despite): (u64, Option<&Fault>),
    (by, wait): (u64, u64),
) -> bool {
    let ill = lane
        .subscriber
        .behaviours
        .iter()
        .any(|one| one.at.0 <= by && one.until().is_none_or(|until| until.saturating_add(wait) >= from));
    let ended = lane.arrivals.iter().filter(|n| evidence.exchange(**n).end <= from);
    let last = ended.max_by_key(|n| evidence.exchange(**n).end);
    let failed =
        last.is_some_and(|n| !evidence.exchange(*n).is_delivered() && evidence.requested_pause(*n).is_none());
    // The trace has several lines of one end.
    let later = from.saturating_add(SECOND);
    let upset = evidence.strikes.upsets.iter().any(|t| later < *t && *t <= by);
    let is_other = |fault: &&Fault| despite.is_none_or(|one| !std::ptr::eq(one, *fault));
    let mut faults = evidence.trace.faults.iter().filter(|fault| fault.hinders()).filter(is_other);
    let faulty =
        faults.any(|fault| fault.t <= by && (fault.t > from || fault.until.is_some_and(|t| t > from)));
    let stands_still = evidence.strikes.stops.iter().any(|stop| stop.from <= by && stop.until > from);
    ill || upset
        || faulty
        || stands_still
        || (failed && !evidence.trace.declared.lacks(Lack::Breaker))
        || lane.gone.is_some_and(|t| t <= by)
}
