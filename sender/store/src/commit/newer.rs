//! Decides whether an event must be matched again because subscribers changed after its emitter matched it.
//!
//! A change concerns the event if the subscriber is one of its targets, or if the subscriber wants events of its
//! type. All other changes leave the event as it is.

use std::collections::BTreeMap;

use hookproof_words::event_type::EventPatterns;
use hookproof_words::event_type::EventType;

use crate::command::Emit;
use crate::engine::LaneId;

/// The subscribers that are newer than the emitter's set. Removed ones are absent: they want nothing, and their lanes
/// accept nothing.
#[derive(Debug, Default)]
pub(crate) struct Newer {
    since: u64,
    current: u64,
    subscribers: BTreeMap<LaneId, Subscriber>,
}

#[derive(Debug)]
struct Subscriber {
    version: u64,
    /// `None`: the patterns are unreadable, so the subscriber may want any event.
    wants: Option<EventPatterns>,
}

impl Newer {
    /// An event is compared with at most this many changed subscribers. With more, it is matched again.
    pub(crate) const MAX: usize = 1_000;

    pub(crate) const fn new(since: u64, current: u64) -> Self {
        Self { since, current, subscribers: BTreeMap::new() }
    }

    /// Adds a subscriber with its stored patterns. [`Self::MAX`] + 1 subscribers mean that there are too many.
    pub(crate) fn add(&mut self, lane: LaneId, version: u64, patterns: &[u8]) {
        self.subscribers.insert(lane, Subscriber { version, wants: serde_json::from_slice(patterns).ok() });
    }

    pub(crate) const fn cover(&self, emit: &Emit, current: u64) -> bool {
        self.since <= emit.roster && self.current == current
    }

    pub(crate) fn concern(&self, emit: &Emit) -> bool {
        // Every offered event has a valid type. For any other, the subscribers that want it are unknown.
        let Ok(event_type) = emit.kind.parse::<EventType>() else { return true };
        let wants = |one: &Subscriber| one.wants.as_ref().is_none_or(|wanted| wanted.matches(&event_type));
        let has_changed =
            |lane: &LaneId| self.subscribers.get(lane).is_some_and(|one| one.version > emit.roster);
        self.subscribers.len() > Self::MAX
            || self.subscribers.values().any(|one| one.version > emit.roster && wants(one))
            || emit.targets.iter().any(|target| has_changed(&target.lane))
    }
}
