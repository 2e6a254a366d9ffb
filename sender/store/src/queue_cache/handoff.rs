//! Deliveries that this process's commits have just recorded, so that a lane that keeps up is served without reading
//! the file. Only the store on a file records them.
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
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use crate::reply::{Claimed, ClaimedRow};

/// How long after the start of the last commit the cache is used.
const HOLDS_FOR: Nanos = Nanos::from_millis(50);
/// When to read the file after that, in case another process has added deliveries.
const LOOK_AGAIN: Nanos = Nanos::from_millis(10);
/// Approximate limit for all lanes together.
const BYTES_MAX: usize = 8 << 20;
const ROW_BYTES: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Handoff {
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
    dropped: BTreeSet<LaneId>,
    drops_all: bool,
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

impl Handoff {
    /// Begins a commit. `undisturbed`: no other process has written since the last one.
    pub(super) fn begin(&mut self, now: StoreTime, undisturbed: bool) {
        if !undisturbed {
            self.forget_all();
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

    /// Drops a lane, now and again at the end of the commit: a claim beside it may follow the lane meanwhile.
    pub(super) fn drop_lane(&mut self, lane: LaneId) {
        self.forget(lane);
        self.under_way.dropped.insert(lane);
    }

    pub(super) fn drop_all(&mut self) {
        self.forget_all();
        self.under_way.drops_all = true;
    }

    pub(super) fn commit(&mut self, is_free: impl Fn(LaneId, DeliveryId) -> bool) {
        let UnderWay { recorded, others, dropped, drops_all } = std::mem::take(&mut self.under_way);
        if drops_all {
            self.forget_all();
        }
        dropped.into_iter().for_each(|lane| self.forget(lane));
        for (lane, due) in others {
            self.bound(lane, due);
        }
        for (lane, recorded) in recorded {
            let delivery = recorded.row.delivery;
            // A claim may have handed it out already. If it is released, `add` learns that.
            if is_free(lane, delivery) {
                self.push(lane, recorded);
            }
        }
    }

    pub(super) fn roll_back(&mut self) {
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

    /// Answers a claim from memory, with the due time of each row. `None`: the file must be read.
    pub(super) fn hand_out(
        &mut self,
        claim: &Claim,
        now: StoreTime,
        is_free: impl Fn(DeliveryId) -> bool,
    ) -> Option<(Claimed, Vec<StoreTime>)> {
        let Claim { lane, term, max, bytes_max } = *claim;
        let holds = now.since(self.seen) <= HOLDS_FOR;
        let queue = self.lanes.get_mut(&lane).filter(|queue| holds && queue.term == term)?;
        let (mut rows, mut dues, mut body_bytes) = (Vec::new(), Vec::new(), 0_u64);
        while rows.len() < usize::try_from(max).unwrap_or(usize::MAX)
            && let Some(first) = queue.front(now)
        {
            let bytes = u64::try_from(first.row.body.bytes.len()).unwrap_or(u64::MAX);
            body_bytes = body_bytes.saturating_add(bytes);
            if body_bytes > bytes_max {
                // If it is the first, the file is read, and that answer reports its length.
                break;
            }
            if !is_free(first.row.delivery) {
                // A commit under way changes it.
                break;
            }
            if let Some(recorded) = queue.rows.pop_front() {
                self.bytes -= recorded.bytes();
                dues.push(recorded.due);
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
        (!rows.is_empty()).then_some((Claimed { lane, term, rows, next, too_long: None }, dues))
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

    pub(super) fn forget_all(&mut self) {
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

    const LANE: LaneId = LaneId(1);
    const TERM: Term = Term(1);
    const NOW: StoreTime = StoreTime::from_secs(100);

    fn following() -> Handoff {
        let mut handoff = Handoff::default();
        handoff.begin(NOW, true);
        handoff.follow(LANE, TERM, None);
        handoff
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

    fn record(handoff: &mut Handoff, numbers: &[u64]) {
        numbers.iter().for_each(|number| handoff.record(LANE, recorded(*number, 1)));
        handoff.commit(|_, _| true);
    }

    fn claim_of(term: Term, bytes_max: u64) -> Claim {
        Claim { lane: LANE, term, max: 10, bytes_max }
    }

    /// A claim's rows, and when the next is due; `None` if the file must be read.
    fn claim(handoff: &mut Handoff, max: u32, now: StoreTime) -> Option<(Vec<u64>, StoreTime)> {
        let claim = Claim { lane: LANE, term: TERM, max, bytes_max: u64::MAX };
        let claimed = handoff.hand_out(&claim, now, |_| true)?.0;
        let rows = claimed.rows.iter().map(|row| row.delivery.0).collect();
        Some((rows, claimed.next.expect("there is always something to look at")))
    }

    fn numbers(handoff: &mut Handoff) -> Option<Vec<u64>> {
        claim(handoff, 10, NOW).map(|(numbers, _)| numbers)
    }

    #[test]
    fn recorded_deliveries_are_claimed_once_in_the_order_of_due_times() {
        let mut handoff = following();
        record(&mut handoff, &[3, 5]);
        record(&mut handoff, &[4]);
        assert_eq!(claim(&mut handoff, 2, NOW), Some((vec![3, 4], recorded(5, 1).due)));
        let look_again = StoreTime(NOW.0 + LOOK_AGAIN.0);
        assert_eq!(claim(&mut handoff, 2, NOW), Some((vec![5], look_again)));
        assert_eq!(claim(&mut handoff, 2, NOW), None);
        assert_eq!(handoff.bytes, 0);
    }

    #[test]
    fn nothing_is_handed_out_of_a_lane_that_is_not_followed_or_not_ours() {
        let mut handoff = Handoff::default();
        handoff.begin(NOW, true);
        record(&mut handoff, &[1]);
        assert_eq!(numbers(&mut handoff), None);
        let mut handoff = following();
        record(&mut handoff, &[1]);
        assert_eq!(handoff.hand_out(&claim_of(TERM, u64::MAX), NOW, |_| false), None, "none is free");
        assert_eq!(handoff.hand_out(&claim_of(Term(2), u64::MAX), NOW, |_| true), None);
    }

    #[test]
    fn an_older_due_delivery_outside_of_the_cache_comes_first() {
        let mut handoff = following();
        record(&mut handoff, &[3, 7]);
        handoff.add(LANE, recorded(5, 1).due);
        record(&mut handoff, &[8]);
        assert_eq!(claim(&mut handoff, 10, NOW), Some((vec![3], recorded(5, 1).due)));
        assert_eq!(numbers(&mut handoff), None);
        let (mut handoff, due) = (following(), StoreTime(NOW.0 + 5));
        handoff.follow(LANE, TERM, Some(due));
        record(&mut handoff, &[1]);
        assert_eq!(claim(&mut handoff, 10, NOW), Some((vec![1], due)), "what is due later is known too");
    }

    #[test]
    fn a_delivery_claimed_beside_the_commit_is_not_claimed_again() {
        let mut handoff = following();
        handoff.record(LANE, recorded(1, 1));
        handoff.record(LANE, recorded(2, 1));
        handoff.commit(|_, delivery| delivery != DeliveryId(1));
        assert_eq!(numbers(&mut handoff), Some(vec![2]));
    }

    #[test]
    fn a_delivery_that_the_current_commit_gives_up_is_not_claimed() {
        let mut handoff = following();
        record(&mut handoff, &[1, 2]);
        let is_free = |delivery| delivery != DeliveryId(1);
        assert_eq!(handoff.hand_out(&claim_of(TERM, u64::MAX), NOW, is_free), None);
        handoff.drop_lane(LANE);
        // A claim beside that commit started to follow the lane again.
        handoff.follow(LANE, TERM, None);
        record(&mut handoff, &[3]);
        assert_eq!(numbers(&mut handoff), None);
        assert_eq!(handoff.bytes, 0);
    }

    #[test]
    fn any_possible_change_by_others_ends_the_cache_of_a_lane() {
        type End = fn(&mut Handoff);
        let ends: [(&str, End); 4] = [
            ("another process has written", |handoff| handoff.begin(NOW, false)),
            ("a commit failed", Handoff::forget_all),
            ("a command that is not for every day", |handoff| {
                handoff.drop_all();
                handoff.follow(LANE, TERM, None);
                handoff.record(LANE, recorded(2, 1));
                handoff.commit(|_, _| true);
            }),
            ("the file was read for a claim", |handoff| handoff.forget(LANE)),
        ];
        for (what, end) in ends {
            let mut handoff = following();
            record(&mut handoff, &[1]);
            end(&mut handoff);
            assert_eq!((numbers(&mut handoff), handoff.bytes), (None, 0), "{what}");
        }
    }

    #[test]
    fn nothing_is_handed_out_long_after_the_last_commit() {
        let mut handoff = following();
        record(&mut handoff, &[1, 2]);
        let last = StoreTime(NOW.0 + HOLDS_FOR.0);
        assert!(claim(&mut handoff, 1, last).is_some());
        assert_eq!(claim(&mut handoff, 1, StoreTime(last.0 + 1)), None);
        handoff.begin(last, true);
        assert!(claim(&mut handoff, 1, StoreTime(last.0 + 1)).is_some());
    }

    #[test]
    fn no_more_is_in_memory_than_may_be_and_the_rest_is_read() {
        let mut handoff = following();
        let half = BYTES_MAX / 2 - ROW_BYTES;
        for number in 1..=4 {
            handoff.record(LANE, recorded(number, half));
        }
        handoff.commit(|_, _| true);
        assert_eq!(handoff.bytes, BYTES_MAX);
        assert_eq!(claim(&mut handoff, 10, NOW), Some((vec![1, 2], recorded(3, 1).due)));
        assert_eq!(numbers(&mut handoff), None);
    }

    #[test]
    fn a_claim_has_its_bounds() {
        let mut handoff = following();
        (1..=3).for_each(|number| handoff.record(LANE, recorded(number, 10)));
        handoff.commit(|_, _| true);
        let mut claim = |bytes_max| handoff.hand_out(&claim_of(TERM, bytes_max), NOW, |_| true);
        assert_eq!(claim(25).unwrap().0.rows.len(), 2);
        assert_eq!(claim(9), None, "the file tells how long it is");
        assert_eq!(claim(10).unwrap().1, [recorded(3, 10).due]);
    }
}
