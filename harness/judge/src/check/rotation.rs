//! The secrets that sign for a subscriber at each moment, as an operator may rotate them during a run.
//!
//! The sender makes a new secret between the request and its answer, and the harness can verify signatures of
//! that secret shortly after the answer. From the planned rotation until a second after its confirmation, a
//! signature that doesn't verify says nothing. A rotation that the trace lacks may still have happened:
//! signatures that don't verify after its moment are undecidable. The older secret retires `lasts` after the
//! sender made the new one.

use super::epochs::changes;
use super::evidence::Evidence;
use crate::scenario::{FaultKind, FaultPlan, SECOND, Subscriber};
use crate::trace::{Fault, Lack};

/// Why signatures that did not verify say nothing.
pub(super) fn unconfirmed(signatures: u64) -> String {
    format!("{signatures} signatures do not verify since a rotation that the sender did not confirm")
}

/// Time in which requests may be in flight while secrets change.
const UNDER_WAY: u64 = SECOND;

/// The rotations of a subscriber, in order.
pub(super) struct Rotations(Vec<Rotation>);

struct Rotation {
    /// It was not requested before this.
    planned: u64,
    /// The confirmation in the trace.
    done: Option<u64>,
    /// Until when the older secret certainly signs too.
    both_until: u64,
    /// From when on the older secret does not sign.
    retired: u64,
}

pub(super) fn rotations(evidence: &Evidence<'_>, subscriber: &Subscriber) -> Rotations {
    if evidence.trace.declared.lacks(Lack::Rotate) {
        return Rotations(Vec::new());
    }
    let all = changes(evidence.scenario, evidence.trace, FaultKind::Rotate).into_iter();
    let concerned = all.filter(|(plan, _)| plan.action.concerns(&subscriber.group, &subscriber.name));
    let rotation = |(plan, done): (&FaultPlan, Option<&Fault>)| {
        let later = done.map_or(u64::MAX, |done| done.t.saturating_add(plan.lasts.0));
        Rotation {
            planned: plan.at.0,
            done: done.map(|done| done.t),
            both_until: done.and_then(|done| done.until).unwrap_or(later),
            retired: later,
        }
    };
    Rotations(concerned.map(rotation).collect())
}

impl Rotations {
    /// Whether a signature at `t` may use a secret that the harness does not know yet.
    pub(super) fn is_changing(&self, t: u64) -> bool {
        let noted = |done: u64| t <= done.saturating_add(UNDER_WAY);
        self.0.iter().any(|one| one.planned <= t && one.done.is_none_or(noted))
    }

    /// Whether the sender did not confirm a rotation planned before `t`.
    pub(super) fn is_unknown(&self, t: u64) -> bool {
        self.0.iter().any(|one| one.planned <= t && one.done.is_none())
    }

    /// Whether two secrets certainly sign at `t`.
    pub(super) fn both(&self, t: u64) -> bool {
        let from = |one: &Rotation| one.done.map_or(u64::MAX, |done| done.saturating_add(UNDER_WAY));
        self.0.iter().any(|one| from(one) <= t && t <= one.both_until.saturating_sub(UNDER_WAY))
    }

    /// The place of the oldest secret that may sign at `t`.
    pub(super) fn oldest(&self, t: u64) -> usize {
        self.0.iter().filter(|one| one.retired.saturating_add(UNDER_WAY) < t).count()
    }
}
