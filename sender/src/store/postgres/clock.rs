//! The time of the store: the database's own clock, one for all nodes.
//!
//! A node asks it once, when it begins, and adds what its machine has run since; machines that drift apart by a few
//! milliseconds disagree by as much on what is due. Who owns what is not left to that: leases are reckoned by the
//! database's clock itself, which each commit asks.
//!
//! Where some commit had a later time, that clock was ahead then, or it was set back since. Which of the two is right is told by a
//! third clock, that of the machine on which a node begins.

use super::PostgresStore;
use super::failure::failure;
use super::ledger::Ledger;
use super::link::Link;
use crate::engine::{Nanos, StoreTime};
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
const BOTH: &str = concat!("SELECT ", server_clock!(), ", max(clock) FROM newest_totals");

/// Brings the time of past commits back to a moment, while nobody has a lease by the database's clock: so nobody counts by a later one.
/// Who is at a commit is passed over. A lease that would last longer than there are any is one of a clock that was ahead.
const BRING_BACK: &str = "WITH ahead AS (SELECT writer FROM totals WHERE clock > $1
        AND NOT EXISTS (SELECT 1 FROM owners WHERE until > $1 AND until <= $1 + 3600000000000)
        FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE totals t SET clock = $1 FROM ahead a WHERE t.writer = a.writer";

/// From which time a node counts that begins now.
pub(super) fn look(link: &Link, beginning: Beginning<'_>) -> Result<Start, tokio_postgres::Error> {
    let row = link.one(BOTH, &[])?;
    let latest = row.try_get::<_, Option<StoreTime>>(1)?.unwrap_or_default();
    Ok(start(row.try_get(0)?, latest, beginning.wall))
}

/// From which time a node counts, given the database's clock, the latest time that any commit had, and the clock of this machine. Where a
/// commit had a time that is ahead by more than a little, and this machine's clock agrees with the database's, it was that time which was
/// wrong. Else leases alone follow the database's clock, and what is due goes by the latest time until that has caught up.
fn start(clock: StoreTime, latest: StoreTime, wall: StoreTime) -> Start {
    let ahead = latest.since(clock);
    let agree = wall.since(clock).max(clock.since(wall)) <= TOLERANCE;
    if ahead <= TOLERANCE {
        Start { now: clock.max(latest), fault: None }
    } else if agree {
        Start { now: clock, fault: Some(Fault::Corrected(ahead)) }
    } else {
        Start { now: latest, fault: Some(Fault::Kept(ahead)) }
    }
}

impl PostgresStore {
    /// Begins to count by the database's clock. Whoever commits without having called this hands in times of its own.
    ///
    /// # Errors
    ///
    /// When the database cannot be read or written.
    pub fn begin_clock(&mut self, beginning: Beginning<'_>) -> Result<Start, StoreError> {
        let doing = "read the time of the store";
        let link = self.link.as_ref().ok_or_else(|| self.lost(doing))?;
        let start = look(link, beginning).map_err(|error| failure(doing, &error))?;
        if let Some(Fault::Corrected(_)) = start.fault {
            let doing = "bring the time of the store back";
            link.execute(BRING_BACK, &[&start.now]).map_err(|error| failure(doing, &error))?;
        }
        (self.by_server_clock, self.connected) = (true, Some(start.now));
        Ok(start)
    }
}

impl Ledger {
    /// From here on leases are reckoned by the server's clock.
    pub(super) const fn count_by_server(&mut self) {
        self.by_server_clock = true;
        self.clock = self.server_clock;
    }

    /// How far this process's time is ahead of the server's clock, by more than a little, where it counts by that. What was recorded by the
    /// right time neither expires nor is deleted for its age before that clock says so too.
    pub(super) fn grace(&self, now: StoreTime) -> Nanos {
        let ahead = now.since(self.server_clock);
        if self.by_server_clock && ahead > TOLERANCE { ahead } else { Nanos::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_commit_is_followed_unless_this_machines_clock_agrees_with_the_servers() {
        let at = StoreTime::from_secs;
        let (clock, day) = (1_000_000, 86_400);
        let cases = [
            (clock, clock, at(clock), None),
            (clock + 60, 0, at(clock + 60), None),
            (clock + day, clock, at(clock), Some(Fault::Corrected(Nanos::DAY))),
            (clock + day, clock + 60, at(clock), Some(Fault::Corrected(Nanos::DAY))),
            (clock + day, clock - 61, at(clock + day), Some(Fault::Kept(Nanos::DAY))),
            (clock + day, clock + day, at(clock + day), Some(Fault::Kept(Nanos::DAY))),
        ];
        for (latest, wall, now, fault) in cases {
            assert_eq!(start(at(clock), at(latest), at(wall)), Start { now, fault }, "{latest} {wall}");
        }
    }
}
