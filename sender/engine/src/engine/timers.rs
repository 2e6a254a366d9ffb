//! The one timer structure: a heap that holds each lane at most once, and can move it.

use super::time::Instant;

/// Children of a node. Four are as many as share a cache line, and keep the heap shallow.
const ARITY: usize = 4;
/// Marks a lane that is not in the heap.
const ABSENT: u32 = u32::MAX;

/// When each lane wants to be woken. Lanes are numbered densely from nothing.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: Vec<(Instant, u32)>,
    /// Where in the heap each lane is.
    places: Vec<u32>,
}

impl Timers {
    /// The earliest moment that any lane waits for.
    pub(super) fn next(&self) -> Option<Instant> {
        self.heap.first().map(|&(at, _)| at)
    }

    /// Takes out the lane that waits for the earliest moment, if that has come.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let &(at, lane) = self.heap.first()?;
        if at > now {
            return None;
        }
        self.clear(lane);
        Some(lane)
    }

    /// Wakes `lane` at that moment, and at no other.
    pub(super) fn set(&mut self, lane: u32, at: Instant) {
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

    /// Does not wake `lane`.
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

    /// Moves the entry at `place` up or down to where it belongs. Ties go by lane, so that the order of events does
    /// not depend on how the heap came about.
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

    fn put(&mut self, place: usize, entry: (Instant, u32)) {
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
                    timers.set(lane, Instant(at));
                    expected.insert(lane, Instant(at));
                } else {
                    timers.clear(lane);
                    expected.remove(&lane);
                }
                prop_assert_eq!(timers.next(), expected.values().min().copied());
            }
            let mut order: Vec<_> = expected.into_iter().map(|(lane, at)| (at, lane)).collect();
            order.sort_unstable();
            for (at, lane) in order {
                prop_assert_eq!(timers.pop_due(Instant(at.0 - 1)), None);
                prop_assert_eq!(timers.pop_due(at), Some(lane));
            }
            prop_assert_eq!(timers.pop_due(Instant::NEVER), None);
        }
    }
}
