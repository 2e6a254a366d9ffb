//! The contract in force at each moment, as a run may change limits; and the sender's clock.

use crate::scenario::{FaultAction, FaultKind, FaultPlan, Limit, SECOND, Scenario, Slack, Subscriber};
use crate::trace::{Arrival, Fault, Lack, OURS, Trace};

/// A span with one contract; both ends belong to it.
#[derive(Clone, Debug)]
pub(crate) struct Epoch {
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) limit: Limit,
    /// Between a change and its delay `limit` is the looser of both.
    pub(crate) is_sure: bool,
}

/// A contract that may hold from `from` on, and alone from `sure` on.
struct Version {
    from: u64,
    sure: u64,
    limit: Limit,
}

/// The epochs of a subscriber's contract, without a gap. A change may hold from its moment on, as the trace notes it
/// after the sender's answer, and holds alone once its `within` is over. A change that the trace lacks may have been
/// made in part, until another one holds ([`unknown`]). A change to the limit that holds is none.
pub(super) fn epochs(scenario: &Scenario, trace: &Trace, subscriber: &Subscriber, end: u64) -> Vec<Epoch> {
    let first = &subscriber.limit;
    let mut versions = vec![Version { from: 0, sure: 0, limit: forgiving(first, first.slack, trace) }];
    for (plan, done) in limits(scenario, trace, subscriber) {
        let FaultAction::Limit { limit, within, .. } = &plan.action else { continue };
        versions.push(Version {
            from: done.map_or(plan.at.0, |done| plan.at.0.min(done.t)),
            sure: done.map_or(u64::MAX, |done| done.t.saturating_add(within.0)),
            limit: forgiving(limit, limit.slack.larger(first.slack), trace),
        });
    }
    let mut bounds: Vec<u64> = versions.iter().flat_map(|one| [one.from, one.sure]).collect();
    bounds.retain(|t| *t <= end);
    bounds.sort_unstable();
    bounds.dedup();
    let mut epochs: Vec<Epoch> = Vec::new();
    for (at, from) in bounds.iter().enumerate() {
        let until = bounds.get(at + 1).map_or(end, |next| next - 1);
        let (limit, is_sure) = in_force(&versions, *from);
        match epochs.last_mut().filter(|last| last.is_sure == is_sure && last.limit.is_same_contract(&limit))
        {
            Some(last) => last.until = until,
            None => epochs.push(Epoch { from: *from, until, limit, is_sure }),
        }
    }
    epochs
}

fn in_force(versions: &[Version], t: u64) -> (Limit, bool) {
    let sure = versions.iter().rposition(|one| one.sure <= t).unwrap_or(0);
    let held = &versions[sure].limit;
    let later = versions[sure + 1..].iter().filter(|one| one.from <= t).map(|one| &one.limit);
    let others: Vec<&Limit> = later.filter(|limit| !limit.is_same_contract(held)).collect();
    (others.iter().fold(held.clone(), |looser, limit| looser.looser(limit)), others.is_empty())
}

pub(super) fn unknown(scenario: &Scenario, trace: &Trace, subscriber: &Subscriber) -> Vec<(u64, u64)> {
    let mut unknown: Vec<(u64, u64)> = Vec::new();
    for (plan, done) in limits(scenario, trace, subscriber) {
        match done {
            None => unknown.push((plan.at.0, u64::MAX)),
            Some(done) => unknown.iter_mut().for_each(|(_, until)| *until = (*until).min(done.t)),
        }
    }
    unknown
}

fn limits<'e>(
    scenario: &'e Scenario,
    trace: &'e Trace,
    subscriber: &Subscriber,
) -> impl Iterator<Item = (&'e FaultPlan, Option<&'e Fault>)> {
    let changes = if trace.declared.lacks(Lack::Change) {
        Vec::new()
    } else {
        changes(scenario, trace, FaultKind::Limit)
    };
    changes.into_iter().filter(|(plan, _)| plan.action.concerns(&subscriber.group, &subscriber.name))
}

fn forgiving(limit: &Limit, slack: Slack, trace: &Trace) -> Limit {
    let mut limit = limit.clone();
    if trace.header.driver != OURS {
        if let Some(bucket) = &mut limit.bucket {
            bucket.burst = bucket.burst.saturating_add(slack.burst);
        }
        for window in &mut limit.windows {
            window.count = window.count.saturating_add(slack.window);
        }
    }
    limit
}

/// Every planned fault of that name, with its line in the trace, if it was injected. A fault without its plan's number
/// belongs to the first open plan of its subscriber that is not later than the fault.
pub(super) fn changes<'e>(
    scenario: &'e Scenario,
    trace: &'e Trace,
    kind: FaultKind,
) -> Vec<(&'e FaultPlan, Option<&'e Fault>)> {
    let mut done: Vec<&Fault> = trace.faults.iter().filter(|fault| fault.kind == kind).collect();
    done.sort_by_key(|fault| fault.t);
    let mut plans: Vec<(u32, &FaultPlan)> = (0..).zip(&scenario.faults).collect();
    plans.retain(|(_, plan)| plan.action.kind() == kind);
    plans.sort_by_key(|(_, plan)| plan.at);
    let mut found = Vec::new();
    for (at, plan) in plans {
        let is_it = |fault: &&Fault| match fault.plan {
            Some(place) => place == at,
            None => fault.detail.as_deref() == plan.action.subscriber() && fault.t >= plan.at.0,
        };
        let place = done.iter().position(is_it);
        found.push((plan, place.map(|place| done.remove(place))));
    }
    found
}

// The sender's clock against the harness's clock.
//
// The run measures the offset of a sender on another machine ([`crate::trace::Offset`]). If its answers have no `Date`,
// the offset is the median difference between its timestamps and their arrivals.

/// A larger offset is a mistake in the stamp, not a clock.
const FARTHEST: i64 = 600 * SECOND.cast_signed();

/// In nanoseconds; negative where the sender's clock is behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    pub(crate) likely: i64,
    pub(crate) most: u64,
}

impl Ahead {
    pub(super) fn of(trace: &Trace) -> Self {
        Self { likely: likely(trace), most: most(trace) }
    }
}

/// 0 where the clock may be right.
fn likely(trace: &Trace) -> i64 {
    let ahead = match &trace.offset {
        Some(offset) if offset.ns.unsigned_abs() > offset.error => offset.ns,
        Some(_) => 0,
        // A process on the harness's machine has the same clock.
        None if trace.declared.lacks(Lack::Start) => by_stamps(trace),
        None => 0,
    };
    if ahead.unsigned_abs() <= FARTHEST.unsigned_abs() { ahead } else { 0 }
}

fn most(trace: &Trace) -> u64 {
    let is_ours = !trace.declared.lacks(Lack::Start);
    let most = match &trace.offset {
        // The clock seems to be this machine's.
        Some(offset) if is_ours && offset.ns.unsigned_abs() <= offset.error => 0,
        Some(offset) => offset.ns.saturating_add_unsigned(offset.error),
        None if is_ours => 0,
        // Stamps count whole seconds.
        None => by_stamps(trace).saturating_add_unsigned(SECOND),
    };
    if most <= FARTHEST { u64::try_from(most).unwrap_or(0) } else { 0 }
}

fn by_stamps(trace: &Trace) -> i64 {
    let ahead = |arrival: &Arrival| {
        let stamp = timestamp(arrival)?.parse::<i64>().ok()?.checked_mul(SECOND.cast_signed())?;
        let now = trace.header.began_unix_ns.saturating_add(arrival.t);
        stamp.checked_sub(i64::try_from(now).ok()?)
    };
    // Only stamps from before the wall clock was set count.
    let set = trace.host.clock_sets.iter().map(|set| set.from).min().unwrap_or(u64::MAX);
    let before = trace.arrivals.iter().filter(|arrival| arrival.t < set);
    let mut all: Vec<i64> = before.filter_map(ahead).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

/// Unix seconds, from the header or from inside the signature.
pub(super) fn timestamp(arrival: &Arrival) -> Option<&str> {
    let inside = || {
        let signature = arrival.signed.signature.as_deref()?;
        signature.split(',').find_map(|part| part.trim().strip_prefix("t="))
    };
    arrival.signed.timestamp.as_deref().or_else(inside)
}

/// In seconds.
const TIMESTAMP_TOLERANCE: u64 = 5;

/// A span in which the wall clock of a process was set wrong.
pub(super) struct Skew {
    from: u64,
    until: u64,
    pub(super) ahead: i64,
}

impl Skew {
    pub(super) fn covers(&self, t: u64) -> bool {
        // The request may have been stamped up to a second before the clock was put right.
        self.from <= t && t <= self.until.saturating_add(SECOND)
    }
}

pub(super) fn skews(scenario: &Scenario, trace: &Trace) -> Vec<Skew> {
    let faults = trace.faults.iter().filter(|fault| fault.kind == FaultKind::ClockSkew);
    let skew = |fault: &crate::trace::Fault| {
        let plan = scenario.faults.get(usize::try_from(fault.plan?).ok()?)?;
        let ahead = plan.action.clock_offset()?;
        Some(Skew { from: fault.t, until: fault.until.unwrap_or(u64::MAX), ahead })
    };
    faults.filter_map(skew).collect()
}

/// The arrival in Unix seconds, by a clock that is `ahead` nanoseconds ahead of the harness's.
pub(super) fn unix_seconds(trace: &Trace, arrival: &Arrival, ahead: i64) -> u64 {
    trace.header.began_unix_ns.saturating_add(arrival.t).saturating_add_signed(ahead) / SECOND
}

pub(super) fn is_stamped(trace: &Trace, arrival: &Arrival, ahead: i64, late: u64) -> bool {
    let stamp = timestamp(arrival).and_then(|text| text.parse::<u64>().ok());
    let now = unix_seconds(trace, arrival, ahead);
    stamp.is_some_and(|stamp| {
        let earliest = now.saturating_sub(TIMESTAMP_TOLERANCE).saturating_sub(late.div_ceil(SECOND));
        (earliest..=now.saturating_add(TIMESTAMP_TOLERANCE)).contains(&stamp)
    })
}
