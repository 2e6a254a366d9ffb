//! Which processes of a store are alive.
//!
//! Leases tell this everywhere: an owner with an expired lease counts as dead. If the operating system knows sooner,
//! the store implements [`Liveness`], so that a killed process's lanes are free at once.

use std::fmt::Debug;
use std::io;

use super::lane::OwnerId;

pub trait Liveness: Send + Sync {
    /// Whether deaths are detected. Otherwise only leases tell.
    fn sees_deaths(&self) -> bool;

    /// Shows other processes that this one is alive, until [`Presence::end`] or the end of the process.
    fn announce(&self, id: OwnerId) -> io::Result<Box<dyn Presence>>;

    fn life_of(&self, id: OwnerId) -> Life;

    /// Whether other processes may be alive. True if unknown.
    fn others_may_live(&self, ourselves: Option<OwnerId>) -> bool;

    /// Owners that are certainly dead and not yet forgotten.
    fn dead(&self) -> Vec<OwnerId>;

    fn forget(&self, id: OwnerId);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Alive on this machine.
    Alive,
    Dead,
    /// Unknown: it is on another machine, or only its lease tells.
    Unknown,
}

/// This process's announcement. Dropping it does not end it, because requests may be under way.
pub trait Presence: Send + Debug {
    /// Ends the announcement when nothing is under way. With `left_nothing`, all traces are removed. Otherwise other
    /// processes see this one as dead.
    fn end(self: Box<Self>, left_nothing: bool);
}
