//! The store in one SQLite file, in WAL mode: one connection writes, any number read, in several processes.
//!
//! The files: `open` checks the file, `clock` its time, `ledger` counts, `log` and `reserve` manage disk space; one
//! for each group of commands; `reader` reads; `doctor`, `vacuum` and `backup` serve operators.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hookproof_failed_sync::ends_the_process;
use hookproof_words::sqlite as values;
use rusqlite::{CachedStatement, Connection, TransactionBehavior};

use super::clock::{Beginning, Start};
use super::command::{Claim, Command, Reseal};
use super::commit::room::Room;
use super::commit::{Commands, Rows};
use super::lane::{Counts, Limits};
use super::reply::{Claimed, Reply};
use super::{Claimer, DiskRoom, LogSize, QuickClaims, Store, StoreError, Written};
use crate::commit::emit::Newer;
use crate::engine::{LaneId, Nanos, StoreTime};
use crate::latency::Gathered;
use crate::queue_cache::{Lane, QueueCache, lock};
use crate::seal::Seal;

mod backup;
mod beside;
mod change;
mod claim;
mod clock;
mod content;
mod dead;
mod doctor;
mod emit;
mod erase;
mod event_id;
mod failure;
mod file;
mod job;
mod latencies;
mod lease;
mod ledger;
mod liveness;
mod log;
mod open;
mod options;
mod reader;
mod reserve;
mod retry;
mod seal;
mod settle;
mod subscribe;
mod sweep;
#[cfg(test)]
mod tests;
mod token;
mod transfer;
mod vacuum;

pub(super) use backup::{backup, restore};
use content::Contents;
pub use doctor::{Checked, Missing};
pub(super) use doctor::{examine, examine_clock, log_bytes};
use failure::Doing;
pub use file::SqliteFile;
use ledger::Ledger;
use log::LogMover;
pub use options::Options;
pub use reader::SqliteReader;
use reserve::Reserve;
pub(super) use seal::begin_encryption;
pub(super) use transfer::{FileFault, Source, Target, Zeros, bytes};
pub(super) use vacuum::{empty_log, vacuum};

/// How long a closing store waits for readers before it leaves the log as it is.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct SqliteStore {
    sql: Connection,
    log: LogMover,
    reserve: Arc<Reserve>,
    watched: open::Watched,
    options: Options,
    path: PathBuf,
    seal: Seal,
    cache: Arc<Mutex<QueueCache>>,
    latencies: Gathered,
    written: Written,
    /// Whether the given times follow the machine's clock, so that later times in the file are wrong.
    follows_the_machine: bool,
    /// How far the given times may be ahead of the true time. Nothing expires or is deleted before that much later.
    expiry_grace: Nanos,
}

impl SqliteStore {
    /// Fails if the file is not a store of this version, or cannot be read and written.
    pub fn open(path: &Path, options: &Options) -> Result<Self, StoreError> {
        let reserve = Arc::new(Reserve::beside(path));
        let mut sql = reserve.lend(|| open::writer(path, options))?;
        let seal = open::unlock(&sql, path, &options.keys)?;
        let log = LogMover::start(&mut sql, open::mover(path)?, Arc::clone(&reserve))
            .map_err(|error| StoreError::Io { doing: "start to move the log", detail: error.to_string() })?;
        Ok(Self {
            sql,
            log,
            reserve,
            watched: open::Watched::new(path)?,
            options: options.clone(),
            path: path.to_owned(),
            seal,
            cache: Arc::default(),
            latencies: Gathered::default(),
            written: Written::default(),
            follows_the_machine: false,
            expiry_grace: Nanos::ZERO,
        })
    }

    fn write_latencies(&mut self) -> Result<(), StoreError> {
        self.watched.check("close the database")?;
        if self.latencies.is_empty() {
            return Ok(());
        }
        let tx = self.sql.transaction_with_behavior(TransactionBehavior::Immediate);
        let tx = tx.doing("write the latencies")?;
        let written = latencies::flush_all(&mut self.latencies, &tx).and_then(|()| tx.commit());
        self.latencies = Gathered::default();
        ends_the_process(&self.sql, written).doing("write the latencies")
    }

    /// Drops everything noted during a failed commit, which may describe rows that do not exist.
    fn undo(&mut self) {
        lock(&self.cache).roll_back();
        self.latencies.undo();
    }

    fn transact(
        &mut self,
        now: StoreTime,
        commands: &[Command],
        reads_only: bool,
    ) -> Result<(Vec<Reply>, Written), StoreError> {
        let behavior =
            if reads_only { TransactionBehavior::Deferred } else { TransactionBehavior::Immediate };
        let changes_before = self.sql.total_changes();
        let tx = self.sql.transaction_with_behavior(behavior).doing("begin a commit")?;
        // Released before the commit is written, so that claims can go on.
        let mut cache = lock(&self.cache);
        let rules = Rules {
            limits: self.options.limits,
            follows_the_machine: self.follows_the_machine,
            expiry_grace: self.expiry_grace,
            disk_full: self.reserve.room().reserve_left().is_some(),
            log_full: Some(self.log.size.bytes()).filter(|bytes| *bytes >= self.options.log_bytes_max),
        };
        let mut ledger = Ledger::begin(&tx, now).doing("begin a commit")?;
        ledger.lanes = cache.begin(now, Some(ledger.version()));
        let mut work = Work {
            sql: &tx,
            seal: &self.seal,
            now,
            ledger,
            cache: &mut cache,
            latencies: &mut self.latencies,
            room: Room::default(),
            contents: Contents::default(),
            newer: Newer::default(),
            written: Written::default(),
            hot: Hot::default(),
            rules,
        };
        let mut replies = Vec::with_capacity(commands.len());
        for command in commands {
            replies.push(work.carry_out(command).doing(command.name())?);
        }
        work.ledger.flush(work.sql, now).doing("write the figures")?;
        if !reads_only {
            latencies::flush(work.latencies, work.sql, now).doing("write the latencies")?;
        }
        let (written, ledger) = work.into_parts();
        let rows = tx.total_changes() - changes_before;
        drop(cache);
        let committed = tx.commit();
        ends_the_process(&self.sql, committed).doing("commit")?;
        self.reserve.set_waiting(ledger.totals.counts.waiting);
        lock(&self.cache).commit(Some(ledger.left()));
        Ok((replies, Written { commits: u64::from(rows > 0), rows, ..written }))
    }

    fn commit_once(&mut self, now: StoreTime, commands: &[Command]) -> Result<Vec<Reply>, StoreError> {
        let reads_only = commands.iter().all(Command::only_reads);
        let mut result = self.transact(now, commands, reads_only);
        if reads_only && matches!(result, Err(StoreError::Busy { .. })) {
            // A claim with an unreadable row has to write, and another process wrote meanwhile.
            self.undo();
            result = self.transact(now, commands, false);
        }
        match result {
            Ok((replies, written)) => {
                self.latencies.commit(now);
                self.written += written;
                Ok(replies)
            }
            Err(error) => {
                self.undo();
                Err(error)
            }
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.log.stop(&mut self.sql);
    }
}

impl Store for SqliteStore {
    fn commit(&mut self, now: StoreTime, commands: &[Command]) -> Result<Vec<Reply>, StoreError> {
        self.watched.check("begin a commit")?;
        let reserve = Arc::clone(&self.reserve);
        // A sweep comes every second, so that a full disk is seen without events too.
        let is_time = |command: &Command| command.adds_work() || matches!(command, Command::Sweep(_));
        if reserve.room().reserve_left().is_some() || commands.iter().any(is_time) {
            reserve.refresh(now);
        }
        let replies = reserve.lend(|| self.commit_once(now, commands))?;
        reserve.carried();
        Ok(replies)
    }

    fn close(&mut self) -> Result<(), StoreError> {
        let reserve = Arc::clone(&self.reserve);
        reserve.lend(|| self.write_latencies())?;
        // If others read or write, the last one to close the file truncates the log.
        self.sql.busy_timeout(CLOSE_PATIENCE).doing("close the database")?;
        reserve.lend(|| self.cut_log()).map(drop)
    }

    fn begin_clock(&mut self, beginning: Beginning<'_>) -> Result<Start, StoreError> {
        let reserve = Arc::clone(&self.reserve);
        reserve.lend(|| Self::begin_clock(self, beginning))
    }

    fn written(&self) -> Written {
        self.written
    }

    fn log_size(&self) -> LogSize {
        self.log.size.clone()
    }

    fn disk_room(&self) -> DiskRoom {
        self.reserve.room().clone()
    }

    fn maintain_reserve(&mut self) {
        self.reserve.maintain();
    }

    fn claimer(&self) -> Result<Option<Box<dyn Claimer>>, StoreError> {
        let sql = open::reader(&self.path)?;
        let watched = open::Watched::new(&self.path)?;
        Ok(Some(Box::new(beside::SqliteClaimer {
            sql,
            seal: self.seal.clone(),
            watched,
            cache: self.cache.clone(),
            contents: Contents::default(),
            expiry_grace: self.expiry_grace,
        })))
    }

    fn quick_claims(&self) -> Option<Arc<dyn QuickClaims>> {
        Some(self.cache.clone())
    }
}

struct Work<'a> {
    sql: &'a Connection,
    seal: &'a Seal,
    now: StoreTime,
    ledger: Ledger,
    cache: &'a mut QueueCache,
    latencies: &'a mut Gathered,
    room: Room,
    contents: Contents,
    newer: Newer,
    written: Written,
    hot: Hot<'a>,
    rules: Rules,
}

#[derive(Clone, Copy)]
struct Rules {
    limits: Limits,
    follows_the_machine: bool,
    expiry_grace: Nanos,
    /// Whether the remaining disk space is reserved for deliveries.
    disk_full: bool,
    /// The log's length, if it is too long for new events.
    log_full: Option<u64>,
}

#[derive(Default)]
struct Hot<'a> {
    received_before: Option<CachedStatement<'a>>,
    insert_event: Option<CachedStatement<'a>>,
    insert_delivery: Option<CachedStatement<'a>>,
    read_before: Option<CachedStatement<'a>>,
    insert_attempt: Option<CachedStatement<'a>>,
    deliver: Option<CachedStatement<'a>>,
}

fn at_hand<'p, 'a>(
    place: &'p mut Option<CachedStatement<'a>>,
    sql: &'a Connection,
    text: &str,
) -> rusqlite::Result<&'p mut CachedStatement<'a>> {
    let statement = match place.take() {
        Some(statement) => statement,
        None => sql.prepare_cached(text)?,
    };
    Ok(place.insert(statement))
}

impl Work<'_> {
    fn into_parts(self) -> (Written, Ledger) {
        (self.written, self.ledger)
    }
}

impl Rows for Work<'_> {
    type Error = rusqlite::Error;

    fn now(&self) -> StoreTime {
        self.now
    }

    fn limits(&self) -> &Limits {
        &self.rules.limits
    }

    fn totals(&self) -> &Counts {
        &self.ledger.totals.counts
    }

    fn cache(&mut self) -> &mut QueueCache {
        self.cache
    }

    fn written(&mut self) -> &mut Written {
        &mut self.written
    }

    /// The transaction has the file to itself.
    fn lock(&mut self, _: impl IntoIterator<Item = LaneId>) -> rusqlite::Result<()> {
        Ok(())
    }

    fn lane(&mut self, lane: LaneId) -> rusqlite::Result<Option<&Lane>> {
        self.ledger.lane(self.sql, lane)
    }

    fn amend(&mut self, lane: LaneId, amend: impl FnOnce(&mut Lane)) -> rusqlite::Result<()> {
        self.ledger.amend(self.sql, lane, amend)
    }

    fn count(&mut self, lane: LaneId, count: impl Fn(&mut Counts)) -> rusqlite::Result<()> {
        self.ledger.count(self.sql, lane, count)
    }

    fn arrive(&mut self, lane: LaneId, due: StoreTime) -> rusqlite::Result<()> {
        self.cache.arrive(lane, due);
        Ok(())
    }

    fn disturb(&mut self, lane: LaneId) -> rusqlite::Result<()> {
        self.cache.disturb(lane);
        Ok(())
    }
}

impl Commands for Work<'_> {
    fn read_claim(&mut self, claim: &Claim) -> rusqlite::Result<Claimed> {
        self.claim_rows(claim)
    }

    fn reseal(&mut self, reseal: &Reseal) -> rusqlite::Result<Reply> {
        self.reseal_rows(reseal)
    }
}
