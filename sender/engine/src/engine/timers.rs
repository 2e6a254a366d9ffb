//! A heap of timers with at most one entry for each lane, which can move.

use super::time::StoreTime;

/// Children of a node: four share a cache line and keep the heap shallow.
const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: Vec<(StoreTime, u32)>,
    /// Each lane's place in the heap, or [`ABSENT`].
    places: Vec<u32>,
}

impl Timers {
    pub(super) fn next(&self) -> Option<StoreTime> {
        self.heap.first().map(|&(at, _)| at)
    }

    pub(super) fn pop_due(&mut self, now: StoreTime) -> Option<u32> {
        let &(at, lane) = self.heap.first()?;
        if at > now {
            return None;
        }
        self.clear(lane);
        Some(lane)
    }

    /// Wakes `lane` at `at` and at no other moment.
    pub(super) fn set(&mut self, lane: u32, at: StoreTime) {
        let slot = lane as usize;
        if slot >= self.places.len() {
            self.places.resize(slot + 1, ABSENT);
        }
        if self.places[slot] == ABSENT {
            self.places[slot] = u32::try_from(self.heap.len()).expect("no more entries than lanes");
            self.heap.push((at, lane));
        }
        let place = self.places[slot] as usize;
        self.heap[place].0 = at;
        self.settle(place);
    }

    pub(super) fn clear(&mut self, lane: u32) {
        let Some(&place) = self.places.get(lane as usize) else { return };
        if place == ABSENT {
            return;
        }
        let place = place as usize;
        self.places[lane as usize] = ABSENT;
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.settle(place);
        }
    }

    /// Moves the entry at `place` to its position. Equal moments are ordered by lane, so the order of events
    /// does not depend on the heap's history.
    fn settle(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 && entry < self.heap[(place - 1) / ARITY] {
            let parent = (place - 1) / ARITY;
            self.put(place, self.heap[parent]);
            place = parent;
        }
        while let Some(child) = self.least_child(place)
            && self.heap[child] < entry
        {
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, entry);
    }

    fn least_child(&self, place: usize) -> Option<usize> {
        let first = place * ARITY + 1;
        let last = (first + ARITY).min(self.heap.len());
        (first..last).min_by_key(|&child| self.heap[child])
    }

    fn put(&mut self, place: usize, entry: (StoreTime, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = u32::try_from(place).expect("no more entries than lanes");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with a plain map from lane to moment.
        #[test]
        fn wakes_each_lane_once_at_its_latest_moment_in_order(
            moves in prop::collection::vec((0_u32..40, prop::option::of(1_u64..50)), 0..200),
        ) {
            let mut timers = Timers::default();
            let mut expected = BTreeMap::new();
            for (lane, at) in moves {
                if let Some(at) = at {
                    timers.set(lane, StoreTime(at));
                    expected.insert(lane, StoreTime(at));
                } else {
                    timers.clear(lane);
                    expected.remove(&lane);
                }
                prop_assert_eq!(timers.next(), expected.values().min().copied());
            }
            let mut order: Vec<_> = expected.into_iter().map(|(lane, at)| (at, lane)).collect();
            order.sort_unstable();
            for (at, lane) in order {
                prop_assert_eq!(timers.pop_due(StoreTime(at.0 - 1)), None);
                prop_assert_eq!(timers.pop_due(at), Some(lane));
            }
            prop_assert_eq!(timers.pop_due(StoreTime::NEVER), None);
        }
    }
}
