//! The durable inbox: commits a delivery, acknowledges it, then processes it.
//!
//! ```text
//!   requests ──► queue ──► writer (one thread, group commit) ──► SQLite ──► worker (one thread) ──► Work::run
//!            ◄── 2xx ─────────┘                     ▲                            │
//!                                                   └──── done, or try again ────┘   Work::record, in the transaction
//! ```
//!
//! - An accepted delivery is on disk before [`Inbox::accept`] answers, so a crash loses none.
//! - An id is accepted once: the transaction that stores deliveries detects repeats.
//! - [`Work::run`] happens at least once; [`Work::record`], part of the transaction that records the end, exactly
//!   once.
//! - The queue, the backlog and the memory of finished deliveries are bounded.
//! - One process uses a file at a time.
//!
//! Untried deliveries are in one table, failed ones in another, and finished ones leave only an effect. Rows are
//! mostly removed from the front, so that a commit changes few pages.

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

#[derive(Clone, Debug)]
pub struct Options {
    /// The file. Created if it does not exist.
    pub path: PathBuf,
    /// How long to wait for another process to release the file.
    pub open_within: Duration,
    /// The failures that an acknowledged delivery survives.
    pub durability: Durability,
    /// The most deliveries in the backlog.
    pub waiting_max: u64,
    /// The most bytes of their bodies.
    pub waiting_bytes_max: u64,
    /// How long to remember finished deliveries, to recognise repeats. Longer than any sender retries.
    pub keep: Duration,
    pub retry: RetryPolicy,
}

impl Options {
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

#[derive(Debug)]
pub struct Arrival {
    pub id: String,
    /// The event's type from a header, if any.
    pub event: Option<String>,
    pub content_type: Option<String>,
    pub body: Bytes,
    /// Reserves the body's memory.
    #[expect(dead_code, reason = "held, not used")]
    pub(crate) room: Option<Arc<tokio::sync::OwnedSemaphorePermit>>,
}

impl Arrival {
    #[must_use]
    pub fn new(id: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { id: id.into(), event: None, content_type: None, body: body.into(), room: None }
    }

    #[must_use]
    pub fn authentic(authentic: &Authentic, body: Bytes) -> Self {
        Self { room: Some(Arc::clone(&authentic.room)), ..Self::new(authentic.id.clone(), body) }
    }
}

/// The result of an arrival. It is safe in both cases, and the sender gets a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// New: it will be processed.
    New,
    /// Its id is known; nothing was stored.
    Known,
}

/// Why an arrival was not accepted. The sender should retry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the queue to the disk is full")]
    Busy,
    #[error("the inbox is full")]
    Full,
    #[error("the inbox cannot be written: {0}")]
    Disk(String),
    #[error("the inbox is closed")]
    Closed,
}

/// An open inbox. Clones share it.
#[derive(Clone, Debug)]
pub struct Inbox {
    queue: Arc<Queue>,
    path: Arc<Path>,
    threads: Arc<Mutex<Option<Threads>>>,
    writes: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Threads {
    worker: worker::Handle,
    writer: std::thread::JoinHandle<()>,
    _lock: file::Lock,
}

impl Inbox {
    /// Opens the file, and continues with its backlog.
    ///
    /// # Errors
    /// When the file cannot be opened, is not an inbox, or belongs to another process.
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

    /// Answers once the arrival is on disk.
    ///
    /// # Errors
    /// When it cannot be stored now. Then nothing of it is on disk, unless the disk failed at the end of a
    /// commit.
    pub async fn accept(&self, arrival: Arrival) -> Result<Accepted, Refused> {
        self.queue.accept(arrival)?.await.map_or(Err(Refused::Closed), |(_, answer)| answer)
    }

    /// Reads concurrently with the writer.
    pub fn effects(&self) -> Result<Effects, OpenError> {
        Effects::open(&self.path)
    }

    /// Whether it accepts arrivals: it is open, and the latest commit succeeded. After a failure, this starts
    /// another commit, to detect a recovery.
    #[must_use]
    pub fn is_open(&self) -> bool {
        if self.queue.is_closed() {
            return false;
        }
        let writes = self.writes.load(Ordering::Relaxed);
        // Queued orders are a test already, and calls must not fill the queue.
        if !writes && self.queue.is_empty() {
            let _nobody_waits = self.queue.settle(Vec::new());
        }
        writes
    }

    /// Whether the worker's latest read succeeded.
    #[must_use]
    pub fn works(&self) -> bool {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.as_ref().is_some_and(|threads| threads.worker.works())
    }

    /// Finishes running work, commits, and closes the file. Blocks until then.
    pub fn close(&self) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Threads { worker, writer, _lock }) = threads else { return };
        // First, because the worker needs the writer.
        worker.stop();
        self.queue.close();
        let _ = writer.join();
        match file::leave_whole(&self.path) {
            Ok(true) => {}
            Ok(false) => tracing::warn!("another program has the inbox open: its log stays beside it"),
            Err(error) => tracing::warn!(%error, "the log stays beside the inbox"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_orderly_stop_leaves_one_whole_file_and_a_copy_without_its_log_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [path, copy] = ["inbox.db", "copy.db"].map(|name| folder.path().join(name));
        let open = |path: &Path| Inbox::open(Options::new(path), Clock::wall(), Arc::new(Counting));
        for (stops, id) in ["a", "b", "c"].into_iter().enumerate() {
            let inbox = open(&path).unwrap();
            assert_eq!(inbox.accept(Arrival::new(id, "body")).await, Ok(Accepted::New));
            std::fs::copy(&path, &copy).unwrap();
            let refused = open(&copy).unwrap_err().to_string();
            assert!(refused.contains("was copied or moved while it was open, without its log"), "{refused}");
            assert_eq!(Effects::open(&copy).unwrap_err().to_string(), refused);
            inbox.close();
            assert!(!folder.path().join("inbox.db-wal").exists(), "after {stops} stops");
            std::fs::copy(&path, &copy).unwrap();
            let standing = Effects::open(&copy).unwrap().standing().unwrap();
            assert_eq!(standing.waiting + standing.processed, stops as u64 + 1);
            std::fs::remove_file(&copy).unwrap();
        }
    }
}
