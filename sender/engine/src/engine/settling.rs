//! Settlements until the store confirms them.

use std::collections::VecDeque;

use super::message::{Fate, Output, Settlement};
use super::{BatchId, LaneId, Term};

pub(super) const BATCH_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Settling {
    gathered: VecDeque<Settlement>,
    /// A gathered settlement changes its lane's queue.
    changes_queues: bool,
    /// Lanes that must hear when a settlement is durable, with its number among all ever pushed.
    awaited: VecDeque<(u64, LaneId, Term)>,
    pushed: u64,
    flushed: u64,
    /// Oldest first.
    unanswered: VecDeque<Batch>,
    /// A crash would repeat them.
    total: usize,
    batches: u64,
}

impl Settling {
    /// An `awaited` one is reported to its lane when durable.
    pub(super) fn push(&mut self, settlement: Settlement, awaited: bool) {
        if awaited {
            self.awaited.push_back((self.pushed, settlement.lane, settlement.term));
        }
        self.pushed += 1;
        self.total += usize::from(counts(&settlement));
        self.changes_queues |= settlement.fate != Fate::Delivered;
        self.gathered.push_back(settlement);
    }

    /// The store must record one before it reads due deliveries.
    pub(super) fn changes_queues(&self) -> bool {
        self.changes_queues
    }

    pub(super) fn is_empty(&self) -> bool {
        self.gathered.is_empty() && self.unanswered.is_empty()
    }

    pub(super) fn total(&self) -> usize {
        self.total
    }

    pub(super) fn is_full(&self) -> bool {
        self.gathered.len() >= BATCH_MAX
    }

    pub(super) fn flush(&mut self) -> Option<Output> {
        if self.gathered.is_empty() {
            return None;
        }
        let count = self.gathered.len().min(BATCH_MAX);
        let settlements: Vec<_> = self.gathered.drain(..count).collect();
        self.changes_queues &= !self.gathered.is_empty();
        let batch = BatchId(self.batches);
        self.batches += 1;
        self.flushed += settlements.len() as u64;
        let mut awaited = Vec::new();
        while let Some((_, lane, term)) = self.awaited.pop_front_if(|(place, ..)| *place < self.flushed) {
            awaited.push((lane, term));
        }
        let count = settlements.iter().filter(|settlement| counts(settlement)).count();
        self.unanswered.push_back(Batch { id: batch, count, awaited });
        Some(Output::Settle { batch, settlements })
    }

    /// Lanes of its awaited settlements, one entry each. An unknown or confirmed batch returns none.
    pub(super) fn answered(&mut self, batch: BatchId) -> Vec<(LaneId, Term)> {
        let place = self.unanswered.iter().position(|unanswered| unanswered.id == batch);
        let Some(batch) = place.and_then(|place| self.unanswered.remove(place)) else { return Vec::new() };
        self.total -= batch.count;
        batch.awaited
    }
}

#[derive(Debug)]
struct Batch {
    id: BatchId,
    /// The batch's part of `Settling::total`.
    count: usize,
    awaited: Vec<(LaneId, Term)>,
}

fn counts(settlement: &Settlement) -> bool {
    settlement.fate != Fate::Released
}

#[cfg(test)]
mod tests {
    use super::super::DeliveryId;
    use super::super::message::Reason;
    use super::super::time::StoreTime;
    use super::*;

    fn push(settling: &mut Settling, fate: Fate) {
        let (lane, term, delivery) = (LaneId(1), Term(1), DeliveryId(1));
        let settlement =
            Settlement { lane, term, delivery, attempts: 1, attempt: None, fate, disables: None };
        settling.push(settlement, false);
    }

    #[test]
    fn only_what_was_delivered_leaves_the_queues_as_they_are() {
        let mut settling = Settling::default();
        push(&mut settling, Fate::Delivered);
        assert!(!settling.changes_queues());
        for fate in [Fate::Retry { due: StoreTime::START }, Fate::Released, Fate::Dead(Reason::Expired)] {
            push(&mut settling, fate);
            push(&mut settling, Fate::Delivered);
            assert!(settling.changes_queues(), "{fate:?}");
            assert!(settling.flush().is_some());
            assert!(!settling.changes_queues(), "{fate:?} is on its way");
        }
    }
}
