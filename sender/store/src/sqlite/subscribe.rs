use rusqlite::{OptionalExtension, Result, params};

use super::Work;
use super::values::int;
use crate::command::{Change, Subscribe};
use crate::commit::subscribe::SubscriberRows;
use crate::engine::{LaneId, StoreTime};
use crate::lane::{LaneState, Pause};
use crate::seal::Field;

impl SubscriberRows for Work<'_> {
    fn roster(&self) -> u64 {
        self.ledger.totals.roster
    }

    fn next_roster(&mut self) -> Result<u64> {
        Ok(self.ledger.next_roster())
    }

    fn id_is_taken(&mut self, id: &str) -> Result<bool> {
        self.sql.prepare_cached("SELECT 1 FROM subscribers WHERE id = ?1")?.exists([id])
    }

    fn lane_named(&mut self, name: &str) -> Result<Option<LaneId>> {
        self.sql
            .prepare_cached("SELECT lane FROM subscribers WHERE name = ?1 AND removed IS NULL")?
            .query_row([name], |row| row.get(0))
            .optional()
    }

    fn insert_subscriber(&mut self, new: &Subscribe, version: u64) -> Result<LaneId> {
        let totals = self.ledger.change();
        let lane = LaneId(totals.next_lane);
        totals.next_lane += 1;
        self.sql
            .prepare_cached(
                "INSERT INTO subscribers VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, NULL, 0, 0, NULL, NULL)",
            )?
            .execute(params![
                lane,
                new.id,
                new.name,
                new.url,
                new.patterns,
                &*self.seal.close_text(Field::Settings(lane), &new.settings)?,
                self.now,
                int(version)
            ])?;
        self.sql
            .prepare_cached(
                "INSERT INTO lanes VALUES (?1, ?2, ?3, ?4, ?5, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL)",
            )?
            .execute(params![
                lane,
                LaneState::Active,
                int(new.bounds.rows_max),
                int(new.bounds.bytes_max),
                new.bounds.when_full
            ])?;
        self.ledger.forget(lane);
        Ok(lane)
    }

    fn update_subscriber(&mut self, change: &Change, resumed: bool, version: u64) -> Result<()> {
        let lane = change.lane;
        let settings = change.settings.as_deref();
        let settings = settings.map(|text| self.seal.close_text(Field::Settings(lane), text)).transpose()?;
        self.sql
            .prepare_cached(
                "UPDATE subscribers SET name = coalesce(?2, name), url = coalesce(?3, url),
                 patterns = coalesce(?4, patterns), settings = coalesce(?5, settings), version = ?6,
                 retried = CASE WHEN ?7 OR url <> ?3 THEN ?6 ELSE retried END WHERE lane = ?1",
            )?
            .execute(params![
                lane,
                change.name,
                change.url,
                change.patterns,
                settings.as_deref(),
                int(version),
                resumed
            ])
            .map(drop)
    }

    fn mark_capped(&mut self, lane: LaneId) -> Result<()> {
        self.sql.prepare_cached("INSERT OR IGNORE INTO capped VALUES (?1)")?.execute([lane])?;
        self.ledger.mark_capped(lane);
        Ok(())
    }

    fn retried(&mut self, lane: LaneId) -> Result<u64> {
        self.sql
            .prepare_cached("SELECT retried FROM subscribers WHERE lane = ?1")?
            .query_row([lane], |row| row.get(0))
    }

    fn set_pause(&mut self, lane: LaneId, pause: &Pause) -> Result<()> {
        self.sql
            .prepare_cached("UPDATE subscribers SET pause_reason = ?2, pause_until = ?3 WHERE lane = ?1")?
            .execute(params![lane, pause.reason, pause.until])
            .map(drop)
    }

    fn live_version(&mut self, lane: LaneId) -> Result<Option<u64>> {
        self.sql
            .prepare_cached("SELECT version FROM subscribers WHERE lane = ?1 AND removed IS NULL")?
            .query_row([lane], |row| row.get(0))
            .optional()
    }

    fn set_version(&mut self, lane: LaneId, version: u64) -> Result<()> {
        self.sql
            .prepare_cached("UPDATE subscribers SET version = ?2 WHERE lane = ?1")?
            .execute(params![lane, int(version)])
            .map(drop)
    }

    fn forget_secrets(&mut self, lane: LaneId, retired: StoreTime) -> Result<u64> {
        self.sql
            .prepare_cached("DELETE FROM secrets WHERE lane = ?1 AND retires <= ?2")?
            .execute(params![lane, retired])?;
        self.sql
            .prepare_cached("SELECT count(*) FROM secrets WHERE lane = ?1")?
            .query_row([lane], |row| row.get(0))
    }

    fn retire_secrets(&mut self, lane: LaneId, by: StoreTime) -> Result<()> {
        self.sql
            .prepare_cached("UPDATE secrets SET retires = min(coalesce(retires, ?2), ?2) WHERE lane = ?1")?
            .execute(params![lane, by])
            .map(drop)
    }

    fn insert_secret(&mut self, lane: LaneId, secret: &str) -> Result<()> {
        self.sql
            .prepare_cached("INSERT INTO secrets (lane, secret, created) VALUES (?1, ?2, ?3)")?
            .execute(params![lane, &*self.seal.close_text(Field::Secret(lane, self.now), secret)?, self.now])
            .map(drop)
    }

    fn set_removed(&mut self, lane: LaneId) -> Result<()> {
        self.sql
            .prepare_cached("UPDATE subscribers SET removed = ?2 WHERE lane = ?1")?
            .execute(params![lane, self.now])?;
        self.sql.prepare_cached("DELETE FROM notified WHERE lane = ?1")?.execute([lane])?;
        self.sql.prepare_cached("DELETE FROM secrets WHERE lane = ?1")?.execute([lane]).map(drop)
    }
}
