use std::collections::BTreeMap;

use crate::engine::{DeliveryId, Nanos, StoreTime};

/// Deliveries that could neither be read nor given up, and until when claims skip them. Only in memory: a restart
/// finds them again.
#[derive(Debug, Default)]
pub(super) struct Unread(BTreeMap<DeliveryId, StoreTime>);

impl Unread {
    pub(super) const PAUSE: Nanos = Nanos::MINUTE;
    /// Beyond this number, the ones found first are forgotten, and found again.
    const ROWS_MAX: usize = 1_024;

    /// Notes a failure, and logs it if it is new.
    pub(super) fn note(&mut self, delivery: DeliveryId, now: StoreTime) {
        if self.0.len() >= Self::ROWS_MAX
            && let Some(first) = self.0.iter().min_by_key(|(_, until)| **until).map(|(found, _)| *found)
        {
            self.0.remove(&first);
        }
        if self.0.insert(delivery, StoreTime(now.0.saturating_add(Self::PAUSE.0))).is_none() {
            tracing::error!(
                delivery = delivery.0,
                "a delivery can neither be read nor set aside: check the disk; its subscriber's others go on, and it is \
                 tried again each minute"
            );
        }
    }

    pub(super) fn until(&self, delivery: DeliveryId, now: StoreTime) -> Option<StoreTime> {
        self.0.get(&delivery).copied().filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_passed_over_for_a_while_and_no_more_than_so_many() {
        let mut unread = Unread::default();
        let now = StoreTime(5);
        let later = StoreTime(now.0 + Unread::PAUSE.0);
        unread.note(DeliveryId(1), now);
        assert_eq!(unread.until(DeliveryId(1), now), Some(later));
        assert_eq!(unread.until(DeliveryId(2), now), None);
        assert_eq!(unread.until(DeliveryId(1), later), None);
        let max = u64::try_from(Unread::ROWS_MAX).unwrap();
        (2..=max + 1).for_each(|delivery| unread.note(DeliveryId(delivery), StoreTime(6)));
        assert_eq!(unread.0.len(), Unread::ROWS_MAX);
        assert_eq!(unread.until(DeliveryId(1), now), None, "the first makes room");
    }
}
