//! What is done with a delivery, outside of its request.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::Transaction;

use crate::clock::Millis;

/// A delivery to be worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub(super) seq: u64,
    pub(super) table: Table,
    /// By which repeats are known.
    pub id: String,
    /// What happened, where a header said so.
    pub event: Option<String>,
    /// What the body says it is.
    pub content_type: Option<String>,
    /// The body, as it was signed.
    pub body: Bytes,
    /// When it came.
    pub received: Millis,
    /// How often it has been tried before.
    pub attempts: u32,
}

/// Where a delivery waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// Among those that have not been tried.
    Received,
    /// Among those whose work failed.
    Failed,
}

/// Work that failed, and is to be tried again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

/// The real work: what the receiver is there for. Called from a thread of the inbox, never on a request.
pub trait Work: Send + Sync + 'static {
    /// Does the work, for as long as it takes. Called again after a failure, and once more if the process died before
    /// it was noted as done: work that must not happen twice belongs in [`Self::record`], or has to recognise the id.
    ///
    /// # Errors
    /// When it has to be tried again.
    fn run(&self, delivery: &Delivery) -> Result<(), Failure> {
        let _ = delivery;
        Ok(())
    }

    /// Writes what is to be written to the inbox's own file, in the transaction that marks the delivery as done:
    /// exactly once. Keep it short, since all arrivals wait meanwhile. Tables of its own are welcome,
    /// but `received`, `effects`, and what begins with `inbox_`. What it writes counts
    /// alone: it is called again, as if it had not been before, where the transaction could not be committed, or a record
    /// in the same one failed.
    ///
    /// # Errors
    /// When it has to be tried again; nothing of it is then kept.
    fn record(&self, transaction: &Transaction<'_>, delivery: &Delivery) -> rusqlite::Result<()> {
        let _ = (transaction, delivery);
        Ok(())
    }
}

/// Does nothing but being counted among the effects.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

impl Work for Counting {}

/// When work that failed is tried again: after a first delay, which doubles up to a longest one.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// The first delay.
    pub first: Duration,
    /// The longest.
    pub longest: Duration,
    /// After so many attempts it is given up; its body stays in the file, with the last error.
    pub attempts_max: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), longest: Duration::from_secs(3_600), attempts_max: 20 }
    }
}

impl RetryPolicy {
    /// How long to wait after so many attempts have failed; nothing if that is enough.
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
