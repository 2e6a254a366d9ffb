//! The thread that works: takes what is due, runs the work, and has the writer note how it went.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use tracing::error;

use super::bell::Bell;
use super::file::OpenError;
use super::ledger::Settlement;
use super::reader;
use super::work::{Delivery, Failure, Work};
use super::writer::Order;
use crate::clock::Clock;

/// How many deliveries are taken at a time, and noted in one commit.
const TAKEN_MAX: u32 = 64;
/// The longest to wait without a look: clocks may be set.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How long to wait after the file could not be read or written.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A running worker.
#[derive(Debug)]
pub(super) struct Handle {
    stop: Arc<AtomicBool>,
    bell: Bell,
    thread: JoinHandle<()>,
}

impl Handle {
    /// Lets it finish the delivery that it works on, and waits for that.
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
    orders: mpsc::Sender<Order>,
    clock: Clock,
    (work, put_off_max): (Arc<dyn Work>, Duration),
    (bell, woken): (Bell, Receiver<()>),
) -> Result<Handle, OpenError> {
    let stop = Arc::new(AtomicBool::new(false));
    let worker = Worker { sql, orders, clock, work, put_off_max, stop: Arc::clone(&stop) };
    let thread = std::thread::Builder::new().name("inbox-worker".to_owned());
    let started = thread.spawn(move || worker.run(&woken));
    let failed =
        |error: std::io::Error| OpenError::Failed { path: "thread".into(), detail: error.to_string() };
    Ok(Handle { stop, bell, thread: started.map_err(failed)? })
}

struct Worker {
    sql: Connection,
    orders: mpsc::Sender<Order>,
    clock: Clock,
    work: Arc<dyn Work>,
    /// The longest that work which failed is put off.
    put_off_max: Duration,
    stop: Arc<AtomicBool>,
}

impl Worker {
    fn run(self, woken: &Receiver<()>) {
        while !self.stopping() {
            let wait = match self.turn() {
                Ok(wait) => wait,
                Err(error) => {
                    error!(%error, "can't work on the inbox");
                    AGAIN_AFTER
                }
            };
            if !wait.is_zero() && woken.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Works on what is due; answers how long there is nothing more to do.
    fn turn(&self) -> rusqlite::Result<Duration> {
        let now = self.clock.now();
        let mut due = reader::due(&self.sql, now, TAKEN_MAX)?;
        if due.is_empty() {
            let Some(next) = reader::next_due(&self.sql)? else { return Ok(LOOK_EVERY) };
            let wait = next.since(now);
            if wait <= self.put_off_max {
                return Ok(wait.clamp(Duration::from_millis(1), LOOK_EVERY));
            }
            // Nothing is put off for that long: the clock was far ahead when it came, and has been set back.
            due = reader::due(&self.sql, next, TAKEN_MAX)?;
        }
        let undisturbed = due.into_iter().take_while(|_| !self.stopping());
        let settlements: Vec<_> = undisturbed
            .map(|delivery| Settlement { outcome: attempt(&*self.work, &delivery), delivery })
            .collect();
        Ok(if self.note(settlements) { Duration::ZERO } else { AGAIN_AFTER })
    }

    /// Has it noted how the work went. If that fails, the same deliveries are still due.
    fn note(&self, settlements: Vec<Settlement>) -> bool {
        let (reply, replied) = oneshot::channel();
        self.orders.blocking_send(Order::Settle { settlements, reply }).is_ok()
            && replied.blocking_recv().unwrap_or(false)
    }
}

fn attempt(work: &dyn Work, delivery: &Delivery) -> Result<(), Failure> {
    catch_unwind(AssertUnwindSafe(|| work.run(delivery)))
        .unwrap_or_else(|_| Err(Failure("the work panicked".to_owned())))
}
