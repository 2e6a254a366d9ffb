//! A lane's state, for operators only.

use super::breaker::Standing;
use super::ids::{LaneId, Term};
use super::shift::Shift;
use super::time::{Instant, Nanos};

/// A lane's state at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneView {
    /// The lane.
    pub lane: LaneId,
    /// Our ownership of it.
    pub term: Term,
    /// Attempts whose request may still arrive.
    pub in_flight: u32,
    /// Those of them that ended without an answer.
    pub in_doubt: u32,
    /// The latest moment at which the last of these is released. An answer may bring it forward.
    pub in_doubt_until: Option<Instant>,
    /// The level of the bucket in attempts, as of the limiter's last update.
    pub level: u64,
    /// The lane's share of its contract, in percent.
    pub share_percent: u32,
    /// The last change of the share under this ownership, if any.
    pub shift: Option<Shift>,
    /// The latency above which the share is lowered. Nothing before enough answers came.
    pub target: Option<Nanos>,
    /// The usual latency over a day. Nothing before enough answers came.
    pub usual: Option<Nanos>,
    /// The breaker's state.
    pub breaker: Standing,
    /// The rest of the endpoint's pause.
    pub paused_for: Nanos,
    /// Deliveries claimed but not sent.
    pub held: usize,
}

/// The requests of several lanes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    /// Attempts whose request may still arrive.
    pub in_flight: u64,
    /// Those of them that ended without an answer.
    pub in_doubt: u64,
}

impl UnderWay {
    /// The sum over `views`.
    #[must_use]
    pub fn of(views: &[LaneView]) -> Self {
        views.iter().fold(Self::default(), |sum, view| Self {
            in_flight: sum.in_flight + u64::from(view.in_flight),
            in_doubt: sum.in_doubt + u64::from(view.in_doubt),
        })
    }
}
