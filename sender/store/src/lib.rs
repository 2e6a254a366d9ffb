//! The store: what is owed, to whom, and what became of it, on disk.
//!
//! It is the engine's peer behind `Claim`, `Settle` and `Persist`, the emitters' behind an acknowledgement, and the
//! operators' behind every figure. It takes rows that are ready made and decides only what it alone can know: what
//! is there already, what fits, who owns what.
//!
//! ```text
//!   emitters, engine, operators ──► thread ──► Store::commit(now, [command, …]) ──► [reply, …]     one transaction
//!                                                       │
//!   consoles, other processes   ◄── Reader ◄────────────┘                         never holds up the writing
//! ```
//!
//! What holds, whatever happens:
//!
//! - A reply is true on disk. If a commit fails, nothing of it happened, and nobody was told otherwise.
//! - After every commit, in each lane and in total: accepted = delivered + dead + coalesced + waiting.
//! - A lane has one owner at a time. What somebody says under an ownership that has ended is refused, except that
//!   a delivery was delivered.
//! - A claim writes nothing. What is handed out is known to the store object that handed it out, and to no other:
//!   if the process dies, its successor finds everything waiting.
//! - Time and chance come in as arguments: `now` with each commit, ids from the caller.
//!
//! What a process knows of a store are its [`Parts`], whichever it is.
//!
//! Reading order: [`lane`], [`node`], [`homes`], [`command`], [`reply`], [`read`], [`liveness`], then [`sqlite`] and [`postgres`], which
//! [`database`] tells apart, and [`thread`], which gathers commands into commits. `tests/store/` holds what any implementation must do.

pub mod clock;
mod commit;
pub mod database;
mod durability;
mod ended;
pub mod error;
mod finding;
mod gathered;
mod held;
pub mod latency;
pub mod liveness;
pub mod log_size;
mod notices;
pub mod paging;
mod parts;
pub mod postgres;
pub mod read;
pub mod roots;
pub mod sqlite;
pub mod thread;
pub mod transfer;
mod unread;
pub mod vacuum;

pub use database::Database;
pub use durability::Durability;
pub use error::StoreError;
pub use finding::{Finding, State};
use hookproof_engine::engine;
pub use hookproof_engine::messages::{Command, Refusal, Reply, command, homes, lane, node, reply};
use hookproof_words::{excerpt, numbers, units};
pub use log_size::{DiskRoom, LogSize};
pub use parts::Parts;
pub use read::Reader;

use std::ops::AddAssign;
use std::sync::Arc;

use crate::engine::StoreTime;
use command::Claim;
use reply::Claimed;

/// The writing side of a store.
pub trait Store: Send {
    /// Carries out all commands in one transaction, in their order, and answers each, in their order, once it is
    /// durable. On an error nothing happened, and the same commands may be tried again as they are.
    ///
    /// `now` should never run backwards within a process, nor begin before the latest time that any commit had.
    ///
    /// # Errors
    ///
    /// When the store cannot be read or written; see [`StoreError::may_pass`].
    fn commit(&mut self, now: StoreTime, commands: &[Command]) -> Result<Vec<Reply>, StoreError>;

    /// Writes down what commits have put off: figures, nothing that was acknowledged. For whoever ends in order.
    ///
    /// # Errors
    ///
    /// When the store cannot be written.
    fn close(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Begins to count the time of the store. Whoever commits without having called this hands in times of its own.
    ///
    /// # Errors
    ///
    /// When the store cannot be read and written.
    fn begin_clock(&mut self, beginning: clock::Beginning<'_>) -> Result<clock::Start, StoreError> {
        Ok(clock::Start { now: beginning.wall, fault: None })
    }

    /// What this store object has written so far.
    fn written(&self) -> Written;

    /// Tells which commands lock the leases of all processes until their commit is durable, where others that write don't.
    fn locks_leases(&self) -> fn(&Command) -> bool {
        |_| false
    }

    /// How long the log of what was written is; always nothing, where there is none.
    fn log_size(&self) -> LogSize {
        LogSize::default()
    }

    /// Whether its disk is full; never, where that is not ours to know.
    fn disk_room(&self) -> DiskRoom {
        DiskRoom::default()
    }

    /// Sets room on the disk aside, so that deliveries go on when it is full. For processes that deliver.
    fn keep_reserve(&mut self) {}

    /// A way to claim beside the commits, if the store has one.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn claimer(&self) -> Result<Option<Box<dyn Claimer>>, StoreError> {
        Ok(None)
    }

    /// A way to claim without a look at the store, if the store has one.
    fn quick_claims(&self) -> Option<Arc<dyn QuickClaims>> {
        None
    }
}

/// Claims out of memory: what a [`Store`] object has just recorded for a lane that has nothing else to do before is handed out at once.
pub trait QuickClaims: Send + Sync {
    /// Hands out what a claim would be handed; nothing, if that is to be asked of the store. Waits for nobody.
    ///
    /// Whoever asks sees to the same as before a [`Claimer::claim`]. What another process did to the lane in the last moments may
    /// not be known here, so that nobody may send by this alone: a lease says whose the lane is. [`Claimed::next`] may be sooner
    /// than anything is due.
    fn claim(&self, now: StoreTime, claim: &Claim) -> Option<Claimed>;
}

/// Claims beside the commits of one [`Store`]: handing out work need not wait for the disk. What a commit under way
/// changes is not handed out until it is durable, and what was handed out here is handed out nowhere else.
pub trait Claimer: Send {
    /// Answers all these claims, or none of them: then they want a commit, which tells what is wrong with them.
    ///
    /// Whoever asks sees to it that nothing is on its way that the claims must come after: settlements of their
    /// lanes, except deliveries.
    ///
    /// # Errors
    ///
    /// When the store cannot be read; then nothing was handed out.
    fn claim(&mut self, now: StoreTime, claims: &[Claim]) -> Result<Option<Vec<Claimed>>, StoreError>;
}

/// How much was written: the price of durability, for benches and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Commits that wrote something.
    pub commits: u64,
    /// Rows inserted, changed or deleted; entries of indexes not counted.
    pub rows: u64,
    /// Deliveries recorded.
    pub recorded: u64,
    /// Deliveries settled for good.
    pub settled: u64,
    /// Deliveries given up to make room for new ones.
    pub shed: u64,
    /// Dead letters forgotten as more were kept than may be.
    pub forgotten: u64,
}

impl AddAssign for Written {
    fn add_assign(&mut self, other: Self) {
        let Self { commits, rows, recorded, settled, shed, forgotten } = other;
        self.commits += commits;
        self.rows += rows;
        self.recorded += recorded;
        self.settled += settled;
        self.shed += shed;
        self.forgotten += forgotten;
    }
}
