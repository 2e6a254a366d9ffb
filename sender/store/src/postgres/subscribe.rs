//! The rows of subscribers and secrets.

use super::values::{Count, int};
use super::{Result, Work};
use crate::command::{Change, Subscribe};
use crate::commit::subscribe::SubscriberRows;
use crate::engine::{LaneId, StoreTime};
use crate::lane::Pause;
use crate::seal::Field;

impl SubscriberRows for Work<'_> {
    fn roster(&self) -> u64 {
        self.ledger.roster()
    }

    fn next_roster(&mut self) -> Result<u64> {
        self.ledger.next_roster()
    }

    /// `state` is locked, so of two commits with the same id or name the second finds the first.
    fn id_is_taken(&mut self, id: &str) -> Result<bool> {
        Ok(self.sql.exists("SELECT 1 FROM subscribers WHERE id = $1", &[&id])?)
    }

    fn lane_named(&mut self, name: &str) -> Result<Option<LaneId>> {
        let query = "SELECT lane FROM subscribers WHERE name = $1 AND removed IS NULL";
        Ok(self.sql.first(query, &[&name])?.map(|row| row.try_get(0)).transpose()?)
    }

    fn insert_subscriber(&mut self, new: &Subscribe, version: u64) -> Result<LaneId> {
        let lane = self.ledger.next_lane()?;
        let settings = self.seal.close_text(Field::Settings(lane), &new.settings)?;
        self.sql.execute(
            "INSERT INTO subscribers VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL, 0, 0, NULL, NULL)",
            &[
                &lane,
                &&*new.id,
                &&*new.name,
                &&*new.url,
                &&*new.patterns,
                &&*settings,
                &self.now,
                &int(version),
            ],
        )?;
        let bounds = new.bounds;
        self.sql.execute(
            "INSERT INTO lanes (lane, state, rows_max, bytes_max, when_full, capped) VALUES ($1, 0, $2, $3, $4, false)",
            &[&lane, &int(bounds.rows_max), &int(bounds.bytes_max), &bounds.when_full],
        )?;
        self.ledger.put(lane, bounds);
        Ok(lane)
    }

    fn update_subscriber(&mut self, change: &Change, resumed: bool, version: u64) -> Result<()> {
        let lane = change.lane;
        let settings = change.settings.as_deref();
        let settings = settings.map(|text| self.seal.close_text(Field::Settings(lane), text)).transpose()?;
        self.sql.execute(
            "UPDATE subscribers SET name = coalesce($2, name), url = coalesce($3, url),
             patterns = coalesce($4, patterns), settings = coalesce($5, settings), version = $6,
             retried = CASE WHEN $7 OR url <> $3 THEN $6 ELSE retried END WHERE lane = $1",
            &[
                &lane,
                &change.name.as_deref(),
                &change.url.as_deref(),
                &change.patterns.as_deref(),
                &settings.as_deref(),
                &int(version),
                &resumed,
            ],
        )?;
        Ok(())
    }

    fn mark_capped(&mut self, lane: LaneId) -> Result<()> {
        self.sql.execute("UPDATE lanes SET capped = true WHERE lane = $1", &[&lane])?;
        self.ledger.amend(lane, |lane| lane.capped = true)
    }

    fn retried(&mut self, lane: LaneId) -> Result<u64> {
        let found = self.sql.first("SELECT retried FROM subscribers WHERE lane = $1", &[&lane])?;
        Ok(found.map(|row| row.try_get::<_, Count>(0)).transpose()?.unwrap_or_default().0)
    }

    fn set_pause(&mut self, lane: LaneId, pause: &Pause) -> Result<()> {
        let set = "UPDATE subscribers SET pause_reason = $2, pause_until = $3 WHERE lane = $1";
        self.sql.execute(set, &[&lane, &pause.reason.as_deref(), &pause.until])?;
        Ok(())
    }

    fn live_version(&mut self, lane: LaneId) -> Result<Option<u64>> {
        let query = "SELECT version FROM subscribers WHERE lane = $1 AND removed IS NULL";
        let version = self.sql.first(query, &[&lane])?.map(|row| row.try_get::<_, Count>(0)).transpose()?;
        Ok(version.map(|version| version.0))
    }

    fn set_version(&mut self, lane: LaneId, version: u64) -> Result<()> {
        self.sql.execute("UPDATE subscribers SET version = $2 WHERE lane = $1", &[&lane, &int(version)])?;
        Ok(())
    }

    fn forget_secrets(&mut self, lane: LaneId, retired: StoreTime) -> Result<u64> {
        self.sql.execute("DELETE FROM secrets WHERE lane = $1 AND retires <= $2", &[&lane, &retired])?;
        let left = self.sql.first("SELECT count(*) FROM secrets WHERE lane = $1", &[&lane])?;
        Ok(left.map(|row| row.try_get::<_, Count>(0)).transpose()?.unwrap_or_default().0)
    }

    fn retire_secrets(&mut self, lane: LaneId, by: StoreTime) -> Result<()> {
        let retire = "UPDATE secrets SET retires = least(coalesce(retires, $2), $2) WHERE lane = $1";
        self.sql.execute(retire, &[&lane, &by])?;
        Ok(())
    }

    fn insert_secret(&mut self, lane: LaneId, secret: &str) -> Result<()> {
        let insert = "INSERT INTO secrets (lane, secret, created) VALUES ($1, $2, $3)";
        let secret = self.seal.close_text(Field::Secret(lane, self.now), secret)?;
        self.sql.execute(insert, &[&lane, &&*secret, &self.now])?;
        Ok(())
    }

    fn set_removed(&mut self, lane: LaneId) -> Result<()> {
        self.sql.execute("UPDATE subscribers SET removed = $2 WHERE lane = $1", &[&lane, &self.now])?;
        self.sql.execute("DELETE FROM notified WHERE lane = $1", &[&lane])?;
        self.sql.execute("DELETE FROM secrets WHERE lane = $1", &[&lane])?;
        Ok(())
    }
}
