use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

pub(super) struct Heap<E> {
    heap: BinaryHeap<Reverse<(u64, u64, u64)>>,
    what: BTreeMap<u64, E>,
    count: u64,
}

impl<E> Default for Heap<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), what: BTreeMap::new(), count: 0 }
    }
}

impl<E> Heap<E> {
    pub(super) fn push(&mut self, at: u64, tie: u64, what: E) {
        self.heap.push(Reverse((at, tie, self.count)));
        self.what.insert(self.count, what);
        self.count += 1;
    }

    pub(super) fn pop(&mut self) -> Option<(u64, E)> {
        let Reverse((at, _, number)) = self.heap.pop()?;
        Some((at, self.what.remove(&number)?))
    }

    pub(super) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }
}
