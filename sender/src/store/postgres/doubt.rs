//! A commit of which nobody knows what came: the connection was lost while the server was at it.
//!
//! Each commit writes a token into its writer's row of `totals`, which it has had locked since it began. Who lost the connection
//! reads that row, locked, over another one: by then the server has either committed, or given up, and the token tells which.
//!
//! The same row tells, after each loss of the connection, whether what was committed before is still there. A server that was
//! restored, or is a standby that lacked the last commits, has gone back: whoever relied on what it remembers would pass over
//! what waits again, and take lanes for its own that are not. So it is told, and ends.

use super::clock::server_clock;
use super::failure::failure;
use super::ledger::Ledger;
use super::link::{Ask, Link, Purpose};
use super::values::int;
use super::writer::Writer;
use super::{Done, Noted, PostgresStore, StoreError, open, sweep};
use crate::engine::{Nanos, StoreTime};
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

const COUNT: &str =
    "UPDATE totals SET writer = $2, token = $3, clock = greatest(clock, $4), accepted = accepted + $5,
    delivered = delivered + $6, dead = dead + $7, coalesced = coalesced + $8, waiting = waiting + $9,
    waiting_bytes = waiting_bytes + $10, retrying = retrying + $11, dead_kept = dead_kept + $12,
    failed_attempts = failed_attempts + $13, latency_us = latency_us + $14 WHERE writer = $1";
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
            asks.push(Ask { text: UNMARK, values: vec![old] });
            asks.push(Ask { text: MARK, values: vec![minute, delivered, failed, dead, latency] });
        }
        asks.push(Ask { text: COUNT, values });
        asks.push(Ask { text: "COMMIT", values: Vec::new() });
        sql.query_all(&asks).map(|_| ())
    }

    /// Whether these were its commands.
    pub(super) fn is_of(&self, commands: &[Command]) -> bool {
        format!("{:?}", self.commands) == format!("{commands:?}")
    }

    pub(super) fn into_done(self) -> Done {
        self.done
    }
}

const FINDING_OUT: &str = "find out what came of a commit";

/// Leaves everybody the lanes that they have, for as long as whoever holds more than the database knows may believe so.
const SPARE: &str = concat!("UPDATE owners SET until = greatest(until, ", server_clock!(), " + $1)");

/// What a writer knows of its own commits.
#[derive(Debug, Default)]
pub(super) struct Commits {
    /// The last one's name in the writer's row, whatever came of it.
    pub(super) token: i64,
    /// The last one that is known to have happened, and when that was.
    pub(super) known: i64,
    at: StoreTime,
    /// One of which is not known what came.
    pub(super) doubt: Option<Doubt>,
    /// The longest lease that any of them asked for.
    lease: Nanos,
}

impl Commits {
    /// One has happened.
    pub(super) const fn happened(&mut self, token: i64, now: StoreTime) {
        (self.known, self.at) = (token, now);
    }

    /// Notes for how long these ask for lanes.
    pub(super) fn note_leases(&mut self, commands: &[Command]) {
        for command in commands {
            match command {
                Command::Acquire(acquire) => self.lease = self.lease.max(acquire.lease),
                Command::Renew(renew) => self.lease = self.lease.max(renew.lease),
                _ => {}
            }
        }
    }

    /// Whether the last that is known is still there, given the token in the writer's row. A row that nobody has written to for long is
    /// another's to delete.
    fn is_there(&self, found: Option<i64>, now: StoreTime) -> bool {
        let forgotten = now.since(self.at) >= sweep::GONE_AFTER || self.known == 0;
        found.map_or(forgotten, |found| found == self.known)
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
        // A connection on which this can't be told is given up.
        let found = self.writer.find(&link).map_err(|error| failure(FINDING_OUT, &error))?;
        self.writer = found.map_or(self.writer, |(writer, _)| writer);
        let found = found.map(|(_, token)| token);
        let undone = match self.commits.doubt.take() {
            Some(doubt) if found == Some(doubt.token) => {
                self.link = Some(link);
                self.commits.happened(doubt.token, now);
                let is_of = doubt.is_of(commands);
                let replies = self.keep(doubt.into_done());
                return Ok(is_of.then_some(replies));
            }
            undone => undone,
        };
        if !self.commits.is_there(found, now) {
            return Err(self.gone_back(&link, found));
        }
        self.link = Some(link);
        if undone.is_some() {
            self.undo(Noted::default());
        }
        Ok(None)
    }

    /// What the database says of this writer is not what it has done.
    fn gone_back(&self, link: &Link, found: Option<i64>) -> StoreError {
        if let Err(error) = link.execute(SPARE, &[&int(self.commits.lease.0)]) {
            tracing::warn!(%error, "leases could not be extended in a database that has gone back");
        }
        let (known, found) = (self.commits.known, found.map_or("none".to_owned(), |found| found.to_string()));
        let detail =
            format!("the last commit that it was told of is its {known}th, and the database knows {found}");
        StoreError::WentBack { doing: FINDING_OUT, detail }
    }
}
