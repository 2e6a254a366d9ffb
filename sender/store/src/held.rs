//! What this store object has handed out and not got back.
//!
//! It lives in memory only: that is why a claim writes nothing, and why a successor finds everything waiting. It is
//! as large as what the engine holds. Like the file, it changes with a commit or not at all.
//!
//! While a commit is on its way to the disk, somebody else may claim beside it ([`Held::standing_beside`]). What that
//! commit gives back, buries or replaces is still as it was on disk, so it counts as held until the commit is through.
//!
//! What is known of a delivery when it is handed out is kept with it, so that its settlement need not read it again, for as long
//! as nobody else may have changed it.

use std::collections::{BTreeMap, BTreeSet};

use super::unread::Unread;
use crate::engine::{DeliveryId, LaneId, StoreTime, Term};
use crate::lane::OwnerId;

/// Whether a claim may hand a delivery out.
pub(super) enum Standing {
    /// It may.
    Free,
    /// It is handed out, or about to change.
    Held,
    /// It could not be read, and is tried again at that time.
    Unread(StoreTime),
}

/// Whether a delivery is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InHand {
    No,
    Yes,
    /// The commit under way moves it.
    Moving,
}

/// A delivery that waits, as it was when it was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) attempts: u32,
    pub(super) bytes: u64,
    pub(super) last_attempt: Option<StoreTime>,
}

/// What is kept of a delivery that is handed out.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    /// How it was, and in which [`Held::era`].
    known: Option<(u64, Waiting)>,
}

/// All that is handed out, by lane.
#[derive(Debug, Default)]
pub(super) struct Held {
    lanes: BTreeMap<LaneId, Hand>,
    /// How to get back to the state before this commit, the last change last.
    journal: Vec<Undo>,
    /// What this commit changes without holding it any more: not to be handed out beside it.
    moving: BTreeSet<DeliveryId>,
    /// What claims pass over. No commit that fails makes it readable.
    pub(super) unread: Unread,
    /// A new one begins whenever deliveries that are handed out may have changed.
    era: u64,
}

/// What is handed out of one lane, under one ownership.
#[derive(Clone, Debug)]
struct Hand {
    owner: OwnerId,
    term: Term,
    rows: BTreeMap<DeliveryId, Row>,
}

#[derive(Debug)]
enum Undo {
    Took(LaneId, DeliveryId),
    Gave(LaneId, DeliveryId),
    Lane(LaneId, Option<Hand>),
}

impl Held {
    /// Starts on a lane under a new ownership; whatever was held under an older one is forgotten.
    pub(super) fn begin(&mut self, lane: LaneId, owner: OwnerId, term: Term) {
        if self.lanes.get(&lane).is_some_and(|hand| hand.term == term) {
            return;
        }
        let before = self.lanes.insert(lane, Hand { owner, term, rows: BTreeMap::new() });
        self.journal.push(Undo::Lane(lane, before));
    }

    /// Forgets a lane, if it is held under this ownership or an older one.
    pub(super) fn end(&mut self, lane: LaneId, term: Term) {
        if self.lanes.get(&lane).is_some_and(|hand| hand.term <= term) {
            let before = self.lanes.remove(&lane);
            self.journal.push(Undo::Lane(lane, before));
        }
    }

    /// Hands out a delivery of a lane that was begun.
    pub(super) fn take(&mut self, lane: LaneId, delivery: DeliveryId) {
        let Some(hand) = self.lanes.get_mut(&lane) else { return };
        if hand.rows.insert(delivery, Row::default()).is_none() {
            self.journal.push(Undo::Took(lane, delivery));
        }
    }

    /// Gets a delivery back. False if it was not handed out under that ownership.
    pub(super) fn give_back(&mut self, lane: LaneId, term: Term, delivery: DeliveryId) -> bool {
        let hand = self.lanes.get_mut(&lane).filter(|hand| hand.term == term);
        let was_out = hand.is_some_and(|hand| hand.rows.remove(&delivery).is_some());
        if was_out {
            self.journal.push(Undo::Gave(lane, delivery));
            self.moving.insert(delivery);
        }
        was_out
    }

    /// Somebody else may have changed what is handed out.
    pub(super) fn doubt_all(&mut self) {
        self.era += 1;
    }

    /// How a delivery that waits was when it was handed out, and still is.
    pub(super) fn known(&self, lane: LaneId, term: Term, delivery: DeliveryId) -> Option<Waiting> {
        let hand = self.lanes.get(&lane).filter(|hand| hand.term == term)?;
        let (era, known) = hand.rows.get(&delivery)?.known?;
        (era == self.era).then_some(known)
    }

    /// This commit buries or replaces a delivery, or tells what became of it, and whoever says so was not handed it. It may be
    /// handed out all the same, under another ownership; if it is not, nobody is handed it beside this commit.
    pub(super) fn leave(&mut self, lane: LaneId, delivery: DeliveryId) {
        if let Some(hand) = self.lanes.get_mut(&lane) {
            self.moving.insert(delivery);
            if let Some(row) = hand.rows.get_mut(&delivery) {
                row.known = None;
            }
        }
    }

    /// Whether a lane is held under this ownership.
    pub(super) fn holds(&self, lane: LaneId, term: Term) -> bool {
        self.lanes.get(&lane).is_some_and(|hand| hand.term == term)
    }

    /// Whether a commit may hand a delivery out.
    pub(super) fn standing(&self, lane: LaneId, delivery: DeliveryId, now: StoreTime) -> Standing {
        match self.unread.until(delivery, now) {
            _ if self.has(lane, delivery) => Standing::Held,
            Some(until) => Standing::Unread(until),
            None => Standing::Free,
        }
    }

    /// The same beside a commit that is under way.
    pub(super) fn standing_beside(&self, lane: LaneId, delivery: DeliveryId, now: StoreTime) -> Standing {
        if self.moving.contains(&delivery) { Standing::Held } else { self.standing(lane, delivery, now) }
    }

    /// Hands out a delivery beside the commits, of which that is known: no failed commit takes it back.
    pub(super) fn take_beside(&mut self, lane: LaneId, delivery: DeliveryId, known: Option<Waiting>) {
        if let Some(hand) = self.lanes.get_mut(&lane) {
            hand.rows.insert(delivery, Row { known: known.map(|known| (self.era, known)) });
        }
    }

    /// Whether a delivery is handed out.
    pub(super) fn has(&self, lane: LaneId, delivery: DeliveryId) -> bool {
        self.lanes.get(&lane).is_some_and(|hand| hand.rows.contains_key(&delivery))
    }

    /// Whether a delivery is handed out, as a commit sees it.
    pub(super) fn in_hand(&self, lane: LaneId, delivery: DeliveryId) -> InHand {
        if self.has(lane, delivery) { InHand::Yes } else { InHand::No }
    }

    /// The same beside a commit that is under way.
    pub(super) fn in_hand_beside(&self, lane: LaneId, delivery: DeliveryId) -> InHand {
        if self.moving.contains(&delivery) { InHand::Moving } else { self.in_hand(lane, delivery) }
    }

    /// What the commit under way changes without holding it any more.
    pub(super) fn moving(&self) -> impl Iterator<Item = DeliveryId> {
        self.moving.iter().copied()
    }

    /// The lanes held for an owner.
    pub(super) fn of(&self, owner: OwnerId) -> Vec<(LaneId, Term)> {
        let mine = self.lanes.iter().filter(|(_, hand)| hand.owner == owner);
        mine.map(|(lane, hand)| (*lane, hand.term)).collect()
    }

    /// What is handed out of a lane.
    pub(super) fn rows(&self, lane: LaneId) -> Vec<DeliveryId> {
        self.lanes.get(&lane).map(|hand| hand.rows.keys().copied().collect()).unwrap_or_default()
    }

    /// How much is handed out of a lane.
    pub(super) fn count(&self, lane: LaneId) -> usize {
        self.lanes.get(&lane).map_or(0, |hand| hand.rows.len())
    }

    /// How much is handed out in total.
    pub(super) fn len(&self) -> usize {
        self.lanes.values().map(|hand| hand.rows.len()).sum()
    }

    /// The commit is durable.
    pub(super) fn keep(&mut self) {
        self.journal.clear();
        self.moving.clear();
    }

    /// The commit failed.
    pub(super) fn undo(&mut self) {
        self.moving.clear();
        while let Some(undo) = self.journal.pop() {
            match undo {
                Undo::Lane(lane, Some(hand)) => drop(self.lanes.insert(lane, hand)),
                Undo::Lane(lane, None) => drop(self.lanes.remove(&lane)),
                Undo::Took(lane, delivery) => {
                    self.lanes.entry(lane).and_modify(|hand| {
                        hand.rows.remove(&delivery);
                    });
                }
                Undo::Gave(lane, delivery) => {
                    self.lanes.entry(lane).and_modify(|hand| {
                        hand.rows.insert(delivery, Row::default());
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: LaneId = LaneId(1);
    const OWNER: OwnerId = OwnerId(7);

    fn rows(held: &Held) -> Vec<u64> {
        (0..10).filter(|id| held.has(LANE, DeliveryId(*id))).collect()
    }

    fn holding(ids: &[u64]) -> Held {
        let mut held = Held::default();
        held.begin(LANE, OWNER, Term(1));
        for id in ids {
            held.take(LANE, DeliveryId(*id));
        }
        held.keep();
        held
    }

    #[test]
    fn a_failed_commit_leaves_everything_as_it_was() {
        let mut held = holding(&[1, 2]);
        held.give_back(LANE, Term(1), DeliveryId(1));
        held.take(LANE, DeliveryId(3));
        held.begin(LANE, OWNER, Term(2));
        held.take(LANE, DeliveryId(4));
        held.end(LANE, Term(2));
        assert!(rows(&held).is_empty());
        held.undo();
        assert_eq!(rows(&held), [1, 2]);
        assert_eq!(held.of(OWNER), [(LANE, Term(1))]);
    }

    #[test]
    fn what_a_commit_moves_is_not_handed_out_beside_it() {
        let is_free = |held: &Held, id| {
            matches!(held.standing_beside(LANE, DeliveryId(id), StoreTime(0)), Standing::Free)
        };
        let beside = |held: &Held| (0..6).filter(|id| is_free(held, *id)).collect::<Vec<_>>();
        let mut held = holding(&[1, 2]);
        held.give_back(LANE, Term(1), DeliveryId(1));
        held.leave(LANE, DeliveryId(3));
        held.take(LANE, DeliveryId(4));
        assert_eq!(beside(&held), [0, 5]);
        let in_hand = [1, 2, 5].map(|id| held.in_hand_beside(LANE, DeliveryId(id)));
        assert_eq!(in_hand, [InHand::Moving, InHand::Yes, InHand::No]);
        held.take_beside(LANE, DeliveryId(5), None);
        held.keep();
        assert_eq!(beside(&held), [0, 1, 3]);
        // If the commit fails, deliveries claimed beside it stay claimed.
        let mut held = holding(&[1, 2]);
        held.give_back(LANE, Term(1), DeliveryId(1));
        held.take(LANE, DeliveryId(4));
        held.take_beside(LANE, DeliveryId(5), None);
        held.undo();
        assert_eq!(rows(&held), [1, 2, 5]);
    }

    #[test]
    fn what_was_known_holds_until_somebody_may_have_changed_it() {
        let one = DeliveryId(1);
        let waiting = Waiting { attempts: 2, bytes: 3, last_attempt: Some(StoreTime(4)) };
        let known = |held: &Held| held.known(LANE, Term(1), one);
        let taken = || {
            let mut held = holding(&[]);
            held.take_beside(LANE, one, Some(waiting));
            held
        };
        assert_eq!(known(&taken()), Some(waiting));
        assert_eq!(taken().known(LANE, Term(2), one), None, "another ownership");
        let mut held = taken();
        held.doubt_all();
        assert_eq!(known(&held), None);
        held.take_beside(LANE, one, Some(waiting));
        assert_eq!(known(&held), Some(waiting), "it was read since");
        held.leave(LANE, one);
        assert_eq!(known(&held), None);
        let mut held = taken();
        held.give_back(LANE, Term(1), one);
        assert_eq!(known(&held), None, "it is not handed out any more");
        held.undo();
        assert!(held.has(LANE, one) && known(&held).is_none());
    }

    #[test]
    fn a_new_ownership_forgets_what_the_old_one_held() {
        let mut held = holding(&[1, 2]);
        held.begin(LANE, OWNER, Term(2));
        assert!(rows(&held).is_empty());
    }

    #[test]
    fn an_old_ownership_gives_back_nothing_of_the_new_one() {
        let mut held = holding(&[]);
        held.begin(LANE, OWNER, Term(2));
        held.take(LANE, DeliveryId(5));
        held.give_back(LANE, Term(1), DeliveryId(5));
        held.end(LANE, Term(1));
        assert_eq!(rows(&held), [5]);
    }
}
