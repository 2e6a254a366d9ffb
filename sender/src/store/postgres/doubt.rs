//! A commit of which nobody knows what came: the connection was lost while the server was at it.
//!
//! Each commit writes a token into its writer's row of `totals`. Who lost the connection reads that row, locked, over
//! another one: by then the server has either committed, or given up, and the token tells which.

use super::failure::failure;
use super::ledger::Ledger;
use super::link::{Ask, Link, Purpose};
use super::values::int;
use super::{Done, PostgresStore, StoreError};
use crate::engine::StoreTime;
use crate::store::Command;
use crate::store::reply::Reply;

/// One commit.
#[derive(Debug)]
pub(super) struct Doubt {
    token: i64,
    /// The commands, to be known again: noted only where it came to a doubt.
    commands: Vec<Command>,
    done: Done,
}

const COUNT: &str = "INSERT INTO totals AS t VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
    ON CONFLICT (writer) DO UPDATE SET token = excluded.token, clock = greatest(t.clock, excluded.clock),
    accepted = t.accepted + excluded.accepted, delivered = t.delivered + excluded.delivered,
    dead = t.dead + excluded.dead, coalesced = t.coalesced + excluded.coalesced,
    waiting = t.waiting + excluded.waiting, waiting_bytes = t.waiting_bytes + excluded.waiting_bytes,
    retrying = t.retrying + excluded.retrying, dead_kept = t.dead_kept + excluded.dead_kept,
    failed_attempts = t.failed_attempts + excluded.failed_attempts, latency_us = t.latency_us + excluded.latency_us";
const MARK: &str = "INSERT INTO marks VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
const UNMARK: &str = "DELETE FROM marks WHERE minute < $1";

impl Doubt {
    /// What is about to be committed.
    pub(super) const fn new(token: i64, done: Done) -> Self {
        Self { token, commands: Vec::new(), done }
    }

    /// The same, with the commands that it was about.
    pub(super) fn about(self, commands: &[Command]) -> Self {
        Self { commands: commands.to_vec(), ..self }
    }

    /// Counts, and commits.
    pub(super) fn commit(
        &self,
        sql: &Link,
        writer: i64,
        now: StoreTime,
        ledger: &Ledger,
    ) -> Result<(), tokio_postgres::Error> {
        let moved = ledger.moved().unwrap_or_default();
        let latest = now.max(ledger.clock);
        let mut values: Vec<super::link::Value<'_>> = vec![&writer, &self.token, &latest];
        values.extend(moved.iter().map(|count| count as super::link::Value<'_>));
        let mark = ledger.mark(now).map(|(minute, old, before)| {
            let figures = [before.delivered, before.failed_attempts, before.dead, before.latency_us].map(int);
            (int(minute), int(old), figures)
        });
        let mut asks = Vec::new();
        if let Some((minute, old, [delivered, failed, dead, latency])) = &mark {
            asks.push(Ask { text: UNMARK, values: vec![old] });
            asks.push(Ask { text: MARK, values: vec![minute, delivered, failed, dead, latency] });
        }
        asks.push(Ask { text: COUNT, values });
        asks.push(Ask { text: "COMMIT", values: Vec::new() });
        sql.query_all(&asks).map(|_| ())
    }

    /// Whether it happened after all.
    pub(super) fn happened(&self, sql: &Link, writer: i64) -> Result<bool, StoreError> {
        let doing = "find out what came of a commit";
        let row = sql.first("SELECT token FROM totals WHERE writer = $1 FOR UPDATE", &[&writer]);
        let row = row.map_err(|error| failure(doing, &error))?;
        let missing = || StoreError::Broken { doing, detail: "this writer's row is gone".to_owned() };
        let token: i64 = row.ok_or_else(missing)?.try_get(0).map_err(|error| failure(doing, &error))?;
        Ok(token == self.token)
    }

    /// Whether these were its commands.
    pub(super) fn is_of(&self, commands: &[Command]) -> bool {
        format!("{:?}", self.commands) == format!("{commands:?}")
    }

    pub(super) fn into_done(self) -> Done {
        self.done
    }
}

impl PostgresStore {
    /// Sees to it that there is a connection, and that nothing is in doubt. The replies of a commit in doubt, if these were
    /// its commands and it happened.
    pub(super) fn settle_doubt(
        &mut self,
        now: StoreTime,
        commands: &[Command],
    ) -> Result<Option<Vec<Reply>>, StoreError> {
        if self.link.as_ref().is_none_or(Link::is_closed) {
            self.link = None;
            self.link = Some(Link::open(&self.address, Purpose::Hot)?);
            self.connected_again = Some(now);
        }
        let (Some(link), Some(doubt)) = (self.link.as_ref(), self.doubt.as_ref()) else { return Ok(None) };
        let happened = doubt.happened(link, self.writer)?;
        let Some(doubt) = self.doubt.take() else { return Ok(None) };
        if !happened {
            self.undo();
            return Ok(None);
        }
        let is_of = doubt.is_of(commands);
        let replies = self.keep(doubt.into_done());
        Ok(is_of.then_some(replies))
    }
}
