//! The part of a subscriber that the dispatcher uses.

use std::fmt;
use std::sync::Arc;

use crate::engine::{LaneId, Nanos, Settings};

/// All subscribers at one moment.
pub trait SubscriberSet {
    /// A subscriber.
    type Subscriber: Subscriber;

    /// The subscriber of a lane.
    fn get(&self, lane: LaneId) -> Option<&Arc<Self::Subscriber>>;

    /// All subscribers, in the order of their lanes.
    fn subscribers(&self) -> impl Iterator<Item = &Arc<Self::Subscriber>>;
}

/// One subscriber.
pub trait Subscriber: fmt::Debug {
    /// Its lane.
    fn lane(&self) -> LaneId;

    /// The name for people.
    fn name(&self) -> &Arc<str>;

    /// The lane's settings: the same `Arc` as in the set before, unless they have changed.
    fn settings(&self) -> &Arc<Settings>;

    /// The longest duration of an attempt.
    fn deadline(&self) -> Nanos;

    /// True if attempts may be made.
    fn is_sendable(&self) -> bool;

    /// True if this process cannot serve it: the secret of its region is missing, or its settings are
    /// unreadable.
    fn is_broken(&self) -> bool;
}
