use bytes::Bytes;
use rusqlite::{Transaction, params};
use tracing::warn;

use super::reader::Unreadable;
use super::work::{Delivery, Failure, RetryPolicy, Table, Work};
use crate::clock::Millis;

#[derive(Debug)]
pub(super) struct Settlement {
    delivery: Delivery,
    outcome: Result<(), Failure>,
    pub(super) body_bytes: u64,
    /// A failure gives it up.
    pub(super) is_final: bool,
}

impl Settlement {
    pub(super) fn new(delivery: Delivery, outcome: Result<(), Failure>) -> Self {
        let body_bytes = u64::try_from(delivery.body.len()).unwrap_or(u64::MAX);
        Self { delivery, outcome, body_bytes, is_final: false }
    }

    /// Both succeeded at their first attempt, with consecutive numbers.
    fn is_followed_by(&self, other: &Self) -> bool {
        let is_done_at_once = |one: &Self| one.outcome.is_ok() && one.delivery.table == Table::Received;
        is_done_at_once(self)
            && is_done_at_once(other)
            && self.delivery.seq.checked_add(1) == Some(other.delivery.seq)
    }

    pub(super) fn unread(unread: Unreadable) -> Self {
        let Unreadable { seq, table, id, attempts, body_bytes, why, for_good } = unread;
        let (body, received) = (Bytes::new(), Millis(0));
        let delivery = Delivery { seq, table, id, event: None, content_type: None, body, received, attempts };
        let outcome = Err(Failure(format!("it cannot be read: {why}")));
        Self { delivery, outcome, body_bytes, is_final: for_good }
    }
}

/// Undoes a failed record of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// By rolling back the whole transaction.
    Transaction,
    Savepoint,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum CommitError {
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    /// A record of work failed, so the transaction must be rolled back.
    #[error("the work could not record something")]
    Spoilt,
}

pub(super) struct Notes<'a> {
    pub(super) transaction: &'a Transaction<'a>,
    pub(super) now: Millis,
    pub(super) work: &'a dyn Work,
    pub(super) guard: Guard,
    pub(super) retry: RetryPolicy,
}

impl Notes<'_> {
    /// Returns the finished deliveries.
    pub(super) fn settle_all<'s>(
        &self,
        settlements: &'s [Settlement],
    ) -> Result<Vec<&'s Settlement>, CommitError> {
        let mut ended = Vec::with_capacity(settlements.len());
        for run in settlements.chunk_by(Settlement::is_followed_by) {
            if run.len() > 1 && self.guard == Guard::Transaction {
                self.record_run(run)?;
                ended.extend(run);
                continue;
            }
            for settlement in run {
                if self.settle(settlement)? {
                    ended.push(settlement);
                }
            }
        }
        Ok(ended)
    }

    /// [`Self::record`] for consecutive deliveries, with one statement for all.
    fn record_run(&self, run: &[Settlement]) -> Result<(), CommitError> {
        let [first, .., last] = run else { return Ok(()) };
        let place = params![first.delivery.seq, last.delivery.seq, self.now.0];
        let effects = "INSERT INTO effects (id, done_ms)
             SELECT id, ?3 FROM received WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq";
        if self.transaction.prepare_cached(effects)?.execute(place)? != run.len() {
            return Err(CommitError::Spoilt);
        }
        let remove = "DELETE FROM received WHERE seq BETWEEN ?1 AND ?2";
        self.transaction.prepare_cached(remove)?.execute([first.delivery.seq, last.delivery.seq])?;
        for settlement in run {
            self.record_work(&settlement.delivery).map_err(|_| CommitError::Spoilt)?;
        }
        Ok(())
    }

    /// Returns whether the delivery is finished.
    fn settle(&self, settlement: &Settlement) -> Result<bool, CommitError> {
        let Settlement { delivery, outcome, is_final, .. } = settlement;
        let outcome = match outcome {
            Ok(()) => {
                let recorded = self.record(delivery)?;
                if recorded.is_err() && self.guard == Guard::Transaction {
                    return Err(CommitError::Spoilt);
                }
                recorded
            }
            Err(failure) => Err(failure.clone()),
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(Failure(error)) => Ok(self.put_off(delivery, &error, *is_final)?),
        }
    }

    /// Returns whether the delivery is given up.
    fn put_off(&self, delivery: &Delivery, error: &str, is_final: bool) -> rusqlite::Result<bool> {
        let attempts = delivery.attempts.saturating_add(1);
        let delay = self.retry.delay(attempts).filter(|_| !is_final);
        warn!(id = delivery.id, attempts, given_up = delay.is_none(), error, "the work on a delivery failed");
        let due = delay.map(|delay| self.now.after(delay).0);
        let finished = due.is_none().then_some(self.now.0);
        let values = params![delivery.seq, attempts, due, finished, error];
        match delivery.table {
            Table::Received => {
                let first = "INSERT INTO inbox_failed
                     SELECT seq, id, received_ms, event, content_type, body, ?2, ?3, ?4, ?5 FROM received WHERE seq = ?1";
                self.transaction.prepare_cached(first)?.execute(values)?;
                self.remove(delivery)?;
            }
            Table::Failed => {
                let again = "UPDATE inbox_failed SET attempts = ?2, due_ms = ?3, finished_ms = ?4, error = ?5
                     WHERE seq = ?1 AND due_ms IS NOT NULL";
                self.transaction.prepare_cached(again)?.execute(values)?;
            }
        }
        Ok(due.is_none())
    }

    /// Atomic. Does nothing if it is done already, even by a process that ignored the lock.
    fn record(&self, delivery: &Delivery) -> rusqlite::Result<Result<(), Failure>> {
        self.savepoint("SAVEPOINT record")?;
        if !self.remove(delivery)? {
            warn!(
                id = delivery.id,
                "another process processed this delivery too: do two receivers use this inbox?"
            );
            self.savepoint("RELEASE record")?;
            return Ok(Ok(()));
        }
        let recorded = self.record_work(delivery);
        if recorded.is_ok() {
            let effect = "INSERT INTO effects (id, done_ms) VALUES (?1, ?2)";
            self.transaction.prepare_cached(effect)?.execute(params![delivery.id, self.now.0])?;
        } else {
            self.savepoint("ROLLBACK TO record")?;
        }
        self.savepoint("RELEASE record")?;
        Ok(recorded)
    }

    fn record_work(&self, delivery: &Delivery) -> Result<(), Failure> {
        let recording = std::panic::AssertUnwindSafe(|| self.work.record(self.transaction, delivery));
        match std::panic::catch_unwind(recording) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failure(error.to_string())),
            Err(_) => Err(Failure("the work panicked".to_owned())),
        }
    }

    fn savepoint(&self, step: &str) -> rusqlite::Result<()> {
        match self.guard {
            Guard::Savepoint => self.transaction.execute_batch(step),
            Guard::Transaction => Ok(()),
        }
    }

    /// False if it is not there.
    fn remove(&self, delivery: &Delivery) -> rusqlite::Result<bool> {
        let remove = match delivery.table {
            Table::Received => "DELETE FROM received WHERE seq = ?1",
            Table::Failed => "DELETE FROM inbox_failed WHERE seq = ?1 AND due_ms IS NOT NULL",
        };
        Ok(self.transaction.prepare_cached(remove)?.execute([delivery.seq])? > 0)
    }
}
