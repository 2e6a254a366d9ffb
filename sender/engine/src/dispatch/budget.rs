//! How many bytes of bodies this process holds, over all lanes, and whose turn it is where there is no room for more.
//!
//! Bytes count from the claim that may bring them to the end of their attempt: a claim counts as much as it may bring, and
//! then what it has brought. A body that several deliveries share counts once for each. So no more is ever held than
//! [`BODY_BYTES_MAX`], whatever the store answers and in whatever order. That is far above what a launch comes to: where it is reached, lanes
//! wait for each other's endpoints, which they do nowhere else, and the process lives.
//!
//! How long the bodies of a lane are is known from its last claim; at first they are taken to be short. A claim that finds a longer
//! body brings nothing, tells how long that is, and is made again for as much.
//!
//! A claim for which there is no room waits for its turn, and none goes ahead of it but those of the other size: lanes of short and of long
//! bodies wait in two queues, and neither may hold more than seven eighths of the bytes. So long bodies that endpoints do not
//! take keep no lane of short ones from sending; and each has an eighth, but for what a claim brings that is longer than it was taken to be,
//! that is free as soon as its own attempts have ended, so that every lane gets its turn.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};

use crate::engine::{AttemptId, LaneId, Term};

/// Bytes of bodies that a process holds, at most: those that claims under way may bring, those that wait to be sent, and those
/// under way.
pub const BODY_BYTES_MAX: u64 = 1 << 30;
/// As much of that is for bodies of one size, at most.
const SIZE_BYTES_MAX: u64 = BODY_BYTES_MAX / 8 * 7;
/// The longest body that counts as short.
const SHORT_BYTES_MAX: u64 = 4 << 10;
/// A body is taken to be as long as that at least. 10,000 lanes whose bodies are no longer can all claim at the same moment, each
/// as much as the engine lets it hold: the first ones 256 deliveries, the last ones four.
const BODY_BYTES_LEAST: u64 = 1 << 10;
/// What one claim may bring, however few deliveries it asks for.
const CLAIM_BYTES_LEAST: u64 = 8 << 10;
/// What one claim may bring, however many deliveries it asks for. By the limits that events have by default none becomes a body as
/// long as that, whatever shape it gets.
pub const CLAIM_BYTES_MAX: u64 = 4 << 20;

const _: () = assert!(
    CLAIM_BYTES_MAX <= BODY_BYTES_MAX - SIZE_BYTES_MAX,
    "every claim must fit into the part that the other size leaves"
);

/// What claims take the bodies of their lane to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Short,
    Long,
}

/// Bytes that count, as long as this is not given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    size: Size,
    bytes: u64,
}

impl Portion {
    /// What a claim has brought may be longer than its lane's bodies were taken to be.
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

/// How long the bodies of a lane are: the longest lately, forgotten by half with each claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BodyLength(u64);

impl Default for BodyLength {
    fn default() -> Self {
        Self(BODY_BYTES_LEAST)
    }
}

impl BodyLength {
    /// The first body that is due is as long as that.
    pub(super) fn at_least(&mut self, bytes: u64) {
        self.0 = self.0.max(bytes);
    }

    /// A claim brought bodies, of which the longest has so many bytes.
    pub(super) fn brought(&mut self, longest: u64) {
        self.0 = longest.max(self.0 / 2).max(BODY_BYTES_LEAST);
    }
}

/// A claim that is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) lane: LaneId,
    pub(super) term: Term,
    /// At most so many deliveries.
    pub(super) max: u32,
    /// How long their bodies are.
    pub(super) length: BodyLength,
}

impl Wanted {
    const fn size(&self) -> Size {
        size_of(self.length.0)
    }

    /// What the store is asked for, for so many bytes of the budget. A longer body than anybody may emit counts for less than
    /// it has until it is here: its lane would wait for ever.
    pub(super) fn bytes_max(&self, portion: Portion) -> u64 {
        portion.bytes.max(self.length.0)
    }
}

/// The bytes of bodies that are held, and the claims that wait for room.
#[derive(Debug, Default)]
pub(super) struct Budget {
    short: Pool,
    long: Pool,
    /// Each attempt under way, where its id says.
    under_way: Vec<Option<(AttemptId, Portion)>>,
    /// In which queue a lane waits, and where.
    waits: HashMap<LaneId, (Size, u64), BuildHasherDefault<DefaultHasher>>,
    turns: u64,
}

/// Bodies of one size.
#[derive(Debug, Default)]
struct Pool {
    held: u64,
    /// Claims in the order in which they came: one of each lane, at most.
    queue: BTreeMap<u64, Wanted>,
}

impl Budget {
    /// Room for a claim, which counts as held from now on. If there is none, the claim waits for [`Self::next`].
    pub(super) fn ask(&mut self, wanted: Wanted) -> Option<Portion> {
        let portion = self.room(&wanted).filter(|_| self.pool(wanted.size()).queue.is_empty());
        match portion {
            Some(portion) => self.take(portion),
            None => self.wait(wanted),
        }
        portion
    }

    /// A claim that waited and has room by now, which counts as held.
    pub(super) fn next(&mut self) -> Option<(Wanted, Portion)> {
        [Size::Short, Size::Long].into_iter().find_map(|size| {
            let wanted = *self.pool(size).queue.values().next()?;
            let portion = self.room(&wanted)?;
            self.forget(wanted.lane);
            self.take(portion);
            Some((wanted, portion))
        })
    }

    /// A lane waits for nothing any more.
    pub(super) fn forget(&mut self, lane: LaneId) {
        if let Some((size, turn)) = self.waits.remove(&lane) {
            self.pool(size).queue.remove(&turn);
        }
    }

    /// So much is held.
    pub(super) fn take(&mut self, portion: Portion) {
        self.pool(portion.size).held += portion.bytes;
    }

    /// So much is not held any more.
    pub(super) fn give_back(&mut self, portion: Portion) {
        let pool = self.pool(portion.size);
        debug_assert!(pool.held >= portion.bytes, "more is given back than was taken");
        pool.held = pool.held.saturating_sub(portion.bytes);
    }

    /// What is held already is under way with an attempt.
    pub(super) fn start(&mut self, attempt: AttemptId, portion: Portion) {
        let place = attempt.slot as usize;
        if place >= self.under_way.len() {
            self.under_way.resize(place + 1, None);
        }
        self.under_way[place] = Some((attempt, portion));
    }

    /// The attempt has ended, and its body is not held any more.
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

    /// As much as there is of what a claim wants, but for one body at least.
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

    /// Fills the whole budget with bodies of this length, in portions of four MiB, or of a short claim's size.
    fn full(length: u64) -> (Budget, Vec<Portion>) {
        let mut budget = Budget::default();
        let portions = (0..).map_while(|lane| budget.ask(wanted(lane, 10_000, length))).collect();
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
        assert_eq!(budget.ask(wanted(1, 1, 4 * MIB)), None);
        budget.give_back(portions[0].part(MIB));
        assert_eq!(budget.ask(wanted(2, 1, MIB)), None, "it would fit, and the first would wait for ever");
        assert!(lanes(&mut budget).is_empty());
        budget.give_back(portions[0].part(3 * MIB));
        assert_eq!(lanes(&mut budget), [1]);
        budget.give_back(portions[1]);
        assert_eq!(lanes(&mut budget), [2]);
    }

    #[test]
    fn a_lane_that_is_not_ours_any_more_holds_up_nobody() {
        let (mut budget, portions) = full(MIB);
        assert_eq!([1, 2].map(|lane| budget.ask(wanted(lane, 1, 4 * MIB))), [None, None]);
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
            assert!(budget.ask(wanted(1_000, 1, other)).is_some());
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
            let portion = Budget::default().ask(wanted).expect("nothing is held");
            assert_eq!((portion.bytes, wanted.bytes_max(portion) >= length), (bytes, true));
        }
    }

    #[test]
    fn what_a_claim_has_brought_counts_by_its_own_length() {
        let mut budget = Budget::default();
        let portion = budget.ask(wanted(1, 256, 1)).expect("nothing is held");
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
