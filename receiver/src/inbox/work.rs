use std::time::Duration;

use bytes::Bytes;
use rusqlite::Transaction;

use crate::clock::Millis;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub(super) seq: u64,
    pub(super) table: Table,
    pub id: String,
    /// The event's type from a header, if any.
    pub event: Option<String>,
    pub content_type: Option<String>,
    pub body: Bytes,
    pub received: Millis,
    /// Failed attempts so far.
    pub attempts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Received,
    Failed,
}

/// Work failed, and must be retried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

/// The application's work, which the inbox calls on threads of its own.
pub trait Work: Send + Sync + 'static {
    /// May take any time. Called again after a failure, and if the process died before the result was recorded. Work
    /// that must not happen twice belongs in [`Self::record`], or must recognise the id.
    fn run(&self, delivery: &Delivery) -> Result<(), Failure> {
        let _ = delivery;
        Ok(())
    }

    /// Writes to the inbox's own file, in the transaction that finishes the delivery, so exactly once. Keep it short,
    /// since all arrivals wait. It may use tables of its own, but not `received`, `effects` or names with `inbox_`.
    /// It must have no other effects: it is called again if the commit or another record in it fails.
    fn record(&self, transaction: &Transaction<'_>, delivery: &Delivery) -> rusqlite::Result<()> {
        let _ = (transaction, delivery);
        Ok(())
    }
}

/// Does nothing beyond the recorded effect.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

impl Work for Counting {}

/// A delay that doubles up to a maximum.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    pub first: Duration,
    pub longest: Duration,
    /// A delivery that is given up stays in the file with its last error.
    pub attempts_max: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), longest: Duration::from_secs(3_600), attempts_max: 20 }
    }
}

impl RetryPolicy {
    /// The delay after that many failed attempts; `None` to give up.
    #[must_use]
    pub fn delay(&self, attempts: u32) -> Option<Duration> {
        let doubled =
            self.first.saturating_mul(1_u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX));
        (attempts < self.attempts_max).then(|| doubled.min(self.longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_end() {
        let policy = RetryPolicy { attempts_max: 40, ..RetryPolicy::default() };
        let delays =
            [1, 2, 3, 12, 13, 33, 39, 40].map(|attempts| policy.delay(attempts).map(|delay| delay.as_secs()));
        assert_eq!(
            delays,
            [Some(1), Some(2), Some(4), Some(2_048), Some(3_600), Some(3_600), Some(3_600), None]
        );
    }
}
