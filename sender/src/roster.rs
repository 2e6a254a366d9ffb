//! All subscribers at one version of the store. The store refuses an event if one of its subscribers changed after the
//! selection.
//!
//! A subscriber with an unreadable row stays with its [`Fault`], and is sent nothing. An event that it matches is
//! refused for all ([`Roster::in_the_way`]), so that it is not lost.
//!
//! `Debug` shows neither keys nor URLs, which may hold tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::engine::breaker::BreakerPolicy;
use crate::engine::contract::{Bucket, Contract, Rate};
use crate::engine::pressure::PressurePolicy;
use crate::engine::retry::{Backoff, RetryPolicy};
use crate::engine::{LaneId, Lateness, Nanos, OutOfRange, Settings, StoreTime};
use crate::event::{EventPatterns, EventType, Pattern, PublicId, PublicIdError};
use crate::guard::{Target, TargetError};
use crate::sign::{Keys, KeysError, Retiring, Secret, SecretError, Signer};
use crate::store::StoreError;
use crate::store::lane::{LaneState, Pause, Retried};
use crate::store::read::{self, LiveSecret, Reader};
use crate::store::token::SubscriberNames;
use crate::subscriber::{Agreement, RegionSecrets, SettingsError, SettingsText};
use crate::transport::Destination;

#[cfg(test)]
mod tests;

#[derive(Clone, Debug, Default)]
pub struct Roster {
    version: u64,
    subscribers: BTreeMap<LaneId, Arc<Subscriber>>,
    index: Index,
    /// Events would be recorded for these, were they not broken.
    unrecorded: BTreeSet<LaneId>,
}

#[derive(Clone, Debug)]
pub struct Row {
    pub subscriber: read::Subscriber,
    pub secrets: Vec<LiveSecret>,
}

impl Roster {
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
    pub fn matching(
        &self,
        event_type: &EventType,
        within: Option<&SubscriberNames>,
    ) -> Vec<(LaneId, &Ready)> {
        let lanes = self.index.lanes(event_type.as_str()).into_iter();
        let known = lanes.filter_map(|lane| self.subscribers.get(&lane));
        let meant = known.filter(|known| within.is_none_or(|names| names.include(&known.name)));
        meant.filter_map(|known| Some((known.lane, known.ready().ok()?))).collect()
    }

    #[must_use]
    pub fn get(&self, lane: LaneId) -> Option<&Arc<Subscriber>> {
        self.subscribers.get(&lane)
    }

    pub fn subscribers(&self) -> impl Iterator<Item = &Arc<Subscriber>> {
        self.subscribers.values()
    }

    pub fn lanes(&self) -> impl Iterator<Item = LaneId> {
        self.subscribers.keys().copied()
    }

    pub fn broken(&self) -> impl Iterator<Item = (&Arc<Subscriber>, &Fault)> {
        self.subscribers().filter_map(|subscriber| Some((subscriber, subscriber.ready().err()?)))
    }

    /// A broken subscriber that matches blocks the event. The cost depends on the number of broken ones.
    #[must_use]
    pub fn in_the_way(
        &self,
        event_type: &EventType,
        within: Option<&SubscriberNames>,
    ) -> Option<(&Arc<Subscriber>, &Fault)> {
        let broken = self.unrecorded.iter().filter_map(|lane| self.subscribers.get(lane));
        let broken = broken.filter(|known| within.is_none_or(|names| names.include(&known.name)));
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

pub struct Subscriber {
    lane: LaneId,
    id: Arc<str>,
    name: Arc<str>,
    state: LaneState,
    retried: Retried,
    pause: Pause,
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
        let read::Subscriber { lane, id, name, state, retried, pause, .. } = &row.subscriber;
        Self {
            lane: *lane,
            id: Arc::clone(id),
            name: Arc::clone(name),
            state: *state,
            retried: *retried,
            pause: pause.clone(),
            settings,
            ready,
            wants,
        }
    }

    #[must_use]
    pub const fn lane(&self) -> LaneId {
        self.lane
    }

    #[must_use]
    pub const fn id(&self) -> &Arc<str> {
        &self.id
    }

    #[must_use]
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    #[must_use]
    pub const fn state(&self) -> LaneState {
        self.state
    }

    #[must_use]
    pub const fn retried(&self) -> Retried {
        self.retried
    }

    #[must_use]
    pub const fn pause(&self) -> &Pause {
        &self.pause
    }

    /// Unchanged settings keep their `Arc`. A broken subscriber keeps its former ones.
    #[must_use]
    pub const fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The longest possible one for a broken subscriber.
    #[must_use]
    pub fn deadline(&self) -> Nanos {
        self.ready.as_ref().map_or(*SettingsText::TIMEOUT.end(), |ready| ready.agreement().timeouts.total)
    }

    #[must_use]
    pub const fn is_sendable(&self) -> bool {
        matches!(self.state, LaneState::Active) && self.ready.is_ok()
    }

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

// Finds matching lanes without checking every subscriber.

/// Lanes are in order. Clones share lists until one changes.
#[derive(Clone, Debug, Default)]
struct Index {
    all: Lanes,
    exactly: BTreeMap<Arc<str>, Lanes>,
    /// By prefix, with the last dot.
    below: BTreeMap<Arc<str>, Lanes>,
}

type Lanes = Arc<Vec<LaneId>>;

impl Index {
    fn add(&mut self, lane: LaneId, patterns: &EventPatterns) {
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

    fn remove(&mut self, lane: LaneId, patterns: &EventPatterns) {
        for pattern in patterns.as_slice() {
            match pattern {
                Pattern::All => drop_lane(&mut self.all, lane),
                Pattern::Exactly(event_type) => drop_entry(&mut self.exactly, event_type.as_str(), lane),
                Pattern::Below(prefix) => drop_entry(&mut self.below, prefix, lane),
            }
        }
    }

    /// Without duplicates, in order.
    fn lanes(&self, event_type: &str) -> Vec<LaneId> {
        let dots = event_type.match_indices('.');
        let below = dots.filter_map(|(at, dot)| self.below.get(&event_type[..at + dot.len()]));
        let lists = self.exactly.get(event_type).into_iter().chain(below);
        let mut lanes =
            if event_type.starts_with(EventType::RESERVED) { Vec::new() } else { self.all.to_vec() };
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

#[derive(Clone, Debug, Default)]
pub struct RosterKeeper {
    regions: Arc<RegionSecrets>,
    present: Arc<Roster>,
}

impl RosterKeeper {
    const ROWS_MAX: u32 = 1_000;

    #[must_use]
    pub fn new(regions: RegionSecrets) -> Self {
        Self { regions: Arc::new(regions), present: Arc::default() }
    }

    /// `now` is the real time.
    pub fn caught_up(
        regions: RegionSecrets,
        reader: &dyn Reader,
        now: StoreTime,
    ) -> Result<Self, StoreError> {
        let mut keeper = Self::new(regions);
        keeper.catch_up(reader, now)?;
        Ok(keeper)
    }

    #[must_use]
    pub const fn present(&self) -> &Arc<Roster> {
        &self.present
    }

    /// For the validation of settings.
    #[must_use]
    pub const fn regions(&self) -> &Arc<RegionSecrets> {
        &self.regions
    }

    /// `now` is the real time, by which secrets retire. After an error, the pages read so far count.
    pub fn catch_up(&mut self, reader: &dyn Reader, now: StoreTime) -> Result<&Arc<Roster>, StoreError> {
        loop {
            let since = self.present.version();
            let changed = reader.subscribers_since(since, Self::ROWS_MAX)?;
            let is_all = u32::try_from(changed.len()).is_ok_and(|count| count < Self::ROWS_MAX);
            let rows = changed.into_iter().map(|subscriber| {
                let secrets = reader.secrets(subscriber.lane, now)?;
                Ok(Row { subscriber, secrets })
            });
            let rows = rows.collect::<Result<Vec<_>, StoreError>>()?;
            if !rows.is_empty() {
                self.present = Arc::new(self.present.with(&rows, &self.regions));
            }
            if is_all || self.present.version() == since {
                return Ok(&self.present);
            }
        }
    }

    /// The version before [`Self::catch_up`]. Perhaps no row carries it, because the last changed subscriber was deleted.
    pub fn reach(&mut self, version: u64) -> &Arc<Roster> {
        if self.present.version() < version {
            self.present = Arc::new(self.present.at(version));
        }
        &self.present
    }
}

pub struct Ready {
    id: PublicId,
    target: Destination,
    patterns: EventPatterns,
    agreement: Agreement,
    signer: Signer,
}

impl Ready {
    fn new(row: &Row, regions: &RegionSecrets) -> Result<Self, Fault> {
        let Row { subscriber, secrets } = row;
        let id: PublicId = subscriber.id.parse()?;
        let patterns = serde_json::from_str(&subscriber.patterns)
            .map_err(|error| Fault::Patterns { problem: error.to_string().into() })?;
        let mut agreement = SettingsText::from_json(&subscriber.settings)?.validate(&id, regions)?;
        let signer = Signer::new(agreement.profile, &keys(secrets)?)?;
        // The guard is asked when a subscriber is written and for each connection. If it refuses the host today,
        // events are still recorded.
        let url = Target::stored(&subscriber.url)?;
        let signer = signer.with_url(url.as_str());
        if let Some(permission) = &agreement.permission {
            let asking = agreement.lane.as_ref().clone().asking(Some(permission.key(&url)));
            agreement.lane = Arc::new(asking);
        }
        let lateness = agreement.lane.lateness();
        let late_max = lateness.doubt().min(lateness.quarantine());
        let (tls, oauth) = (agreement.tls.clone(), agreement.oauth.clone());
        let target = Destination { url, tls, oauth, permission: agreement.permission.clone(), late_max };
        Ok(Self { id, target, patterns, agreement, signer })
    }

    #[must_use]
    pub const fn id(&self) -> &PublicId {
        &self.id
    }

    /// The guard has not checked it.
    #[must_use]
    pub const fn target(&self) -> &Destination {
        &self.target
    }

    #[must_use]
    pub const fn patterns(&self) -> &EventPatterns {
        &self.patterns
    }

    #[must_use]
    pub const fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    #[must_use]
    pub const fn signer(&self) -> &Signer {
        &self.signer
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("id", &self.id).finish_non_exhaustive()
    }
}

fn keys(secrets: &[LiveSecret]) -> Result<Keys, Fault> {
    let read = |live: &LiveSecret| Secret::parse(live.secret.reveal());
    let (newest, older) = secrets.split_first().ok_or(Fault::NoSecret)?;
    let retiring = older.iter().map(|live| {
        let until = live.retires.unwrap_or(StoreTime(u64::MAX));
        Ok(Retiring::new(read(live)?, until))
    });
    Ok(Keys::from_parts(read(newest)?, retiring.collect::<Result<_, SecretError>>()?)?)
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("its id cannot be read: {0}")]
    Id(#[from] PublicIdError),
    #[error("its event patterns cannot be read: {problem}")]
    Patterns { problem: Box<str> },
    #[error("its settings do not hold: {0}")]
    Settings(#[from] SettingsError),
    #[error("{0}")]
    Secret(#[from] SecretError),
    #[error("{0}")]
    Keys(#[from] KeysError),
    #[error("it has no secret to sign with; rotate it to give it one")]
    NoSecret,
    #[error("{0}")]
    Url(#[from] TargetError),
}
