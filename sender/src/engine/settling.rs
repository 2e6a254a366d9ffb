//! Settlements on their way to the store: gathered into batches, and counted until the store has answered.

use std::collections::VecDeque;

use super::ids::BatchId;
use super::message::{Fate, Output, Settlement};

/// The most settlements in one batch.
pub(super) const BATCH_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Settling {
    gathered: VecDeque<Settlement>,
    /// Batches handed out and not answered, the oldest first, and how much of the total each holds.
    unanswered: VecDeque<(BatchId, usize)>,
    /// All that are gathered or unanswered and tell of an attempt: those that a crash could make again.
    total: usize,
    batches: u64,
}

impl Settling {
    pub(super) fn push(&mut self, settlement: Settlement) {
        self.total += usize::from(counts(&settlement));
        self.gathered.push_back(settlement);
    }

    /// Whether the store has answered everything.
    pub(super) fn is_empty(&self) -> bool {
        self.gathered.is_empty() && self.unanswered.is_empty()
    }

    /// How many settlements that tell of an attempt the store has not made durable yet.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    pub(super) fn is_full(&self) -> bool {
        self.gathered.len() >= BATCH_MAX
    }

    /// What was gathered first, as one batch.
    pub(super) fn flush(&mut self) -> Option<Output> {
        if self.gathered.is_empty() {
            return None;
        }
        let count = self.gathered.len().min(BATCH_MAX);
        let settlements: Vec<_> = self.gathered.drain(..count).collect();
        let batch = BatchId(self.batches);
        self.batches += 1;
        self.unanswered
            .push_back((batch, settlements.iter().filter(|settlement| counts(settlement)).count()));
        Some(Output::Settle { batch, settlements })
    }

    /// A batch is durable. One that was answered already is none.
    pub(super) fn answered(&mut self, batch: BatchId) {
        if let Some(place) = self.unanswered.iter().position(|&(id, _)| id == batch)
            && let Some((_, count)) = self.unanswered.remove(place)
        {
            self.total -= count;
        }
    }
}

fn counts(settlement: &Settlement) -> bool {
    settlement.fate != Fate::Released
}
