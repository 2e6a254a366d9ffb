//! The writer's queue.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::settle::Settlement;
use super::{Accepted, Arrival, Refused};

/// The most orders. Beyond it, senders must retry.
const QUEUE_MAX: usize = 1_024;
const COMMIT_MAX: usize = 512;

/// Allocators free memory faster on the thread that allocated it.
type Answer = (Arrival, Result<Accepted, Refused>);
pub(super) type Reply = oneshot::Sender<Answer>;

#[derive(Debug, Default)]
pub(super) struct Queue {
    orders: Mutex<Orders>,
    come: Condvar,
}

#[derive(Debug, Default)]
struct Orders {
    arrivals: Vec<(Arrival, Reply)>,
    /// The channel reports whether the results are on disk.
    settlements: Vec<(Vec<Settlement>, oneshot::Sender<bool>)>,
    /// The writer waits, and the queue is empty.
    is_awaited: bool,
    /// The writer ends after the present orders.
    is_closed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) arrivals: Vec<Arrival>,
    pub(super) replies: Vec<Reply>,
    pub(super) settlements: Vec<Settlement>,
    pub(super) settled: Vec<oneshot::Sender<bool>>,
}

impl Queue {
    pub(super) fn accept(&self, arrival: Arrival) -> Result<oneshot::Receiver<Answer>, Refused> {
        let mut orders = self.lock();
        if orders.is_closed {
            return Err(Refused::Closed);
        }
        if orders.len() >= QUEUE_MAX {
            return Err(Refused::Busy);
        }
        let (reply, replied) = oneshot::channel();
        orders.arrivals.push((arrival, reply));
        self.wake(orders);
        Ok(replied)
    }

    /// Answers whether the results are on disk; never if the writer has ended.
    pub(super) fn settle(&self, settlements: Vec<Settlement>) -> oneshot::Receiver<bool> {
        let (settled, is_settled) = oneshot::channel();
        let mut orders = self.lock();
        if !orders.is_closed {
            orders.settlements.push((settlements, settled));
            self.wake(orders);
        }
        is_settled
    }

    pub(super) fn close(&self) {
        let mut orders = self.lock();
        orders.is_closed = true;
        self.wake(orders);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().len() == 0
    }

    pub(super) fn abandon(&self) {
        let mut orders = self.lock();
        *orders = Orders { is_closed: true, ..Orders::default() };
    }

    /// At most one commit's worth. `None` once the queue is closed and empty.
    pub(super) fn next(&self) -> Option<Round> {
        let mut orders = self.lock();
        while orders.len() == 0 && !orders.is_closed {
            orders.is_awaited = true;
            orders = self.come.wait(orders).unwrap_or_else(PoisonError::into_inner);
        }
        orders.is_awaited = false;
        orders.take()
    }

    /// Wakes the writer after releasing the lock, which it needs next.
    fn wake(&self, mut orders: MutexGuard<'_, Orders>) {
        if std::mem::take(&mut orders.is_awaited) {
            drop(orders);
            self.come.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Orders {
    fn len(&self) -> usize {
        self.arrivals.len() + self.settlements.len()
    }

    fn take(&mut self) -> Option<Round> {
        if self.len() == 0 {
            return None;
        }
        let mut round = Round::default();
        let taken = self.arrivals.len().min(COMMIT_MAX);
        (round.arrivals, round.replies) = self.arrivals.drain(..taken).unzip();
        for (settlements, settled) in self.settlements.drain(..) {
            round.settlements.extend(settlements);
            round.settled.push(settled);
        }
        Some(round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(queue: &Queue) -> oneshot::Receiver<Answer> {
        queue.accept(Arrival::new("a", "a")).unwrap()
    }

    #[test]
    fn commands_queued_during_a_commit_share_the_next() {
        let queue = Queue::default();
        for _ in 0..3 {
            drop(accept(&queue));
            drop(queue.settle(Vec::new()));
        }
        let round = queue.next().unwrap();
        assert_eq!((round.arrivals.len(), round.settled.len()), (3, 3));
    }

    #[test]
    fn a_command_and_the_end_of_the_queue_wake_the_writer() {
        let queue = Queue::default();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| std::iter::from_fn(|| queue.next()).count());
            for _ in 0..100 {
                // The writer takes it only after a wakeup.
                let reply = accept(&queue);
                while !queue.is_empty() {
                    std::thread::yield_now();
                }
                drop(reply);
                assert!(queue.settle(Vec::new()).blocking_recv().is_err(), "nobody answers here");
            }
            queue.close();
            assert_eq!(writer.join().unwrap(), 200);
        });
    }

    #[test]
    fn commands_queued_before_the_end_are_executed() {
        let queue = Queue::default();
        drop(accept(&queue));
        queue.close();
        assert_eq!(queue.accept(Arrival::new("a", "a")).unwrap_err(), Refused::Closed);
        assert_eq!(queue.next().unwrap().arrivals.len(), 1);
        assert!(queue.next().is_none());
    }

    #[test]
    fn no_more_waits_than_there_is_room_for_and_nothing_after_the_end() {
        let queue = Queue::default();
        let waiting: Vec<_> = (0..QUEUE_MAX).map(|_| accept(&queue)).collect();
        assert_eq!(queue.accept(Arrival::new("a", "a")).unwrap_err(), Refused::Busy);
        assert_eq!(queue.next().unwrap().arrivals.len(), COMMIT_MAX);
        queue.abandon();
        assert_eq!(queue.accept(Arrival::new("a", "a")).unwrap_err(), Refused::Closed);
        assert!(queue.settle(Vec::new()).blocking_recv().is_err());
        assert!(waiting.into_iter().all(|reply| reply.blocking_recv().is_err()), "nobody waits for ever");
    }
}
