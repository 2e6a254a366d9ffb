//! What a lane may do next, for the engine to carry out.

use super::breaker::IsProbe;
use super::message::{Due, Reason};
use super::time::Instant;

/// What a lane does next.
#[derive(Debug)]
pub(super) enum Move {
    /// Send this delivery; [`super::lane::Lane`] counts it as started.
    Send(Due, IsProbe),
    /// There is no further attempt for this delivery.
    GiveUp(Due, Reason),
    /// Ask the store for so many.
    Claim(u32),
    /// Give these back to the store: they can't be sent soon.
    Release(Vec<Due>),
    /// Nothing before then, unless something happens.
    Wait(Instant),
    /// It would send, if fewer attempts were under way.
    Crowd,
    /// Nothing, unless something happens.
    Rest,
}
