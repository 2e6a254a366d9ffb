//! Commands of operators and of maintenance.

use std::sync::Arc;

use super::lane::{Bounds, LaneState, OwnerId, Secret};
use crate::engine::{DeliveryId, LaneId, StoreTime};

/// The most secrets of a subscriber that sign at once.
pub const SECRETS_MAX: usize = 4;

/// A new subscriber.
#[derive(Clone, Debug)]
pub struct Subscribe {
    /// Its public id.
    pub id: Arc<str>,
    /// The name for people: unique among subscribers that are not removed.
    pub name: Arc<str>,
    /// Its endpoint.
    pub url: Arc<str>,
    /// The wanted event types, as JSON text. The store reads them only to find the subscribers of an event that
    /// was matched before a change.
    pub patterns: Arc<str>,
    /// All other settings, as JSON text. The store does not read them.
    pub settings: Arc<str>,
    /// The bounds of its queue.
    pub bounds: Bounds,
    /// Its first secret.
    pub secret: Secret,
}

/// Changes to a subscriber. `None` leaves a value unchanged.
#[derive(Clone, Debug)]
pub struct Change {
    /// The lane.
    pub lane: LaneId,
    /// Refuse unless the subscriber still has this version.
    pub version: Option<u64>,
    /// A new name.
    pub name: Option<Arc<str>>,
    /// A new endpoint.
    pub url: Option<Arc<str>>,
    /// New patterns.
    pub patterns: Option<Arc<str>>,
    /// New settings.
    pub settings: Option<Arc<str>>,
    /// New bounds. Waiting deliveries beyond them stay; no delivery is added until it fits.
    pub bounds: Option<Bounds>,
    /// Pause, resume or disable.
    pub state: Option<LaneState>,
}

impl Change {
    /// Changes nothing.
    #[must_use]
    pub const fn of(lane: LaneId) -> Self {
        Self {
            lane,
            version: None,
            name: None,
            url: None,
            patterns: None,
            settings: None,
            bounds: None,
            state: None,
        }
    }
}

/// Adds a secret beside the old ones.
#[derive(Clone, Debug)]
pub struct Rotate {
    /// The lane.
    pub lane: LaneId,
    /// The new secret.
    pub secret: Secret,
    /// When the old secrets stop signing, unless they retire sooner. By the wall clock and not the store's,
    /// because receivers were told a date.
    pub retire: StoreTime,
    /// The present time by the wall clock. Secrets that retired before are deleted.
    pub now: StoreTime,
}

/// Drains a node or ends that. Valid for this run of its process only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// The node.
    pub owner: OwnerId,
    /// True: the node takes no lanes and hands its lanes back. False: it continues.
    pub draining: bool,
}

/// A choice of dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dead {
    /// All dead letters.
    All,
    /// The lane's dead letters.
    Of(LaneId),
    /// These dead letters.
    These(Vec<DeliveryId>),
}

/// Lets dead letters wait again, oldest first, with no attempts made and a full time to live. Stops at a bound
/// and never sheds.
#[derive(Clone, Debug)]
pub struct Redrive {
    /// The choice.
    pub which: Dead,
    /// Only dead letters after this one: continues from [`super::reply::Redriven::last`].
    pub after: Option<DeliveryId>,
    /// The most dead letters to look at.
    pub max: u32,
}

/// Deletes dead letters, oldest first.
#[derive(Clone, Debug)]
pub struct Forget {
    /// The choice.
    pub which: Dead,
    /// Only dead letters after this one: continues from [`super::Reply::Forgotten`].
    pub after: Option<DeliveryId>,
    /// The most dead letters to look at.
    pub max: u32,
}

/// Sheds a lane's deliveries with the oldest due times, except claimed ones.
#[derive(Clone, Copy, Debug)]
pub struct Shed {
    /// The lane.
    pub lane: LaneId,
    /// The most deliveries.
    pub max: u32,
}

/// One step of making dead letters of deliveries that nobody will send.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// The most rows.
    pub max: u32,
}

/// One step of deleting old rows. An event goes with its deliveries, once all of them have been settled for
/// long enough.
#[derive(Clone, Copy, Debug)]
pub struct Purge {
    /// Delete events with all deliveries delivered or coalesced before this time. It must be at least the
    /// dedupe window ago, because a deleted event is no duplicate of a new one.
    pub settled_before: StoreTime,
    /// Delete attempts that began before this time.
    pub attempts_before: StoreTime,
    /// Delete dead letters from before this time.
    pub dead_before: StoreTime,
    /// The most rows to look at.
    pub max: u32,
}
