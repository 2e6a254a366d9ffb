//! Who wants which types, without asking everybody.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::LaneId;
use crate::event::{EventPatterns, Pattern};

/// The lanes behind each distinct pattern, in order. A copy shares its lists until one of them changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    all: Lanes,
    exactly: BTreeMap<Arc<str>, Lanes>,
    /// By what a type must begin with, the last dot included.
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

    /// The lanes that want a type, each once, in order.
    pub(super) fn lanes(&self, event_type: &str) -> Vec<LaneId> {
        let dots = event_type.match_indices('.');
        let below = dots.filter_map(|(at, dot)| self.below.get(&event_type[..at + dot.len()]));
        let lists = self.exactly.get(event_type).into_iter().chain(below);
        let mut lanes = self.all.to_vec();
        lists.for_each(|list| lanes.extend_from_slice(list));
        // A few runs in order one after another, which the sort finds and merges.
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
