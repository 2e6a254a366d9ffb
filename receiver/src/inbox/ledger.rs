//! What is written, in transactions. Knows nothing of threads and queues.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use tracing::warn;

use super::file::{Durability, Watched, write_nothing_new};
use super::reader::Unreadable;
use super::work::{Delivery, Failure, RetryPolicy, Work};
use super::{Accepted, Arrival, Options, Refused};
use crate::clock::Millis;

/// How often what is old is looked for, and how much of it is deleted at a time.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
const SWEEP_ROWS_MAX: u32 = 2_000;

/// A delivery that was worked on, and how that went.
#[derive(Debug)]
pub(super) struct Settlement {
    pub(super) delivery: Delivery,
    pub(super) outcome: Result<(), Failure>,
    /// What its body takes.
    pub(super) body_bytes: u64,
    /// If it failed, it is given up, however few attempts there were.
    pub(super) is_final: bool,
}

impl Settlement {
    pub(super) fn new(delivery: Delivery, outcome: Result<(), Failure>) -> Self {
        let body_bytes = u64::try_from(delivery.body.len()).unwrap_or(u64::MAX);
        Self { delivery, outcome, body_bytes, is_final: false }
    }

    /// One that could not be read, and so was not worked on.
    pub(super) fn unread(unread: Unreadable) -> Self {
        let Unreadable { seq, id, attempts, body_bytes, why, for_good } = unread;
        let (body, received) = (Bytes::new(), Millis(0));
        let delivery = Delivery { seq, id, event: None, content_type: None, body, received, attempts };
        let outcome = Err(Failure(format!("it can't be read: {why}")));
        Self { delivery, outcome, body_bytes, is_final: for_good }
    }
}

/// The writing side of an inbox.
pub(super) struct Ledger {
    sql: Connection,
    watched: Watched,
    work: Arc<dyn Work>,
    retry: RetryPolicy,
    keep: Duration,
    waiting_max: Amount,
    /// Whether a commit of arrivals waits for the disk, and whether the next commit does.
    durability: Durability,
    syncs: bool,
    /// What waits, as of the last commit.
    waiting: Amount,
    swept: Option<Millis>,
}

/// Deliveries, and the bytes of their bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    rows: u64,
    bytes: u64,
}

impl Amount {
    fn of(body: &[u8]) -> Self {
        Self { rows: 1, bytes: u64::try_from(body.len()).unwrap_or(u64::MAX) }
    }

    const fn add(self, other: Self) -> Self {
        Self { rows: self.rows.saturating_add(other.rows), bytes: self.bytes.saturating_add(other.bytes) }
    }

    const fn take(self, other: Self) -> Self {
        Self { rows: self.rows.saturating_sub(other.rows), bytes: self.bytes.saturating_sub(other.bytes) }
    }
}

impl Ledger {
    pub(super) fn new(
        sql: Connection,
        watched: Watched,
        options: &Options,
        work: Arc<dyn Work>,
    ) -> rusqlite::Result<Self> {
        let sum = "SELECT count(*), ifnull(sum(length(body)), 0) FROM received WHERE due_ms IS NOT NULL";
        let waiting = sql.query_row(sum, [], |row| Ok(Amount { rows: row.get(0)?, bytes: row.get(1)? }))?;
        let waiting_max = Amount { rows: options.waiting_max, bytes: options.waiting_bytes_max };
        let (retry, keep) = (options.retry, options.keep);
        let durability = options.durability;
        let syncs = durability == Durability::PowerLoss;
        Ok(Self { sql, watched, work, retry, keep, waiting_max, durability, syncs, waiting, swept: None })
    }

    /// As [`Self::commit`], if the file is still there.
    pub(super) fn commit_if_there(
        &mut self,
        now: Millis,
        arrivals: &[&Arrival],
        settlements: &[Settlement],
    ) -> Result<Vec<Result<Accepted, Refused>>, String> {
        self.watched.is_there()?;
        self.commit(now, arrivals, settlements).map_err(|error| error.to_string())
    }

    /// Carries out everything in one transaction. What it answers of arrivals is true on disk. With nothing to carry out, it writes a
    /// page all the same, to see whether it can.
    fn commit(
        &mut self,
        now: Millis,
        arrivals: &[&Arrival],
        settlements: &[Settlement],
    ) -> Result<Vec<Result<Accepted, Refused>>, CommitError> {
        // What was done is worked on again if a power cut takes it.
        self.sync(!arrivals.is_empty() || settlements.is_empty())?;
        // To guard each record of the work by itself costs more than what it writes, and few fail.
        match self.try_commit(now, arrivals, settlements, Guard::Transaction) {
            Err(CommitError::Spoilt) => self.try_commit(now, arrivals, settlements, Guard::Savepoint),
            done => done,
        }
    }

    /// Says whether the next commit waits for the disk, where any does.
    fn sync(&mut self, syncs: bool) -> rusqlite::Result<()> {
        let syncs = syncs && self.durability == Durability::PowerLoss;
        if self.syncs != syncs {
            self.sql.execute_batch(if syncs {
                "PRAGMA synchronous = FULL"
            } else {
                "PRAGMA synchronous = NORMAL"
            })?;
            self.syncs = syncs;
        }
        Ok(())
    }

    fn try_commit(
        &mut self,
        now: Millis,
        arrivals: &[&Arrival],
        settlements: &[Settlement],
        guard: Guard,
    ) -> Result<Vec<Result<Accepted, Refused>>, CommitError> {
        let sweeping = self.swept.is_none_or(|swept| now < swept || now.since(swept) >= SWEEP_EVERY);
        let mut waiting = self.waiting;
        let transaction = self.sql.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut accepted = Vec::with_capacity(arrivals.len());
        for arrival in arrivals {
            accepted.push(accept(&transaction, now, arrival, &mut waiting, self.waiting_max)?);
        }
        for settlement in settlements {
            if settle(&transaction, now, settlement, (&*self.work, guard), self.retry)? {
                waiting = waiting.take(Amount { rows: 1, bytes: settlement.body_bytes });
            }
        }
        if arrivals.is_empty() && settlements.is_empty() {
            write_nothing_new(&transaction)?;
        }
        let swept_all = !sweeping || sweep(&transaction, now.before(self.keep))?;
        transaction.commit()?;
        self.waiting = waiting;
        if sweeping && swept_all {
            self.swept = Some(now);
        }
        Ok(accepted)
    }
}

/// What undoes a record of the work that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// The end of the whole transaction.
    Transaction,
    /// A savepoint of its own.
    Savepoint,
}

/// A commit that was not made.
#[derive(Debug, thiserror::Error)]
enum CommitError {
    /// The file does not take it.
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    /// A record of the work failed, which only the end of the transaction undoes.
    #[error("the work could not record something")]
    Spoilt,
}

fn accept(
    transaction: &Transaction<'_>,
    now: Millis,
    arrival: &Arrival,
    waiting: &mut Amount,
    max: Amount,
) -> rusqlite::Result<Result<Accepted, Refused>> {
    let after = waiting.add(Amount::of(&arrival.body));
    if after.rows > max.rows || after.bytes > max.bytes {
        let known = "SELECT EXISTS (SELECT 1 FROM received WHERE id = ?1)";
        let known = transaction.prepare_cached(known)?.query_row([&arrival.id], |row| row.get(0))?;
        return Ok(if known { Ok(Accepted::Known) } else { Err(Refused::Full) });
    }
    let insert = "INSERT INTO received (id, received_ms, event, content_type, body, due_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?2) ON CONFLICT (id) DO NOTHING";
    let Arrival { id, event, content_type, body, .. } = arrival;
    let rows =
        transaction.prepare_cached(insert)?.execute(params![id, now.0, event, content_type, &body[..]])?;
    if rows == 0 {
        return Ok(Ok(Accepted::Known));
    }
    *waiting = after;
    Ok(Ok(Accepted::New))
}

/// Notes how the work on a delivery went; answers whether that was the end of it.
fn settle(
    transaction: &Transaction<'_>,
    now: Millis,
    Settlement { delivery, outcome, is_final, .. }: &Settlement,
    (work, guard): (&dyn Work, Guard),
    retry: RetryPolicy,
) -> Result<bool, CommitError> {
    let outcome = match outcome {
        Ok(()) => {
            let recorded = record(transaction, now, delivery, (work, guard))?;
            if recorded.is_err() && guard == Guard::Transaction {
                return Err(CommitError::Spoilt);
            }
            recorded
        }
        Err(failure) => Err(failure.clone()),
    };
    let Err(Failure(error)) = outcome else { return Ok(true) };
    let attempts = delivery.attempts.saturating_add(1);
    let delay = retry.delay(attempts).filter(|_| !is_final);
    warn!(id = delivery.id, attempts, given_up = delay.is_none(), error, "the work on a delivery failed");
    let due = delay.map(|delay| now.after(delay).0);
    let finished = due.is_none().then_some(now.0);
    let failed = "UPDATE received SET attempts = ?2, due_ms = ?3, finished_ms = ?4, error = ?5
         WHERE seq = ?1 AND due_ms IS NOT NULL";
    transaction.prepare_cached(failed)?.execute(params![delivery.seq, attempts, due, finished, error])?;
    Ok(due.is_none())
}

/// Marks a delivery as done and counts its effect, along with whatever the work writes: all of it, or nothing. Nothing, too,
/// if it is done already: whoever did it, in spite of the lock, the work is recorded once.
fn record(
    transaction: &Transaction<'_>,
    now: Millis,
    delivery: &Delivery,
    (work, guard): (&dyn Work, Guard),
) -> rusqlite::Result<Result<(), Failure>> {
    let savepoint = |step: &str| match guard {
        Guard::Savepoint => transaction.execute_batch(step),
        Guard::Transaction => Ok(()),
    };
    savepoint("SAVEPOINT record")?;
    let done = "UPDATE received SET attempts = attempts + 1, due_ms = NULL, finished_ms = ?2, error = NULL,
         body = NULL WHERE seq = ?1 AND due_ms IS NOT NULL";
    if transaction.prepare_cached(done)?.execute(params![delivery.seq, now.0])? == 0 {
        warn!(
            id = delivery.id,
            "somebody else has done a delivery too: are there two receivers on this inbox?"
        );
        savepoint("RELEASE record")?;
        return Ok(Ok(()));
    }
    let recording = std::panic::AssertUnwindSafe(|| work.record(transaction, delivery));
    let recorded = match std::panic::catch_unwind(recording) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure(error.to_string())),
        Err(_) => Err(Failure("the work panicked".to_owned())),
    };
    if recorded.is_ok() {
        let effect = "INSERT INTO effects (id, done_ms) VALUES (?1, ?2)";
        transaction.prepare_cached(effect)?.execute(params![delivery.id, now.0])?;
    } else {
        savepoint("ROLLBACK TO record")?;
    }
    savepoint("RELEASE record")?;
    Ok(recorded)
}

/// Forgets what was finished before then; answers whether that was all of it.
fn sweep(transaction: &Transaction<'_>, before: Millis) -> rusqlite::Result<bool> {
    let received = "DELETE FROM received WHERE seq IN
         (SELECT seq FROM received WHERE finished_ms IS NOT NULL AND finished_ms < ?1 ORDER BY finished_ms LIMIT ?2)";
    let effects = "DELETE FROM effects WHERE seq IN
         (SELECT seq FROM effects WHERE done_ms < ?1 ORDER BY done_ms LIMIT ?2)";
    let mut all = true;
    for delete in [received, effects] {
        let rows = transaction.prepare_cached(delete)?.execute(params![before.0, SWEEP_ROWS_MAX])?;
        all &= rows < SWEEP_ROWS_MAX as usize;
    }
    Ok(all)
}
