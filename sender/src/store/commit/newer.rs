//! Subscribers that have changed since an event was matched: whether it has to be matched anew.
//!
//! Whoever emits chooses the targets of an event from the roster that it knows, and others may have changed subscribers since. That
//! concerns the event if one of its targets has changed, so that what was made for it may not hold any more, or if one of those that
//! have changed wants events of its type. All others may change as often as they like: the event is recorded as it is.

use std::collections::BTreeMap;

use crate::engine::LaneId;
use crate::event::{EventPatterns, EventType};
use crate::store::command::Emit;

/// The subscribers that are newer than a roster, as a commit finds them. Those that are removed are not among them: such a one
/// wants nothing, and its lane takes nothing.
#[derive(Debug, Default)]
pub(in crate::store) struct Newer {
    since: u64,
    /// The store's roster by then.
    current: u64,
    subscribers: BTreeMap<LaneId, Subscriber>,
}

#[derive(Debug)]
struct Subscriber {
    version: u64,
    /// Nothing, if nobody can read that: it may want anything.
    wants: Option<EventPatterns>,
}

impl Newer {
    /// So many are looked at for an event. Where more have changed, it is matched anew.
    pub(in crate::store) const MAX: usize = 1_000;

    /// Those since a roster, now that the store's is that.
    pub(in crate::store) const fn new(since: u64, current: u64) -> Self {
        Self { since, current, subscribers: BTreeMap::new() }
    }

    /// Adds one, with its patterns as they are stored. One more than [`Self::MAX`] says that there are too many.
    pub(in crate::store) fn add(&mut self, lane: LaneId, version: u64, patterns: &[u8]) {
        self.subscribers.insert(lane, Subscriber { version, wants: serde_json::from_slice(patterns).ok() });
    }

    /// Whether these are all that an event has to be compared with, now that the store's roster is that.
    pub(in crate::store) const fn cover(&self, emit: &Emit, current: u64) -> bool {
        self.since <= emit.roster && self.current == current
    }

    /// Whether any of them concerns an event.
    pub(in crate::store) fn concern(&self, emit: &Emit) -> bool {
        // Whatever is offered has a type; of what has none nobody knows who wants it.
        let Ok(event_type) = emit.kind.parse::<EventType>() else { return true };
        let wants = |one: &Subscriber| one.wants.as_ref().is_none_or(|wanted| wanted.matches(&event_type));
        let has_changed =
            |lane: &LaneId| self.subscribers.get(lane).is_some_and(|one| one.version > emit.roster);
        self.subscribers.len() > Self::MAX
            || self.subscribers.values().any(|one| one.version > emit.roster && wants(one))
            || emit.targets.iter().any(|target| has_changed(&target.lane))
    }
}
