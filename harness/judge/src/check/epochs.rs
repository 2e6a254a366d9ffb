//! Which contract held when: a run may change a limit on its way.

use crate::scenario::{FaultAction, FaultKind, FaultPlan, Limit, Scenario, Subscriber};
use crate::trace::{Fault, Lack, OURS, Trace};

/// A while in which one contract held.
#[derive(Clone, Debug)]
pub(crate) struct Epoch {
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) limit: Limit,
}

/// Which contract held when. A change counts as done when the trace says so; while it may still take effect, from then
/// for its `within`, either contract holds and neither is judged. One that the trace doesn't have may have been made in
/// part: from its moment on nothing can be judged until another is made ([`unknown`]). A sender whose limits can't be changed
/// is held to the first one.
pub(super) fn epochs(scenario: &Scenario, trace: &Trace, subscriber: &Subscriber, end: u64) -> Vec<Epoch> {
    let mut epochs = vec![Epoch { from: 0, until: end, limit: forgiving(&subscriber.limit, trace) }];
    for (plan, done) in limits(scenario, trace, subscriber) {
        let FaultAction::Limit { limit, within, .. } = &plan.action else { continue };
        if let Some(last) = epochs.last_mut() {
            // Done is noted once the sender has answered; it may have gone by the new limit before.
            last.until = last.until.min(plan.at.0).min(done.map_or(end, |done| done.t));
        }
        if let Some(done) = done {
            epochs.push(Epoch {
                from: done.t.saturating_add(within.0),
                until: end,
                limit: forgiving(limit, trace),
            });
        }
    }
    epochs
}

/// From when until when no contract is known to hold, as a change was to be made that the sender did not confirm.
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

/// The changes of a subscriber's limit.
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

/// A limit with what the scenario forgives a sender that isn't ours.
fn forgiving(limit: &Limit, trace: &Trace) -> Limit {
    let mut limit = limit.clone();
    if trace.header.driver != OURS {
        let slack = limit.slack;
        if let Some(bucket) = &mut limit.bucket {
            bucket.burst = bucket.burst.saturating_add(slack.burst);
        }
        for window in &mut limit.windows {
            window.count = window.count.saturating_add(slack.window);
        }
    }
    limit
}

/// Every planned fault of that name and what the trace has of it, in the order of the plan; none where it was not done. A
/// trace that doesn't say which of the plans a fault was is taken at its subscriber and its time: it was the first plan
/// that isn't done yet, and not later than it.
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
