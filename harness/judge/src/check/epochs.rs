//! The contract in force at each moment, as a run may change limits.

use crate::scenario::{FaultAction, FaultKind, FaultPlan, Limit, Scenario, Subscriber};
use crate::trace::{Fault, Lack, OURS, Trace};

/// A span with one contract.
#[derive(Clone, Debug)]
pub(crate) struct Epoch {
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) limit: Limit,
}

/// The epochs of a subscriber's contract. A change is done when the trace says so; from then, for its
/// `within`, either contract may hold and neither is judged. A change that the trace lacks may have been made
/// in part: from its moment on, nothing is judged until another change ([`unknown`]). A sender with fixed
/// limits keeps the first contract.
pub(super) fn epochs(scenario: &Scenario, trace: &Trace, subscriber: &Subscriber, end: u64) -> Vec<Epoch> {
    let mut epochs = vec![Epoch { from: 0, until: end, limit: forgiving(&subscriber.limit, trace) }];
    for (plan, done) in limits(scenario, trace, subscriber) {
        let FaultAction::Limit { limit, within, .. } = &plan.action else { continue };
        if let Some(last) = epochs.last_mut() {
            // The trace notes the change after the sender's answer; the sender may have followed the new
            // limit before.
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

/// The spans without a known contract, after a change that the sender did not confirm.
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

/// The limit with the leniency that the scenario grants to a foreign sender.
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

/// Every planned fault of that name, with its line in the trace, in the order of the plan; none where it was
/// not injected. In a trace that doesn't name the plan of a fault, a fault belongs to the first open plan of
/// its subscriber that is not later than the fault.
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
