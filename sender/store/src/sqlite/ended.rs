//! Attempts that ended on a lane with window caps since its checkpoint, for the next owner.
//!
//! Window caps are the only setting that the store reads. Attempts of such lanes have an index of their own, so that
//! other lanes pay nothing. A lane stays marked after its caps are removed, because restored caps count earlier
//! requests.

use rusqlite::{Result, params};

use super::Work;
use crate::ended::{ENDS_MAX, MARGIN, runs};
use crate::engine::{LaneId, StoreTime};
use crate::reply::Ended;

/// Whether an old attempt still counts for a cap. `?3` is the start of the longest window.
pub(super) const STILL_COUNTS: &str = "(a.capped IS NOT NULL AND a.at >= ?3 AND a.at >= coalesce(
    (SELECT l.record_at FROM lanes l WHERE l.lane = a.lane), 9223372036854775807) - ?4)";

impl Work<'_> {
    /// Marks a lane if its settings contain window caps or are unreadable.
    pub(super) fn note_caps(&mut self, lane: LaneId) -> Result<()> {
        self.sql
            .prepare_cached(
                "INSERT OR IGNORE INTO capped SELECT lane FROM subscribers WHERE lane = ?1 AND
                 iif(json_valid(settings), coalesce(json_array_length(settings, '$.limit.windows'), 0) > 0, 1)",
            )?
            .execute([lane])?;
        self.ledger.reread_caps(self.sql, lane)
    }

    /// Ends of attempts since [`MARGIN`] before the checkpoint. Grouped into runs, each with its last end.
    pub(super) fn ended_since(&self, lane: LaneId, record_at: StoreTime) -> Result<Vec<Ended>> {
        // A checkpoint from the future came from a clock that was ahead, so all attempts count.
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
