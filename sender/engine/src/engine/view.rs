//! How a lane looks from outside, for whoever watches. Nothing is decided by it.

use super::breaker::Standing;
use super::ids::{LaneId, Term};
use super::shift::Shift;
use super::time::{Instant, Nanos};

/// How a lane is at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneView {
    /// The lane.
    pub lane: LaneId,
    /// Our ownership of it.
    pub term: Term,
    /// Attempts whose request may yet arrive.
    pub in_flight: u32,
    /// Those of them that ended without an answer.
    pub in_doubt: u32,
    /// When the last of these is surely no longer in doubt, if any is; an answer may bring it forward.
    pub in_doubt_until: Option<Instant>,
    /// How full the bucket is, in attempts, as of the last time that the limiter was asked.
    pub level: u64,
    /// How much of the contract the lane works at under pressure.
    pub share_percent: u32,
    /// When that changed last under this ownership, and why; nothing if it never did.
    pub shift: Option<Shift>,
    /// How long answers may take before they are a sign of strain; nothing while too few have come to say.
    pub target: Option<Nanos>,
    /// How long they usually take, over a day; nothing while too few have come.
    pub usual: Option<Nanos>,
    /// Whether the breaker holds attempts back, and until when.
    pub breaker: Standing,
    /// How much longer the endpoint wants to be left alone.
    pub paused_for: Nanos,
    /// Deliveries claimed and not sent.
    pub held: usize,
}

/// The requests of several lanes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    /// Attempts whose request may yet arrive.
    pub in_flight: u64,
    /// Those of them that ended without an answer.
    pub in_doubt: u64,
}

impl UnderWay {
    /// Of these lanes.
    #[must_use]
    pub fn of(views: &[LaneView]) -> Self {
        views.iter().fold(Self::default(), |sum, view| Self {
            in_flight: sum.in_flight + u64::from(view.in_flight),
            in_doubt: sum.in_doubt + u64::from(view.in_doubt),
        })
    }
}
