//! Which contract held when: a run may change a limit on its way.

use crate::scenario::{FaultAction, Limit, Scenario, Subscriber};
use crate::trace::Trace;

/// A while in which one contract held.
#[derive(Clone, Debug)]
pub(crate) struct Epoch {
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) limit: Limit,
}

/// Which contract held when. A change counts as done when the trace says so; while it may still take effect, from then
/// for its `within`, either contract holds and neither is judged.
pub(super) fn epochs(scenario: &Scenario, trace: &Trace, subscriber: &Subscriber, end: u64) -> Vec<Epoch> {
    let mut epochs = vec![Epoch { from: 0, until: end, limit: subscriber.limit.clone() }];
    let plans = scenario.faults.iter().filter_map(|fault| match &fault.action {
        FaultAction::Limit { subscriber, limit, within } => Some((subscriber, limit, within.0, fault.at.0)),
        _ => None,
    });
    let mut done: Vec<u64> =
        trace.faults.iter().filter(|fault| fault.action == "limit").map(|fault| fault.t).collect();
    done.sort_unstable();
    for ((whose, limit, within, planned), t) in plans.zip(done) {
        if whose.as_ref().is_some_and(|name| *name != subscriber.group && *name != subscriber.name) {
            continue;
        }
        if let Some(last) = epochs.last_mut() {
            // Done is noted once the sender has answered; it may have gone by the new limit before.
            last.until = planned.min(t).min(end);
        }
        epochs.push(Epoch { from: t.saturating_add(within), until: end, limit: limit.clone() });
    }
    epochs
}
