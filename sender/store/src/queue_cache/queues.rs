//! The queue of each lane that this process owns: its claimed deliveries and its cursor.

use std::collections::{BTreeMap, BTreeSet};

use super::Undo;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use crate::lane::OwnerId;

/// A position in a queue, which is ordered by due time and number.
pub(crate) type Place = (StoreTime, DeliveryId);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Free,
    Claimed,
    /// The commit under way changes it.
    Moving,
    /// It could not be read, and is retried at this time.
    Unreadable(StoreTime),
}

/// The state of a waiting delivery when it was claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) attempts: u32,
    pub(crate) bytes: u64,
    pub(crate) due: StoreTime,
    pub(crate) last_attempt: Option<StoreTime>,
    /// Of the last attempt. Only a server needs them.
    pub(crate) status: Option<i32>,
    pub(crate) error: Option<Box<str>>,
}

impl Waiting {
    /// A delivery without an attempt.
    pub(crate) const fn new(bytes: u64, due: StoreTime) -> Self {
        Self { attempts: 0, bytes, due, last_attempt: None, status: None, error: None }
    }
}

/// Counts of changes to a queue. A server has them in the lane's row, a file counts in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueVersion {
    /// How often a delivery began to wait, or waits again without being claimed.
    pub(crate) arrivals: u64,
    /// A lower bound for the due times of arrivals since the owner last looked.
    pub(crate) earliest: StoreTime,
    /// How often a process other than the owner changed a delivery.
    pub(crate) disturbed: u64,
    /// A lower bound for the due times of all waiting deliveries.
    pub(crate) head: StoreTime,
}

const NEVER: StoreTime = StoreTime(i64::MAX.cast_unsigned());

impl Default for QueueVersion {
    /// Nothing is known of the arrivals in a file but that there were some.
    fn default() -> Self {
        Self { arrivals: 0, earliest: StoreTime(0), disturbed: 0, head: StoreTime(0) }
    }
}

impl QueueVersion {
    /// Of a queue without deliveries.
    pub(crate) const NEW: Self = Self { arrivals: 0, earliest: NEVER, disturbed: 0, head: StoreTime(0) };

    pub(crate) fn arrive(&mut self, due: StoreTime) {
        self.arrivals += 1;
        self.earliest = self.earliest.min(due);
        self.head = self.head.min(due);
    }

    /// Notes that the owner has looked. `head`: a lower bound that it knows.
    fn are_seen(&mut self, head: Option<StoreTime>) {
        self.earliest = NEVER;
        self.head = self.head.max(head.unwrap_or_default());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Search {
    pub(crate) place: Place,
    /// How many rows after it may be claimed.
    pub(crate) claimed_after: usize,
}

#[derive(Debug)]
pub(super) struct Queue {
    owner: OwnerId,
    term: Term,
    /// The claimed deliveries. The state of one is known with `disturbed` from before it was read.
    claimed: BTreeMap<DeliveryId, Option<(u64, Waiting)>>,
    /// Everything up to here is claimed. `None`: unknown.
    cursor: Option<Place>,
    /// The version when last seen.
    arrivals: u64,
    disturbed: u64,
    head: StoreTime,
}

impl Queue {
    pub(super) const fn new(owner: OwnerId, term: Term) -> Self {
        let head = StoreTime(0);
        Self { owner, term, claimed: BTreeMap::new(), cursor: None, arrivals: 0, disturbed: 0, head }
    }

    /// The one rule of validity: compares the version with the one last seen. Arrivals move the cursor back, and a
    /// disturbance invalidates the states of all claimed deliveries that were read before it.
    pub(super) fn refresh(&mut self, version: &QueueVersion) {
        (self.head, self.disturbed) = (version.head, version.disturbed);
        if version.arrivals != self.arrivals {
            self.arrivals = version.arrivals;
            self.step_back((version.earliest, DeliveryId(0)));
        }
    }

    fn step_back(&mut self, place: Place) {
        self.cursor = self.cursor.map(|cursor| cursor.min(place));
    }

    fn forget(&mut self) {
        self.cursor = None;
        self.claimed.values_mut().for_each(|known| *known = None);
    }

    /// The due time from which a claim reads. `None`: from the beginning, where times may be invalid.
    pub(super) fn read_from(&self) -> Option<StoreTime> {
        self.cursor.map(|(due, _)| due).filter(|due| due.0 > 0)
    }

    pub(super) fn reach(&mut self, cursor: Option<Place>) {
        self.cursor = cursor.or(self.cursor);
    }

    /// Returns whether the delivery was not claimed before. `disturbed`: the count from before its state was read.
    pub(super) fn claim(&mut self, delivery: DeliveryId, known: Option<Waiting>, disturbed: u64) -> bool {
        self.claimed.insert(delivery, known.map(|known| (disturbed, known))).is_none()
    }

    pub(super) fn known(&self, delivery: DeliveryId) -> Option<Waiting> {
        let (disturbed, waiting) = self.claimed.get(&delivery)?.as_ref()?;
        (*disturbed == self.disturbed).then(|| waiting.clone())
    }

    /// A lower bound for the due times of all waiting deliveries, including the claimed ones.
    fn first_due(&self) -> Option<StoreTime> {
        let (mut first, _) = self.cursor?;
        for known in self.claimed.values() {
            first = first.min(known.as_ref()?.1.due);
        }
        Some(first)
    }

    pub(super) fn search(&self) -> Search {
        let place = self.cursor.unwrap_or((self.head, DeliveryId(0)));
        // A row that another process changed since may have moved.
        let is_passed = |(delivery, known): (&DeliveryId, &Option<(u64, Waiting)>)| {
            known.as_ref().is_some_and(|(disturbed, waiting)| {
                *disturbed == self.disturbed && (waiting.due, *delivery) <= place
            })
        };
        let passed = self.claimed.iter().filter(|row| is_passed(*row)).count();
        Search { place, claimed_after: self.claimed.len() - passed }
    }
}

#[derive(Debug, Default)]
pub(super) struct Queues {
    lanes: BTreeMap<LaneId, Queue>,
    /// Deliveries that the commit under way changes and no longer claims. Claims beside it skip them.
    moving: BTreeSet<DeliveryId>,
    /// The number of lanes taken from each owner, as of its last renewal. While it is unchanged, the owner has lost no
    /// lane.
    taken: BTreeMap<OwnerId, u64>,
}

impl Queues {
    pub(super) fn of(&mut self, lane: LaneId, term: Term) -> Option<&mut Queue> {
        self.lanes.get_mut(&lane).filter(|queue| queue.term == term)
    }

    pub(super) fn insert(&mut self, lane: LaneId, queue: Queue) -> Option<Queue> {
        self.lanes.insert(lane, queue)
    }

    /// Removes a lane, unless it is owned under a later term.
    pub(super) fn remove(&mut self, lane: LaneId, term: Term) -> Option<Queue> {
        self.lanes.get(&lane).filter(|queue| queue.term <= term)?;
        self.lanes.remove(&lane)
    }

    pub(super) fn give_back(&mut self, lane: LaneId, term: Term, delivery: DeliveryId) -> bool {
        let was_claimed = self.of(lane, term).is_some_and(|queue| queue.claimed.remove(&delivery).is_some());
        if was_claimed {
            self.moving.insert(delivery);
        }
        was_claimed
    }

    pub(super) fn leave(&mut self, lane: LaneId, delivery: DeliveryId) {
        if let Some(queue) = self.lanes.get_mut(&lane) {
            self.moving.insert(delivery);
            if let Some(known) = queue.claimed.get_mut(&delivery) {
                *known = None;
            }
        }
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Lane(lane, Some(queue)) => drop(self.lanes.insert(lane, queue)),
            Undo::Lane(lane, None) => drop(self.lanes.remove(&lane)),
            Undo::Claimed(lane, delivery) => {
                self.lanes.get_mut(&lane).map(|queue| queue.claimed.remove(&delivery));
            }
            Undo::Settled(lane, delivery) => {
                self.lanes.get_mut(&lane).map(|queue| queue.claimed.insert(delivery, None));
            }
            Undo::Taken(owner, before) => drop(self.set_taken(owner, before)),
        }
    }

    /// Forgets everything but the claims.
    pub(super) fn forget_all(&mut self) {
        self.lanes.values_mut().for_each(Queue::forget);
    }

    pub(super) fn end_of_moves(&mut self) -> BTreeSet<DeliveryId> {
        std::mem::take(&mut self.moving)
    }

    pub(super) fn step_back(&mut self, lane: LaneId, place: Place) {
        if let Some(queue) = self.lanes.get_mut(&lane) {
            queue.step_back(place);
        }
    }

    pub(super) fn compare(&mut self, lane: LaneId, term: Term, version: &mut QueueVersion) {
        let Some(queue) = self.lanes.get_mut(&lane) else { return };
        if queue.term == term {
            queue.refresh(version);
            version.are_seen(queue.first_due());
        } else {
            // Another process owns the lane.
            queue.forget();
        }
    }

    pub(super) fn standing(&self, lane: LaneId, delivery: DeliveryId) -> Standing {
        if self.has(lane, delivery) { Standing::Claimed } else { Standing::Free }
    }

    pub(super) fn standing_beside(&self, lane: LaneId, delivery: DeliveryId) -> Standing {
        if self.moving.contains(&delivery) { Standing::Moving } else { self.standing(lane, delivery) }
    }

    pub(super) fn may_know(&self, lane: LaneId, term: Term, delivery: DeliveryId) -> bool {
        let queue = self.lanes.get(&lane).filter(|queue| queue.term == term);
        queue.is_some_and(|queue| queue.claimed.get(&delivery).is_some_and(Option::is_some))
    }

    pub(super) fn holds(&self, lane: LaneId, term: Term) -> bool {
        self.lanes.get(&lane).is_some_and(|queue| queue.term == term)
    }

    pub(super) fn has(&self, lane: LaneId, delivery: DeliveryId) -> bool {
        self.lanes.get(&lane).is_some_and(|queue| queue.claimed.contains_key(&delivery))
    }

    pub(super) fn taken(&self, owner: OwnerId) -> Option<u64> {
        self.taken.get(&owner).copied()
    }

    pub(super) fn set_taken(&mut self, owner: OwnerId, taken: Option<u64>) -> Option<u64> {
        match taken {
            Some(taken) => self.taken.insert(owner, taken),
            None => self.taken.remove(&owner),
        }
    }

    pub(super) fn owned_by(&self, owner: OwnerId) -> Vec<(LaneId, Term)> {
        let owned = self.lanes.iter().filter(|(_, queue)| queue.owner == owner);
        owned.map(|(lane, queue)| (*lane, queue.term)).collect()
    }

    pub(super) fn count(&self, lane: LaneId) -> usize {
        self.lanes.get(&lane).map_or(0, |queue| queue.claimed.len())
    }

    pub(super) fn len(&self) -> usize {
        self.lanes.values().map(|queue| queue.claimed.len()).sum()
    }
}

/// Deliveries that could neither be read nor given up, and until when claims skip them. A failed commit does not change
/// them, and a restart finds them again.
#[derive(Debug, Default)]
pub(crate) struct Unreadable(BTreeMap<DeliveryId, StoreTime>);

impl Unreadable {
    pub(crate) const PAUSE: Nanos = Nanos::MINUTE;
    /// Beyond this number, the ones found first are forgotten, and found again.
    pub(super) const ROWS_MAX: usize = 1_024;

    /// Records a failure, and logs it if it is new.
    pub(crate) fn record_failure(&mut self, delivery: DeliveryId, now: StoreTime) {
        if self.0.len() >= Self::ROWS_MAX
            && let Some(first) = self.0.iter().min_by_key(|(_, until)| **until).map(|(found, _)| *found)
        {
            self.0.remove(&first);
        }
        if self.0.insert(delivery, StoreTime(now.0.saturating_add(Self::PAUSE.0))).is_none() {
            tracing::error!(
                delivery = delivery.0,
                "a delivery can be neither read nor made a dead letter: check the disk; other deliveries \
                 continue, and this one is retried each minute"
            );
        }
    }

    /// The standing of a delivery that is free, unless it is skipped.
    pub(super) fn or(&self, delivery: DeliveryId, now: StoreTime, standing: Standing) -> Standing {
        match self.0.get(&delivery) {
            Some(until) if standing == Standing::Free && *until > now => Standing::Unreadable(*until),
            _ => standing,
        }
    }
}
