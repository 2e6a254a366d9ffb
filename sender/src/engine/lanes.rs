//! Where each lane is.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use super::ids::LaneId;
use super::lane::{Lane, WINDOW_LEAST, WINDOW_MAX};

/// About so many deliveries are held without having been sent, by all lanes together.
const HELD_MAX: usize = 131_072;

/// The lanes in dense slots, and where each is. Hashing is keyed the same in every process, so that nothing depends
/// on chance; lane ids are the store's own, so that nobody can choose them to collide.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    slots: Vec<Option<Lane>>,
    free: Vec<u32>,
    by_id: HashMap<LaneId, u32, BuildHasherDefault<DefaultHasher>>,
}

impl Lanes {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// How many deliveries each lane may hold without having sent them.
    pub(super) fn window(&self) -> u32 {
        share(self.by_id.len())
    }

    pub(super) fn find(&self, id: LaneId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Lane> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Lane> {
        self.slots.iter().flatten()
    }

    pub(super) fn insert(&mut self, lane: Lane) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("far fewer lanes than 2^32")
        });
        self.by_id.insert(lane.id, slot);
        self.slots[slot as usize] = Some(lane);
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) {
        if let Some(lane) = self.slots.get_mut(slot as usize).and_then(Option::take) {
            self.by_id.remove(&lane.id);
            self.free.push(slot);
        }
    }

    /// All slots in use, in order.
    pub(super) fn slots(&self) -> Vec<u32> {
        let used = self.slots.iter().enumerate().filter(|(_, lane)| lane.is_some());
        used.filter_map(|(slot, _)| u32::try_from(slot).ok()).collect()
    }
}

/// How many deliveries each of so many lanes may hold.
fn share(lanes: usize) -> u32 {
    let share = u32::try_from(HELD_MAX / lanes.max(1)).unwrap_or(WINDOW_MAX);
    share.clamp(WINDOW_LEAST, WINDOW_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_lanes_there_are_the_less_each_holds() {
        let shares = [0, 1, 512, 513, 10_000, 10_000_000].map(share);
        assert_eq!(shares, [256, 256, 256, 255, 13, 8]);
    }
}
