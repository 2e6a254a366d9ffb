use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use super::ids::LaneId;
use super::lane::{Lane, WINDOW_MAX};

/// All lanes together should hold at most this many unsent deliveries. Lanes that hold any share it equally; a
/// smaller share takes effect with a lane's next claim.
const HELD: usize = 32_768;
/// The smallest share of a lane.
const WINDOW_LEAST: u32 = 4;

/// The hasher has the same key in every process, for determinism. Lane ids come from the store, so nobody can
/// choose ids that collide.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    slots: Vec<Option<Lane>>,
    free: Vec<u32>,
    by_id: HashMap<LaneId, u32, BuildHasherDefault<DefaultHasher>>,
    /// The number of lanes that hold deliveries or have asked for some.
    holding: usize,
}

impl Lanes {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn window(&self) -> u32 {
        share(self.holding)
    }

    /// Applies `act` and keeps `holding` up to date.
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

    /// In ascending order.
    pub(super) fn slots(&self) -> Vec<u32> {
        let used = self.slots.iter().enumerate().filter(|(_, lane)| lane.is_some());
        used.filter_map(|(slot, _)| u32::try_from(slot).ok()).collect()
    }
}

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
