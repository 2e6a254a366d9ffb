//! The lanes of this process, with the deliveries that it claimed but has not sent.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher};

use super::budget::{BodyLength, Budget, Portion};
use super::event::Moment;
use crate::engine::{DeliveryId, LaneId, StoreTime, Term};
use crate::messages::reply::{ClaimedRow, TakenLane};

/// Hashed with the same key in every process, for determinism. Ids come from the store, so no caller can choose
/// colliding ones.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    ours: HashMap<LaneId, OwnedLane, BuildHasherDefault<DefaultHasher>>,
    /// Ours in the store, while this process does not know their subscriber yet.
    waiting: BTreeMap<LaneId, Waiting>,
    pub(super) budget: Budget,
}

#[derive(Debug)]
struct OwnedLane {
    term: Term,
    lease_until: StoreTime,
    /// False once the engine was told to send nothing, or said so itself.
    sendable: bool,
    /// In the order of their claims; nearly all are sent in that order.
    rows: VecDeque<Row>,
    bodies: BodyLength,
}

#[derive(Debug)]
struct Row {
    row: ClaimedRow,
    portion: Portion,
}

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) taken: TakenLane,
    pub(super) asked: StoreTime,
    pub(super) since: StoreTime,
    pub(super) moment: Option<Moment>,
}

impl Lanes {
    pub(super) fn is_ours(&self, lane: LaneId) -> bool {
        self.ours.contains_key(&lane)
    }

    pub(super) fn is_ours_under(&self, lane: LaneId, term: Term) -> bool {
        self.ours.get(&lane).is_some_and(|held| held.term == term)
    }

    pub(super) fn term(&self, lane: LaneId) -> Option<Term> {
        self.ours.get(&lane).map(|held| held.term)
    }

    /// In ascending order.
    pub(super) fn ours(&self) -> Vec<(LaneId, Term)> {
        let mut ours: Vec<_> = self.ours.iter().map(|(lane, held)| (*lane, held.term)).collect();
        ours.sort_unstable();
        ours
    }

    pub(super) fn take(&mut self, lane: LaneId, term: Term, lease_until: StoreTime, sendable: bool) {
        let (rows, bodies) = (VecDeque::new(), BodyLength::default());
        self.drop(lane);
        self.ours.insert(lane, OwnedLane { term, lease_until, sendable, rows, bodies });
    }

    pub(super) fn bodies(&self, lane: LaneId) -> BodyLength {
        self.ours.get(&lane).map(|held| held.bodies).unwrap_or_default()
    }

    /// The lane's first due body is longer than expected. Returns false unless the lane is ours under `term`.
    pub(super) fn expect_longer(&mut self, lane: LaneId, term: Term, bytes: u64) -> bool {
        let held = self.ours.get_mut(&lane).filter(|held| held.term == term);
        held.map(|held| held.bodies.at_least(bytes)).is_some()
    }

    pub(super) fn set_sendable(&mut self, lane: LaneId, term: Term, sendable: bool) {
        if let Some(held) = self.ours.get_mut(&lane).filter(|held| held.term == term) {
            held.sendable = sendable;
        }
    }

    pub(super) fn is_sendable(&self, lane: LaneId) -> bool {
        self.ours.get(&lane).is_some_and(|held| held.sendable)
    }

    pub(super) fn renew(&mut self, asked: StoreTime, until: StoreTime) {
        self.ours.values_mut().for_each(|held| held.lease_until = until);
        self.waiting.values_mut().for_each(|waiting| waiting.asked = asked);
    }

    pub(super) fn lease_until(&self, lane: LaneId) -> Option<StoreTime> {
        self.ours.get(&lane).map(|held| held.lease_until)
    }

    /// False if the lane is not ours under that term.
    pub(super) fn forget(&mut self, lane: LaneId, term: Term) -> bool {
        if self.waiting.get(&lane).is_some_and(|waiting| waiting.taken.term == term) {
            self.waiting.remove(&lane);
        }
        let is_so = self.is_ours_under(lane, term);
        if is_so {
            self.drop(lane);
        }
        is_so
    }

    fn drop(&mut self, lane: LaneId) {
        let Some(held) = self.ours.remove(&lane) else { return };
        held.rows.into_iter().for_each(|held| self.budget.give_back(held.portion));
        self.budget.forget(lane);
    }

    /// The caller has given their claim's bytes back. Returns false unless the lane is ours under `term`.
    pub(super) fn hold(&mut self, lane: LaneId, term: Term, rows: Vec<ClaimedRow>) -> bool {
        let Some(held) = self.ours.get_mut(&lane).filter(|held| held.term == term) else { return false };
        let length = |row: &ClaimedRow| u64::try_from(row.body.bytes.len()).unwrap_or(u64::MAX);
        if let Some(longest) = rows.iter().map(length).max() {
            held.bodies.brought(longest);
        }
        for row in rows {
            let portion = Portion::of_body(length(&row));
            self.budget.take(portion);
            held.rows.push_back(Row { row, portion });
        }
        true
    }

    /// Removes and returns a claimed row, with its bytes, which still count.
    pub(super) fn release(
        &mut self,
        lane: LaneId,
        term: Term,
        delivery: DeliveryId,
    ) -> Option<(ClaimedRow, Portion)> {
        let held = self.ours.get_mut(&lane).filter(|held| held.term == term)?;
        let place = held.rows.iter().position(|held| held.row.delivery == delivery)?;
        let row = held.rows.remove(place);
        if held.rows.is_empty() {
            // An empty queue would keep the memory of its last rows.
            held.rows = VecDeque::new();
        }
        row.map(|Row { row, portion }| (row, portion))
    }

    /// At most one entry for each lane of the store.
    pub(super) fn wait_for_roster(&mut self, waiting: Waiting) {
        self.waiting.insert(waiting.taken.lane, waiting);
    }

    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.waiting).into_values().collect()
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = (LaneId, StoreTime)> {
        self.waiting.iter().map(|(lane, waiting)| (*lane, waiting.since))
    }
}
