//! Deliveries that this process's commits have just recorded, so that a lane that keeps up is served without reading
//! the file.
//!
//! A lane is followed from the moment when a claim has handed out everything due. From then on, its queue consists of
//! the commits' additions, which are cached here with everything that an attempt needs. Other changes end or limit
//! this:
//!
//! - A delivery put back sets a bound: nothing due later is handed out from here.
//! - A dead letter drops the lane, and a rare command drops all lanes.
//! - A write by another process drops all lanes. Each commit checks for one at its start, so the cache is used only
//!   for [`HOLDS_FOR`] after that.
//!
//! A lane without an entry says nothing: the file is read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::command::Claim;
use crate::engine::{LaneId, Nanos, StoreTime, Term};
use crate::held::{Held, Standing};
use crate::reply::{Claimed, ClaimedRow};

/// How long after the start of the last commit the cache is used.
const HOLDS_FOR: Nanos = Nanos::from_millis(50);
/// When to read the file after that, in case another process has added deliveries.
const LOOK_AGAIN: Nanos = Nanos::from_millis(10);
/// Approximate limit for all lanes together.
const BYTES_MAX: usize = 8 << 20;
const ROW_BYTES: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Fresh {
    lanes: BTreeMap<LaneId, Queue>,
    bytes: usize,
    /// The start of the last commit that found no other writer.
    seen: StoreTime,
    under_way: UnderWay,
}

#[derive(Debug, Default)]
struct UnderWay {
    recorded: Vec<(LaneId, Recorded)>,
    /// The earliest due time of its other additions, for each lane.
    others: BTreeMap<LaneId, StoreTime>,
    doubted: BTreeSet<LaneId>,
    doubts_all: bool,
}

#[derive(Debug)]
struct Queue {
    term: Term,
    rows: VecDeque<Recorded>,
    /// A lower bound for the due times of all other free deliveries.
    until: StoreTime,
}

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
    /// Begins a commit. `undisturbed`: no other process has written since the last one.
    pub(super) fn begin(&mut self, now: StoreTime, undisturbed: bool) {
        if !undisturbed {
            self.clear();
        }
        self.seen = now;
    }

    pub(super) fn follows(&self, lane: LaneId) -> bool {
        self.lanes.contains_key(&lane)
    }

    pub(super) fn record(&mut self, lane: LaneId, recorded: Recorded) {
        self.under_way.recorded.push((lane, recorded));
    }

    /// Notes that the commit adds another delivery to a queue, or puts one back.
    pub(super) fn add(&mut self, lane: LaneId, due: StoreTime) {
        let first = self.under_way.others.entry(lane).or_insert(due);
        *first = due.min(*first);
    }

    /// Notes that the commit gives up deliveries of a lane.
    pub(super) fn doubt(&mut self, lane: LaneId) {
        self.forget(lane);
        self.under_way.doubted.insert(lane);
    }

    pub(super) fn doubt_all(&mut self) {
        self.clear();
        self.under_way.doubts_all = true;
    }

    pub(super) fn commit(&mut self, held: &Held) {
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
            // A claim may have handed it out already. If it is released, `add` learns that.
            if matches!(held.standing_beside(lane, delivery, self.seen), Standing::Free) {
                self.push(lane, recorded);
            }
        }
    }

    /// Also for a commit with an unknown outcome.
    pub(super) fn undo(&mut self) {
        self.clear();
        self.under_way = UnderWay::default();
    }

    /// Starts to follow a lane after a claim handed out everything due. `until`: when the next other delivery is due.
    pub(super) fn follow(&mut self, lane: LaneId, term: Term, until: Option<StoreTime>) {
        self.forget(lane);
        let until = until.unwrap_or(StoreTime(u64::MAX));
        self.lanes.insert(lane, Queue { term, rows: VecDeque::new(), until });
    }

    pub(super) fn forget(&mut self, lane: LaneId) {
        if let Some(queue) = self.lanes.remove(&lane) {
            self.bytes -= queue.rows.iter().map(Recorded::bytes).sum::<usize>();
        }
    }

    /// Answers a claim from memory. `None`: the file must be read.
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
                // If it is the first, the file is read, and that answer reports its length.
                break;
            }
            if !matches!(held.standing_beside(lane, first.row.delivery, now), Standing::Free) {
                // A commit under way changes it.
                break;
            }
            if let Some(recorded) = queue.rows.pop_front() {
                self.bytes -= recorded.bytes();
                rows.push(recorded.row);
            }
        }
        if queue.rows.is_empty() {
            // An empty queue would keep the memory of its last rows.
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
    /// The longest due row, unless another delivery may be due as long.
    fn front(&self, now: StoreTime) -> Option<&Recorded> {
        self.rows.front().filter(|first| first.due <= now && first.due < self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Body;
    use crate::engine::DeliveryId;
    use crate::lane::OwnerId;

    const LANE: LaneId = LaneId(1);
    const TERM: Term = Term(1);
    const NOW: StoreTime = StoreTime::from_secs(100);

    fn held() -> Held {
        let mut held = Held::default();
        held.begin(LANE, OwnerId(1), TERM);
        held.commit();
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
        fresh.commit(held);
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
        fresh.commit(&held);
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
                fresh.commit(&Held::default());
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
        fresh.commit(&held);
        assert_eq!(fresh.bytes, BYTES_MAX);
        assert_eq!(claim(&mut fresh, &held, 10, NOW), Some((vec![1, 2], recorded(3, 1).due)));
        assert_eq!(numbers(&mut fresh, &held), None);
    }

    #[test]
    fn a_claim_has_its_bounds() {
        let (mut fresh, held) = (following(), held());
        (1..=3).for_each(|number| fresh.record(LANE, recorded(number, 10)));
        fresh.commit(&held);
        let claim = |bytes_max| Claim { lane: LANE, term: TERM, max: 10, bytes_max };
        assert_eq!(fresh.hand_out(&claim(25), NOW, &held).unwrap().rows.len(), 2);
        assert_eq!(fresh.hand_out(&claim(9), NOW, &held), None, "the file tells how long it is");
        assert_eq!(fresh.hand_out(&claim(10), NOW, &held).unwrap().rows.len(), 1);
    }
}
