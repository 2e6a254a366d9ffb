//! Attempts that ended since a lane's checkpoint, for the next owner of a lane with window caps.

use super::reply::Ended;
use crate::engine::{Nanos, StoreTime};

/// How much older than its commit a checkpoint may be, because a store in trouble commits late.
pub(super) const LATE_MAX: Nanos = Nanos(5 * Nanos::MINUTE.0);

/// How long before its checkpoint's commit an attempt that the checkpoint lacks may have begun.
pub(super) const MARGIN: Nanos = Nanos(Nanos::HOUR.0 + LATE_MAX.0);

/// No window cap counts more ends than this.
pub(super) const ENDS_MAX: u32 = crate::engine::contract::WINDOW_LIMIT_MAX;

/// The maximum number of runs.
pub(super) const RUNS_MAX: usize = 1_024;

/// Groups ends into runs. All ends of a run count as ended with its last one, and none later than now.
pub(super) fn runs(mut ends: Vec<StoreTime>, now: StoreTime) -> Vec<Ended> {
    ends.sort_unstable();
    let runs = ends.chunks(ends.len().div_ceil(RUNS_MAX).max(1));
    let run = |run: &[StoreTime]| {
        let at = run.last().copied().unwrap_or(now).min(now);
        Ended { at, count: u32::try_from(run.len()).unwrap_or(u32::MAX) }
    };
    runs.map(run).collect()
}
