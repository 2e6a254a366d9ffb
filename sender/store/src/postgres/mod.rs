//! The store in a PostgreSQL database, shared by several nodes.
//!
//! The parts of a commit, the properties that are exact and those that are not: `docs/internals/postgres.md`.
//!
//! - Everything of a lane changes under the lock of its row. Commits on different lanes do not wait for each other.
//! - All commits lock in one order (see `schema.sql`), so there are no deadlocks.
//! - Each writer has a row of its own in `totals`.
//! - A commit in doubt is resolved by its token before anything else.
//!
//! The files: `address` and `link` connect, `open` makes the schema. `wanted` and `ledger` lock rows;
//! `named`, `rows` and `oldest` read them. `columns` and `ledger` write. `work` runs commands, with a file for each
//! group. `reader` reads.

use std::io;
use std::sync::{Arc, Mutex};

pub use address::{Address, BadAddress};
pub(super) use doctor::{NOTHING_TO_MEND, examine, examine_clock};
use doubt::{Commits, Doubt};
use failure::{Failed, Result, Stop, Wanted};
pub(crate) use failure::{failure, message_of};
use ledger::{Ledger, Writer};
use link::Link;
use named::{Named, begin, together};
pub use open::Options;
pub use reader::PostgresReader;
use rows::Rows;
pub(super) use seal::{ALIVE, begin_encryption};

use super::clock::{Beginning, Start};
use super::command::Command;
use super::commit::room::Room;
use super::lane::{Limits, OwnerId};
use super::reply::Reply;
use super::{Claimer, Store, StoreError, Written};
use crate::Parts;
use crate::engine::{Nanos, StoreTime};
use crate::latency::Gathered;
use crate::liveness::{Life, Liveness, Presence};
use crate::queue_cache::{QueueCache, lock};
use crate::seal::Seal;
use crate::{Durability, Reader};

mod address;
mod beside;
mod change;
mod claim;
mod clock;
mod columns;
mod dead;
mod doctor;
mod doubt;
mod emit;
mod erase;
mod failure;
mod job;
mod latencies;
mod lease;
mod ledger;
mod link;
mod named;
mod oldest;
mod open;
mod reader;
mod record;
mod retry;
mod room;
mod rows;
mod seal;
mod servers;
mod settle;
mod subscribe;
mod sweep;
mod tls;
mod token;
mod values;
mod wanted;
mod work;

/// For this long after a start or a reconnection, expired leases are respected. If the server was away, no process
/// could renew, and those that reconnect still have settlements to write.
const SPARED: Nanos = Nanos::from_secs(3);

const TRIES_MAX: u32 = 100;

const BEGINNING: &str = "begin a commit";

#[derive(Debug)]
pub struct PostgresStore {
    address: Address,
    seal: Seal,
    /// `None` while the connection is lost.
    link: Option<Link>,
    writer: Writer,
    commits: Commits,
    limits: Limits,
    cache: Arc<Mutex<QueueCache>>,
    gathered: Gathered,
    written: Written,
    connected: Option<StoreTime>,
    /// Whether the server's clock measures leases, instead of the given times.
    by_server_clock: bool,
}

#[derive(Clone, Debug)]
struct CommitResult {
    replies: Vec<Reply>,
    written: Written,
    now: StoreTime,
}

impl PostgresStore {
    /// Fails if the database has no tables of Hookproof or another version, or cannot be reached.
    pub fn open(address: &Address, options: &Options) -> std::result::Result<Self, StoreError> {
        let link = open::writer(address, options)?;
        let seal = seal::unlock(&link, address)?;
        let writer = Writer::new(&link)?;
        Ok(Self {
            address: address.clone(),
            seal,
            link: Some(link),
            writer,
            commits: Commits::default(),
            limits: options.limits,
            cache: Arc::default(),
            gathered: Gathered::default(),
            written: Written::default(),
            connected: None,
            by_server_clock: false,
        })
    }

    /// Drops everything noted during a failed commit, which may describe rows that do not exist.
    fn undo(&mut self) {
        lock(&self.cache).roll_back();
        self.gathered.undo();
    }

    fn commit_caches(&mut self, done: CommitResult) -> Vec<Reply> {
        lock(&self.cache).commit(None);
        self.gathered.commit(done.now);
        self.written += done.written;
        done.replies
    }

    /// Runs one transaction, and repeats it with more locks if it needs them.
    fn transact(
        &mut self,
        now: StoreTime,
        commands: &[Command],
    ) -> std::result::Result<CommitResult, StoreError> {
        let mut wanted = Wanted::by(commands);
        for _ in 0..TRIES_MAX {
            match self.attempt(now, commands, &wanted) {
                Ok(done) => return Ok(done),
                // The outcome is unknown, so the noted state stays until another connection tells it.
                Err(Failed { stop: Stop::Database(error), doing }) if self.commits.doubt.is_some() => {
                    return Err(StoreError::Lost { doing, detail: failure::message_of(&error) });
                }
                Err(Failed { stop, doing }) => {
                    self.undo();
                    let link = self.link.as_ref().filter(|link| !link.is_closed());
                    let rolled_back = link.map(|link| link.batch("ROLLBACK"));
                    match stop {
                        Stop::Unlocked(more) if matches!(rolled_back, Some(Ok(()))) => wanted.add(more),
                        Stop::Unlocked(_) => return Err(self.lost(doing)),
                        Stop::Broken(detail) => {
                            return Err(StoreError::Broken { doing, detail: detail.to_owned() });
                        }
                        Stop::Database(error) => return Err(failure(doing, &error)),
                    }
                }
            }
        }
        let detail = "it needs more lanes at each attempt".to_owned();
        Err(StoreError::Busy { doing: "commit", detail })
    }

    fn lost(&self, doing: &'static str) -> StoreError {
        StoreError::Lost { doing, detail: format!("the connection to {} is lost", self.address) }
    }

    fn attempt(
        &mut self,
        now: StoreTime,
        commands: &[Command],
        wanted: &Wanted,
    ) -> std::result::Result<CommitResult, Failed> {
        let Some(sql) = self.link.as_ref() else {
            return Err(Failed { stop: Stop::Broken("there is no connection"), doing: "commit" });
        };
        if wanted.writer {
            let made = self.writer.make_anew(sql, self.commits.known);
            made.map_err(|error| Stop::from(error).doing(BEGINNING))?;
        }
        let begun = sql.changes();
        let first = commands.chunk_by(together).next().unwrap_or_default();
        let named = Named::by(first, now, &lock(&self.cache));
        let (mut ledger, mut rows, named) = begin(sql, now, (commands, named), (wanted, self.writer))
            .map_err(|stop| stop.doing(BEGINNING))?;
        if self.by_server_clock {
            ledger.count_by_server();
        }
        if self.spares(now) {
            ledger.spare();
        }
        // Released before the commit is written, so that claims can go on.
        let mut cache = lock(&self.cache);
        cache.begin(now, None);
        cache.expiry_grace = ledger.grace(now);
        self.commits.record_leases(commands);
        ledger.compare(&mut cache);
        named.recall(sql, &mut cache, &mut rows).map_err(|stop| stop.doing(BEGINNING))?;
        let mut work = Work {
            sql,
            seal: &self.seal,
            now,
            run: &[],
            limits: &self.limits,
            ledger,
            cache: &mut cache,
            gathered: &mut self.gathered,
            room: Room::default(),
            rows,
            bodies: claim::Bodies::new(&self.seal),
            written: Written::default(),
        };
        let mut replies = Vec::with_capacity(commands.len());
        for (place, run) in commands.chunk_by(together).enumerate() {
            work.carry_out_run(run, place == 0, &mut replies)?;
        }
        let rest = Closing { ledger: work.ledger, rows: work.rows, written: work.written };
        drop(cache);
        self.finish(now, begun, rest, commands, replies)
    }

    fn finish(
        &mut self,
        now: StoreTime,
        begun: u64,
        closing: Closing,
        commands: &[Command],
        mut replies: Vec<Reply>,
    ) -> std::result::Result<CommitResult, Failed> {
        let Some(sql) = self.link.as_ref() else {
            return Err(Failed { stop: Stop::Broken("there is no connection"), doing: "commit" });
        };
        let Closing { mut ledger, mut rows, written: counted } = closing;
        columns::flush(sql, &mut ledger, &mut rows).map_err(|stop| stop.doing("write a commit"))?;
        if !commands.iter().all(Command::only_reads) {
            latencies::flush(sql, self.gathered.due(now))
                .map_err(|stop| stop.doing("write the latencies"))?;
        }
        replies.iter_mut().for_each(|reply| rows.number(reply));
        let written = sql.changes() - begun;
        let done = CommitResult {
            replies,
            written: Written { commits: u64::from(written > 0), rows: written, ..counted },
            now,
        };
        if written == 0 && ledger.moved().is_none() {
            sql.batch("COMMIT").map_err(|error| Stop::from(error).doing("commit"))?;
            return Ok(done);
        }
        self.commits.token += 1;
        let token = self.commits.token;
        let doubt = Doubt::new(token, done);
        let next = self.writer.after(token);
        let committed = doubt.commit(sql, next, now, &ledger);
        match committed {
            Ok(()) => {
                self.writer = next;
                self.commits.happened(token, now);
                Ok(doubt.into_done())
            }
            // The server refused: nothing happened.
            Err(error) if failure::is_refused(&error) => Err(Stop::from(error).doing("commit")),
            Err(error) => {
                self.commits.doubt = Some(doubt.about(commands));
                Err(Stop::from(error).doing("commit"))
            }
        }
    }
}

struct Closing {
    ledger: Ledger,
    rows: Rows,
    written: Written,
}

impl Store for PostgresStore {
    fn commit(
        &mut self,
        now: StoreTime,
        commands: &[Command],
    ) -> std::result::Result<Vec<Reply>, StoreError> {
        if let Some(replies) = self.settle_doubt(now, commands)? {
            return Ok(replies);
        }
        match self.transact(now, commands) {
            Ok(done) => {
                self.forget_owners_after(now, commands);
                Ok(self.commit_caches(done))
            }
            Err(error) => {
                if matches!(error, StoreError::Lost { .. }) {
                    self.link = None;
                }
                Err(error)
            }
        }
    }

    fn close(&mut self) -> std::result::Result<(), StoreError> {
        Self::close(self)
    }

    fn begin_clock(&mut self, beginning: Beginning<'_>) -> std::result::Result<Start, StoreError> {
        Self::begin_clock(self, beginning)
    }

    fn written(&self) -> Written {
        self.written
    }

    fn locks_leases(&self) -> fn(&Command) -> bool {
        wanted::locks_leases
    }

    fn claimer(&self) -> std::result::Result<Option<Box<dyn Claimer>>, StoreError> {
        Ok(Some(Box::new(beside::PostgresClaimer::new(&self.address, self.seal.clone(), self.cache.clone()))))
    }
}

struct Work<'a> {
    sql: &'a Link,
    seal: &'a Seal,
    now: StoreTime,
    run: &'a [Command],
    limits: &'a Limits,
    ledger: Ledger,
    cache: &'a mut QueueCache,
    gathered: &'a mut Gathered,
    room: Room,
    rows: Rows,
    bodies: claim::Bodies<'a>,
    written: Written,
}

impl PostgresStore {
    /// Writes the pending latencies, and retires this writer's row if it has counted little.
    fn close(&mut self) -> std::result::Result<(), StoreError> {
        let doing = "write the latencies";
        let mut gathered = std::mem::take(&mut self.gathered);
        let sql = self.link.as_ref().ok_or_else(|| self.lost(doing))?;
        let retired = if self.writer.is_new() { vec![self.writer.0] } else { Vec::new() };
        // In sequence, because sweeps lock these rows in the opposite order.
        sql.batch("BEGIN")
            .and_then(|()| latencies::flush_all(sql, &mut gathered))
            .and_then(|()| sql.batch("COMMIT"))
            .and_then(|()| sql.execute(sweep::RETIRE, &[&retired, &i64::MAX]))
            .map_or_else(|error| Err(failure(doing, &error)), |_| Ok(()))
    }
}

impl Parts for Address {
    /// Ignores the durability: the server's own settings decide it.
    fn writer(&self, _: Durability, identity: u64) -> std::result::Result<Box<dyn Store>, StoreError> {
        let options = Options { create: true, identity, ..Options::default() };
        Ok(Box::new(PostgresStore::open(self, &options)?))
    }

    fn reader(&self) -> std::result::Result<Box<dyn Reader>, StoreError> {
        Ok(Box::new(PostgresReader::open(self)?))
    }

    fn liveness(&self) -> Arc<dyn Liveness> {
        Arc::new(LeasesAlone)
    }
}

#[derive(Clone, Copy, Debug)]
struct LeasesAlone;

impl Liveness for LeasesAlone {
    fn sees_deaths(&self) -> bool {
        false
    }

    fn announce(&self, _: OwnerId) -> io::Result<Box<dyn Presence>> {
        Ok(Box::new(LeasesAlone))
    }

    fn life_of(&self, _: OwnerId) -> Life {
        Life::Unknown
    }

    fn others_may_live(&self, _: Option<OwnerId>) -> bool {
        true
    }

    fn dead(&self) -> Vec<OwnerId> {
        Vec::new()
    }

    fn forget(&self, _: OwnerId) {}
}

impl Presence for LeasesAlone {
    fn end(self: Box<Self>, _: bool) {}
}
