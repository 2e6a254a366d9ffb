//! The requests that wait for the store's thread, bounded in number and in bytes.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Request;
use super::order::{Ahead, PendingByLane, due};
use crate::command::Fate;
use crate::engine::{Nanos, StoreTime};
use crate::{Command, DiskRoom, LogSize, StoreError, Written};

/// How long requests that no caller awaits are batched. If the process is killed in this time, delivered events may
/// be delivered again.
const COMPANY: Duration = Duration::from_millis(COMPANY_MS);
const COMPANY_MS: u64 = 3;
/// A batch of this size is committed at once.
const COMPANY_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    pub requests_max: usize,
    pub bytes_max: usize,
    /// Approximate limit. One request always goes through, whatever its rows and bytes.
    pub commit_rows_max: usize,
    pub commit_bytes_max: usize,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { requests_max: 16_384, bytes_max: 64 << 20, commit_rows_max: 8_192, commit_bytes_max: 16 << 20 }
    }
}

impl Capacity {
    /// The part of the queue that is open to new work: three quarters.
    const fn for_emitters(self) -> (usize, usize) {
        (self.requests_max / 4 * 3, self.bytes_max / 4 * 3)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the database takes no request now: {why}")]
pub struct TurnedAway {
    pub why: Why,
    pub request: Request,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    #[error("its queue is full; try again later")]
    Full,
    #[error("the disk is full: events are refused, deliveries continue; free some space")]
    DiskFull,
    #[error("it has been stopped")]
    Stopped,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Since when the store has been failing, and the error. `None` while it works.
    pub failing: Option<(StoreTime, StoreError)>,
    /// When a request last failed for good, and the error.
    pub given_up: Option<(StoreTime, StoreError)>,
    /// The first damage that this process met. It counts until the process ends.
    pub damaged: Option<StoreError>,
    pub log_bytes: u64,
    /// A reader prevents the log from being truncated.
    pub log_is_held: bool,
    /// As [`DiskRoom::reserve_left`](crate::log_size::DiskRoom::reserve_left).
    pub reserve_left: Option<u64>,
    pub requests: usize,
    pub bytes: usize,
    pub written: Written,
}

#[derive(Debug)]
pub(super) struct Queue {
    capacity: Capacity,
    /// Which commands lock the leases of other processes. Such a request gets a commit of its own.
    locks_leases: fn(&Command) -> bool,
    log: LogSize,
    room: DiskRoom,
    waiting: Mutex<Waiting>,
    changed: Condvar,
    claimed: Condvar,
}

#[derive(Debug)]
struct Entry {
    request: Request,
    urgent: bool,
    ahead: Ahead,
}

#[derive(Debug, Default)]
struct Waiting {
    requests: VecDeque<Entry>,
    claims: VecDeque<Entry>,
    pending: PendingByLane,
    urgent: usize,
    beside: bool,
    bytes: usize,
    stopped: bool,
    closed: bool,
    failing: Option<(StoreTime, StoreError)>,
    given_up: Option<(StoreTime, StoreError)>,
    damaged: Option<StoreError>,
    written: Written,
}

impl Waiting {
    fn len(&self) -> usize {
        self.requests.len() + self.claims.len()
    }

    /// Whether the writer may wait for more requests, because no caller waits.
    fn is_patient(&self) -> bool {
        let claims = !self.beside && !self.claims.is_empty();
        self.urgent == 0 && !claims && !self.stopped && self.requests.len() < COMPANY_MAX
    }

    fn for_writer(&self) -> usize {
        self.requests.len() + if self.beside { 0 } else { self.claims.len() }
    }
}

impl Queue {
    pub(super) fn new(
        capacity: Capacity,
        locks_leases: fn(&Command) -> bool,
        (log, room): (LogSize, DiskRoom),
    ) -> Self {
        let (waiting, changed, claimed) = Default::default();
        Self { capacity, locks_leases, log, room, waiting, changed, claimed }
    }

    /// A panic elsewhere cannot leave this half changed, so a poisoned lock is fine.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, request: Request, now: StoreTime) -> Result<(), TurnedAway> {
        let bytes = bytes(&request);
        let adds_work = request.adds_work();
        let (requests_max, bytes_max) = if adds_work {
            self.capacity.for_emitters()
        } else {
            (self.capacity.requests_max, self.capacity.bytes_max)
        };
        let mut waiting = self.lock();
        if waiting.stopped {
            return Err(TurnedAway { why: Why::Stopped, request });
        }
        if adds_work && self.room.reserve_left().is_some() {
            return Err(TurnedAway { why: Why::DiskFull, request });
        }
        // A request larger than the limit may pass alone; otherwise it never could.
        let full = waiting.len() >= requests_max
            || (waiting.bytes.saturating_add(bytes) > bytes_max && waiting.len() > 0);
        if full {
            return Err(TurnedAway { why: Why::Full, request });
        }
        waiting.bytes += bytes;
        if let Some(ahead) = waiting.pending.lets_pass(&request.commands, now) {
            waiting.claims.push_back(Entry { request: request.with_ahead(ahead), urgent: false, ahead });
            let somebody = if waiting.beside { &self.claimed } else { &self.changed };
            // The woken thread needs the lock.
            drop(waiting);
            somebody.notify_one();
        } else {
            waiting.pending.begin(&request.commands);
            let urgent = is_urgent(&request, now);
            waiting.urgent += usize::from(urgent);
            let is_renewal = request.commands.iter().any(|command| matches!(command, Command::Renew(_)));
            let entry = Entry { request, urgent, ahead: Ahead::FREELY };
            if is_renewal {
                // First, so that a long queue cannot delay a lease.
                waiting.requests.push_front(entry);
            } else {
                waiting.requests.push_back(entry);
            }
            // A request that no caller awaits does not wake a writer that is already batching.
            let wakes = urgent || waiting.requests.len() == 1 || waiting.requests.len() >= COMPANY_MAX;
            drop(waiting);
            if wakes {
                self.changed.notify_one();
            }
        }
        Ok(())
    }

    /// Whether and how claims may be answered at once: they must follow nothing that is pending.
    pub(super) fn lets_pass(&self, commands: &[Command], now: StoreTime) -> Option<Ahead> {
        let waiting = self.lock();
        if waiting.stopped { None } else { waiting.pending.lets_pass(commands, now) }
    }

    pub(super) fn claims_beside(&self, beside: bool) {
        self.lock().beside = beside;
        self.changed.notify_one();
    }

    pub(super) fn take_claims(&self) -> Option<(Request, Ahead)> {
        let idle = |waiting: &mut Waiting| waiting.claims.is_empty() && !waiting.stopped;
        let guard = self.claimed.wait_while(self.lock(), idle);
        let mut waiting = guard.unwrap_or_else(PoisonError::into_inner);
        let Entry { request, ahead, .. } = waiting.claims.pop_front()?;
        waiting.bytes = waiting.bytes.saturating_sub(bytes(&request));
        Some((request, ahead))
    }

    /// Puts claims that need a commit first in the next one. Returns them if the writer is gone.
    pub(super) fn give_to_writer(&self, request: Request) -> Result<(), Request> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(request);
        }
        waiting.bytes += bytes(&request);
        waiting.pending.begin(&request.commands);
        waiting.urgent += 1;
        waiting.requests.push_front(Entry { request, urgent: true, ahead: Ahead::FREELY });
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    pub(super) fn answered(&self, commands: &[Command]) {
        self.lock().pending.end(commands);
    }

    /// The next batch for a commit. `None` once stopped and empty. Claims that go ahead come first and alone, unless
    /// a claimer takes them. A request that locks leases is alone, so that leases wait only for it.
    pub(super) fn take(&self) -> Option<Vec<Request>> {
        let idle = |waiting: &mut Waiting| waiting.for_writer() == 0 && !waiting.stopped;
        let guard = self.changed.wait_while(self.lock(), idle);
        let guard = guard.unwrap_or_else(PoisonError::into_inner);
        let guard = self.changed.wait_timeout_while(guard, COMPANY, |waiting| waiting.is_patient());
        let waiting = &mut *guard.unwrap_or_else(PoisonError::into_inner).0;
        let ahead = !waiting.beside && !waiting.claims.is_empty();
        let requests = if ahead { &mut waiting.claims } else { &mut waiting.requests };
        let mut batch = Vec::new();
        let (mut rows, mut size) = (0_usize, 0_usize);
        while let Some(entry) = requests.pop_front() {
            let request_rows: usize = entry.request.commands.iter().map(Command::rows).sum();
            let request_bytes = bytes(&entry.request);
            rows = rows.saturating_add(request_rows);
            size = size.saturating_add(request_bytes);
            let fits = rows <= self.capacity.commit_rows_max && size <= self.capacity.commit_bytes_max;
            let is_alone = entry.request.commands.iter().any(self.locks_leases);
            if (!fits || is_alone) && !batch.is_empty() {
                requests.push_front(entry);
                break;
            }
            waiting.bytes = waiting.bytes.saturating_sub(request_bytes);
            waiting.urgent -= usize::from(entry.urgent);
            batch.push(entry.request);
            if is_alone {
                break;
            }
        }
        if ahead {
            batch.iter().for_each(|request: &Request| waiting.pending.begin(&request.commands));
        }
        (!batch.is_empty()).then_some(batch)
    }

    pub(super) fn pause(&self, length: Duration) {
        let guard = self.lock();
        drop(self.changed.wait_timeout_while(guard, length, |waiting| !waiting.stopped));
    }

    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
        self.claimed.notify_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    pub(super) fn close(&self) -> impl Iterator<Item = Request> {
        let mut waiting = self.lock();
        waiting.stopped = true;
        waiting.closed = true;
        waiting.bytes = 0;
        waiting.urgent = 0;
        let mut left = std::mem::take(&mut waiting.requests);
        left.append(&mut waiting.claims);
        drop(waiting);
        self.claimed.notify_all();
        left.into_iter().map(|entry| entry.request)
    }

    /// Returns whether the previous commit failed.
    pub(super) fn worked(&self, written: Written) -> bool {
        let mut waiting = self.lock();
        waiting.written = written;
        waiting.failing.take().is_some()
    }

    /// Returns whether the previous commit succeeded.
    pub(super) fn failed(&self, now: StoreTime, error: StoreError) -> bool {
        let mut waiting = self.lock();
        let since = waiting.failing.as_ref().map(|(since, _)| *since);
        waiting.failing = Some((since.unwrap_or(now), error));
        since.is_none()
    }

    pub(super) fn gave_up(&self, now: StoreTime, error: StoreError) {
        let mut waiting = self.lock();
        if waiting.damaged.is_none() && matches!(error, StoreError::Damaged { .. }) {
            waiting.damaged = Some(error.clone());
        }
        waiting.given_up = Some((now, error));
    }

    pub(super) fn health(&self) -> Health {
        let waiting = self.lock();
        Health {
            failing: waiting.failing.clone(),
            given_up: waiting.given_up.clone(),
            damaged: waiting.damaged.clone(),
            log_bytes: self.log.bytes(),
            log_is_held: self.log.is_held(),
            reserve_left: self.room.reserve_left(),
            requests: waiting.len(),
            bytes: waiting.bytes,
            written: waiting.written,
        }
    }
}

/// Whether a caller waits. None does for records of deliveries and later retries: no claim depends on them, and their
/// permits count from the outcome.
fn is_urgent(request: &Request, now: StoreTime) -> bool {
    let later = StoreTime(now.0.saturating_add(Nanos::from_millis(COMPANY_MS).0));
    let is_patient = |command: &Command| match command {
        Command::Settle(settlements) => settlements.iter().all(|settled| {
            settled.fate == Fate::Delivered || due(settled.fate).is_some_and(|due| due > later)
        }),
        _ => false,
    };
    !request.commands.iter().all(is_patient)
}

fn bytes(request: &Request) -> usize {
    request.commands.iter().map(Command::bytes).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Renew, Settlement, Sweep};
    use crate::engine::{DeliveryId, LaneId, Term};
    use crate::lane::OwnerId;

    const NOW: StoreTime = StoreTime::from_secs(1);

    fn queue() -> Queue {
        Queue::new(Capacity::default(), |_| false, Default::default())
    }

    fn push(queue: &Queue, command: Command) {
        queue.push(Request { commands: vec![command], answer: Box::new(|_| {}) }, NOW).unwrap();
    }

    fn settled(fate: Fate) -> Command {
        let (lane, term, delivery) = (LaneId(1), Term(1), DeliveryId(1));
        Command::Settle(vec![Settlement {
            lane,
            term,
            delivery,
            attempts: 1,
            fate,
            disables: None,
            attempt: None,
        }])
    }

    fn is_patient(queue: &Queue) -> bool {
        queue.lock().is_patient()
    }

    #[test]
    fn only_what_nobody_waits_for_waits_for_company() {
        let soon = Fate::Retry { due: StoreTime(NOW.0 + 3_000_000) };
        for urgent in [settled(soon), settled(Fate::Released), Command::Evict(OwnerId(1))] {
            let queue = queue();
            push(&queue, settled(Fate::Delivered));
            push(&queue, settled(Fate::Retry { due: StoreTime(NOW.0 + 3_000_001) }));
            assert!(is_patient(&queue));
            push(&queue, urgent);
            assert!(!is_patient(&queue));
            assert_eq!(queue.take().unwrap().len(), 3, "one commit does for all");
            push(&queue, settled(Fate::Delivered));
            assert!(is_patient(&queue), "what was taken hurries nobody any more");
        }
    }

    #[test]
    fn the_first_damage_stays_in_the_health() {
        let (queue, now) = (queue(), StoreTime::from_secs(1));
        let damaged = |detail: &str| StoreError::Damaged { doing: "purge", detail: detail.to_owned() };
        queue.gave_up(now, StoreError::Broken { doing: "purge", detail: String::new() });
        assert_eq!(queue.health().damaged, None);
        queue.gave_up(now, damaged("one page"));
        queue.gave_up(now, damaged("another page"));
        queue.worked(Written::default());
        assert_eq!(queue.health().damaged, Some(damaged("one page")));
    }

    #[test]
    fn company_is_not_waited_for_for_ever() {
        let queue = queue();
        push(&queue, settled(Fate::Delivered));
        assert_eq!(queue.take().unwrap().len(), 1);
        for _ in 0..COMPANY_MAX {
            push(&queue, settled(Fate::Delivered));
        }
        assert!(!is_patient(&queue), "so many are company enough");
        assert_eq!(queue.take().unwrap().len(), COMPANY_MAX);
        push(&queue, settled(Fate::Delivered));
        queue.stop();
        assert!(!is_patient(&queue), "whoever stops does not wait either");
    }

    #[test]
    fn a_lease_is_renewed_first_and_what_locks_leases_is_a_commit_of_its_own() {
        let renew = Renew { owner: OwnerId(1), lease: Nanos::from_secs(5), announce: None };
        let commits = |locks_leases| {
            let queue = Queue::new(Capacity::default(), locks_leases, Default::default());
            push(&queue, settled(Fate::Delivered));
            push(&queue, settled(Fate::Released));
            push(&queue, Command::Sweep(Sweep { max: 1 }));
            push(&queue, Command::Retire(OwnerId(1)));
            push(&queue, settled(Fate::Delivered));
            push(&queue, Command::Renew(renew.clone()));
            queue.stop();
            let batches = std::iter::from_fn(|| queue.take());
            let name = |request: &Request| request.commands[0].name();
            batches.map(|batch| batch.iter().map(name).collect()).collect::<Vec<Vec<_>>>()
        };
        let [renew, settle, sweep, retire] = ["renew a lease", "settle deliveries", "sweep", "retire a node"];
        assert_eq!(
            commits(|command| !matches!(command, Command::Settle(_))),
            [vec![renew], vec![settle, settle], vec![sweep], vec![retire], vec![settle]]
        );
        assert_eq!(commits(|_| false), [[renew, settle, settle, sweep, retire, settle]]);
    }
}
