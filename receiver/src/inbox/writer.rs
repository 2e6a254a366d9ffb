//! The thread that writes: whatever has come while a commit was under way goes into the next one, together with what those
//! are about to send who were answered by the last. One wait for the disk for all of them, where each alone would cost one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tracing::error;

use super::bell::Bell;
use super::file::OpenError;
use super::ledger::{Ledger, Settlement};
use super::{Accepted, Arrival, Refused};
use crate::clock::Clock;

/// The most orders in one commit.
const COMMIT_MAX: usize = 512;
/// For how long a commit waits for those who may be about to come: much shorter than most disks take for it.
const GATHERED_WITHIN: Duration = Duration::from_millis(1);

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
    let failed =
        |error: std::io::Error| OpenError::Failed { path: "thread".into(), detail: error.to_string() };
    // For its timer alone.
    let runtime = Builder::new_current_thread().enable_time().build().map_err(failed)?;
    let thread = std::thread::Builder::new().name("inbox-writer".to_owned());
    thread.spawn(move || run(&runtime, ledger, orders, (&clock, &wake, &writes))).map_err(failed)
}

fn run(
    runtime: &Runtime,
    mut ledger: Ledger,
    mut orders: mpsc::Receiver<Order>,
    (clock, wake, writes): (&Clock, &Bell, &AtomicBool),
) {
    let (mut taken, mut answered) = (Vec::with_capacity(COMMIT_MAX), 0);
    loop {
        runtime.block_on(gather(&mut orders, &mut taken, answered, GATHERED_WITHIN));
        if taken.is_empty() {
            return;
        }
        answered = taken.len();
        let closing = taken.iter().any(is_close);
        carry_out(&mut ledger, &mut taken, clock, wake, writes);
        if closing {
            // What comes from here on is told that the inbox is closed.
            orders.close();
        }
    }
}

const fn is_close(order: &Order) -> bool {
    matches!(order, Order::Close)
}

/// Takes what there is, or waits until there is something; and then for as many as were answered by the last commit, who
/// may all be about to come again, unless that takes too long. Takes nothing once all is over.
async fn gather(
    orders: &mut mpsc::Receiver<Order>,
    taken: &mut Vec<Order>,
    answered: usize,
    within: Duration,
) {
    if orders.recv_many(taken, COMMIT_MAX).await == 0 {
        return;
    }
    let rest = async {
        while taken.len() < answered && !taken.iter().any(is_close) {
            if orders.recv_many(taken, COMMIT_MAX - taken.len()).await == 0 {
                return;
            }
        }
    };
    // Who has not come by then is in the next one.
    let _ = timeout(within, rest).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    const AN_HOUR: Duration = Duration::from_secs(3_600);

    fn settle() -> Order {
        Order::Settle { settlements: Vec::new(), reply: oneshot::channel().0 }
    }

    #[tokio::test]
    async fn a_commit_takes_along_all_who_were_answered_by_the_last() {
        let (sender, mut orders) = mpsc::channel(8);
        let callers = async {
            for _ in 0..3 {
                sender.send(settle()).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let mut taken = Vec::new();
        tokio::join!(gather(&mut orders, &mut taken, 3, AN_HOUR), callers);
        assert_eq!(taken.len(), 3);
    }

    #[tokio::test]
    async fn it_waits_for_nobody_who_takes_too_long() {
        let (sender, mut orders) = mpsc::channel(8);
        let mut taken = Vec::new();
        sender.send(settle()).await.unwrap();
        gather(&mut orders, &mut taken, 3, Duration::from_millis(1)).await;
        assert_eq!(taken.len(), 1);
    }

    #[tokio::test]
    async fn who_comes_alone_waits_for_nobody_and_nor_does_the_end() {
        let (sender, mut orders) = mpsc::channel(8);
        for (order, answered) in [(settle(), 1), (Order::Close, 64)] {
            let mut taken = Vec::new();
            sender.send(order).await.unwrap();
            gather(&mut orders, &mut taken, answered, AN_HOUR).await;
            assert_eq!(taken.len(), 1);
        }
        drop(sender);
        let mut taken = Vec::new();
        gather(&mut orders, &mut taken, 64, AN_HOUR).await;
        assert!(taken.is_empty());
    }
}
