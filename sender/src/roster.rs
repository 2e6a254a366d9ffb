//! All subscribers at one version of the store.
//!
//! A [`Roster`] is immutable. The store refuses an event if one of its subscribers changed after the
//! selection. [`RosterKeeper`] builds the next version from the changes.
//!
//! A subscriber with an unreadable row stays with its [`Fault`], visible to operators, and is sent nothing.
//! An event that it matches cannot be shaped for it, and is refused for all ([`Roster::in_the_way`]), so that
//! it is not lost.
//!
//! `Debug` shows neither keys nor URLs, which may hold tokens.

mod index;
mod keeper;
mod ready;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, LazyLock};

pub use keeper::RosterKeeper;
pub use ready::{Fault, Ready};

use crate::engine::breaker::BreakerPolicy;
use crate::engine::contract::{Bucket, Contract, Rate};
use crate::engine::pressure::PressurePolicy;
use crate::engine::retry::{Backoff, RetryPolicy};
use crate::engine::{LaneId, Lateness, Nanos, OutOfRange, Settings};
use crate::event::{EventPatterns, EventType};
use crate::store::lane::LaneState;
use crate::store::read::{self, LiveSecret};
use crate::subscriber::{RegionSecrets, SettingsText};
use index::Index;

/// All subscribers at one version.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    version: u64,
    subscribers: BTreeMap<LaneId, Arc<Subscriber>>,
    index: Index,
    /// Events would be recorded for these, were they not broken.
    unrecorded: BTreeSet<LaneId>,
}

/// A subscriber as stored.
#[derive(Clone, Debug)]
pub struct Row {
    /// The subscriber.
    pub subscriber: read::Subscriber,
    /// Its secrets, the newest first.
    pub secrets: Vec<LiveSecret>,
}

impl Roster {
    /// The store's version of the subscribers.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Changes must be in order.
    #[must_use]
    pub fn with(&self, changes: &[Row], regions: &RegionSecrets) -> Self {
        let mut roster = self.clone();
        for row in changes {
            roster.put(row, regions);
        }
        roster
    }

    fn at(&self, version: u64) -> Self {
        Self { version, ..self.clone() }
    }

    /// Ordered by lane. The cost depends on the matches and the dots in the type, not on all subscribers.
    #[must_use]
    pub fn matching(&self, event_type: &EventType) -> Vec<(LaneId, &Ready)> {
        let lanes = self.index.lanes(event_type.as_str()).into_iter();
        lanes.filter_map(|lane| Some((lane, self.subscribers.get(&lane)?.ready().ok()?))).collect()
    }

    /// One subscriber.
    #[must_use]
    pub fn get(&self, lane: LaneId) -> Option<&Arc<Subscriber>> {
        self.subscribers.get(&lane)
    }

    /// All subscribers, ordered by lane.
    pub fn subscribers(&self) -> impl Iterator<Item = &Arc<Subscriber>> {
        self.subscribers.values()
    }

    /// All lanes, in order.
    pub fn lanes(&self) -> impl Iterator<Item = LaneId> {
        self.subscribers.keys().copied()
    }

    /// The broken subscribers with their faults.
    pub fn broken(&self) -> impl Iterator<Item = (&Arc<Subscriber>, &Fault)> {
        self.subscribers().filter_map(|subscriber| Some((subscriber, subscriber.ready().err()?)))
    }

    /// A broken subscriber that matches, and so blocks the event. The cost depends on the number of broken
    /// ones.
    #[must_use]
    pub fn in_the_way(&self, event_type: &EventType) -> Option<(&Arc<Subscriber>, &Fault)> {
        let broken = self.unrecorded.iter().filter_map(|lane| self.subscribers.get(lane));
        broken.filter_map(|known| Some((known, known.ready().err()?))).find(|(known, _)| {
            // Unreadable patterns may match any type.
            known.wants.as_ref().is_none_or(|wanted| wanted.matches(event_type))
        })
    }

    fn put(&mut self, row: &Row, regions: &RegionSecrets) {
        let lane = row.subscriber.lane;
        let before = self.subscribers.remove(&lane);
        self.unrecorded.remove(&lane);
        if let Some(ready) = before.as_deref().and_then(Subscriber::recorded_for) {
            self.index.remove(lane, ready.patterns());
        }
        self.version = self.version.max(row.subscriber.version);
        if row.subscriber.state == LaneState::Removed {
            return;
        }
        let subscriber = Subscriber::new(row, before.as_deref(), regions);
        if let Some(ready) = subscriber.recorded_for() {
            self.index.add(lane, ready.patterns());
        } else if subscriber.state.accepts() {
            self.unrecorded.insert(lane);
        }
        self.subscribers.insert(lane, Arc::new(subscriber));
    }
}

/// One subscriber.
pub struct Subscriber {
    lane: LaneId,
    id: Arc<str>,
    name: Arc<str>,
    state: LaneState,
    settings: Arc<Settings>,
    ready: Result<Ready, Fault>,
    /// The patterns of a broken subscriber, if readable.
    wants: Option<EventPatterns>,
}

static STRICTEST: LazyLock<Arc<Settings>> =
    LazyLock::new(|| Arc::new(strictest().expect("the least of every range is in it")));

fn strictest() -> Result<Settings, OutOfRange> {
    let bucket = Bucket::new(Rate::new(1, Nanos::DAY)?, 1)?;
    let retry = RetryPolicy::new(Backoff::full_jitter(Nanos::HOUR, Nanos::DAY)?, 1, Nanos::DAY, Nanos::DAY)?;
    let contract = Contract::new(Some(bucket), Vec::new(), 1)?;
    let (breaker, pressure) = (BreakerPolicy::default(), PressurePolicy::default());
    Ok(Settings::new(contract, retry, breaker, pressure, Lateness::LONGEST))
}

impl Subscriber {
    fn new(row: &Row, before: Option<&Self>, regions: &RegionSecrets) -> Self {
        let ready = Ready::new(row, regions);
        let before = before.map(Self::settings);
        let settings = match &ready {
            // Unchanged settings can then be compared by pointer.
            Ok(ready) => {
                before.filter(|before| **before == ready.agreement().lane).unwrap_or(&ready.agreement().lane)
            }
            // Its levels still fall: at the former rate, or else at the slowest.
            Err(_) => before.unwrap_or(&STRICTEST),
        };
        let settings = Arc::clone(settings);
        let wants = if ready.is_ok() { None } else { serde_json::from_str(&row.subscriber.patterns).ok() };
        let read::Subscriber { lane, id, name, state, .. } = &row.subscriber;
        Self {
            lane: *lane,
            id: Arc::clone(id),
            name: Arc::clone(name),
            state: *state,
            settings,
            ready,
            wants,
        }
    }

    /// Its lane.
    #[must_use]
    pub const fn lane(&self) -> LaneId {
        self.lane
    }

    /// Its public id.
    #[must_use]
    pub const fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Its name for people.
    #[must_use]
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its state.
    #[must_use]
    pub const fn state(&self) -> LaneState {
        self.state
    }

    /// Unchanged settings keep their `Arc`. A broken subscriber keeps its former ones.
    #[must_use]
    pub const fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The time limit of an attempt; for a broken subscriber, the longest possible one.
    #[must_use]
    pub fn deadline(&self) -> Nanos {
        self.ready.as_ref().map_or(*SettingsText::TIMEOUT.end(), |ready| ready.agreement().timeouts.total)
    }

    /// Whether attempts may be made.
    #[must_use]
    pub const fn is_sendable(&self) -> bool {
        matches!(self.state, LaneState::Active) && self.ready.is_ok()
    }

    /// The data for events and attempts, or the fault.
    pub const fn ready(&self) -> Result<&Ready, &Fault> {
        self.ready.as_ref()
    }

    fn recorded_for(&self) -> Option<&Ready> {
        self.ready.as_ref().ok().filter(|_| self.state.accepts())
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lane, id, name, state, ready, .. } = self;
        let fault = ready.as_ref().err();
        let mut shown = f.debug_struct("Subscriber");
        shown.field("lane", lane).field("id", id).field("name", name).field("state", state);
        shown.field("fault", &fault).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
