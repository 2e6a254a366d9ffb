//! The durable inbox: committed first, acknowledged then, worked on after that.
//!
//! ```text
//!   requests ──► queue ──► writer (one thread, group commit) ──► SQLite ──► worker (one thread) ──► Work::run
//!            ◄── 2xx ─────────┘                     ▲                            │
//!                                                   └──── done, or try again ────┘   Work::record, in the transaction
//! ```
//!
//! - What was accepted is on disk before [`Inbox::accept`] answers; a crash loses nothing of it.
//! - An id is taken once: a repeat is told from a new delivery in the transaction that writes it. The latest ids are in memory,
//!   all others in an index; what is in memory is also in the rows that were written, so a crash loses none.
//! - [`Work::run`] happens at least once, since a process may die between the work and the note that it is done.
//!   [`Work::record`] happens exactly once, since it is part of the transaction that makes the note.
//! - Nothing grows without bound: not the queue, nor what waits, and what is finished is forgotten after a while.
//! - One process works on a file at a time; a second one is refused.
//!
//! What was not tried waits in one table, what failed in another, and what is done is there as its effect alone: each is
//! written at the end of its table, and most of them are taken from the front of theirs. So a commit changes few pages.

mod bell;
mod file;
mod ids;
mod ledger;
mod queue;
mod reader;
mod settle;
mod work;
mod worker;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

pub use file::{Durability, OpenError};
pub use reader::{Effects, Standing};
pub use work::{Counting, Delivery, Failure, RetryPolicy, Work};

use crate::clock::Clock;
use crate::layer::Authentic;
use queue::Queue;

/// Where an inbox is, and what bounds it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file, made if there is none.
    pub path: PathBuf,
    /// How long to wait for another process that works on the file, and may be just about to end.
    pub open_within: Duration,
    /// What an acknowledgement survives.
    pub durability: Durability,
    /// The most deliveries that may wait to be worked on.
    pub waiting_max: u64,
    /// The most bytes of their bodies.
    pub waiting_bytes_max: u64,
    /// For how long what is finished is remembered, and repeats of it are recognised. Longer than any sender retries.
    pub keep: Duration,
    /// When work that failed is tried again.
    pub retry: RetryPolicy,
}

impl Options {
    /// The usual bounds for a file.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            open_within: Duration::ZERO,
            durability: Durability::default(),
            waiting_max: 1_000_000,
            waiting_bytes_max: 8 << 30,
            keep: Duration::from_secs(7 * 86_400),
            retry: RetryPolicy::default(),
        }
    }
}

/// A verified request on its way into the inbox.
#[derive(Debug)]
pub struct Arrival {
    /// By which repeats are known.
    pub id: String,
    /// What happened, where a header says so.
    pub event: Option<String>,
    /// What the body says it is.
    pub content_type: Option<String>,
    /// The body, as it was signed.
    pub body: Bytes,
    /// The memory that the body takes, for as long as it is here.
    #[expect(dead_code, reason = "held, not used")]
    pub(crate) room: Option<Arc<tokio::sync::OwnedSemaphorePermit>>,
}

impl Arrival {
    /// A delivery of that id.
    #[must_use]
    pub fn new(id: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { id: id.into(), event: None, content_type: None, body: body.into(), room: None }
    }

    /// What the layer let through.
    #[must_use]
    pub fn authentic(authentic: &Authentic, body: Bytes) -> Self {
        Self { room: Some(Arc::clone(&authentic.room)), ..Self::new(authentic.id.clone(), body) }
    }
}

/// What became of an arrival. Either way it is safe, and the sender is to be told so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It is new, and will be worked on.
    New,
    /// Its id was known, and nothing was done.
    Known,
}

/// Why an arrival was not accepted. The sender is to come back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too much is on its way to the disk.
    #[error("the queue to the disk is full")]
    Busy,
    /// Too much waits to be worked on.
    #[error("the inbox is full")]
    Full,
    /// The disk does not take it.
    #[error("the inbox can't be written: {0}")]
    Disk(String),
    /// It is being closed.
    #[error("the inbox is closed")]
    Closed,
}

/// An open inbox. Copies are the same one.
#[derive(Clone, Debug)]
pub struct Inbox {
    queue: Arc<Queue>,
    path: Arc<Path>,
    threads: Arc<Mutex<Option<Threads>>>,
    /// Whether the latest commit reached the disk.
    writes: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Threads {
    worker: worker::Handle,
    writer: std::thread::JoinHandle<()>,
    /// Held for as long as we work on the file.
    _lock: file::Lock,
}

impl Inbox {
    /// Opens the file, and goes on with what waits there.
    ///
    /// # Errors
    /// When the file can't be opened, is not an inbox, or is another process's.
    pub fn open(options: Options, clock: Clock, work: Arc<dyn Work>) -> Result<Self, OpenError> {
        let lock = file::Lock::take(&options.path, options.open_within)?;
        let sql = file::writer(&options.path, options.durability)?;
        let reader = file::reader(&options.path)?;
        let watched = file::Watched::new(&options.path).map_err(OpenError::io(&options.path))?;
        let path = options.path.as_path().into();
        let queue = Arc::new(Queue::default());
        let writes = Arc::new(AtomicBool::new(true));
        let (wake, woken) = bell::bell();
        let ledger = ledger::Ledger::new(sql, watched, &options, Arc::clone(&work))
            .map_err(OpenError::sql(&options.path))?;
        let work = (work, options.retry.longest);
        let worker = worker::start(reader, Arc::clone(&queue), clock.clone(), work, (wake.clone(), woken))?;
        let writer = writer::start(ledger, Arc::clone(&queue), clock, wake, Arc::clone(&writes))?;
        let threads = Arc::new(Mutex::new(Some(Threads { worker, writer, _lock: lock })));
        Ok(Self { queue, path, threads, writes })
    }

    /// Takes an arrival, and answers once it is on disk.
    ///
    /// # Errors
    /// When it can't be kept now. Nothing of it is then on disk, unless the disk failed at the end of a commit.
    pub async fn accept(&self, arrival: Arrival) -> Result<Accepted, Refused> {
        self.queue.accept(arrival)?.await.map_or(Err(Refused::Closed), |(_, answer)| answer)
    }

    /// What was processed, and how things stand, read beside the writing.
    ///
    /// # Errors
    /// When the file can't be opened.
    pub fn effects(&self) -> Result<Effects, OpenError> {
        Effects::open(&self.path)
    }

    /// Whether it takes arrivals: it is open, and the latest commit reached the disk. If that did not, this has another
    /// one tried, so that whoever asks again hears when it works again.
    #[must_use]
    pub fn is_open(&self) -> bool {
        if self.queue.is_closed() {
            return false;
        }
        let writes = self.writes.load(Ordering::Relaxed);
        // What waits already is a try by itself, and many who ask must not fill the queue.
        if !writes && self.queue.is_empty() {
            let _nobody_waits = self.queue.settle(Vec::new());
        }
        writes
    }

    /// Whether it works on what it took: the latest look into the file found out what is due.
    #[must_use]
    pub fn works(&self) -> bool {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.as_ref().is_some_and(|threads| threads.worker.works())
    }

    /// Finishes what is under way, commits, and closes the file. Blocks until then.
    pub fn close(&self) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Threads { worker, writer, _lock }) = threads else { return };
        // The worker first: it needs the writer to note what it has done.
        worker.stop();
        self.queue.close();
        let _ = writer.join();
    }
}
