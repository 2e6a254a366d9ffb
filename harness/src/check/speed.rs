//! Which lanes are judged by how soon they are served.

use super::evidence::Lane;

impl Lane<'_> {
    /// Whether nothing but its contract makes the lane wait: it neither coalesces nor keeps an order, which hold deliveries
    /// back on purpose.
    pub(crate) fn is_judged_by_its_speed(&self) -> bool {
        let handling = &self.subscriber.handling;
        handling.coalesce.is_empty() && !handling.ordered
    }

    /// Whether one contract held for it all the while.
    pub(crate) fn has_one_contract(&self) -> bool {
        self.epochs.len() == 1
    }
}
