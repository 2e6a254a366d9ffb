//! Which of a subscriber's secrets sign when: an operator may rotate them on the way.
//!
//! The sender makes a new secret at some moment from when it is asked until it has answered; the harness can check a signature
//! of it a moment after the answer. From when the rotation was planned until a second after it was noted as done, a signature
//! that doesn't verify says nothing. One that the trace doesn't have may have been made all the same: where a signature does
//! not verify from its moment on, the run can't tell. The older secret retires `lasts` after the sender made the new one.

use super::epochs::changes;
use super::evidence::Evidence;
use crate::scenario::{FaultKind, FaultPlan, SECOND, Subscriber};
use crate::trace::{Fault, Lack};

/// Why signatures that did not verify say nothing.
pub(super) fn unconfirmed(signatures: u64) -> String {
    format!("{signatures} signatures do not verify since a rotation that the sender did not confirm")
}

/// What may be under way while secrets change.
const UNDER_WAY: u64 = SECOND;

/// The rotations that concern a subscriber, in their order.
pub(super) struct Rotations(Vec<Rotation>);

struct Rotation {
    /// Before this, it was not asked for.
    planned: u64,
    /// By when it was done, if the trace says so.
    done: Option<u64>,
    /// Until when the older secret signs too, at least.
    both_until: u64,
    /// From when on it doesn't.
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
    /// Whether a signature of that moment may be made with a secret that is not known yet, or never.
    pub(super) fn is_changing(&self, t: u64) -> bool {
        let noted = |done: u64| t <= done.saturating_add(UNDER_WAY);
        self.0.iter().any(|one| one.planned <= t && one.done.is_none_or(noted))
    }

    /// Whether a secret was to be made before that moment of which the sender never said that it was.
    pub(super) fn is_unknown(&self, t: u64) -> bool {
        self.0.iter().any(|one| one.planned <= t && one.done.is_none())
    }

    /// Whether two secrets sign at that moment.
    pub(super) fn both(&self, t: u64) -> bool {
        let from = |one: &Rotation| one.done.map_or(u64::MAX, |done| done.saturating_add(UNDER_WAY));
        self.0.iter().any(|one| from(one) <= t && t <= one.both_until.saturating_sub(UNDER_WAY))
    }

    /// The place of the oldest secret that may sign at that moment.
    pub(super) fn oldest(&self, t: u64) -> usize {
        self.0.iter().filter(|one| one.retired.saturating_add(UNDER_WAY) < t).count()
    }
}
