//! Settlements that the store has not answered: kept, so that those which it could not write down are tried again.

use std::collections::BTreeMap;

use crate::engine::{BatchId, LaneId, Term};
use crate::messages::command::Settlement;

/// Settlements by number. The engine bounds how many there are.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    parts: BTreeMap<u64, Part>,
    /// Batches that were halved: how many parts of each are left.
    halved: BTreeMap<BatchId, usize>,
    count: u64,
}

/// A batch, or what is left of one that was halved.
#[derive(Debug)]
struct Part {
    batch: BatchId,
    rows: Vec<Settlement>,
    /// The store could not write it down at once.
    is_late: bool,
}

/// What the store has answered.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) rows: Vec<Settlement>,
    /// Their batch, if nothing is left of it.
    pub(super) batch: Option<BatchId>,
    /// The store could not write them down at once.
    pub(super) is_late: bool,
}

impl Unsettled {
    /// A batch goes to the store: under which number.
    pub(super) fn add(&mut self, batch: BatchId, rows: Vec<Settlement>) -> u64 {
        self.put(Part { batch, rows, is_late: false })
    }

    fn put(&mut self, part: Part) -> u64 {
        self.count += 1;
        self.parts.insert(self.count, part);
        self.count
    }

    /// They are written down later than they were handed over.
    pub(super) fn delay(&mut self, number: u64) {
        if let Some(part) = self.parts.get_mut(&number) {
            part.is_late = true;
        }
    }

    pub(super) fn rows(&self, number: u64) -> Option<&[Settlement]> {
        self.parts.get(&number).map(|part| part.rows.as_slice())
    }

    /// Whether there are any of a lane under that ownership.
    pub(super) fn concern(&self, lane: LaneId, term: Term) -> bool {
        let is_meant = |row: &Settlement| row.lane == lane && row.term == term;
        self.parts.values().any(|part| part.rows.iter().any(is_meant))
    }

    /// Settlements are done with.
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

    /// Two numbers in the place of one, each with half of its settlements. Nothing if there are not two.
    pub(super) fn halve(&mut self, number: u64) -> Option<[u64; 2]> {
        let part = self.parts.get_mut(&number).filter(|part| part.rows.len() > 1)?;
        let second = part.rows.split_off(part.rows.len() / 2);
        let Part { batch, rows: first, .. } = self.parts.remove(&number)?;
        *self.halved.entry(batch).or_insert(1) += 1;
        Some([first, second].map(|rows| self.put(Part { batch, rows, is_late: true })))
    }
}
