//! The deliveries that this store object has handed out and that are not settled.
//!
//! They are only in memory, so a claim writes nothing and a successor finds everything waiting. Changes follow the
//! commit: all or none.
//! Claims may run beside a commit under way ([`Held::standing_beside`]). A delivery that this commit releases, gives
//! up or replaces is unchanged on disk, so it counts as held until the commit ends.
//! The state of a delivery is kept from its claim, so that its settlement reads nothing. It is valid until another
//! process may have changed it.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use crate::lane::OwnerId;

pub(super) enum Standing {
    Free,
    /// It is handed out or about to change.
    Held,
    /// It could not be read, and is retried at this time.
    Unread(StoreTime),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InHand {
    No,
    Yes,
    /// The commit under way changes it.
    Moving,
}

/// The state of a waiting delivery when it was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) attempts: u32,
    pub(super) bytes: u64,
    pub(super) last_attempt: Option<StoreTime>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    known: Option<(u64, Waiting)>,
}

#[derive(Debug, Default)]
pub(super) struct Held {
    lanes: BTreeMap<LaneId, Hand>,
    /// The steps to undo this commit, in order.
    journal: Vec<Undo>,
    /// Deliveries that this commit changes and no longer holds. Claims beside it skip them.
    moving: BTreeSet<DeliveryId>,
    /// Unreadable deliveries, which claims skip. A failed commit does not change them.
    pub(super) unread: Unread,
    /// Incremented when handed out deliveries may have changed.
    era: u64,
}

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
    pub(super) fn begin(&mut self, lane: LaneId, owner: OwnerId, term: Term) {
        if self.lanes.get(&lane).is_some_and(|hand| hand.term == term) {
            return;
        }
        let before = self.lanes.insert(lane, Hand { owner, term, rows: BTreeMap::new() });
        self.journal.push(Undo::Lane(lane, before));
    }

    pub(super) fn end(&mut self, lane: LaneId, term: Term) {
        if self.lanes.get(&lane).is_some_and(|hand| hand.term <= term) {
            let before = self.lanes.remove(&lane);
            self.journal.push(Undo::Lane(lane, before));
        }
    }

    pub(super) fn take(&mut self, lane: LaneId, delivery: DeliveryId) {
        let Some(hand) = self.lanes.get_mut(&lane) else { return };
        if hand.rows.insert(delivery, Row::default()).is_none() {
            self.journal.push(Undo::Took(lane, delivery));
        }
    }

    /// Takes a delivery back. Returns false if it was not handed out under this term.
    pub(super) fn give_back(&mut self, lane: LaneId, term: Term, delivery: DeliveryId) -> bool {
        let hand = self.lanes.get_mut(&lane).filter(|hand| hand.term == term);
        let was_out = hand.is_some_and(|hand| hand.rows.remove(&delivery).is_some());
        if was_out {
            self.journal.push(Undo::Gave(lane, delivery));
            self.moving.insert(delivery);
        }
        was_out
    }

    pub(super) fn doubt_all(&mut self) {
        self.era += 1;
    }

    /// The state of a waiting delivery, if it is unchanged since it was handed out.
    pub(super) fn known(&self, lane: LaneId, term: Term, delivery: DeliveryId) -> Option<Waiting> {
        let hand = self.lanes.get(&lane).filter(|hand| hand.term == term)?;
        let (era, known) = hand.rows.get(&delivery)?.known?;
        (era == self.era).then_some(known)
    }

    /// Notes that this commit gives up, replaces or settles a delivery that its sender does not hold. It may be
    /// handed out under another term. Otherwise claims beside this commit skip it.
    pub(super) fn leave(&mut self, lane: LaneId, delivery: DeliveryId) {
        if let Some(hand) = self.lanes.get_mut(&lane) {
            self.moving.insert(delivery);
            if let Some(row) = hand.rows.get_mut(&delivery) {
                row.known = None;
            }
        }
    }

    pub(super) fn holds(&self, lane: LaneId, term: Term) -> bool {
        self.lanes.get(&lane).is_some_and(|hand| hand.term == term)
    }

    /// Whether a commit may hand out a delivery.
    pub(super) fn standing(&self, lane: LaneId, delivery: DeliveryId, now: StoreTime) -> Standing {
        match self.unread.until(delivery, now) {
            _ if self.has(lane, delivery) => Standing::Held,
            Some(until) => Standing::Unread(until),
            None => Standing::Free,
        }
    }

    /// The same for a claim beside the commit under way.
    pub(super) fn standing_beside(&self, lane: LaneId, delivery: DeliveryId, now: StoreTime) -> Standing {
        if self.moving.contains(&delivery) { Standing::Held } else { self.standing(lane, delivery, now) }
    }

    /// Hands out a delivery beside the commits, with its state if known. A failed commit does not undo this.
    pub(super) fn take_beside(&mut self, lane: LaneId, delivery: DeliveryId, known: Option<Waiting>) {
        if let Some(hand) = self.lanes.get_mut(&lane) {
            hand.rows.insert(delivery, Row { known: known.map(|known| (self.era, known)) });
        }
    }

    pub(super) fn has(&self, lane: LaneId, delivery: DeliveryId) -> bool {
        self.lanes.get(&lane).is_some_and(|hand| hand.rows.contains_key(&delivery))
    }

    /// Whether a delivery is handed out, for a commit.
    pub(super) fn in_hand(&self, lane: LaneId, delivery: DeliveryId) -> InHand {
        if self.has(lane, delivery) { InHand::Yes } else { InHand::No }
    }

    /// The same for a claim beside the commit under way.
    pub(super) fn in_hand_beside(&self, lane: LaneId, delivery: DeliveryId) -> InHand {
        if self.moving.contains(&delivery) { InHand::Moving } else { self.in_hand(lane, delivery) }
    }

    pub(super) fn moving(&self) -> impl Iterator<Item = DeliveryId> {
        self.moving.iter().copied()
    }

    pub(super) fn of(&self, owner: OwnerId) -> Vec<(LaneId, Term)> {
        let mine = self.lanes.iter().filter(|(_, hand)| hand.owner == owner);
        mine.map(|(lane, hand)| (*lane, hand.term)).collect()
    }

    pub(super) fn rows(&self, lane: LaneId) -> Vec<DeliveryId> {
        self.lanes.get(&lane).map(|hand| hand.rows.keys().copied().collect()).unwrap_or_default()
    }

    pub(super) fn count(&self, lane: LaneId) -> usize {
        self.lanes.get(&lane).map_or(0, |hand| hand.rows.len())
    }

    pub(super) fn len(&self) -> usize {
        self.lanes.values().map(|hand| hand.rows.len()).sum()
    }

    pub(super) fn commit(&mut self) {
        self.journal.clear();
        self.moving.clear();
    }

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

/// Deliveries that could neither be read nor given up, and until when claims skip them. Only in memory: a restart
/// finds them again.
#[derive(Debug, Default)]
pub(super) struct Unread(BTreeMap<DeliveryId, StoreTime>);

impl Unread {
    pub(super) const PAUSE: Nanos = Nanos::MINUTE;
    /// Beyond this number, the ones found first are forgotten, and found again.
    const ROWS_MAX: usize = 1_024;

    /// Notes a failure, and logs it if it is new.
    pub(super) fn record_failure(&mut self, delivery: DeliveryId, now: StoreTime) {
        if self.0.len() >= Self::ROWS_MAX
            && let Some(first) = self.0.iter().min_by_key(|(_, until)| **until).map(|(found, _)| *found)
        {
            self.0.remove(&first);
        }
        if self.0.insert(delivery, StoreTime(now.0.saturating_add(Self::PAUSE.0))).is_none() {
            tracing::error!(
                delivery = delivery.0,
                "a delivery can neither be read nor set aside: check the disk; its subscriber's others go on, and it is \
                 tried again each minute"
            );
        }
    }

    pub(super) fn until(&self, delivery: DeliveryId, now: StoreTime) -> Option<StoreTime> {
        self.0.get(&delivery).copied().filter(|until| *until > now)
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
        held.commit();
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
        held.commit();
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

    #[test]
    fn what_failed_is_passed_over_for_a_while_and_no_more_than_so_many() {
        let mut unread = Unread::default();
        let now = StoreTime(5);
        let later = StoreTime(now.0 + Unread::PAUSE.0);
        unread.record_failure(DeliveryId(1), now);
        assert_eq!(unread.until(DeliveryId(1), now), Some(later));
        assert_eq!(unread.until(DeliveryId(2), now), None);
        assert_eq!(unread.until(DeliveryId(1), later), None);
        let max = u64::try_from(Unread::ROWS_MAX).unwrap();
        (2..=max + 1).for_each(|delivery| unread.record_failure(DeliveryId(delivery), StoreTime(6)));
        assert_eq!(unread.0.len(), Unread::ROWS_MAX);
        assert_eq!(unread.until(DeliveryId(1), now), None, "the first makes room");
    }
}
