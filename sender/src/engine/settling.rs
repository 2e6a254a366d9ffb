//! Settlements on their way to the store: gathered into batches, and counted until the store has answered.

use std::collections::VecDeque;

use super::ids::BatchId;
use super::message::{Output, Settlement};

/// The most settlements in one batch.
pub(super) const BATCH_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Settling {
    gathered: Vec<Settlement>,
    /// Batches handed out and not answered, the oldest first, and how many settlements each holds.
    unanswered: VecDeque<(BatchId, usize)>,
    /// All settlements that are gathered or unanswered.
    total: usize,
    batches: u64,
}

impl Settling {
    pub(super) fn push(&mut self, settlement: Settlement) {
        self.gathered.push(settlement);
        self.total += 1;
    }

    /// How many settlements the store has not made durable yet.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    pub(super) fn is_full(&self) -> bool {
        self.gathered.len() >= BATCH_MAX
    }

    /// What was gathered, as one batch.
    pub(super) fn flush(&mut self) -> Option<Output> {
        if self.gathered.is_empty() {
            return None;
        }
        let settlements = std::mem::take(&mut self.gathered);
        let batch = BatchId(self.batches);
        self.batches += 1;
        self.unanswered.push_back((batch, settlements.len()));
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
