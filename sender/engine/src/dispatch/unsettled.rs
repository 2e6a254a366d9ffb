//! Settlements that the store has not confirmed, kept for retries.

use std::collections::BTreeMap;

use crate::engine::{BatchId, LaneId, Term};
use crate::messages::command::Settlement;

/// By number; the engine bounds how many there are.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    parts: BTreeMap<u64, Part>,
    /// Halved batches, with the number of their remaining parts.
    halved: BTreeMap<BatchId, usize>,
    count: u64,
}

/// A batch, or a part of a halved one.
#[derive(Debug)]
struct Part {
    batch: BatchId,
    rows: Vec<Settlement>,
    /// The first write failed.
    is_late: bool,
}

#[derive(Debug)]
pub(super) struct Done {
    pub(super) rows: Vec<Settlement>,
    /// Their batch, if no other part of it is left.
    pub(super) batch: Option<BatchId>,
    /// The first write failed.
    pub(super) is_late: bool,
}

impl Unsettled {
    /// Returns the number of the batch's settlements.
    pub(super) fn add(&mut self, batch: BatchId, rows: Vec<Settlement>) -> u64 {
        self.put(Part { batch, rows, is_late: false })
    }

    fn put(&mut self, part: Part) -> u64 {
        self.count += 1;
        self.parts.insert(self.count, part);
        self.count
    }

    /// Marks settlements as written late.
    pub(super) fn delay(&mut self, number: u64) {
        if let Some(part) = self.parts.get_mut(&number) {
            part.is_late = true;
        }
    }

    pub(super) fn rows(&self, number: u64) -> Option<&[Settlement]> {
        self.parts.get(&number).map(|part| part.rows.as_slice())
    }

    pub(super) fn concern(&self, lane: LaneId, term: Term) -> bool {
        let is_meant = |row: &Settlement| row.lane == lane && row.term == term;
        self.parts.values().any(|part| part.rows.iter().any(is_meant))
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Done> {
        let Part { batch, rows, is_late } = self.parts.remove(&number)?;
        let left = match self.halved.get_mut(&batch) {
            Some(left) => {
                *left -= 1;
                *left
            }
            None => 0,
        };
        if left == 0 {
            self.halved.remove(&batch);
        }
        Some(Done { rows, batch: (left == 0).then_some(batch), is_late })
    }

    /// Splits the settlements in two, with two new numbers. Nothing for a single settlement.
    pub(super) fn halve(&mut self, number: u64) -> Option<[u64; 2]> {
        let part = self.parts.get_mut(&number).filter(|part| part.rows.len() > 1)?;
        let second = part.rows.split_off(part.rows.len() / 2);
        let Part { batch, rows: first, .. } = self.parts.remove(&number)?;
        *self.halved.entry(batch).or_insert(1) += 1;
        Some([first, second].map(|rows| self.put(Part { batch, rows, is_late: true })))
    }
}
