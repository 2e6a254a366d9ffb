//! What ended on a lane with window caps since its record was written: whoever seizes it has to know.
//!
//! Which lanes have window caps is the one thing that the store reads of settings. Their attempts are in an index of their
//! own, so that others cost nothing; a lane that once had caps stays among them, since a cap that is put back counts what was
//! sent meanwhile.

use rusqlite::{Result, params};

use super::Work;
use crate::engine::{LaneId, StoreTime};
use crate::store::ended::{ENDS_MAX, MARGIN, runs};
use crate::store::reply::Ended;

/// Whether an attempt is to be kept for a cap, though it is old: `?3` is the beginning of the longest window.
pub(super) const STILL_COUNTS: &str = "(a.capped IS NOT NULL AND a.at >= ?3 AND a.at >= coalesce(
    (SELECT l.record_at FROM lanes l WHERE l.lane = a.lane), 9223372036854775807) - ?4)";

impl Work<'_> {
    /// Notes that a lane has window caps, if its settings say so, or can't be read.
    pub(super) fn note_caps(&mut self, lane: LaneId) -> Result<()> {
        self.sql
            .prepare_cached(
                "INSERT OR IGNORE INTO capped SELECT lane FROM subscribers WHERE lane = ?1 AND
                 iif(json_valid(settings), coalesce(json_array_length(settings, '$.limit.windows'), 0) > 0, 1)",
            )?
            .execute([lane])?;
        self.ledger.reread_caps(self.sql, lane)
    }

    /// What ended on a lane since a moment, and up to [`MARGIN`] before, in runs that are told as if all of a run had ended
    /// with its last one.
    pub(super) fn ended_since(&self, lane: LaneId, record_at: StoreTime) -> Result<Vec<Ended>> {
        // A record from the future was taken by a clock that was ahead: nobody knows since when.
        let since = if record_at > self.now { 0 } else { record_at.0.saturating_sub(MARGIN.0) };
        let ends: Vec<StoreTime> = self
            .sql
            .prepare_cached(
                "SELECT at + latency FROM attempts INDEXED BY attempts_capped
                 WHERE capped = 1 AND lane = ?1 AND at >= ?2 AND outcome <> 2 ORDER BY at DESC LIMIT ?3",
            )?
            .query_map(params![lane, StoreTime(since), ENDS_MAX], |row| row.get(0))?
            .collect::<Result<_>>()?;
        Ok(runs(ends, self.now))
    }
}
