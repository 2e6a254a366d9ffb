//! The memory for bodies: a bound over all lanes, and turns for lanes without room.
//!
//! A claim counts with the bytes that it may bring, then with the bytes that it brought, until the end of each attempt.
//! A body counts once for each delivery that shares it. So the process never holds more than [`BODY_BYTES_MAX`]. At the
//! bound lanes wait for each other's endpoints.
//!
//! A lane's last claim tells its body length; a new lane's bodies count as short. A claim that finds a longer body
//! returns only its length, and the dispatcher repeats it with that much.
//!
//! Lanes of short and of long bodies wait in two queues, in the order of their claims. Neither size may hold more than
//! seven eighths of the bytes, so long bodies at a slow endpoint keep no lane of short bodies waiting.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};

use crate::engine::{AttemptId, LaneId, Term};

/// Bytes of bodies expected by claims under way, waiting, and under way.
pub const BODY_BYTES_MAX: u64 = 1 << 30;
const SIZE_BYTES_MAX: u64 = BODY_BYTES_MAX / 8 * 7;
const SHORT_BYTES_MAX: u64 = 4 << 10;
/// Lets 10,000 lanes with such bodies claim at the same moment.
const BODY_BYTES_LEAST: u64 = 1 << 10;
const CLAIM_BYTES_LEAST: u64 = 8 << 10;
/// With the default limits of events, no body is longer.
pub const CLAIM_BYTES_MAX: u64 = 4 << 20;

const _: () = assert!(
    CLAIM_BYTES_MAX <= BODY_BYTES_MAX - SIZE_BYTES_MAX,
    "every claim must fit into the part that the other size leaves"
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Short,
    Long,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    size: Size,
    bytes: u64,
}

impl Portion {
    /// `bytes` came, which may be of another size than the claim expected.
    pub(super) const fn of_body(bytes: u64) -> Self {
        Self { size: size_of(bytes), bytes }
    }

    #[cfg(test)]
    const fn part(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }
}

const fn size_of(length: u64) -> Size {
    if length > SHORT_BYTES_MAX { Size::Long } else { Size::Short }
}

/// The longest recent body of a lane; each claim forgets half of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BodyLength(u64);

impl Default for BodyLength {
    fn default() -> Self {
        Self(BODY_BYTES_LEAST)
    }
}

impl BodyLength {
    pub(super) fn at_least(&mut self, bytes: u64) {
        self.0 = self.0.max(bytes);
    }

    pub(super) fn brought(&mut self, longest: u64) {
        self.0 = longest.max(self.0 / 2).max(BODY_BYTES_LEAST);
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) lane: LaneId,
    pub(super) term: Term,
    pub(super) max: u32,
    pub(super) length: BodyLength,
}

impl Wanted {
    const fn size(&self) -> Size {
        size_of(self.length.0)
    }

    /// A body longer than any claim counts with less than its length; otherwise its lane would wait for ever.
    pub(super) fn bytes_max(&self, portion: Portion) -> u64 {
        portion.bytes.max(self.length.0)
    }
}

#[derive(Debug, Default)]
pub(super) struct Budget {
    short: Pool,
    long: Pool,
    /// Attempts under way, by the slot of their id.
    under_way: Vec<Option<(AttemptId, Portion)>>,
    /// The queue of each waiting lane, and its place.
    waits: HashMap<LaneId, (Size, u64), BuildHasherDefault<DefaultHasher>>,
    turns: u64,
}

#[derive(Debug, Default)]
struct Pool {
    held: u64,
    /// In order of arrival, at most one for each lane.
    queue: BTreeMap<u64, Wanted>,
}

impl Budget {
    /// Reserves room for a claim. Without room the claim waits for [`Self::next`].
    pub(super) fn reserve(&mut self, wanted: Wanted) -> Option<Portion> {
        let portion = self.room(&wanted).filter(|_| self.pool(wanted.size()).queue.is_empty());
        match portion {
            Some(portion) => self.take(portion),
            None => self.wait(wanted),
        }
        portion
    }

    pub(super) fn next(&mut self) -> Option<(Wanted, Portion)> {
        [Size::Short, Size::Long].into_iter().find_map(|size| {
            let wanted = *self.pool(size).queue.values().next()?;
            let portion = self.room(&wanted)?;
            self.forget(wanted.lane);
            self.take(portion);
            Some((wanted, portion))
        })
    }

    pub(super) fn forget(&mut self, lane: LaneId) {
        if let Some((size, turn)) = self.waits.remove(&lane) {
            self.pool(size).queue.remove(&turn);
        }
    }

    pub(super) fn take(&mut self, portion: Portion) {
        self.pool(portion.size).held += portion.bytes;
    }

    pub(super) fn give_back(&mut self, portion: Portion) {
        let pool = self.pool(portion.size);
        debug_assert!(pool.held >= portion.bytes, "more is given back than was taken");
        pool.held = pool.held.saturating_sub(portion.bytes);
    }

    pub(super) fn start(&mut self, attempt: AttemptId, portion: Portion) {
        let place = attempt.slot as usize;
        if place >= self.under_way.len() {
            self.under_way.resize(place + 1, None);
        }
        self.under_way[place] = Some((attempt, portion));
    }

    pub(super) fn end(&mut self, attempt: AttemptId) {
        let ended = self.under_way.get_mut(attempt.slot as usize);
        if let Some((_, portion)) = ended.and_then(|place| place.take_if(|(known, _)| *known == attempt)) {
            self.give_back(portion);
        }
    }

    fn wait(&mut self, wanted: Wanted) {
        self.forget(wanted.lane);
        self.turns += 1;
        let (size, turn) = (wanted.size(), self.turns);
        self.waits.insert(wanted.lane, (size, turn));
        self.pool(size).queue.insert(turn, wanted);
    }

    /// The free bytes up to the claim's wish, if one body fits.
    fn room(&mut self, wanted: &Wanted) -> Option<Portion> {
        let size = wanted.size();
        let free = BODY_BYTES_MAX.saturating_sub(self.short.held + self.long.held);
        let free = free.min(SIZE_BYTES_MAX.saturating_sub(self.pool(size).held));
        let least = wanted.length.0.min(CLAIM_BYTES_MAX);
        let most = u64::from(wanted.max).saturating_mul(least).clamp(CLAIM_BYTES_LEAST, CLAIM_BYTES_MAX);
        (least <= free).then_some(Portion { size, bytes: most.max(least).min(free) })
    }

    fn pool(&mut self, size: Size) -> &mut Pool {
        match size {
            Size::Short => &mut self.short,
            Size::Long => &mut self.long,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn wanted(lane: u64, max: u32, length: u64) -> Wanted {
        let mut bodies = BodyLength::default();
        bodies.at_least(length);
        Wanted { lane: LaneId(lane), term: Term(1), max, length: bodies }
    }

    fn full(length: u64) -> (Budget, Vec<Portion>) {
        let mut budget = Budget::default();
        let portions = (0..).map_while(|lane| budget.reserve(wanted(lane, 10_000, length))).collect();
        assert!(budget.next().is_none());
        budget.waits.keys().copied().collect::<Vec<_>>().into_iter().for_each(|lane| budget.forget(lane));
        (budget, portions)
    }

    fn lanes(budget: &mut Budget) -> Vec<u64> {
        std::iter::from_fn(|| budget.next()).map(|(wanted, _)| wanted.lane.0).collect()
    }

    #[test]
    fn nobody_goes_ahead_of_who_came_before() {
        let (mut budget, portions) = full(MIB);
        assert_eq!(budget.reserve(wanted(1, 1, 4 * MIB)), None);
        budget.give_back(portions[0].part(MIB));
        assert_eq!(
            budget.reserve(wanted(2, 1, MIB)),
            None,
            "it would fit, and the first would wait for ever"
        );
        assert!(lanes(&mut budget).is_empty());
        budget.give_back(portions[0].part(3 * MIB));
        assert_eq!(lanes(&mut budget), [1]);
        budget.give_back(portions[1]);
        assert_eq!(lanes(&mut budget), [2]);
    }

    #[test]
    fn a_lane_that_is_not_ours_any_more_holds_up_nobody() {
        let (mut budget, portions) = full(MIB);
        assert_eq!([1, 2].map(|lane| budget.reserve(wanted(lane, 1, 4 * MIB))), [None, None]);
        budget.forget(LaneId(1));
        budget.give_back(portions[0]);
        assert_eq!(lanes(&mut budget), [2]);
        assert!(budget.waits.is_empty() && budget.long.queue.is_empty());
    }

    #[test]
    fn each_size_leaves_something_to_the_other() {
        for (one, other) in [(MIB, 1), (1, MIB)] {
            let (mut budget, portions) = full(one);
            let held: u64 = portions.iter().map(|portion| portion.bytes).sum();
            assert_eq!(held, SIZE_BYTES_MAX);
            assert!(budget.reserve(wanted(1_000, 1, other)).is_some());
        }
    }

    #[test]
    fn a_claim_has_room_for_one_body_at_least_and_for_all_if_there_is_enough() {
        let rows = [
            (1, 1, 8 << 10),
            (256, 1, 256 << 10),
            (1, MIB, MIB),
            (3, MIB, 3 * MIB),
            (256, MIB, 4 * MIB),
            (1, 64 * MIB, 4 * MIB),
        ];
        for (max, length, bytes) in rows {
            let wanted = wanted(1, max, length);
            let portion = Budget::default().reserve(wanted).expect("nothing is held");
            assert_eq!((portion.bytes, wanted.bytes_max(portion) >= length), (bytes, true));
        }
    }

    #[test]
    fn claimed_rows_count_by_their_own_length() {
        let mut budget = Budget::default();
        let portion = budget.reserve(wanted(1, 256, 1)).expect("nothing is held");
        budget.give_back(portion);
        [300, 100_000].into_iter().for_each(|bytes| budget.take(Portion::of_body(bytes)));
        assert_eq!((budget.short.held, budget.long.held), (300, 100_000));
    }

    #[test]
    fn bodies_are_taken_to_be_as_long_as_lately() {
        let mut length = BodyLength::default();
        length.brought(MIB);
        assert_eq!(length, BodyLength(MIB));
        length.brought(300);
        assert_eq!(length, BodyLength(MIB / 2));
        (0..20).for_each(|_| length.brought(300));
        assert_eq!(length, BodyLength::default());
    }
}
