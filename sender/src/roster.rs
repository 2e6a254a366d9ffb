//! Everybody who is owed something, as of one version of the store's subscribers.
//!
//! A [`Roster`] never changes: whoever holds one chooses the targets of an event from it, and the store refuses the
//! event if a subscriber that it concerns has changed by then. [`RosterKeeper`] makes the next one from what has changed.
//!
//! A subscriber whose row cannot be made sense of any more (written by another version, by hand, or with a region whose
//! secret is gone) stays in the roster with its [`Fault`], where operators see it. It is sent nothing. An event that it
//! wants cannot be recorded for it, for nobody knows how to shape one; so that it is not lost, it is refused as a whole
//! ([`Roster::in_the_way`]) until the subscriber is mended or removed.
//!
//! Everything that an attempt needs is made ready once, keys included. Keys and URLs, which may hold tokens, are shown
//! by no `Debug` here.

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

/// All subscribers, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    version: u64,
    subscribers: BTreeMap<LaneId, Arc<Subscriber>>,
    index: Index,
    /// Those for whom events would be recorded, were they not broken.
    unrecorded: BTreeSet<LaneId>,
}

/// What the store knows of one subscriber.
#[derive(Clone, Debug)]
pub struct Row {
    /// The subscriber.
    pub subscriber: read::Subscriber,
    /// Its secrets, the newest first.
    pub secrets: Vec<LiveSecret>,
}

impl Roster {
    /// The store's roster that this is.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// This roster with what has changed since, in the order of the changes.
    #[must_use]
    pub fn with(&self, changes: &[Row], regions: &RegionSecrets) -> Self {
        let mut roster = self.clone();
        for row in changes {
            roster.put(row, regions);
        }
        roster
    }

    /// The same subscribers as of a later version.
    fn at(&self, version: u64) -> Self {
        Self { version, ..self.clone() }
    }

    /// Those whom events of a type are recorded for, in the order of their lanes. The work is in proportion to how many
    /// they are and how many dots the type has, however many subscribers there are.
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

    /// All subscribers, in the order of their lanes.
    pub fn subscribers(&self) -> impl Iterator<Item = &Arc<Subscriber>> {
        self.subscribers.values()
    }

    /// All lanes, in order.
    pub fn lanes(&self) -> impl Iterator<Item = LaneId> {
        self.subscribers.keys().copied()
    }

    /// Those that cannot be sent to, and why.
    pub fn broken(&self) -> impl Iterator<Item = (&Arc<Subscriber>, &Fault)> {
        self.subscribers().filter_map(|subscriber| Some((subscriber, subscriber.ready().err()?)))
    }

    /// One of those for whom an event of a type would have to be recorded and can't be, and why not. The work is in
    /// proportion to how many are broken: mostly nothing.
    #[must_use]
    pub fn in_the_way(&self, event_type: &EventType) -> Option<(&Arc<Subscriber>, &Fault)> {
        let broken = self.unrecorded.iter().filter_map(|lane| self.subscribers.get(lane));
        broken.filter_map(|known| Some((known, known.ready().err()?))).find(|(known, _)| {
            // One whose patterns nobody can read may want anything.
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
    /// The events that one that is broken wants, as far as that can be read.
    wants: Option<EventPatterns>,
}

/// The strictest contract that there is.
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
            // Whoever compares settings may compare pointers.
            Ok(ready) => {
                before.filter(|before| **before == ready.agreement().lane).unwrap_or(&ready.agreement().lane)
            }
            // Nothing is sent meanwhile, but levels go on falling: as they did, or else as slowly as any may.
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

    /// What people call it.
    #[must_use]
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What may be done for it.
    #[must_use]
    pub const fn state(&self) -> LaneState {
        self.state
    }

    /// What its lane goes by: the same `Arc` as in the roster before, unless it has changed. One that is broken keeps
    /// what it had.
    #[must_use]
    pub const fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// How long an attempt may take; of one that is broken, how long it may ever have been.
    #[must_use]
    pub fn deadline(&self) -> Nanos {
        self.ready.as_ref().map_or(*SettingsText::TIMEOUT.end(), |ready| ready.agreement().timeouts.total)
    }

    /// Whether attempts may be made.
    #[must_use]
    pub const fn is_sendable(&self) -> bool {
        matches!(self.state, LaneState::Active) && self.ready.is_ok()
    }

    /// All that an event or an attempt needs, or why there is none of it.
    pub const fn ready(&self) -> Result<&Ready, &Fault> {
        self.ready.as_ref()
    }

    /// The same, if events are recorded for it.
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
