//! The lanes' records that the store has not kept yet: the newest of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::{LaneId, LaneRecord, Revision, Term};

/// A record on its way to the store.
#[derive(Debug)]
pub(super) struct Unkept {
    pub(super) term: Term,
    pub(super) revision: Revision,
    pub(super) record: Arc<LaneRecord>,
}

/// One record a lane, at most.
#[derive(Debug, Default)]
pub(super) struct Records {
    unkept: BTreeMap<LaneId, Unkept>,
    /// One was given up, so that its lane was not handed back.
    gave_up: bool,
}

impl Records {
    /// A record goes to the store, in the place of any before it.
    pub(super) fn put(&mut self, lane: LaneId, unkept: Unkept) {
        self.unkept.insert(lane, unkept);
    }

    pub(super) fn get(&self, lane: LaneId) -> Option<&Unkept> {
        self.unkept.get(&lane)
    }

    /// Whether a lane is to be handed back with its record.
    pub(super) fn is_final(&self, lane: LaneId) -> bool {
        self.unkept.get(&lane).is_some_and(|unkept| unkept.record.is_final())
    }

    /// Whether a record of the lane under that ownership is on its way.
    pub(super) fn has_under(&self, lane: LaneId, term: Term) -> bool {
        self.unkept.get(&lane).is_some_and(|unkept| unkept.term == term)
    }

    /// Whether that record is still wanted: none came after it, and the lane was not lost.
    pub(super) fn is_current(&self, lane: LaneId, term: Term, revision: Revision) -> bool {
        self.unkept.get(&lane).is_some_and(|unkept| (unkept.term, unkept.revision) == (term, revision))
    }

    /// The record of a lane under that term is not wanted any more. True if there was one.
    pub(super) fn remove(&mut self, lane: LaneId, term: Term) -> bool {
        let is_so = self.has_under(lane, term);
        if is_so {
            self.unkept.remove(&lane);
        }
        is_so
    }

    /// A record is left unkept for good: the process ends.
    pub(super) fn give_up(&mut self) {
        self.gave_up = true;
    }

    /// Whether none was ever left so.
    pub(super) fn kept_all(&self) -> bool {
        !self.gave_up
    }

    /// Whether no lane is on its way back to the store.
    pub(super) fn all_handed_back(&self) -> bool {
        !self.unkept.values().any(|unkept| unkept.record.is_final())
    }
}
