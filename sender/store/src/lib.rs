//! The durable store of events, deliveries and results.
//!
//! Commands contain complete rows.
//!
//! ```text
//!   emitters, engine, operators ──► thread ──► Store::commit(now, [command, …]) ──► [reply, …]     one transaction
//!                                                       │
//!   consoles, other processes   ◄── Reader ◄────────────┘                         never holds up the writing
//! ```
//!
//! Invariants:
//!
//! - A reply is true on disk. If a commit fails, nothing of it happened, and no caller was told otherwise.
//! - After every commit, in each lane and in total: accepted = delivered + dead + coalesced + waiting.
//! - A lane has one owner at a time. Commands under an old term are refused, except reports of deliveries.
//! - A claim writes nothing but a dead letter for each unreadable row.
//! - Time and randomness are arguments: `now` with each commit, ids from the caller.
//!
//! [`database`] hides [`sqlite`] and [`postgres`]; [`thread`] groups commands into commits. `tests/store/` holds the
//! contract of every implementation.

pub mod clock;
mod commit;
pub mod database;
pub mod error;
mod finding;
pub mod latency;
pub mod liveness;
pub mod log_size;
pub mod paging;
pub mod postgres;
mod queue_cache;
pub mod read;
pub mod roots;
pub mod seal;
pub mod sqlite;
pub mod thread;
pub mod transfer;
pub mod vacuum;

pub use database::Database;
pub use error::StoreError;
pub use finding::{Finding, State};
use hookproof_engine::engine;
pub use hookproof_engine::messages::{
    Command, Refusal, Reply, change, command, job, lane, node, reply, token,
};
use hookproof_words::{excerpt, units};
pub use log_size::{DiskRoom, LogSize};
pub use read::Reader;

use std::ops::AddAssign;
use std::sync::Arc;

use crate::engine::StoreTime;
use command::Claim;
use reply::Claimed;

/// The parts of a store. The writer provides claims ([`Store::claimer`], [`Store::quick_claims`]), and the reader
/// provides other processes' changes ([`read::Notices`]). [`Database`] knows the kind.
pub trait Parts {
    fn writer(&self, durability: Durability, identity: u64) -> Result<Box<dyn Store>, StoreError>;

    fn reader(&self) -> Result<Box<dyn Reader>, StoreError>;

    /// Collects a store of several files in one, after this process has closed it. Returns false if another program
    /// has it open.
    fn leave_whole(&self) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn liveness(&self) -> Arc<dyn liveness::Liveness>;
}

/// The failures that an acknowledgement survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power cut: every commit reaches the disk before it is answered.
    #[default]
    PowerLoss,
    /// The death of the process, but not of the machine.
    Process,
}

pub trait Store: Send {
    /// Carries out all commands in order in one transaction, and returns their replies in order, once durable. After
    /// an error nothing happened, and the same commands may be retried.
    ///
    /// `now` must not run backwards within a process, nor start before the latest time of any commit.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or written; see [`StoreError::may_pass`].
    fn commit(&mut self, now: StoreTime, commands: &[Command]) -> Result<Vec<Reply>, StoreError>;

    /// Writes pending latencies before an orderly end. Everything acknowledged is written already.
    fn close(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Starts to count the store's time. Without this call, `commit` uses the times that it is given.
    fn begin_clock(&mut self, beginning: clock::Beginning<'_>) -> Result<clock::Start, StoreError> {
        Ok(clock::Start { now: beginning.wall, fault: None })
    }

    fn written(&self) -> Written;

    /// Returns a test for commands that lock all processes' leases until their commit is durable.
    fn locks_leases(&self) -> fn(&Command) -> bool {
        |_| false
    }

    /// Always 0 without a write-ahead log.
    fn log_size(&self) -> LogSize {
        LogSize::default()
    }

    /// Never full on a server.
    fn disk_room(&self) -> DiskRoom {
        DiskRoom::default()
    }

    /// Reserves disk space, so that deliveries go on when the disk is full. For processes that deliver.
    fn maintain_reserve(&mut self) {}

    fn claimer(&self) -> Result<Option<Box<dyn Claimer>>, StoreError> {
        Ok(None)
    }

    fn quick_claims(&self) -> Option<Arc<dyn QuickClaims>> {
        None
    }
}

/// Claims from memory: deliveries that a [`Store`] object has just recorded for a lane that keeps up.
pub trait QuickClaims: Send + Sync {
    /// Answers a claim without waiting. `None`: the store must be asked.
    ///
    /// The caller must meet the condition of [`Claimer::claim`]. Another process may have changed the lane a moment
    /// ago, so only the lease permits sending. [`Claimed::next`] may be too early.
    fn claim(&self, now: StoreTime, claim: &Claim) -> Option<Claimed>;
}

/// Claims beside the commits of one [`Store`], without waiting for the disk. Deliveries that a commit under way
/// changes are skipped. No delivery is handed out twice.
pub trait Claimer: Send {
    /// Answers all these claims, or none. `None`: a commit must handle them.
    ///
    /// The caller must make sure that no earlier settlement of the lanes is pending, except
    /// [`command::Fate::Delivered`].
    ///
    /// # Errors
    ///
    /// If the store cannot be read. Then nothing was handed out.
    fn claim(&mut self, now: StoreTime, claims: &[Claim]) -> Result<Option<Vec<Claimed>>, StoreError>;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub commits: u64,
    /// Rows inserted, changed or deleted, without index entries.
    pub rows: u64,
    pub recorded: u64,
    pub settled: u64,
    pub shed: u64,
    /// Deliveries that full queues refused, at each offer.
    pub refused: u64,
    /// Dead letters forgotten beyond the bounds.
    pub forgotten: u64,
}

impl AddAssign for Written {
    fn add_assign(&mut self, other: Self) {
        let Self { commits, rows, recorded, settled, shed, refused, forgotten } = other;
        self.commits += commits;
        self.rows += rows;
        self.recorded += recorded;
        self.settled += settled;
        self.shed += shed;
        self.refused += refused;
        self.forgotten += forgotten;
    }
}
