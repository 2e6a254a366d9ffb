//! Rows that are damaged, or that the disk does not give: what is still read of them, and how claims get past them.

use std::collections::BTreeMap;

use rusqlite::{Error, ErrorCode, Result};

use super::Work;
use crate::engine::{DeliveryId, Nanos, StoreTime};

/// Whether this one row is to blame, not the store: the others can be read.
pub(super) fn is_about_the_row(error: &Error) -> bool {
    match error {
        Error::QueryReturnedNoRows
        | Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::Utf8Error(..) => true,
        other => other.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt),
    }
}

/// Whether the disk did not give what was asked for. It may give the rest, and this too at another time.
pub(super) fn is_about_the_disk(error: &Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
}

/// A value, or the least there is where the one in the row makes no sense.
pub(super) fn or_least<T: Default>(read: Result<T>) -> Result<T> {
    match read {
        Err(error) if is_about_the_row(&error) => Ok(T::default()),
        read => read,
    }
}

impl Work<'_> {
    /// The bytes and the attempts that a delivery counts for, whatever its row says.
    pub(super) fn weight(&self, delivery: DeliveryId) -> Result<(u64, u32)> {
        self.sql
            .prepare_cached("SELECT bytes, attempts FROM deliveries WHERE delivery = ?1")?
            .query_row([delivery], |row| Ok((or_least(row.get(0))?, or_least(row.get(1))?)))
    }
}

/// Deliveries that could neither be read nor set aside, and until when claims pass over them. In memory only: whoever
/// starts anew finds out again.
#[derive(Debug, Default)]
pub(super) struct Unread(BTreeMap<DeliveryId, StoreTime>);

impl Unread {
    /// For how long claims pass over one.
    pub(super) const PAUSE: Nanos = Nanos::MINUTE;
    /// So many are known at once. Of more, those that were found first are forgotten, and found out again.
    const ROWS_MAX: usize = 1_024;

    /// This one failed now, which is said when it is new.
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

    /// Until when to pass over one, if at all.
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
