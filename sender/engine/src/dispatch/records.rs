//! The newest record of each lane that the store has not confirmed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::{LaneId, LaneRecord, Revision, Term};

#[derive(Debug)]
pub(super) struct Unkept {
    pub(super) term: Term,
    pub(super) revision: Revision,
    pub(super) record: Arc<LaneRecord>,
}

/// At most one record for each lane.
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

    /// True if no lane is on its way back to the store.
    pub(super) fn all_handed_back(&self) -> bool {
        !self.unkept.values().any(|unkept| unkept.record.is_final())
    }
}
