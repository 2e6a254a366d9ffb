use super::breaker::IsProbe;
use super::message::{Due, Reason};
use super::time::Instant;

/// A lane's next action, for the engine to carry out.
#[derive(Debug)]
pub(super) enum Move {
    /// Send it; [`super::lane::Lane`] has counted it as started.
    Send(Due, IsProbe),
    GiveUp(Due, Reason),
    /// Ask the store for this many deliveries.
    Claim(u32),
    /// Give these back to the store: the lane cannot send them soon.
    Release(Vec<Due>),
    /// Do nothing before then, unless an input comes.
    Wait(Instant),
    /// Send as soon as fewer attempts are under way.
    Crowd,
    /// Do nothing until an input comes.
    Rest,
}
