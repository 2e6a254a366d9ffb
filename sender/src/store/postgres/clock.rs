//! The time of the store: the database's own clock, one for all nodes.
//!
//! A node asks it once, when it begins, and adds what its machine has run since; machines that drift apart by a few
//! milliseconds disagree by as much on what is due. Who owns what is not left to that: leases are reckoned by the
//! database's clock itself, which each commit asks.

use super::PostgresStore;
use super::failure::failure;
use crate::engine::StoreTime;
use crate::store::StoreError;
use crate::store::clock::{Beginning, Fault, Start, TOLERANCE};

/// The database's clock, in nanoseconds since 1970.
macro_rules! server_clock {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000000)::int8 * 1000"
    };
}
pub(super) use server_clock;

/// The database's clock, and the latest time that any commit had.
pub(super) const BOTH: &str = concat!("SELECT ", server_clock!(), ", max(clock) FROM newest_totals");

/// From which time a node counts, given the database's clock and the latest time that any commit had. A clock that was set
/// back by more than a little is not followed: leases and what is due go by the latest time until it has caught up.
pub(super) fn start(clock: StoreTime, latest: StoreTime) -> Start {
    let ahead = latest.since(clock);
    if ahead > TOLERANCE {
        return Start { now: latest, fault: Some(Fault::Kept(ahead)) };
    }
    Start { now: clock.max(latest), fault: None }
}

impl PostgresStore {
    /// Begins to count by the database's clock. Whoever commits without having called this hands in times of its own.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub fn begin_clock(&mut self, _beginning: Beginning<'_>) -> Result<Start, StoreError> {
        let doing = "read the time of the store";
        let link = self.link.as_ref().ok_or_else(|| self.lost(doing))?;
        let row = link.first(BOTH, &[]).map_err(|error| failure(doing, &error))?;
        let row = row.ok_or_else(|| StoreError::Broken { doing, detail: "there is no time".to_owned() })?;
        let (clock, latest) = (row.try_get(0), row.try_get::<_, Option<StoreTime>>(1));
        let clock = clock.map_err(|error| failure(doing, &error))?;
        let latest = latest.map_err(|error| failure(doing, &error))?.unwrap_or_default();
        self.by_server_clock = true;
        Ok(start(clock, latest))
    }
}
