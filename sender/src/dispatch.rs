//! The dispatcher of the engine's crate, for the subscribers that this crate knows.

use std::sync::Arc;

pub use hookproof_engine::dispatch::*;

use crate::engine::{self, LaneId, Nanos};
use crate::event::{Limits, Shaping};
use crate::roster::{self, Roster};
use crate::store::lane::Retried;

pub type Dispatcher = hookproof_engine::dispatch::Dispatcher<Roster>;
pub type Effect = hookproof_engine::dispatch::Effect<Roster>;
pub type Event = hookproof_engine::dispatch::Event<Roster>;
pub type NewAttempt = hookproof_engine::dispatch::NewAttempt<Roster>;
pub type Settings = hookproof_engine::dispatch::Settings<Roster>;

const _: () = assert!(
    ((Limits::EVENT_BYTES + Shaping::GROWTH_BYTES_MAX) as u64) < CLAIM_BYTES_MAX / 2,
    "one claim brings the longest body that an event becomes by the limits of default"
);

impl SubscriberSet for Roster {
    type Subscriber = roster::Subscriber;

    fn get(&self, lane: LaneId) -> Option<&Arc<Self::Subscriber>> {
        self.get(lane)
    }

    fn subscribers(&self) -> impl Iterator<Item = &Arc<Self::Subscriber>> {
        self.subscribers()
    }
}

impl Subscriber for roster::Subscriber {
    fn lane(&self) -> LaneId {
        self.lane()
    }

    fn name(&self) -> &Arc<str> {
        self.name()
    }

    fn settings(&self) -> &Arc<engine::Settings> {
        self.settings()
    }

    fn deadline(&self) -> Nanos {
        self.deadline()
    }

    fn is_sendable(&self) -> bool {
        self.is_sendable()
    }

    fn retried(&self) -> Retried {
        self.retried()
    }

    fn is_broken(&self) -> bool {
        self.ready().is_err()
    }
}
