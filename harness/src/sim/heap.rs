//! What is to happen, and when.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::world::Happening;

/// Happenings by time, then by chance.
#[derive(Default)]
pub(super) struct Heap {
    heap: BinaryHeap<Reverse<(u64, u64, u64)>>,
    what: BTreeMap<u64, Happening>,
    count: u64,
}

impl Heap {
    pub(super) fn push(&mut self, at: u64, tie: u64, what: Happening) {
        self.heap.push(Reverse((at, tie, self.count)));
        self.what.insert(self.count, what);
        self.count += 1;
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Happening)> {
        let Reverse((at, _, number)) = self.heap.pop()?;
        Some((at, self.what.remove(&number)?))
    }

    pub(super) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }
}
