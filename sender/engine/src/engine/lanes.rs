//! Where each lane is.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use super::ids::LaneId;
use super::lane::{Lane, WINDOW_MAX};

/// What lanes hold without having sent it is shared among those that hold any: they are to hold so many together, and are
/// held to it with their next claims.
const HELD: usize = 32_768;
/// The most that a lane holds where many do.
const WINDOW_LEAST: u32 = 4;

/// The lanes in dense slots, and where each is. Hashing is keyed the same in every process, so that nothing depends
/// on chance; lane ids are the store's own, so that nobody can choose them to collide.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    slots: Vec<Option<Lane>>,
    free: Vec<u32>,
    by_id: HashMap<LaneId, u32, BuildHasherDefault<DefaultHasher>>,
    /// How many of them hold deliveries, or have asked for some.
    holding: usize,
}

impl Lanes {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// How many deliveries each lane may hold without having sent them.
    pub(super) fn window(&self) -> u32 {
        share(self.holding)
    }

    /// Does something to the lane in a slot, if there is one.
    pub(super) fn act<T>(&mut self, slot: u32, act: impl FnOnce(&mut Lane) -> T) -> Option<T> {
        let lane = self.slots.get_mut(slot as usize)?.as_mut()?;
        let before = lane.is_holding();
        let done = act(lane);
        match (before, lane.is_holding()) {
            (false, true) => self.holding += 1,
            (true, false) => self.holding -= 1,
            _ => {}
        }
        Some(done)
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
        self.holding += usize::from(lane.is_holding());
        self.slots[slot as usize] = Some(lane);
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) {
        if let Some(lane) = self.slots.get_mut(slot as usize).and_then(Option::take) {
            self.by_id.remove(&lane.id);
            self.holding -= usize::from(lane.is_holding());
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
    let share = u32::try_from(HELD / lanes.max(1)).unwrap_or(WINDOW_MAX);
    share.clamp(WINDOW_LEAST, WINDOW_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_lanes_hold_anything_the_less_each_holds() {
        let shares = [0, 1, 128, 129, 1_000, 10_000_000].map(share);
        assert_eq!(shares, [256, 256, 256, 254, 32, 4]);
    }
}
