//! Which processes of a store are alive.
//!
//! Leases tell it anywhere: an owner whose lease is over counts as dead. Where a store can tell sooner, since the operating
//! system says so, its [`Liveness`] does, and the lanes of a process that was killed are free at once.

use std::fmt::Debug;
use std::io;

use super::lane::OwnerId;

/// Which processes of a store are alive, as far as it can tell without their leases.
pub trait Liveness: Send + Sync {
    /// Whether a death is ever seen here. Where it is not, leases alone tell of it.
    fn sees_deaths(&self) -> bool;

    /// Has others see that this process is alive: until the end of what comes back, or of the process.
    ///
    /// # Errors
    ///
    /// When others can't be told.
    fn announce(&self, id: OwnerId) -> io::Result<Box<dyn Presence>>;

    /// What is known of another process.
    fn life_of(&self, id: OwnerId) -> Life;

    /// Whether any process may be alive but ourselves: where it can't be told, one may be.
    fn others_may_live(&self, ourselves: Option<OwnerId>) -> bool;

    /// The owners that are surely dead, until they are forgotten.
    fn dead(&self) -> Vec<OwnerId>;

    /// Nobody asks about a dead owner any more.
    fn forget(&self, id: OwnerId);
}

/// What is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It is alive, and on this machine.
    Alive,
    /// It is dead.
    Dead,
    /// It may be alive: it is on another machine, or its lease alone tells.
    Unknown,
}

/// This process, as others see it. Dropped, it goes on being seen until the process ends: requests may be under way.
pub trait Presence: Send + Debug {
    /// Nothing is under way any more. If nothing of this process is left in the store, it is as if it had never been; else
    /// others see that it is dead.
    fn end(self: Box<Self>, left_nothing: bool);
}
