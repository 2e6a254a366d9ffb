//! The thread that runs the work on due deliveries.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tracing::error;

use super::bell::Bell;
use super::file::OpenError;
use super::queue::Queue;
use super::reader::{self, Due, Unreadable};
use super::settle::Settlement;
use super::work::{Delivery, Failure, Work};
use crate::clock::{Clock, Millis};

/// Deliveries in one batch and commit, and bytes of bodies that end it.
const TAKEN_MAX: u32 = 512;
const TAKEN_BYTES: usize = 8 << 20;
/// Results are recorded after this much work. If the process dies earlier, the work is repeated.
const NOTED_AFTER: Duration = Duration::from_millis(100);
/// The longest wait between reads, because clocks may be set.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How long and how many deliveries are skipped that can neither be read nor given up.
const LEFT_ALONE_FOR: Duration = Duration::from_secs(60);
const LEFT_ALONE_MAX: usize = 1_024;
const AGAIN_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Handle {
    stop: Arc<AtomicBool>,
    bell: Bell,
    thread: JoinHandle<()>,
    works: Arc<AtomicBool>,
}

impl Handle {
    pub(super) fn works(&self) -> bool {
        self.works.load(Ordering::Relaxed) && !self.thread.is_finished()
    }

    /// Waits for its present delivery.
    pub(super) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.bell.ring();
        if self.thread.join().is_err() {
            error!("the inbox's worker panicked");
        }
    }
}

pub(super) fn start(
    sql: Connection,
    queue: Arc<Queue>,
    clock: Clock,
    (work, put_off_max): (Arc<dyn Work>, Duration),
    (bell, woken): (Bell, Receiver<()>),
) -> Result<Handle, OpenError> {
    let stop = Arc::new(AtomicBool::new(false));
    let works = Arc::new(AtomicBool::new(true));
    let worker = Worker {
        sql,
        queue,
        clock,
        work,
        put_off_max,
        stop: Arc::clone(&stop),
        works: Arc::clone(&works),
        left_alone: BTreeMap::new(),
    };
    let thread = std::thread::Builder::new().name("inbox-worker".to_owned());
    let started = thread.spawn(move || worker.run(&woken));
    let failed =
        |error: std::io::Error| OpenError::Failed { path: "thread".into(), detail: error.to_string() };
    Ok(Handle { stop, bell, thread: started.map_err(failed)?, works })
}

struct Worker {
    sql: Connection,
    queue: Arc<Queue>,
    clock: Clock,
    work: Arc<dyn Work>,
    put_off_max: Duration,
    stop: Arc<AtomicBool>,
    works: Arc<AtomicBool>,
    left_alone: BTreeMap<u64, Millis>,
}

impl Worker {
    fn run(mut self, woken: &Receiver<()>) {
        while !self.stopping() {
            let wait = self.turn().unwrap_or_else(|error| {
                self.works.store(false, Ordering::Relaxed);
                error!(%error, "cannot work on the inbox");
                AGAIN_AFTER
            });
            if !wait.is_zero() && woken.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Returns how long to wait.
    fn turn(&mut self) -> rusqlite::Result<Duration> {
        let now = self.clock.now();
        self.left_alone.retain(|_, until| now < *until);
        let mut due = self.due(now)?;
        // The work may take any time.
        self.works.store(true, Ordering::Relaxed);
        if due.is_empty() {
            let Some(next) = reader::next_due(&self.sql)? else { return Ok(LOOK_EVERY) };
            if next <= now {
                return Ok(AGAIN_AFTER);
            }
            let wait = next.since(now);
            if wait <= self.put_off_max {
                return Ok(wait.clamp(Duration::from_millis(1), LOOK_EVERY));
            }
            // The clock was ahead at the failure.
            due = self.due(next)?;
        }
        let mut unreadable = Vec::new();
        let readable = due.into_iter().filter_map(|due| match due {
            Due::Readable(delivery) => Some(delivery),
            Due::Unreadable(row) => {
                unreadable.push(row);
                None
            }
        });
        let noted = self.work_on(readable);
        unreadable.into_iter().for_each(|row| self.set_aside(row, now));
        Ok(if noted { Duration::ZERO } else { AGAIN_AFTER })
    }

    /// If recording fails, the rest stays due.
    fn work_on(&self, deliveries: impl Iterator<Item = Delivery>) -> bool {
        let mut settlements = Vec::new();
        let mut since = self.clock.now();
        for delivery in deliveries {
            if self.stopping() {
                break;
            }
            if self.clock.now().since(since) >= NOTED_AFTER {
                if !self.record_settlements(std::mem::take(&mut settlements)) {
                    return false;
                }
                since = self.clock.now();
            }
            let outcome = attempt(&*self.work, &delivery);
            settlements.push(Settlement::new(delivery, outcome));
        }
        self.record_settlements(settlements)
    }

    fn due(&self, now: Millis) -> rusqlite::Result<Vec<Due>> {
        let left_alone = u32::try_from(self.left_alone.len()).unwrap_or(u32::MAX);
        let mut due = reader::due(&self.sql, now, TAKEN_MAX.saturating_add(left_alone), TAKEN_BYTES)?;
        due.retain(|due| match due {
            Due::Readable(_) => true,
            Due::Unreadable(row) => !self.left_alone.contains_key(&row.seq),
        });
        Ok(due)
    }

    /// Uses a commit of its own, because the row may not be writable either.
    fn set_aside(&mut self, row: Unreadable, now: Millis) {
        let seq = row.seq;
        error!(seq, id = row.id, why = row.why, "a delivery cannot be read");
        if !self.record_settlements(vec![Settlement::unread(row)]) {
            if self.left_alone.len() >= LEFT_ALONE_MAX {
                self.left_alone.pop_first();
            }
            self.left_alone.insert(seq, now.after(LEFT_ALONE_FOR));
        }
    }

    /// On failure, the deliveries stay due.
    fn record_settlements(&self, settlements: Vec<Settlement>) -> bool {
        self.queue.settle(settlements).blocking_recv().unwrap_or(false)
    }
}

fn attempt(work: &dyn Work, delivery: &Delivery) -> Result<(), Failure> {
    catch_unwind(AssertUnwindSafe(|| work.run(delivery)))
        .unwrap_or_else(|_| Err(Failure("the work panicked".to_owned())))
}
