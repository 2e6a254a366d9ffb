//! The store's time: the database's clock, shared by all nodes.
//!
//! A node reads it once at start and adds its own uptime, so drifting machines disagree slightly on due times. Leases
//! do not depend on that: each commit asks the database's clock.

use super::PostgresStore;
use super::failure::failure;
use super::ledger::Ledger;
use super::link::Link;
use crate::StoreError;
use crate::clock::{Beginning, Fault, Start, TOLERANCE};
use crate::engine::{Nanos, StoreTime};

/// Nanoseconds since 1970.
macro_rules! server_clock {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000000)::int8 * 1000"
    };
}
pub(super) use server_clock;

const BOTH: &str = concat!("SELECT ", server_clock!(), ", max(clock) FROM newest_totals");

/// Sets the recorded time of past commits back. Only while no lease is valid by the database's clock, so that no
/// process uses the later time. Skips rows locked by a commit. A lease longer than an hour comes from a clock that
/// was ahead.
const BRING_BACK: &str = "WITH ahead AS (SELECT writer FROM totals WHERE clock > $1
        AND NOT EXISTS (SELECT 1 FROM owners WHERE until > $1 AND until <= $1 + 3600000000000)
        FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE totals t SET clock = $1 FROM ahead a WHERE t.writer = a.writer";

pub(super) fn read_clock(link: &Link, beginning: Beginning<'_>) -> Result<Start, tokio_postgres::Error> {
    let row = link.one(BOTH, &[])?;
    let latest = row.try_get::<_, Option<StoreTime>>(1)?.unwrap_or_default();
    Ok(start(row.try_get(0)?, latest, beginning.wall))
}

/// The time from which a starting node counts. If the latest commit is far ahead, and this machine's clock agrees
/// with the database's, that commit's time was wrong. Otherwise only leases follow the database's clock, and due
/// times continue from the latest commit until the clock catches up.
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
    pub fn begin_clock(&mut self, beginning: Beginning<'_>) -> Result<Start, StoreError> {
        let doing = "read the database's clock";
        let link = self.link.as_ref().ok_or_else(|| self.lost(doing))?;
        let start = read_clock(link, beginning).map_err(|error| failure(doing, &error))?;
        if let Some(Fault::Corrected(_)) = start.fault {
            let doing = "correct the database's clock";
            link.execute(BRING_BACK, &[&start.now]).map_err(|error| failure(doing, &error))?;
        }
        (self.by_server_clock, self.connected) = (true, Some(start.now));
        Ok(start)
    }
}

impl Ledger {
    pub(super) const fn count_by_server(&mut self) {
        self.by_server_clock = true;
        self.clock = self.server_clock;
    }

    /// How far this process's time is ahead of the server's clock, beyond the tolerance. Deliveries recorded under
    /// the right time must not expire or be deleted before that clock agrees.
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
