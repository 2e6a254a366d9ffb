//! How far each lane's queue is handed out, so that claims start there.
//!
//! A lane that falls behind has hundreds of deliveries that are handed out and not settled. Without this cursor,
//! every claim would skip each of them. The cursors are valid while the store's numbers are those of this process's
//! commits, because every addition by another process changes the numbers.
//! A commit's own additions move the cursors only once it is durable: until then, claims beside it do not see them.

use std::collections::BTreeMap;

use super::fresh::{Fresh, Recorded};
use crate::engine::{LaneId, StoreTime, Term};
use crate::held::Held;

/// Numbers that change with every addition to a queue: the next delivery's number, and the count of deliveries put
/// back.
pub(super) type Known = (u64, u64);

#[derive(Debug, Default)]
pub(super) struct Fronts {
    known: Known,
    places: BTreeMap<LaneId, (Term, StoreTime)>,
    /// The earliest due time that the commit under way adds, for each lane.
    added: BTreeMap<LaneId, StoreTime>,
    pub(super) fresh: Fresh,
}

impl Fronts {
    pub(super) fn begin(&mut self, found: Known) {
        if found != self.known {
            self.places.clear();
        }
    }

    pub(super) fn add(&mut self, lane: LaneId, due: StoreTime) {
        self.fresh.add(lane, due);
        self.lower_due(lane, due);
    }

    pub(super) fn record(&mut self, lane: LaneId, recorded: Recorded) {
        self.lower_due(lane, recorded.due);
        self.fresh.record(lane, recorded);
    }

    fn lower_due(&mut self, lane: LaneId, due: StoreTime) {
        let first = self.added.entry(lane).or_insert(due);
        *first = due.min(*first);
    }

    /// Keeps the cursors after a durable commit, which left these numbers.
    pub(super) fn commit(&mut self, left: Known, held: &Held) {
        self.fresh.commit(held);
        self.known = left;
        for (lane, due) in std::mem::take(&mut self.added) {
            if let Some((_, place)) = self.places.get_mut(&lane) {
                *place = due.min(*place);
            }
        }
    }

    /// Also for a commit with an unknown outcome.
    pub(super) fn undo(&mut self) {
        self.places.clear();
        self.added.clear();
        self.fresh.undo();
    }

    /// Where a claim that read these numbers begins. `None`: at the beginning.
    pub(super) fn of(&self, lane: LaneId, term: Term, found: Known) -> Option<StoreTime> {
        let (known, place) = self.places.get(&lane)?;
        Some(*place).filter(|_| found == self.known && *known == term)
    }

    /// Notes that everything due before `place` is handed out, by a claim that read these numbers.
    pub(super) fn reach(&mut self, lane: LaneId, term: Term, place: StoreTime, found: Known) {
        if found == self.known {
            self.places.insert(lane, (term, place));
        }
    }

    /// Notes that everything due is handed out, by such a claim. `next`: when the next delivery is due.
    pub(super) fn reach_the_end(&mut self, lane: LaneId, term: Term, next: Option<StoreTime>, found: Known) {
        if found == self.known {
            self.fresh.follow(lane, term, next);
        }
    }

    pub(super) fn forget(&mut self, lane: LaneId) {
        self.places.remove(&lane);
        self.fresh.forget(lane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: LaneId = LaneId(1);
    const TERM: Term = Term(1);
    const PLACE: StoreTime = StoreTime(50);

    fn reached() -> Fronts {
        let mut fronts = Fronts::default();
        fronts.commit((7, 0), &Held::default());
        fronts.reach(LANE, TERM, PLACE, (7, 0));
        assert_eq!(fronts.of(LANE, TERM, (7, 0)), Some(PLACE));
        fronts
    }

    #[test]
    fn what_another_process_has_added_is_looked_for_from_the_beginning() {
        let mut fronts = reached();
        assert_eq!(fronts.of(LANE, TERM, (8, 0)), None, "a delivery is new");
        assert_eq!(fronts.of(LANE, TERM, (7, 1)), None, "one was put back");
        assert_eq!(fronts.of(LANE, Term(2), (7, 0)), None, "another ownership held others");
        fronts.begin((8, 0));
        fronts.commit((9, 0), &Held::default());
        assert_eq!(fronts.of(LANE, TERM, (9, 0)), None, "our commit came after it");
    }

    #[test]
    fn what_our_commit_adds_is_looked_for_once_it_is_durable() {
        let mut fronts = reached();
        fronts.begin((7, 0));
        fronts.add(LANE, StoreTime(40));
        fronts.add(LANE, StoreTime(30));
        fronts.add(LaneId(2), StoreTime(1));
        // A claim beside the commit does not see its row yet, and gets further.
        fronts.reach(LANE, TERM, StoreTime(60), (7, 0));
        fronts.commit((9, 0), &Held::default());
        assert_eq!(fronts.of(LANE, TERM, (9, 0)), Some(StoreTime(30)));
        fronts.begin((9, 0));
        fronts.add(LANE, StoreTime(90));
        fronts.commit((10, 0), &Held::default());
        assert_eq!(fronts.of(LANE, TERM, (10, 0)), Some(StoreTime(30)), "what is due later changes nothing");
    }

    #[test]
    fn a_claim_that_has_read_more_than_is_known_says_nothing() {
        let mut fronts = reached();
        fronts.reach(LANE, TERM, StoreTime(60), (8, 0));
        assert_eq!(fronts.of(LANE, TERM, (7, 0)), Some(PLACE));
    }

    #[test]
    fn after_a_failed_commit_all_is_looked_at() {
        let mut fronts = reached();
        fronts.add(LANE, StoreTime(1));
        fronts.undo();
        assert_eq!(fronts.of(LANE, TERM, (7, 0)), None);
    }
}
