//! The thread that writes: whatever has come while a commit was under way goes into the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};
use tracing::error;

use super::bell::Bell;
use super::file::OpenError;
use super::ledger::{Ledger, Settlement};
use super::{Accepted, Arrival, Refused};
use crate::clock::Clock;

/// The most orders in one commit.
const COMMIT_MAX: usize = 512;

/// What the writer is asked to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Keep this.
    Accept { arrival: Arrival, reply: oneshot::Sender<Result<Accepted, Refused>> },
    /// Note how the work went. Answers whether that is on disk.
    Settle { settlements: Vec<Settlement>, reply: oneshot::Sender<bool> },
    /// End, after everything before this.
    Close,
}

pub(super) fn start(
    ledger: Ledger,
    orders: mpsc::Receiver<Order>,
    clock: Clock,
    wake: Bell,
    writes: Arc<AtomicBool>,
) -> Result<JoinHandle<()>, OpenError> {
    let thread = std::thread::Builder::new().name("inbox-writer".to_owned());
    let started = thread.spawn(move || run(ledger, orders, &clock, &wake, &writes));
    started.map_err(|error| OpenError::Failed { path: "thread".into(), detail: error.to_string() })
}

fn run(
    mut ledger: Ledger,
    mut orders: mpsc::Receiver<Order>,
    clock: &Clock,
    wake: &Bell,
    writes: &AtomicBool,
) {
    let mut taken = Vec::with_capacity(COMMIT_MAX);
    while orders.blocking_recv_many(&mut taken, COMMIT_MAX) > 0 {
        let closing = taken.iter().any(|order| matches!(order, Order::Close));
        carry_out(&mut ledger, &mut taken, clock, wake, writes);
        if closing {
            // What comes from here on is told that the inbox is closed.
            orders.close();
        }
    }
}

fn carry_out(ledger: &mut Ledger, taken: &mut Vec<Order>, clock: &Clock, wake: &Bell, writes: &AtomicBool) {
    let (mut arrivals, mut replies) = (Vec::new(), Vec::new());
    let (mut settlements, mut settled) = (Vec::new(), Vec::new());
    for order in taken.drain(..) {
        match order {
            Order::Accept { arrival, reply } => {
                arrivals.push(arrival);
                replies.push(reply);
            }
            Order::Settle { settlements: some, reply } => {
                settlements.extend(some);
                settled.push(reply);
            }
            Order::Close => {}
        }
    }
    if replies.is_empty() && settled.is_empty() {
        return;
    }
    let committed = ledger.commit_if_there(clock.now(), &arrivals.iter().collect::<Vec<_>>(), &settlements);
    let durable = committed.is_ok();
    writes.store(durable, Ordering::Relaxed);
    let answers = committed.unwrap_or_else(|error| {
        error!(error, "can't write the inbox");
        vec![Err(Refused::Disk(error)); replies.len()]
    });
    if answers.contains(&Ok(Accepted::New)) {
        wake.ring();
    }
    // Whoever does not wait for an answer any more will ask again.
    for (reply, answer) in replies.into_iter().zip(answers) {
        let _ = reply.send(answer);
    }
    for reply in settled {
        let _ = reply.send(durable);
    }
}
