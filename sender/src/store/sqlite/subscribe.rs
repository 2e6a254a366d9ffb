//! Subscribers: adding, changing, removing them, and their secrets. Each change makes a new roster, so that emitters
//! and other processes notice.

use rusqlite::{OptionalExtension, Result, params};

use super::Work;
use super::values::{int, size};
use crate::engine::LaneId;
use crate::sign::Keys;
use crate::store::command::{Change, Emit, Rotate, Subscribe};
use crate::store::lane::LaneState;
use crate::store::newer::Newer;
use crate::store::reply::{Refusal, Reply};

impl Work<'_> {
    pub(super) fn subscribe(&mut self, new: &Subscribe) -> Result<Reply> {
        if self.exists("SELECT 1 FROM subscribers WHERE id = ?1", &*new.id)? {
            return Ok(Reply::Refused(Refusal::IdTaken(new.id.clone())));
        }
        if self.exists("SELECT 1 FROM subscribers WHERE name = ?1 AND removed IS NULL", &*new.name)? {
            return Ok(Reply::Refused(Refusal::NameTaken(new.name.clone())));
        }
        let version = self.ledger.next_roster();
        let totals = self.ledger.change();
        let lane = LaneId(totals.next_lane);
        totals.next_lane += 1;
        self.sql
            .prepare_cached("INSERT INTO subscribers VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, NULL)")?
            .execute(params![
                lane,
                new.id,
                new.name,
                new.url,
                new.patterns,
                new.settings,
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
        self.insert_secret(lane, new.secret.reveal())?;
        self.note_caps(lane)?;
        Ok(Reply::Subscribed { lane })
    }

    pub(super) fn change(&mut self, change: &Change) -> Result<Reply> {
        let lane = change.lane;
        let Some(found) = self.live_version(lane)? else {
            return Ok(Reply::Refused(Refusal::UnknownLane(lane)));
        };
        if let Some(expected) = change.version.filter(|expected| *expected != found) {
            return Ok(Reply::Refused(Refusal::VersionConflict { expected, found }));
        }
        if change.state == Some(LaneState::Removed) {
            return Ok(Reply::Refused(Refusal::Nonsense("a subscriber is removed by its own command")));
        }
        if let Some(name) = &change.name {
            let taken = "SELECT lane FROM subscribers WHERE name = ?1 AND removed IS NULL";
            let other: Option<LaneId> =
                self.sql.prepare_cached(taken)?.query_row([name], |row| row.get(0)).optional()?;
            if other.is_some_and(|other| other != lane) {
                return Ok(Reply::Refused(Refusal::NameTaken(name.clone())));
            }
        }
        let version = self.ledger.next_roster();
        self.sql
            .prepare_cached(
                "UPDATE subscribers SET name = coalesce(?2, name), url = coalesce(?3, url),
                 patterns = coalesce(?4, patterns), settings = coalesce(?5, settings), version = ?6 WHERE lane = ?1",
            )?
            .execute(params![lane, change.name, change.url, change.patterns, change.settings, int(version)])?;
        self.ledger.amend(self.sql, lane, |lane| {
            lane.bounds = change.bounds.unwrap_or(lane.bounds);
            lane.state = change.state.unwrap_or(lane.state);
        })?;
        if change.settings.is_some() {
            self.note_caps(lane)?;
        }
        Ok(Reply::Done)
    }

    pub(super) fn rotate(&mut self, rotate: &Rotate) -> Result<Reply> {
        let lane = rotate.lane;
        if self.live_version(lane)?.is_none() {
            return Ok(Reply::Refused(Refusal::UnknownLane(lane)));
        }
        self.sql
            .prepare_cached("DELETE FROM secrets WHERE lane = ?1 AND retires <= ?2")?
            .execute(params![lane, rotate.now])?;
        let live: u64 = self
            .sql
            .prepare_cached("SELECT count(*) FROM secrets WHERE lane = ?1")?
            .query_row([lane], |row| row.get(0))?;
        // Where the old ones retire at once, the new one is alone.
        let max = size(Keys::COUNT_MAX);
        if rotate.now < rotate.retire && live >= max {
            return Ok(Reply::Refused(Refusal::TooManySecrets { live, max }));
        }
        self.sql
            .prepare_cached("UPDATE secrets SET retires = min(coalesce(retires, ?2), ?2) WHERE lane = ?1")?
            .execute(params![lane, rotate.retire])?;
        self.insert_secret(lane, rotate.secret.reveal())?;
        self.touch(lane)?;
        Ok(Reply::Done)
    }

    pub(super) fn remove(&mut self, lane: LaneId) -> Result<Reply> {
        if self.live_version(lane)?.is_none() {
            return Ok(Reply::Refused(Refusal::UnknownLane(lane)));
        }
        self.touch(lane)?;
        self.sql
            .prepare_cached("UPDATE subscribers SET removed = ?2 WHERE lane = ?1")?
            .execute(params![lane, self.now])?;
        self.sql.prepare_cached("DELETE FROM secrets WHERE lane = ?1")?.execute([lane])?;
        self.ledger.amend(self.sql, lane, |lane| lane.state = LaneState::Removed)?;
        Ok(Reply::Done)
    }

    /// The endpoint said that it is gone.
    pub(super) fn disable(&mut self, lane: LaneId) -> Result<()> {
        if self.ledger.lane(self.sql, lane)?.is_some_and(|lane| lane.state.accepts()) {
            self.touch(lane)?;
            self.ledger.amend(self.sql, lane, |lane| lane.state = LaneState::Disabled)?;
        }
        Ok(())
    }

    /// Whether an event was matched before a change that concerns it.
    pub(super) fn is_outdated(&mut self, emit: &Emit) -> Result<bool> {
        let current = self.ledger.totals.roster;
        if emit.roster >= current {
            return Ok(emit.roster > current);
        }
        if !self.newer.cover(emit, current) {
            let mut query = self.sql.prepare_cached(
                "SELECT lane, version, patterns FROM subscribers INDEXED BY subscribers_version
                 WHERE version > ?1 AND removed IS NULL ORDER BY version LIMIT ?2",
            )?;
            let mut rows = query.query(params![int(emit.roster), int(size(Newer::MAX + 1))])?;
            self.newer = Newer::new(emit.roster, current);
            while let Some(row) = rows.next()? {
                self.newer.add(row.get(0)?, row.get(1)?, row.get_ref(2)?.as_bytes()?);
            }
        }
        Ok(self.newer.concern(emit))
    }

    /// Tells everyone that a subscriber changed.
    fn touch(&mut self, lane: LaneId) -> Result<()> {
        let version = self.ledger.next_roster();
        self.sql
            .prepare_cached("UPDATE subscribers SET version = ?2 WHERE lane = ?1")?
            .execute(params![lane, int(version)])?;
        Ok(())
    }

    fn live_version(&self, lane: LaneId) -> Result<Option<u64>> {
        self.sql
            .prepare_cached("SELECT version FROM subscribers WHERE lane = ?1 AND removed IS NULL")?
            .query_row([lane], |row| row.get(0))
            .optional()
    }

    fn insert_secret(&self, lane: LaneId, secret: &str) -> Result<()> {
        self.sql
            .prepare_cached("INSERT INTO secrets (lane, secret, created) VALUES (?1, ?2, ?3)")?
            .execute(params![lane, secret, self.now])?;
        Ok(())
    }

    pub(super) fn exists(&self, query: &str, value: impl rusqlite::ToSql) -> Result<bool> {
        self.sql.prepare_cached(query)?.exists([value])
    }
}
