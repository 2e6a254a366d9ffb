//! Finds the lanes that match a type without checking every subscriber.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::LaneId;
use crate::event::{EventPatterns, Pattern};

/// The lanes of each pattern, in order. Clones share lists until one changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    all: Lanes,
    exactly: BTreeMap<Arc<str>, Lanes>,
    /// By prefix, with the last dot.
    below: BTreeMap<Arc<str>, Lanes>,
}

type Lanes = Arc<Vec<LaneId>>;

impl Index {
    pub(super) fn add(&mut self, lane: LaneId, patterns: &EventPatterns) {
        for pattern in patterns.as_slice() {
            let lanes = match pattern {
                Pattern::All => &mut self.all,
                Pattern::Exactly(event_type) => self.exactly.entry(event_type.as_str().into()).or_default(),
                Pattern::Below(prefix) => self.below.entry((&**prefix).into()).or_default(),
            };
            if let Err(place) = lanes.binary_search(&lane) {
                Arc::make_mut(lanes).insert(place, lane);
            }
        }
    }

    pub(super) fn remove(&mut self, lane: LaneId, patterns: &EventPatterns) {
        for pattern in patterns.as_slice() {
            match pattern {
                Pattern::All => drop_lane(&mut self.all, lane),
                Pattern::Exactly(event_type) => drop_entry(&mut self.exactly, event_type.as_str(), lane),
                Pattern::Below(prefix) => drop_entry(&mut self.below, prefix, lane),
            }
        }
    }

    /// Without duplicates, in order.
    pub(super) fn lanes(&self, event_type: &str) -> Vec<LaneId> {
        let dots = event_type.match_indices('.');
        let below = dots.filter_map(|(at, dot)| self.below.get(&event_type[..at + dot.len()]));
        let lists = self.exactly.get(event_type).into_iter().chain(below);
        let mut lanes = self.all.to_vec();
        lists.for_each(|list| lanes.extend_from_slice(list));
        // Merges ordered runs.
        lanes.sort();
        lanes.dedup();
        lanes
    }
}

fn drop_entry(lists: &mut BTreeMap<Arc<str>, Lanes>, name: &str, lane: LaneId) {
    if let Some(list) = lists.get_mut(name) {
        drop_lane(list, lane);
        if list.is_empty() {
            lists.remove(name);
        }
    }
}

fn drop_lane(list: &mut Lanes, lane: LaneId) {
    if let Ok(place) = list.binary_search(&lane) {
        Arc::make_mut(list).remove(place);
    }
}
