//! The lanes that this process owns, and the deliveries that it claimed and has not sent.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher};

use super::budget::{BodyLength, Budget, Portion};
use super::moment::Moment;
use crate::engine::{DeliveryId, Instant, LaneId, StoreTime, Term};
use crate::messages::reply::{ClaimedRow, TakenLane};

/// The lanes of this process. Hashing is keyed the same in every process, so that nothing depends on chance; ids are the
/// store's own, so that nobody can choose them to collide.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    ours: HashMap<LaneId, Held, BuildHasherDefault<DefaultHasher>>,
    /// Lanes that the store says are ours, whose subscriber this process has not read yet.
    waiting: BTreeMap<LaneId, Waiting>,
    /// What they hold, and what is under way.
    pub(super) budget: Budget,
}

#[derive(Debug)]
struct Held {
    term: Term,
    lease_until: Instant,
    /// What the engine was last told, or said itself: whether anything may be sent.
    sendable: bool,
    /// In the order in which they were claimed: nearly all are sent in it.
    rows: VecDeque<Row>,
    bodies: BodyLength,
}

/// A claimed row, and what it takes of the budget.
#[derive(Debug)]
struct Row {
    row: ClaimedRow,
    portion: Portion,
}

/// A lane that cannot be taken before its subscriber is known.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) taken: TakenLane,
    /// When its lease was last asked for.
    pub(super) asked: StoreTime,
    /// When it was taken.
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

    /// Under which ownership a lane is ours.
    pub(super) fn term(&self, lane: LaneId) -> Option<Term> {
        self.ours.get(&lane).map(|held| held.term)
    }

    /// All lanes of this process, in the order of their numbers.
    pub(super) fn ours(&self) -> Vec<(LaneId, Term)> {
        let mut ours: Vec<_> = self.ours.iter().map(|(lane, held)| (*lane, held.term)).collect();
        ours.sort_unstable();
        ours
    }

    pub(super) fn take(&mut self, lane: LaneId, term: Term, lease_until: Instant, sendable: bool) {
        let (rows, bodies) = (VecDeque::new(), BodyLength::default());
        self.drop(lane);
        self.ours.insert(lane, Held { term, lease_until, sendable, rows, bodies });
    }

    /// How long the bodies of a lane are.
    pub(super) fn bodies(&self, lane: LaneId) -> BodyLength {
        self.ours.get(&lane).map(|held| held.bodies).unwrap_or_default()
    }

    /// The first body that a lane of ours has to send is longer than it was taken to be. False if the lane is not ours under
    /// that term.
    pub(super) fn expect_longer(&mut self, lane: LaneId, term: Term, bytes: u64) -> bool {
        let held = self.ours.get_mut(&lane).filter(|held| held.term == term);
        held.map(|held| held.bodies.at_least(bytes)).is_some()
    }

    /// Notes whether anything may be sent for a lane of ours.
    pub(super) fn set_sendable(&mut self, lane: LaneId, term: Term, sendable: bool) {
        if let Some(held) = self.ours.get_mut(&lane).filter(|held| held.term == term) {
            held.sendable = sendable;
        }
    }

    /// Whether anything may be sent for a lane, as the engine last knew.
    pub(super) fn is_sendable(&self, lane: LaneId) -> bool {
        self.ours.get(&lane).is_some_and(|held| held.sendable)
    }

    pub(super) fn renew(&mut self, asked: StoreTime, until: Instant) {
        self.ours.values_mut().for_each(|held| held.lease_until = until);
        self.waiting.values_mut().for_each(|waiting| waiting.asked = asked);
    }

    /// When the lease of a lane of ours ends, as far as we know.
    pub(super) fn lease_until(&self, lane: LaneId) -> Option<Instant> {
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

    /// The lane holds nothing any more, and claims nothing.
    fn drop(&mut self, lane: LaneId) {
        let Some(held) = self.ours.remove(&lane) else { return };
        held.rows.into_iter().for_each(|held| self.budget.give_back(held.portion));
        self.budget.forget(lane);
    }

    /// Keeps claimed rows until they are sent or settled; what their claim might have brought was given back. False if the lane is
    /// not ours under that term.
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

    /// The row of a delivery, which is not kept any longer, and what is still held for it.
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
            // An empty queue keeps the memory of its last rows.
            held.rows = VecDeque::new();
        }
        row.map(|Row { row, portion }| (row, portion))
    }

    /// A lane has to wait until its subscriber is known. No more do than the store has lanes.
    pub(super) fn wait_for_roster(&mut self, waiting: Waiting) {
        self.waiting.insert(waiting.taken.lane, waiting);
    }

    /// The lanes that had to wait, which are not kept any longer.
    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.waiting).into_values().collect()
    }

    /// The lanes that have to wait, and since when.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (LaneId, StoreTime)> {
        self.waiting.iter().map(|(lane, waiting)| (*lane, waiting.since))
    }
}
