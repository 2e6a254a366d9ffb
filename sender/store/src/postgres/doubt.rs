//! A commit in doubt: the connection was lost before the server's answer.
//!
//! Each commit writes a token into its writer's row of `totals`, which it locks at the start. A new connection locks
//! and reads that row. By then the server has committed or rolled back, and the token tells which.
//! The same row tells whether earlier commits still exist. A restored server, or a standby that lacks the last
//! commits, has gone back. This process's state is then invalid: it would skip waiting deliveries and use lanes that
//! it does not own. So it ends.

use super::clock::server_clock;
use super::failure::failure;
use super::ledger::{Ledger, Writer};
use super::link::{Link, Purpose, Query};
use super::values::int;
use super::{CommitResult, PostgresStore, StoreError, open, sweep};
use crate::Command;
use crate::engine::{Nanos, StoreTime};
use crate::reply::Reply;

#[derive(Debug)]
pub(super) struct Doubt {
    token: i64,
    /// To recognise a retry. Stored only for a commit in doubt.
    commands: Vec<Command>,
    done: CommitResult,
}

const COUNT: &str =
    "UPDATE totals SET writer = $2, token = $3, clock = greatest(clock, $4), accepted = accepted + $5,
    delivered = delivered + $6, dead = dead + $7, coalesced = coalesced + $8, waiting = waiting + $9,
    waiting_bytes = waiting_bytes + $10, retrying = retrying + $11, dead_kept = dead_kept + $12,
    failed_attempts = failed_attempts + $13, latency_us = latency_us + $14 WHERE writer = $1";
const MARK: &str = "INSERT INTO marks VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
const UNMARK: &str = "DELETE FROM marks WHERE minute < $1";

impl Doubt {
    pub(super) const fn new(token: i64, done: CommitResult) -> Self {
        Self { token, commands: Vec::new(), done }
    }

    pub(super) fn about(self, commands: &[Command]) -> Self {
        Self { commands: commands.to_vec(), ..self }
    }

    pub(super) fn commit(
        &self,
        sql: &Link,
        next: Writer,
        now: StoreTime,
        ledger: &Ledger,
    ) -> Result<(), tokio_postgres::Error> {
        let moved = ledger.moved().unwrap_or_default();
        let latest = now.max(ledger.clock);
        let mut values: Vec<super::link::Value<'_>> = vec![&ledger.writer.0, &next.0, &self.token, &latest];
        values.extend(moved.iter().map(|count| count as super::link::Value<'_>));
        let mark = ledger.mark(now).map(|(minute, old, before)| {
            let figures = [before.delivered, before.failed_attempts, before.dead, before.latency_us].map(int);
            (int(minute), int(old), figures)
        });
        let mut asks = Vec::new();
        if let Some((minute, old, [delivered, failed, dead, latency])) = &mark {
            asks.push(Query { text: UNMARK, values: vec![old] });
            asks.push(Query { text: MARK, values: vec![minute, delivered, failed, dead, latency] });
        }
        asks.push(Query { text: COUNT, values });
        asks.push(Query { text: "COMMIT", values: Vec::new() });
        sql.query_all(&asks).map(|_| ())
    }

    pub(super) fn is_of(&self, commands: &[Command]) -> bool {
        format!("{:?}", self.commands) == format!("{commands:?}")
    }

    pub(super) fn into_done(self) -> CommitResult {
        self.done
    }
}

const FINDING_OUT: &str = "find out the result of a commit";

/// Extends all leases: processes may still trust leases that the database has lost.
const SPARE: &str = concat!("UPDATE owners SET until = greatest(until, ", server_clock!(), " + $1)");

#[derive(Debug, Default)]
pub(super) struct Commits {
    /// The token of the last commit, successful or not.
    pub(super) token: i64,
    /// The token of the last successful commit, and its time.
    pub(super) known: i64,
    at: StoreTime,
    pub(super) doubt: Option<Doubt>,
    lease: Nanos,
}

impl Commits {
    pub(super) const fn happened(&mut self, token: i64, now: StoreTime) {
        (self.known, self.at) = (token, now);
    }

    pub(super) fn record_leases(&mut self, commands: &[Command]) {
        for command in commands {
            match command {
                Command::Acquire(acquire) => self.lease = self.lease.max(acquire.lease),
                Command::Renew(renew) => self.lease = self.lease.max(renew.lease),
                _ => {}
            }
        }
    }

    /// Whether the last known commit still exists, given the token in the row. The row of an idle writer may have
    /// been deleted.
    fn is_there(&self, found: Option<i64>, now: StoreTime) -> bool {
        let forgotten = now.since(self.at) >= sweep::GONE_AFTER || self.known == 0;
        found.map_or(forgotten, |found| found == self.known)
    }
}

impl PostgresStore {
    /// Connects if necessary and resolves a commit in doubt. Returns that commit's replies if it happened and had the
    /// same commands.
    pub(super) fn settle_doubt(
        &mut self,
        now: StoreTime,
        commands: &[Command],
    ) -> Result<Option<Vec<Reply>>, StoreError> {
        if self.link.as_ref().is_some_and(|link| !link.is_closed()) && self.commits.doubt.is_none() {
            return Ok(None);
        }
        let link = match self.link.take().filter(|link| !link.is_closed()) {
            Some(link) => link,
            None => {
                let link = open::connect(&self.address, Purpose::Hot)?;
                self.connected = Some(now);
                link
            }
        };
        // If this query fails, the connection is dropped.
        let found = self.writer.find(&link).map_err(|error| failure(FINDING_OUT, &error))?;
        self.writer = found.map_or(self.writer, |(writer, _)| writer);
        let found = found.map(|(_, token)| token);
        let undone = match self.commits.doubt.take() {
            Some(doubt) if found == Some(doubt.token) => {
                self.link = Some(link);
                self.commits.happened(doubt.token, now);
                let is_of = doubt.is_of(commands);
                let replies = self.commit_caches(doubt.into_done());
                return Ok(is_of.then_some(replies));
            }
            undone => undone,
        };
        if !self.commits.is_there(found, now) {
            return Err(self.gone_back(&link, found));
        }
        self.link = Some(link);
        if undone.is_some() {
            self.undo();
        }
        Ok(None)
    }

    fn gone_back(&self, link: &Link, found: Option<i64>) -> StoreError {
        if let Err(error) = link.execute(SPARE, &[&int(self.commits.lease.0)]) {
            tracing::warn!(%error, "leases could not be extended: the database lost commits");
        }
        let (known, found) = (self.commits.known, found.map_or("none".to_owned(), |found| found.to_string()));
        let detail = format!("its last confirmed commit is number {known}, and the database has {found}");
        StoreError::WentBack { doing: FINDING_OUT, detail }
    }
}
