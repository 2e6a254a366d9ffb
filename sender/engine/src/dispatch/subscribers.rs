//! What the dispatcher asks of subscribers. Its shell knows more of them, such as where to send and how to sign.

use std::fmt;
use std::sync::Arc;

use crate::engine::{LaneId, Nanos, Settings};

/// All subscribers at one moment.
pub trait SubscriberSet {
    /// One of them.
    type Subscriber: Subscriber;

    /// The subscriber of a lane.
    fn get(&self, lane: LaneId) -> Option<&Arc<Self::Subscriber>>;

    /// All of them, in the order of their lanes.
    fn subscribers(&self) -> impl Iterator<Item = &Arc<Self::Subscriber>>;
}

/// One subscriber.
pub trait Subscriber: fmt::Debug {
    /// Its lane.
    fn lane(&self) -> LaneId;

    /// What people call it.
    fn name(&self) -> &Arc<str>;

    /// What its lane goes by: the same `Arc` as in the set before, unless it has changed.
    fn settings(&self) -> &Arc<Settings>;

    /// How long an attempt may take.
    fn deadline(&self) -> Nanos;

    /// Whether attempts may be made.
    fn is_sendable(&self) -> bool;

    /// Whether this process cannot serve it: it lacks the secret of its region, or cannot read its settings.
    fn is_broken(&self) -> bool;
}
