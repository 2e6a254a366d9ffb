//! Cached state of the queues that are held here.
//!
//! - *The cursor* of each queue. PostgreSQL keeps deleted rows until no transaction can see them, which an open
//!   transaction can delay for hours. A claim that started at the head of the queue would scan all of them, so it
//!   starts at the cursor.
//! - *The rows that are handed out*, so that settling them reads nothing.
//!
//! Other nodes change these queues too. They count each change in the lane's row ([`Signs`]) under its lock, and the
//! owner compares the counts before it uses the cache. An empty cache is always correct, and slower.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_postgres::{Error, Row};

use super::rows::Delivery;
use super::values::Count;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use crate::held::{Held, InHand};

pub(super) type Place = (StoreTime, DeliveryId);

/// Changes to a queue, as counted in the lane's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signs {
    /// How often a delivery began to wait, or waits again without being handed out.
    pub(super) arrivals: u64,
    /// A lower bound for the due times of arrivals since the owner last looked.
    pub(super) earliest: StoreTime,
    /// How often a process other than the owner changed a delivery.
    pub(super) disturbed: u64,
    /// A lower bound for the due times of all waiting deliveries.
    pub(super) head: StoreTime,
}

const NEVER: StoreTime = StoreTime(i64::MAX.cast_unsigned());

impl Signs {
    pub(super) const NONE: Self = Self { arrivals: 0, earliest: NEVER, disturbed: 0, head: StoreTime(0) };

    pub(super) fn read(row: &Row, first: usize) -> Result<Self, Error> {
        let count = |column| row.try_get::<_, Count>(column).map(|count| count.0);
        let time = |column| row.try_get(column);
        Ok(Self {
            arrivals: count(first)?,
            earliest: time(first + 1)?,
            disturbed: count(first + 2)?,
            head: time(first + 3)?,
        })
    }

    pub(super) fn arrive(&mut self, due: StoreTime) {
        self.arrivals += 1;
        self.earliest = self.earliest.min(due);
        self.head = self.head.min(due);
    }

    /// Notes that the owner has looked. `head`: a lower bound that it knows.
    pub(super) fn are_seen(&mut self, head: Option<StoreTime>) {
        self.earliest = NEVER;
        self.head = self.head.max(head.unwrap_or_default());
    }
}

/// The deliveries that are handed out, and the cached queues.
///
/// A claim beside the commits queries the database without this lock, so that a silent connection blocks no commit.
/// [`Self::begin_claim`] records the changes that commits make meanwhile.
#[derive(Debug, Default)]
pub(super) struct Hands {
    pub(super) held: Held,
    pub(super) queues: Queues,
    /// Extends the expiry of claimed deliveries; see [`super::ledger::Ledger::grace`].
    pub(super) grace: Nanos,
    /// Increments when a commit reads or changes this.
    turns: u64,
    /// Deliveries moved by commits that ended since the claim under way began. `None` without a claim.
    moved: Option<BTreeSet<DeliveryId>>,
}

impl Hands {
    pub(super) fn turn(&mut self) -> &mut Self {
        self.turns += 1;
        self
    }

    pub(super) fn commit(&mut self) {
        self.note_moved();
        self.turn().held.commit();
        self.queues.step_back();
    }

    pub(super) fn undo(&mut self) {
        self.note_moved();
        self.turn().held.undo();
        self.queues.forget();
    }

    fn note_moved(&mut self) {
        if let Some(moved) = &mut self.moved {
            moved.extend(self.held.moving());
        }
    }

    /// From now on, until the next claim or [`Self::end_claim`], records the deliveries that commits move. The
    /// database may report these as they were before or after.
    pub(super) fn begin_claim(&mut self) {
        self.moved = Some(BTreeSet::new());
    }

    pub(super) fn end_claim(&mut self) {
        self.moved = None;
    }

    /// While this is unchanged, no commit has had access.
    pub(super) const fn turns(&self) -> u64 {
        self.turns
    }

    /// Whether a delivery is handed out, for a claim beside the commits.
    pub(super) fn in_hand_beside(&self, lane: LaneId, delivery: DeliveryId) -> InHand {
        if self.moved.as_ref().is_some_and(|moved| moved.contains(&delivery)) {
            return InHand::Moving;
        }
        self.held.in_hand_beside(lane, delivery)
    }
}

/// A panic elsewhere cannot leave this half changed, so a poisoned lock is fine.
pub(super) fn lock(hands: &Mutex<Hands>) -> MutexGuard<'_, Hands> {
    hands.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
pub(super) struct Queues(BTreeMap<LaneId, Queue>);

#[derive(Debug)]
struct Queue {
    term: Term,
    /// The cursor: everything up to here is handed out. `None`: unknown.
    front: Option<Place>,
    /// After this place, claims beside the commit under way skipped deliveries that it moves. Their new positions are
    /// known only after the commit, and may lie before the cursor.
    moving_after: Option<Place>,
    /// A lower bound for the due times of all waiting deliveries.
    head: StoreTime,
    /// `Signs::arrivals` when last seen.
    arrivals: u64,
    /// `Signs::disturbed` when last seen.
    disturbed: u64,
    /// The rows that are handed out, each with `disturbed` from before it was read.
    rows: BTreeMap<DeliveryId, (u64, Delivery)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    pub(super) place: Place,
    /// How many rows after it may be handed out.
    pub(super) handed_out: usize,
}

impl Queues {
    fn of(&mut self, lane: LaneId, term: Term) -> &mut Queue {
        let new = || Queue {
            term,
            front: None,
            moving_after: None,
            head: StoreTime(0),
            arrivals: 0,
            disturbed: 0,
            rows: BTreeMap::new(),
        };
        let queue = self.0.entry(lane).or_insert_with(new);
        if queue.term != term {
            *queue = new();
        }
        queue
    }

    /// Compares the cache with the lane's row. The lane must be held under this term.
    pub(super) fn refresh(&mut self, lane: LaneId, term: Term, signs: &Signs) {
        let queue = self.of(lane, term);
        (queue.head, queue.disturbed) = (signs.head, signs.disturbed);
        if signs.arrivals != queue.arrivals {
            queue.arrivals = signs.arrivals;
            queue.lower(signs.earliest);
        }
    }

    /// A known lower bound for the due times of all waiting deliveries, including those handed out.
    pub(super) fn head(
        &self,
        lane: LaneId,
        term: Term,
        handed_out: impl IntoIterator<Item = DeliveryId>,
    ) -> Option<StoreTime> {
        let queue = self.0.get(&lane).filter(|queue| queue.term == term)?;
        let due = |delivery| queue.rows.get(&delivery).map(|(_, row)| row.at);
        let mut head = queue.front?.0;
        for delivery in handed_out {
            head = head.min(due(delivery)?);
        }
        Some(head)
    }

    pub(super) fn from(&mut self, lane: LaneId, term: Term, handed_out: usize) -> Search {
        let queue = self.of(lane, term);
        let place = queue.front.unwrap_or((queue.head, DeliveryId(0)));
        // A row that another process changed since may have moved.
        let is_passed = |(delivery, (disturbed, row)): (&DeliveryId, &(u64, Delivery))| {
            *disturbed == queue.disturbed && (row.at, *delivery) <= place
        };
        let passed = queue.rows.iter().filter(|row| is_passed(*row)).count();
        Search { place, handed_out: handed_out.saturating_sub(passed) }
    }

    /// Advances the cursor, and adds rows that were handed out. `signs` were read before the rows.
    pub(super) fn advance(
        &mut self,
        (lane, term): (LaneId, Term),
        place: Place,
        signs: &Signs,
        rows: impl IntoIterator<Item = (DeliveryId, Delivery)>,
    ) {
        self.of(lane, term).front = Some(place);
        self.remember((lane, term), signs, rows);
    }

    pub(super) fn remember(
        &mut self,
        (lane, term): (LaneId, Term),
        signs: &Signs,
        rows: impl IntoIterator<Item = (DeliveryId, Delivery)>,
    ) {
        let rows = rows.into_iter().map(|(delivery, row)| (delivery, (signs.disturbed, row)));
        self.of(lane, term).rows.extend(rows);
    }

    /// Notes that deliveries after this place were skipped because the commit under way moves them.
    pub(super) fn pass_over(&mut self, (lane, term): (LaneId, Term), place: Place) {
        let queue = self.of(lane, term);
        queue.moving_after = Some(queue.moving_after.map_or(place, |before| before.min(place)));
    }

    /// After a commit, moves the cursors back to the deliveries that claims skipped.
    pub(super) fn step_back(&mut self) {
        for queue in self.0.values_mut() {
            if let Some(place) = queue.moving_after.take() {
                queue.front = queue.front.map(|front| front.min(place));
            }
        }
    }

    /// A row that is handed out, with `disturbed` from before it was read.
    pub(super) fn row(&self, lane: LaneId, term: Term, delivery: DeliveryId) -> Option<&(u64, Delivery)> {
        self.0.get(&lane).filter(|queue| queue.term == term)?.rows.get(&delivery)
    }

    pub(super) fn forget_row(&mut self, lane: LaneId, delivery: DeliveryId) {
        if let Some(queue) = self.0.get_mut(&lane) {
            queue.rows.remove(&delivery);
        }
    }

    /// After a failed commit, skipped deliveries wait as before, and cached rows may hold its rolled-back changes.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    pub(super) fn retain(&mut self, holds: impl Fn(LaneId, Term) -> bool) {
        self.0.retain(|lane, queue| holds(*lane, queue.term));
    }
}

impl Queue {
    fn lower(&mut self, due: StoreTime) {
        self.front = self.front.map(|front| front.min((due, DeliveryId(0))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::OwnerId;
    use crate::read::Place as State;

    const LANE: LaneId = LaneId(1);
    const TERM: Term = Term(1);

    fn row(at: u64) -> Delivery {
        Delivery {
            lane: LANE,
            place: State::Waiting,
            attempts: 0,
            bytes: 1,
            at: StoreTime(at),
            last_attempt: None,
            status: None,
            error: None,
            reason: None,
            is_done: false,
        }
    }

    /// Deliveries 1 to 3 are claimed; each is due at ten times its number.
    fn handed_out() -> (Queues, Signs) {
        let (mut queues, mut signs) = (Queues::default(), Signs::NONE);
        signs.arrive(StoreTime(10));
        queues.refresh(LANE, TERM, &signs);
        let rows = (1..4).map(|n| (DeliveryId(n), row(10 * n)));
        queues.advance((LANE, TERM), (StoreTime(30), DeliveryId(3)), &signs, rows);
        signs.are_seen(None);
        (queues, signs)
    }

    #[test]
    fn a_claim_begins_where_the_last_one_ended() {
        let (mut queues, signs) = handed_out();
        queues.refresh(LANE, TERM, &signs);
        let from = queues.from(LANE, TERM, 3);
        assert_eq!((from.place, from.handed_out), ((StoreTime(30), DeliveryId(3)), 0));
    }

    #[test]
    fn what_arrives_late_is_looked_for_where_it_is_due() {
        let (mut queues, mut signs) = handed_out();
        signs.arrive(StoreTime(40));
        signs.arrive(StoreTime(25));
        signs.arrive(StoreTime(27));
        queues.refresh(LANE, TERM, &signs);
        let from = queues.from(LANE, TERM, 3);
        assert_eq!((from.place, from.handed_out), ((StoreTime(25), DeliveryId(0)), 1), "3 lies beyond");
    }

    #[test]
    fn what_somebody_else_has_changed_may_lie_behind_the_place_where_it_was() {
        let (mut queues, mut signs) = handed_out();
        signs.disturbed += 1;
        queues.refresh(LANE, TERM, &signs);
        let from = queues.from(LANE, TERM, 3);
        assert_eq!((from.place, from.handed_out), ((StoreTime(30), DeliveryId(3)), 3));
    }

    #[test]
    fn what_a_commit_moves_is_looked_for_once_it_is_through() {
        let (mut queues, _) = handed_out();
        for place in [StoreTime(20), StoreTime(10), StoreTime(25)] {
            queues.pass_over((LANE, TERM), (place, DeliveryId(0)));
        }
        assert_eq!(queues.from(LANE, TERM, 3).place.0, StoreTime(30), "it is still under way");
        queues.step_back();
        let from = queues.from(LANE, TERM, 3);
        assert_eq!((from.place, from.handed_out), ((StoreTime(10), DeliveryId(0)), 3));
        queues.advance((LANE, TERM), (StoreTime(40), DeliveryId(4)), &Signs::NONE, []);
        queues.step_back();
        assert_eq!(queues.from(LANE, TERM, 3).place.0, StoreTime(40), "once is enough");
    }

    #[test]
    fn what_a_commit_moved_that_ended_while_somebody_claims_is_passed_over_by_that_claim() {
        let of_commits: [fn(&mut Hands); 2] = [Hands::commit, Hands::undo];
        for end in of_commits {
            let mut hands = Hands::default();
            hands.held.begin(LANE, OwnerId(1), TERM);
            hands.commit();
            hands.begin_claim();
            let turns = hands.turns();
            hands.turn().held.leave(LANE, DeliveryId(1));
            end(&mut hands);
            assert_ne!(hands.turns(), turns, "what was read before may be from before the commit");
            assert_eq!(hands.in_hand_beside(LANE, DeliveryId(1)), InHand::Moving);
            assert_eq!(hands.in_hand_beside(LANE, DeliveryId(2)), InHand::No);
            hands.begin_claim();
            assert_eq!(hands.in_hand_beside(LANE, DeliveryId(1)), InHand::No, "it is read anew");
        }
    }

    #[test]
    fn the_head_is_what_waits_first_handed_out_or_not() {
        let (mut queues, mut signs) = handed_out();
        let held = |ids: &[u64]| ids.iter().map(|id| DeliveryId(*id)).collect::<Vec<_>>();
        assert_eq!(queues.head(LANE, TERM, held(&[2, 3])), Some(StoreTime(20)));
        assert_eq!(queues.head(LANE, TERM, held(&[])), Some(StoreTime(30)), "the rest is due later");
        assert_eq!(queues.head(LANE, TERM, held(&[2, 9])), None, "9 is not known");
        signs.are_seen(queues.head(LANE, TERM, held(&[3])));
        assert_eq!(signs.head, StoreTime(30));
        signs.arrive(StoreTime(15));
        assert_eq!(signs.head, StoreTime(15));
        queues.refresh(LANE, TERM, &signs);
        assert_eq!(queues.head(LANE, TERM, held(&[3])), Some(StoreTime(15)));
    }

    #[test]
    fn nothing_is_known_of_another_ownership_or_after_a_failure() {
        let (mut queues, _) = handed_out();
        queues.forget();
        let from = queues.from(LANE, TERM, 3);
        assert_eq!((from.place, from.handed_out), ((StoreTime(0), DeliveryId(0)), 3));
        assert_eq!(queues.head(LANE, TERM, []), None);
        assert!(queues.row(LANE, TERM, DeliveryId(2)).is_none(), "it may have been read in that commit");
        let (mut queues, _) = handed_out();
        assert!(queues.row(LANE, TERM, DeliveryId(2)).is_some());
        assert!(queues.row(LANE, Term(2), DeliveryId(2)).is_none());
        assert_eq!(queues.from(LANE, Term(2), 0).place.0, StoreTime(0));
        assert!(queues.row(LANE, TERM, DeliveryId(2)).is_none(), "the lane has changed hands");
    }
}
