//! Settlements and records are kept for retries until the store confirms them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::{BatchId, LaneId, LaneRecord, Revision, Term};
use crate::messages::command::{AttemptOutcome, Fate, Settlement};
use crate::messages::reply::SettleResult;

/// By number; the engine bounds how many there are.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    parts: BTreeMap<u64, Part>,
    /// Halved batches, with the number of their remaining parts.
    halved: BTreeMap<BatchId, usize>,
    count: u64,
}

#[derive(Debug)]
struct Part {
    batch: BatchId,
    rows: Vec<Settlement>,
    /// The first write failed.
    is_late: bool,
}

#[derive(Debug)]
pub(super) struct TakenPart {
    pub(super) rows: Vec<Settlement>,
    /// Their batch, if no other part of it is left.
    pub(super) batch: Option<BatchId>,
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

    pub(super) fn remove(&mut self, number: u64) -> Option<TakenPart> {
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
        Some(TakenPart { rows, batch: (left == 0).then_some(batch), is_late })
    }

    /// Nothing for a single settlement.
    pub(super) fn halve(&mut self, number: u64) -> Option<[u64; 2]> {
        let part = self.parts.get_mut(&number).filter(|part| part.rows.len() > 1)?;
        let second = part.rows.split_off(part.rows.len() / 2);
        let Part { batch, rows: first, .. } = self.parts.remove(&number)?;
        *self.halved.entry(batch).or_insert(1) += 1;
        Some([first, second].map(|rows| self.put(Part { batch, rows, is_late: true })))
    }
}

#[derive(Debug)]
pub(super) struct Unkept {
    pub(super) term: Term,
    pub(super) revision: Revision,
    pub(super) record: Arc<LaneRecord>,
}

/// The newest unconfirmed record of each lane.
#[derive(Debug, Default)]
pub(super) struct Records {
    unkept: BTreeMap<LaneId, Unkept>,
    /// A record was given up, so its lane was not handed back.
    gave_up: bool,
}

impl Records {
    pub(super) fn put(&mut self, lane: LaneId, unkept: Unkept) {
        self.unkept.insert(lane, unkept);
    }

    pub(super) fn get(&self, lane: LaneId) -> Option<&Unkept> {
        self.unkept.get(&lane)
    }

    /// True if the lane is handed back with its record.
    pub(super) fn is_final(&self, lane: LaneId) -> bool {
        self.unkept.get(&lane).is_some_and(|unkept| unkept.record.is_final())
    }

    pub(super) fn has_under(&self, lane: LaneId, term: Term) -> bool {
        self.unkept.get(&lane).is_some_and(|unkept| unkept.term == term)
    }

    /// True if no newer record came and the lane was not lost.
    pub(super) fn is_current(&self, lane: LaneId, term: Term, revision: Revision) -> bool {
        self.unkept.get(&lane).is_some_and(|unkept| (unkept.term, unkept.revision) == (term, revision))
    }

    /// Returns true if there was a record of the lane under `term`.
    pub(super) fn remove(&mut self, lane: LaneId, term: Term) -> bool {
        let is_so = self.has_under(lane, term);
        if is_so {
            self.unkept.remove(&lane);
        }
        is_so
    }

    /// Gives a record up for good: the process ends.
    pub(super) fn give_up(&mut self) {
        self.gave_up = true;
    }

    pub(super) fn kept_all(&self) -> bool {
        !self.gave_up
    }

    pub(super) fn all_handed_back(&self) -> bool {
        !self.unkept.values().any(|unkept| unkept.record.is_final())
    }
}

/// Settled and durable work of this process alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkDone {
    pub delivered: u64,
    pub failed_attempts: u64,
    pub dead: u64,
}

impl WorkDone {
    /// Counts a settlement. A failed attempt counts even if the settlement was not applied.
    pub(super) fn count(&mut self, settled: &Settlement, result: SettleResult) {
        match (settled.fate, result) {
            (Fate::Delivered, SettleResult::Applied) => self.delivered += 1,
            (Fate::Dead(_), SettleResult::Applied) => self.dead += 1,
            _ => {}
        }
        let failed =
            settled.attempt.as_ref().is_some_and(|attempt| attempt.outcome != AttemptOutcome::Delivered);
        self.failed_attempts += u64::from(failed);
    }

    pub const fn add(&mut self, more: Self) {
        self.delivered += more.delivered;
        self.failed_attempts += more.failed_attempts;
        self.dead += more.dead;
    }
}
