//! What ended on a lane with window caps since its record was written, as whoever seizes it is told.

use super::reply::Ended;
use crate::engine::{Nanos, StoreTime};

/// How much older than its commit a record may be: a store in trouble commits late.
pub(super) const LATE_MAX: Nanos = Nanos(5 * Nanos::MINUTE.0);

/// And how much older than its commit an attempt may have begun that it does not tell of.
pub(super) const MARGIN: Nanos = Nanos(Nanos::HOUR.0 + LATE_MAX.0);

/// More ends than this count for no window cap.
pub(super) const ENDS_MAX: u32 = crate::engine::contract::WINDOW_LIMIT_MAX;

/// They are told in no more runs than this.
pub(super) const RUNS_MAX: usize = 1_024;

/// Runs of ends, each told as if all of it had ended with its last one, and none later than now.
pub(super) fn runs(mut ends: Vec<StoreTime>, now: StoreTime) -> Vec<Ended> {
    ends.sort_unstable();
    let runs = ends.chunks(ends.len().div_ceil(RUNS_MAX).max(1));
    let run = |run: &[StoreTime]| {
        let at = run.last().copied().unwrap_or(now).min(now);
        Ended { at, count: u32::try_from(run.len()).unwrap_or(u32::MAX) }
    };
    runs.map(run).collect()
}
