//! What our own commits have just recorded, so that a lane that keeps up is handed it without a look at the file.
//!
//! A lane is followed from the moment at which a claim has handed out all of it that was due. From then on its queue is what our
//! commits add to it, and that is kept here, with all that an attempt needs. Whatever else happens to a queue ends that, or bounds
//! it: what is put back into it is due at a moment, and nothing is handed out from here that is due later; a burial forgets the
//! lane; any command but the everyday ones forgets all of them. So does another process that has written to the file, which each
//! commit finds out as it begins: nothing is handed out from here longer than [`HOLDS_FOR`] after that, so that what others give
//! up is handed out no longer than what was read from the file a moment before. Where a commit takes that long by itself, the
//! file is read.
//!
//! It says nothing of what is not here. Where a lane has nothing here, the file is read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::engine::{LaneId, Nanos, StoreTime, Term};
use crate::store::command::Claim;
use crate::store::held::{Held, Standing};
use crate::store::reply::{Claimed, ClaimedRow};

/// For how long after the beginning of the last commit.
const HOLDS_FOR: Nanos = Nanos::from_millis(50);
/// How soon the file is looked at after that, in case that another process has added something.
const LOOK_AGAIN: Nanos = Nanos::from_millis(10);
/// So much of all lanes is kept, about.
const BYTES_MAX: usize = 8 << 20;
/// What a row takes beside its body, about.
const ROW_BYTES: usize = 256;

/// What was just recorded, by lane.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    lanes: BTreeMap<LaneId, Queue>,
    bytes: usize,
    /// When a commit found last that nobody else had written.
    seen: StoreTime,
    under_way: UnderWay,
}

/// What the commit under way does to queues.
#[derive(Debug, Default)]
struct UnderWay {
    recorded: Vec<(LaneId, Recorded)>,
    /// What it adds or puts back beside that: the longest due of each lane.
    others: BTreeMap<LaneId, StoreTime>,
    /// Lanes of which nothing is known after it.
    doubted: BTreeSet<LaneId>,
    /// Nothing is known of any lane after it.
    doubts_all: bool,
}

#[derive(Debug)]
struct Queue {
    term: Term,
    /// The longest due first.
    rows: VecDeque<Recorded>,
    /// Whatever else is free is due no sooner.
    until: StoreTime,
}

/// A delivery that waits, and since when it is due.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) due: StoreTime,
    pub(super) row: ClaimedRow,
}

impl Recorded {
    fn bytes(&self) -> usize {
        ROW_BYTES + self.row.body.bytes.len()
    }
}

impl Fresh {
    /// A commit begins, and nobody else has written since the last one, or somebody may have.
    pub(super) fn begin(&mut self, now: StoreTime, undisturbed: bool) {
        if !undisturbed {
            self.clear();
        }
        self.seen = now;
    }

    /// Whether what the commit under way records for a lane is wanted here.
    pub(super) fn follows(&self, lane: LaneId) -> bool {
        self.lanes.contains_key(&lane)
    }

    /// The commit under way records a delivery, for a lane that is followed.
    pub(super) fn record(&mut self, lane: LaneId, recorded: Recorded) {
        self.under_way.recorded.push((lane, recorded));
    }

    /// The commit under way adds something else to a queue, or puts it back.
    pub(super) fn add(&mut self, lane: LaneId, due: StoreTime) {
        let first = self.under_way.others.entry(lane).or_insert(due);
        *first = due.min(*first);
    }

    /// The commit under way gives up what waits on a lane.
    pub(super) fn doubt(&mut self, lane: LaneId) {
        self.forget(lane);
        self.under_way.doubted.insert(lane);
    }

    /// The commit under way does what is not done every day.
    pub(super) fn doubt_all(&mut self) {
        self.clear();
        self.under_way.doubts_all = true;
    }

    /// The commit is durable.
    pub(super) fn keep(&mut self, held: &Held) {
        let UnderWay { recorded, others, doubted, doubts_all } = std::mem::take(&mut self.under_way);
        if doubts_all {
            self.clear();
        }
        doubted.into_iter().for_each(|lane| self.forget(lane));
        for (lane, due) in others {
            self.bound(lane, due);
        }
        for (lane, recorded) in recorded {
            let delivery = recorded.row.delivery;
            // A claim beside the commit, or in it, may have handed it out already; whatever gives it back says so to `add`.
            if matches!(held.standing_beside(lane, delivery, self.seen), Standing::Free) {
                self.push(lane, recorded);
            }
        }
    }

    /// The commit failed, or nobody knows.
    pub(super) fn undo(&mut self) {
        self.clear();
        self.under_way = UnderWay::default();
    }

    /// A claim has handed out all that was due of a lane: what else is free is due at `until`, or there is nothing.
    pub(super) fn follow(&mut self, lane: LaneId, term: Term, until: Option<StoreTime>) {
        self.forget(lane);
        let until = until.unwrap_or(StoreTime(u64::MAX));
        self.lanes.insert(lane, Queue { term, rows: VecDeque::new(), until });
    }

    /// Something else may happen to the lane's queue, or the file is read for it.
    pub(super) fn forget(&mut self, lane: LaneId) {
        if let Some(queue) = self.lanes.remove(&lane) {
            self.bytes -= queue.rows.iter().map(Recorded::bytes).sum::<usize>();
        }
    }

    /// What a claim may have at once; nothing, if the file has to be looked at.
    pub(super) fn hand_out(&mut self, claim: &Claim, now: StoreTime, held: &Held) -> Option<Claimed> {
        let Claim { lane, term, max, bytes_max } = *claim;
        let holds = now.since(self.seen) <= HOLDS_FOR && held.holds(lane, term);
        let queue = self.lanes.get_mut(&lane).filter(|queue| holds && queue.term == term)?;
        let (mut rows, mut body_bytes) = (Vec::new(), 0_u64);
        while rows.len() < usize::try_from(max).unwrap_or(usize::MAX)
            && let Some(first) = queue.front(now)
        {
            let bytes = u64::try_from(first.row.body.bytes.len()).unwrap_or(u64::MAX);
            body_bytes = body_bytes.saturating_add(bytes);
            if body_bytes > bytes_max {
                // If it is the first, the file is read, and its answer tells how long it is.
                break;
            }
            if !matches!(held.standing_beside(lane, first.row.delivery, now), Standing::Free) {
                // A commit under way does something to it.
                break;
            }
            if let Some(recorded) = queue.rows.pop_front() {
                self.bytes -= recorded.bytes();
                rows.push(recorded.row);
            }
        }
        if queue.rows.is_empty() {
            // An empty queue keeps the memory of its last rows.
            queue.rows = VecDeque::new();
        }
        let first_left = queue.rows.front().map_or(queue.until, |first| first.due.min(queue.until));
        let look_again = StoreTime(now.0.saturating_add(LOOK_AGAIN.0));
        let next = Some(first_left.min(look_again));
        (!rows.is_empty()).then_some(Claimed { lane, term, rows, next, too_long: None })
    }

    fn push(&mut self, lane: LaneId, recorded: Recorded) {
        let bytes = recorded.bytes();
        if self.bytes.saturating_add(bytes) > BYTES_MAX {
            return self.bound(lane, recorded.due);
        }
        let Some(queue) = self.lanes.get_mut(&lane) else { return };
        let place = |recorded: &Recorded| (recorded.due, recorded.row.delivery);
        // Nearly always at the end.
        let at = queue.rows.partition_point(|before| place(before) < place(&recorded));
        queue.rows.insert(at, recorded);
        self.bytes += bytes;
    }

    /// Something that is not here is due then.
    fn bound(&mut self, lane: LaneId, due: StoreTime) {
        if let Some(queue) = self.lanes.get_mut(&lane) {
            queue.until = due.min(queue.until);
        }
    }

    fn clear(&mut self) {
        self.lanes.clear();
        self.bytes = 0;
    }
}

impl Queue {
    /// The longest due, if nothing else is due as long.
    fn front(&self, now: StoreTime) -> Option<&Recorded> {
        self.rows.front().filter(|first| first.due <= now && first.due < self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::DeliveryId;
    use crate::store::command::Body;
    use crate::store::lane::OwnerId;

    const LANE: LaneId = LaneId(1);
    const TERM: Term = Term(1);
    const NOW: StoreTime = StoreTime::from_secs(100);

    fn held() -> Held {
        let mut held = Held::default();
        held.begin(LANE, OwnerId(1), TERM);
        held.keep();
        held
    }

    /// Follows an empty lane.
    fn following() -> Fresh {
        let mut fresh = Fresh::default();
        fresh.begin(NOW, true);
        fresh.follow(LANE, TERM, None);
        fresh
    }

    fn recorded(number: u64, bytes: usize) -> Recorded {
        let body = Body { bytes: vec![b'x'; bytes].into() };
        let row = ClaimedRow {
            delivery: DeliveryId(number),
            attempts: 0,
            expires: StoreTime(u64::MAX),
            event: "e".into(),
            kind: "k".into(),
            received: NOW,
            body,
            signature: None,
        };
        Recorded { due: StoreTime(NOW.0 - 1_000 + number), row }
    }

    fn record(fresh: &mut Fresh, held: &Held, numbers: &[u64]) {
        numbers.iter().for_each(|number| fresh.record(LANE, recorded(*number, 1)));
        fresh.keep(held);
    }

    /// A claim's rows, and when the next is due; `None` if the file must be read.
    fn claim(fresh: &mut Fresh, held: &Held, max: u32, now: StoreTime) -> Option<(Vec<u64>, StoreTime)> {
        let claim = Claim { lane: LANE, term: TERM, max, bytes_max: u64::MAX };
        let claimed = fresh.hand_out(&claim, now, held)?;
        let rows = claimed.rows.iter().map(|row| row.delivery.0).collect();
        Some((rows, claimed.next.expect("there is always something to look at")))
    }

    fn numbers(fresh: &mut Fresh, held: &Held) -> Option<Vec<u64>> {
        claim(fresh, held, 10, NOW).map(|(numbers, _)| numbers)
    }

    #[test]
    fn what_a_commit_recorded_is_handed_out_once_the_longest_due_first() {
        let (mut fresh, held) = (following(), held());
        record(&mut fresh, &held, &[3, 5]);
        record(&mut fresh, &held, &[4]);
        assert_eq!(claim(&mut fresh, &held, 2, NOW), Some((vec![3, 4], recorded(5, 1).due)));
        let look_again = StoreTime(NOW.0 + LOOK_AGAIN.0);
        assert_eq!(claim(&mut fresh, &held, 2, NOW), Some((vec![5], look_again)));
        assert_eq!(claim(&mut fresh, &held, 2, NOW), None);
        assert_eq!(fresh.bytes, 0);
    }

    #[test]
    fn nothing_is_handed_out_of_a_lane_that_is_not_followed_or_not_ours() {
        let (mut fresh, held) = (Fresh::default(), held());
        fresh.begin(NOW, true);
        record(&mut fresh, &held, &[1]);
        assert_eq!(numbers(&mut fresh, &held), None);
        let mut fresh = following();
        record(&mut fresh, &held, &[1]);
        assert_eq!(numbers(&mut fresh, &Held::default()), None);
        let other = Claim { lane: LANE, term: Term(2), max: 1, bytes_max: 1 };
        assert_eq!(fresh.hand_out(&other, NOW, &held), None);
    }

    #[test]
    fn what_is_due_longer_and_not_here_comes_first() {
        let (mut fresh, held) = (following(), held());
        record(&mut fresh, &held, &[3, 7]);
        fresh.add(LANE, recorded(5, 1).due);
        record(&mut fresh, &held, &[8]);
        assert_eq!(claim(&mut fresh, &held, 10, NOW), Some((vec![3], recorded(5, 1).due)));
        assert_eq!(numbers(&mut fresh, &held), None);
        let (mut fresh, due) = (following(), StoreTime(NOW.0 + 5));
        fresh.follow(LANE, TERM, Some(due));
        record(&mut fresh, &held, &[1]);
        assert_eq!(claim(&mut fresh, &held, 10, NOW), Some((vec![1], due)), "what is due later is known too");
    }

    #[test]
    fn what_a_claim_beside_the_commit_handed_out_is_not_handed_out_again() {
        let (mut fresh, mut held) = (following(), held());
        fresh.record(LANE, recorded(1, 1));
        fresh.record(LANE, recorded(2, 1));
        held.take_beside(LANE, DeliveryId(1), None);
        fresh.keep(&held);
        assert_eq!(numbers(&mut fresh, &held), Some(vec![2]));
    }

    #[test]
    fn what_a_commit_under_way_gives_up_is_not_handed_out() {
        let (mut fresh, mut held) = (following(), held());
        record(&mut fresh, &held, &[1, 2]);
        held.leave(LANE, DeliveryId(1));
        assert_eq!(numbers(&mut fresh, &held), None);
        fresh.doubt(LANE);
        // A claim beside that commit started to follow the lane again.
        fresh.follow(LANE, TERM, None);
        record(&mut fresh, &held, &[3]);
        assert_eq!(numbers(&mut fresh, &held), None);
        assert_eq!(fresh.bytes, 0);
    }

    #[test]
    fn whatever_may_have_happened_beside_it_ends_it() {
        let held = held();
        type End = fn(&mut Fresh);
        let ends: [(&str, End); 4] = [
            ("another process has written", |fresh| fresh.begin(NOW, false)),
            ("a commit failed", Fresh::undo),
            ("a command that is not for every day", |fresh| {
                fresh.doubt_all();
                fresh.follow(LANE, TERM, None);
                fresh.record(LANE, recorded(2, 1));
                fresh.keep(&Held::default());
            }),
            ("the file was read for a claim", |fresh| fresh.forget(LANE)),
        ];
        for (what, end) in ends {
            let mut fresh = following();
            record(&mut fresh, &held, &[1]);
            end(&mut fresh);
            assert_eq!((numbers(&mut fresh, &held), fresh.bytes), (None, 0), "{what}");
        }
    }

    #[test]
    fn nothing_is_handed_out_long_after_the_last_commit() {
        let (mut fresh, held) = (following(), held());
        record(&mut fresh, &held, &[1, 2]);
        let last = StoreTime(NOW.0 + HOLDS_FOR.0);
        assert!(claim(&mut fresh, &held, 1, last).is_some());
        assert_eq!(claim(&mut fresh, &held, 1, StoreTime(last.0 + 1)), None);
        fresh.begin(last, true);
        assert!(claim(&mut fresh, &held, 1, StoreTime(last.0 + 1)).is_some());
    }

    #[test]
    fn no_more_is_in_memory_than_may_be_and_the_rest_is_read() {
        let (mut fresh, held) = (following(), held());
        let half = BYTES_MAX / 2 - ROW_BYTES;
        for number in 1..=4 {
            fresh.record(LANE, recorded(number, half));
        }
        fresh.keep(&held);
        assert_eq!(fresh.bytes, BYTES_MAX);
        assert_eq!(claim(&mut fresh, &held, 10, NOW), Some((vec![1, 2], recorded(3, 1).due)));
        assert_eq!(numbers(&mut fresh, &held), None);
    }

    #[test]
    fn a_claim_has_its_bounds() {
        let (mut fresh, held) = (following(), held());
        (1..=3).for_each(|number| fresh.record(LANE, recorded(number, 10)));
        fresh.keep(&held);
        let claim = |bytes_max| Claim { lane: LANE, term: TERM, max: 10, bytes_max };
        assert_eq!(fresh.hand_out(&claim(25), NOW, &held).unwrap().rows.len(), 2);
        assert_eq!(fresh.hand_out(&claim(9), NOW, &held), None, "the file tells how long it is");
        assert_eq!(fresh.hand_out(&claim(10), NOW, &held).unwrap().rows.len(), 1);
    }
}
