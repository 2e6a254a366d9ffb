use serde::{Deserialize, Serialize};

use super::doubt::{Doubts, RunRecord};
use super::ends::Ends;
use super::{LEVEL_MAX, Level, Limiter, Records};
use crate::engine::contract::{
    BURST_MAX, Bucket, Contract, DEADLINE_MAX, DOUBT_MAX, IN_FLIGHT_MAX, Lateness, Rate,
};
use crate::engine::time::{Nanos, StoreTime};

/// The state of a limiter for the next owner. Lengths are in nanoseconds and count from the moment of the
/// snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    rate_count: u64,
    rate_per: u64,
    /// `level_rest` is in units of 1/`rate_per`.
    level: u32,
    level_rest: u64,
    /// The bound on level plus in flight until a later record replaces it.
    full: u32,
    /// A bound on attempts that are under way, or have ended without a durable record.
    under_way: u32,
    /// Deadline, quarantine and doubt.
    lateness: [u64; 3],
    in_doubt: Vec<RunRecord>,
    /// How long ago attempts ended, and how many; oldest first.
    ends: Vec<(u64, u32)>,
    /// The ends are kept for this window.
    remembered: u64,
}

/// The new owner's knowledge beside the snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Since<'a> {
    /// A lower bound on the time since the snapshot.
    pub downtime: Nanos,
    /// Attempts that ended after the snapshot: how long ago, and how many.
    pub ended: &'a [(Nanos, u32)],
}

impl Limiter {
    /// Safe for a crash unless `is_final`.
    pub(super) fn take_snapshot(&mut self, is_final: bool, now: StoreTime) -> Snapshot {
        let bucket = self.contract.bucket();
        let per = u128::from(bucket.rate().per().0);
        let level = u32::try_from(self.level.units() / per).unwrap_or(LEVEL_MAX);
        let full = self.full();
        // A window cap can miss all that ended without a settlement too.
        let cap = self.contract.in_flight();
        let most = if self.ends.is_some() { cap } else { cap.min(full) };
        let (ends, remembered) = self.ends.as_ref().map_or_else(Default::default, |ends| ends.ages(now));
        let lateness = self.longest();
        Snapshot {
            rate_count: bucket.rate().count(),
            rate_per: bucket.rate().per().0,
            level,
            level_rest: u64::try_from(self.level.units() % per).unwrap_or(0),
            full,
            under_way: if is_final { 0 } else { most.max(self.open + self.unsettled) },
            lateness: [lateness.deadline().0, lateness.quarantine().0, lateness.doubt().0],
            in_doubt: self.doubts.record(now),
            ends,
            remembered: remembered.0,
        }
    }
}

impl Snapshot {
    /// Attempts in doubt, and the time until the last of them is released.
    pub(in crate::engine) fn in_doubt(&self) -> (u32, Option<Nanos>) {
        let count = self.in_doubt.iter().fold(0, |sum: u32, run| sum.saturating_add(run.count()));
        (count, self.in_doubt.iter().map(RunRecord::left).max())
    }

    /// A snapshot of an owner with this contract that has sent nothing.
    fn unknown(contract: &Contract) -> Self {
        Limiter::fresh(contract.clone(), Lateness::LONGEST).take_snapshot(false, StoreTime::START)
    }

    /// Nothing if the figures are invalid.
    pub(super) fn resume(
        &self,
        contract: Contract,
        lateness: Lateness,
        downtime: Nanos,
        now: StoreTime,
    ) -> Option<Limiter> {
        let since = Since { downtime, ended: &[] };
        let mut limiter = self.restore(&contract, lateness, since, now)?;
        limiter.change(contract, lateness, now);
        Some(limiter)
    }

    /// Nothing if the figures are invalid.
    pub(super) fn seize(
        &self,
        contract: Contract,
        lateness: Lateness,
        since: Since<'_>,
        now: StoreTime,
    ) -> Option<Limiter> {
        let mut limiter = self.restore(&contract, lateness, since, now)?;
        limiter.advance(now);
        let full = self.full.min(LEVEL_MAX);
        let under_way = self.under_way.min(IN_FLIGHT_MAX);
        let in_doubt = under_way.min(full);
        let level = full.saturating_sub(limiter.doubts.count()).saturating_sub(in_doubt);
        let rate = limiter.contract.bucket().rate();
        limiter.level = Level::new(u128::from(level) * u128::from(rate.per().0), now);
        let [deadline, quarantine, doubt] = self.lateness.map(Nanos);
        let (deadline, longest) = (deadline.min(DEADLINE_MAX), Lateness::LONGEST);
        let theirs = Lateness::new(deadline, quarantine.min(DOUBT_MAX), doubt.min(DOUBT_MAX));
        // They ended with the lease, or with the process.
        limiter.doubts.add(now, in_doubt, theirs.unwrap_or(longest), limiter.records.taken + 1, 0);
        if let Some(ends) = &mut limiter.ends {
            // At most the burst can be in flight; the rest has ended.
            ends.push(now, under_way - in_doubt);
        }
        limiter.change(contract, lateness, now);
        Some(limiter)
    }

    /// Without windows. If the contract changed since, the moment of the change is unknown: the downtime drains at the
    /// slower of both rates.
    fn restore(
        &self,
        next: &Contract,
        lateness: Lateness,
        since: Since<'_>,
        now: StoreTime,
    ) -> Option<Limiter> {
        let rate = Rate::new(self.rate_count, Nanos(self.rate_per)).ok()?;
        if (rate.count(), rate.per().0) != (self.rate_count, self.rate_per) {
            return None;
        }
        let then = now.sooner(since.downtime);
        let whole = u128::from(self.level.min(LEVEL_MAX)) * u128::from(self.rate_per);
        let mut level = Level::new(whole + u128::from(self.level_rest.min(self.rate_per)), then);
        let slower = rate.slower(next.bucket().rate());
        level.change_rate(rate, slower);
        let bucket = Bucket::new(slower, BURST_MAX).ok()?;
        // The next contract's windows count the attempts in doubt.
        let longest = next.windows().iter().map(|window| window.length()).fold(Nanos::ZERO, Nanos::max);
        let keep = Nanos(self.remembered).max(longest);
        let since = since.ended.iter().map(|&(ago, count)| (now.sooner(ago), count));
        Some(Limiter {
            contract: Contract::new(Some(bucket), Vec::new(), next.in_flight()).ok()?,
            lateness,
            older: None,
            level,
            ends: Ends::restore(&self.ends, then, since, keep, now),
            open: 0,
            unsettled: 0,
            doubts: Doubts::restore(&self.in_doubt, then),
            records: Records::default(),
        })
    }
}

impl Limiter {
    /// Continues after an orderly end, at least `downtime` ago. An invalid snapshot counts as an unreadable one
    /// after a crash.
    #[must_use]
    pub fn resume(
        contract: Contract,
        lateness: Lateness,
        snapshot: &Snapshot,
        downtime: Nanos,
        now: StoreTime,
    ) -> Self {
        snapshot.resume(contract.clone(), lateness, downtime, now).unwrap_or_else(|| {
            let since = Since { downtime, ended: &[] };
            Self::seize(contract, lateness, None, since, now)
        })
    }

    /// Takes over from a limiter that crashed or lost its lease. If its snapshot is unreadable, the previous
    /// owner is assumed to have had the present contract and the longest deadline, quarantine and doubt.
    #[must_use]
    pub fn seize(
        contract: Contract,
        lateness: Lateness,
        left: Option<&Snapshot>,
        since: Since<'_>,
        now: StoreTime,
    ) -> Self {
        let known = left.and_then(|left| left.seize(contract.clone(), lateness, since, now));
        known.unwrap_or_else(|| {
            let unknown = Snapshot::unknown(&contract);
            unknown.seize(contract.clone(), lateness, since, now).unwrap_or_else(|| {
                debug_assert!(false, "a snapshot of a valid contract is valid");
                Self::fresh(contract, lateness)
            })
        })
    }
}
