//! What operators, and the clockwork on their behalf, ask of a store.

use std::sync::Arc;

use super::lane::{Bounds, LaneState, OwnerId, Secret};
use crate::engine::{DeliveryId, LaneId, StoreTime};

/// So many secrets of a subscriber sign at once.
pub const SECRETS_MAX: usize = 4;

/// A new subscriber.
#[derive(Clone, Debug)]
pub struct Subscribe {
    /// Its public id.
    pub id: Arc<str>,
    /// What people call it: unique among those not removed.
    pub name: Arc<str>,
    /// Its endpoint.
    pub url: Arc<str>,
    /// The patterns of event types that it wants, as JSON text. The store reads it only to tell whom an event concerns
    /// that was matched before a change.
    pub patterns: Arc<str>,
    /// Everything else that it is owed, as JSON text. The store does not read it.
    pub settings: Arc<str>,
    /// How much may wait for it.
    pub bounds: Bounds,
    /// Its first secret.
    pub secret: Secret,
}

/// Changes to a subscriber. What is `None` stays.
#[derive(Clone, Debug)]
pub struct Change {
    /// Which.
    pub lane: LaneId,
    /// Refuse unless the subscriber is still as it was when read.
    pub version: Option<u64>,
    /// A new name.
    pub name: Option<Arc<str>>,
    /// A new endpoint.
    pub url: Option<Arc<str>>,
    /// New patterns.
    pub patterns: Option<Arc<str>>,
    /// New settings.
    pub settings: Option<Arc<str>>,
    /// New bounds. What waits beyond them stays; nothing is added until it fits.
    pub bounds: Option<Bounds>,
    /// Pause, resume or disable.
    pub state: Option<LaneState>,
}

impl Change {
    /// A change of nothing yet.
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

/// A new secret beside the old ones.
#[derive(Clone, Debug)]
pub struct Rotate {
    /// Whose.
    pub lane: LaneId,
    /// The new one.
    pub secret: Secret,
    /// Until then the old ones sign too, unless they retire sooner. By the real clock, not by the store's: whoever verifies
    /// goes by the date that they were told.
    pub retire: StoreTime,
    /// Now, by the same clock. What retired before is forgotten.
    pub now: StoreTime,
}

/// Whether a node takes lanes. It counts for this run of the process, and no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// The node.
    pub owner: OwnerId,
    /// It takes none, and hands back those that it has; else it goes on.
    pub draining: bool,
}

/// Which dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dead {
    /// All.
    All,
    /// A lane's.
    Of(LaneId),
    /// These.
    These(Vec<DeliveryId>),
}

/// Has dead letters wait again, the oldest first, with no attempts made and a full time to live. It stops where a
/// bound is reached; it never sheds.
#[derive(Clone, Debug)]
pub struct Redrive {
    /// Which.
    pub which: Dead,
    /// Only after this one: go on where [`super::reply::Redriven::last`] left off.
    pub after: Option<DeliveryId>,
    /// Look at so many at most.
    pub max: u32,
}

/// Forgets dead letters, the oldest first.
#[derive(Clone, Debug)]
pub struct Forget {
    /// Which.
    pub which: Dead,
    /// Only after this one: go on where [`super::Reply::Forgotten`] left off.
    pub after: Option<DeliveryId>,
    /// Look at so many at most.
    pub max: u32,
}

/// Gives up the longest due of a lane, except what is claimed.
#[derive(Clone, Copy, Debug)]
pub struct Shed {
    /// The lane.
    pub lane: LaneId,
    /// At most so many.
    pub max: u32,
}

/// One small step of burying what nobody will send.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// At most so many rows.
    pub max: u32,
}

/// One small step of deleting what is old. Deliveries go with their events, once all deliveries of an event are
/// settled for so long.
#[derive(Clone, Copy, Debug)]
pub struct Purge {
    /// Events all of whose deliveries were delivered or coalesced before. It must lie at least the dedupe window
    /// back: what is deleted is no longer known to have been there.
    pub settled_before: StoreTime,
    /// Attempts begun before.
    pub attempts_before: StoreTime,
    /// Dead letters from before.
    pub dead_before: StoreTime,
    /// Look at so many rows at most.
    pub max: u32,
}
