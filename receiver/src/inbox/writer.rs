//! The thread that writes: whatever has come while a commit was under way goes into the next one, together with what those
//! are about to send who were answered by the last. One wait for the disk for all of them, where each alone would cost one.
//!
//! How work went is noted in commits between those, while whoever was answered gets the next arrivals ready. They don't wait for
//! the disk: the next arrivals' commit takes them along, and what a power cut takes is worked on again.

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
        let closing = taken.iter().any(is_close);
        let round = Round::of(&mut taken);
        if !round.replies.is_empty() {
            answered = round.replies.len();
        }
        carry_out(&mut ledger, round, clock, wake, writes);
        if closing {
            // What comes from here on is told that the inbox is closed.
            orders.close();
        }
    }
}

const fn is_close(order: &Order) -> bool {
    matches!(order, Order::Close)
}

const fn is_arrival(order: &Order) -> bool {
    matches!(order, Order::Accept { .. })
}

/// Takes what there is, or waits until there is something; and, with arrivals, for as many of them as were answered by the last
/// commit, who may all be about to come again, unless that takes too long. Takes nothing once all is over.
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
        // What was done waits for nobody: while it is noted, they come.
        let is_wanting = |arrivals: usize| 0 < arrivals && arrivals < answered;
        while is_wanting(taken.iter().filter(|order| is_arrival(order)).count())
            && taken.len() < COMMIT_MAX
            && !taken.iter().any(is_close)
        {
            if orders.recv_many(taken, COMMIT_MAX - taken.len()).await == 0 {
                return;
            }
        }
    };
    // Who has not come by then is in the next one.
    let _ = timeout(within, rest).await;
}

/// What is carried out together.
#[derive(Default)]
struct Round {
    arrivals: Vec<Arrival>,
    replies: Vec<oneshot::Sender<Result<Accepted, Refused>>>,
    settlements: Vec<Settlement>,
    settled: Vec<oneshot::Sender<bool>>,
}

impl Round {
    fn of(taken: &mut Vec<Order>) -> Self {
        let mut round = Self::default();
        for order in taken.drain(..) {
            match order {
                Order::Accept { arrival, reply } => {
                    round.arrivals.push(arrival);
                    round.replies.push(reply);
                }
                Order::Settle { settlements, reply } => {
                    round.settlements.extend(settlements);
                    round.settled.push(reply);
                }
                Order::Close => {}
            }
        }
        round
    }
}

/// Arrivals first, as their senders wait.
fn carry_out(ledger: &mut Ledger, round: Round, clock: &Clock, wake: &Bell, writes: &AtomicBool) {
    if !round.replies.is_empty() {
        let arrivals: Vec<_> = round.arrivals.iter().collect();
        let committed = commit(ledger, &arrivals, &[], clock, writes);
        let answers = committed.unwrap_or_else(|error| vec![Err(Refused::Disk(error)); round.replies.len()]);
        let is_new = answers.contains(&Ok(Accepted::New));
        // Whoever does not wait for an answer any more will ask again.
        for (reply, answer) in round.replies.into_iter().zip(answers) {
            let _ = reply.send(answer);
        }
        if is_new {
            wake.ring();
        }
    }
    if !round.settled.is_empty() {
        let is_noted = commit(ledger, &[], &round.settlements, clock, writes).is_ok();
        for reply in round.settled {
            let _ = reply.send(is_noted);
        }
    }
}

fn commit(
    ledger: &mut Ledger,
    arrivals: &[&Arrival],
    settlements: &[Settlement],
    clock: &Clock,
    writes: &AtomicBool,
) -> Result<Vec<Result<Accepted, Refused>>, String> {
    let committed = ledger.commit_if_there(clock.now(), arrivals, settlements);
    writes.store(committed.is_ok(), Ordering::Relaxed);
    committed.inspect_err(|error| error!(error, "can't write the inbox"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AN_HOUR: Duration = Duration::from_secs(3_600);

    fn settle() -> Order {
        Order::Settle { settlements: Vec::new(), reply: oneshot::channel().0 }
    }

    fn accept() -> Order {
        Order::Accept { arrival: Arrival::new("a", "a"), reply: oneshot::channel().0 }
    }

    #[tokio::test]
    async fn a_commit_takes_along_all_who_were_answered_by_the_last() {
        let (sender, mut orders) = mpsc::channel(8);
        let callers = async {
            for _ in 0..3 {
                sender.send(accept()).await.unwrap();
                sender.send(settle()).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let mut taken = Vec::new();
        tokio::join!(gather(&mut orders, &mut taken, 3, AN_HOUR), callers);
        assert_eq!(taken.iter().filter(|order| is_arrival(order)).count(), 3);
    }

    #[tokio::test]
    async fn it_waits_for_nobody_who_takes_too_long() {
        let (sender, mut orders) = mpsc::channel(8);
        let mut taken = Vec::new();
        sender.send(accept()).await.unwrap();
        gather(&mut orders, &mut taken, 3, Duration::from_millis(1)).await;
        assert_eq!(taken.len(), 1);
    }

    #[tokio::test]
    async fn who_comes_alone_waits_for_nobody_and_nor_does_what_was_done_or_the_end() {
        let (sender, mut orders) = mpsc::channel(8);
        for (order, answered) in [(accept(), 1), (settle(), 64), (Order::Close, 64)] {
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
