//! What an operator sent again: it starts anew, and is no duplicate. A delivery that was taken before, or was not tried yet,
//! was no dead letter, and nothing is excused by it.

use super::evidence::{Delivery, Evidence};
use crate::scenario::Subscriber;

impl Evidence<'_> {
    /// Whether an operator sent any dead letters again.
    pub(crate) fn has_redrives(&self) -> bool {
        self.trace.faults.iter().any(|fault| fault.action == "redrive")
    }

    /// When an operator sent the dead letters of a delivery's lane again.
    pub(crate) fn redrives(&self, delivery: &Delivery) -> impl Iterator<Item = u64> {
        let Subscriber { name, group, .. } = self.subscriber(delivery);
        let concerns = move |whom: &str| whom == name || whom == group;
        let redrives = self.trace.faults.iter().filter(|fault| fault.action == "redrive");
        redrives.filter(move |fault| fault.detail.as_deref().is_none_or(concerns)).map(|fault| fault.t)
    }

    /// Whether a delivery may have been a dead letter that an operator sent again by `t`: one that had been tried, and not
    /// taken.
    pub(crate) fn is_redriven(&self, delivery: &Delivery, t: u64) -> bool {
        let exchanges = || self.attempts(delivery).iter().map(|n| self.exchange(*n));
        self.redrives(delivery).filter(|redrive| *redrive <= t).any(|redrive| {
            exchanges().any(|exchange| exchange.t < redrive)
                && !exchanges().any(|exchange| exchange.is_delivered() && exchange.end < redrive)
        })
    }
}
