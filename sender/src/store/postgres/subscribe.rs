//! Subscribers: adding, changing, removing them, and their secrets. Each change makes a new roster, so that emitters and
//! other nodes notice.

use super::values::{Count, int, size};
use super::{Result, Work};
use crate::engine::LaneId;
use crate::sign::Keys;
use crate::store::command::{Change, Emit, Rotate, Subscribe};
use crate::store::lane::LaneState;
use crate::store::newer::Newer;
use crate::store::reply::{Refusal, Reply};

impl Work<'_> {
    pub(super) fn subscribe(&mut self, new: &Subscribe) -> Result<Reply> {
        // `state` is locked before anybody is looked for: of two that want one name, the second finds the first.
        if self.sql.exists("SELECT 1 FROM subscribers WHERE id = $1", &[&&*new.id])? {
            return Ok(Reply::Refused(Refusal::IdTaken(new.id.clone())));
        }
        if self.lane_named(&new.name)?.is_some() {
            return Ok(Reply::Refused(Refusal::NameTaken(new.name.clone())));
        }
        let (version, lane) = (self.ledger.next_roster()?, self.ledger.next_lane()?);
        self.sql.execute(
            "INSERT INTO subscribers VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL)",
            &[
                &lane,
                &&*new.id,
                &&*new.name,
                &&*new.url,
                &&*new.patterns,
                &&*new.settings,
                &self.now,
                &int(version),
            ],
        )?;
        let capped = has_window_caps(&new.settings);
        let bounds = new.bounds;
        self.sql.execute(
            "INSERT INTO lanes (lane, state, rows_max, bytes_max, when_full, capped) VALUES ($1, 0, $2, $3, $4, $5)",
            &[&lane, &int(bounds.rows_max), &int(bounds.bytes_max), &bounds.when_full, &capped],
        )?;
        self.ledger.put(lane, bounds, capped);
        self.insert_secret(lane, new.secret.reveal())?;
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
        if let Some(name) = &change.name
            && self.lane_named(name)?.is_some_and(|other| other != lane)
        {
            return Ok(Reply::Refused(Refusal::NameTaken(name.clone())));
        }
        let version = self.ledger.next_roster()?;
        self.sql.execute(
            "UPDATE subscribers SET name = coalesce($2, name), url = coalesce($3, url),
             patterns = coalesce($4, patterns), settings = coalesce($5, settings), version = $6 WHERE lane = $1",
            &[
                &lane,
                &change.name.as_deref(),
                &change.url.as_deref(),
                &change.patterns.as_deref(),
                &change.settings.as_deref(),
                &int(version),
            ],
        )?;
        self.ledger.amend(lane, |lane| {
            lane.bounds = change.bounds.unwrap_or(lane.bounds);
            lane.state = change.state.unwrap_or(lane.state);
        })?;
        if change.settings.as_deref().is_some_and(has_window_caps) {
            // A lane that once had caps stays among those: a cap that is put back counts what was sent meanwhile.
            self.sql.execute("UPDATE lanes SET capped = true WHERE lane = $1", &[&lane])?;
            self.ledger.amend(lane, |lane| lane.capped = true)?;
        }
        Ok(Reply::Done)
    }

    pub(super) fn rotate(&mut self, rotate: &Rotate) -> Result<Reply> {
        let lane = rotate.lane;
        if self.live_version(lane)?.is_none() {
            return Ok(Reply::Refused(Refusal::UnknownLane(lane)));
        }
        self.sql.execute("DELETE FROM secrets WHERE lane = $1 AND retires <= $2", &[&lane, &rotate.now])?;
        let row = self.sql.first("SELECT count(*) FROM secrets WHERE lane = $1", &[&lane])?;
        let live = row.map(|row| row.try_get::<_, Count>(0)).transpose()?.unwrap_or_default().0;
        // Where the old ones retire at once, the new one is alone.
        let max = size(Keys::COUNT_MAX);
        if rotate.now < rotate.retire && live >= max {
            return Ok(Reply::Refused(Refusal::TooManySecrets { live, max }));
        }
        let retire = "UPDATE secrets SET retires = least(coalesce(retires, $2), $2) WHERE lane = $1";
        self.sql.execute(retire, &[&lane, &rotate.retire])?;
        self.insert_secret(lane, rotate.secret.reveal())?;
        self.touch(lane)?;
        Ok(Reply::Done)
    }

    pub(super) fn remove(&mut self, lane: LaneId) -> Result<Reply> {
        if self.live_version(lane)?.is_none() {
            return Ok(Reply::Refused(Refusal::UnknownLane(lane)));
        }
        self.touch(lane)?;
        self.sql.execute("UPDATE subscribers SET removed = $2 WHERE lane = $1", &[&lane, &self.now])?;
        self.sql.execute("DELETE FROM secrets WHERE lane = $1", &[&lane])?;
        self.ledger.amend(lane, |lane| lane.state = LaneState::Removed)?;
        Ok(Reply::Done)
    }

    /// The endpoint said that it is gone.
    pub(super) fn disable(&mut self, lane: LaneId) -> Result<()> {
        if self.ledger.lane(lane)?.is_some_and(|lane| lane.state.accepts()) {
            self.touch(lane)?;
            self.ledger.amend(lane, |lane| lane.state = LaneState::Disabled)?;
        }
        Ok(())
    }

    /// Whether an event was matched before a change that concerns it. The lanes of its targets were locked before the roster was
    /// read: none of them changes any more.
    pub(super) fn is_outdated(&mut self, emit: &Emit) -> Result<bool> {
        let current = self.ledger.roster();
        if emit.roster >= current {
            return Ok(emit.roster > current);
        }
        if !self.rows.newer.cover(emit, current) {
            let query = "SELECT lane, version, patterns FROM subscribers
                WHERE version > $1 AND removed IS NULL ORDER BY version LIMIT $2";
            let found = self.sql.query(query, &[&int(emit.roster), &int(size(Newer::MAX + 1))])?;
            self.rows.newer = Newer::new(emit.roster, current);
            for row in found {
                let (lane, Count(version)) = (row.try_get(0)?, row.try_get(1)?);
                self.rows.newer.add(lane, version, row.try_get::<_, &str>(2)?.as_bytes());
            }
        }
        Ok(self.rows.newer.concern(emit))
    }

    /// Tells everyone that a subscriber changed.
    fn touch(&mut self, lane: LaneId) -> Result<()> {
        let version = self.ledger.next_roster()?;
        self.sql.execute("UPDATE subscribers SET version = $2 WHERE lane = $1", &[&lane, &int(version)])?;
        Ok(())
    }

    fn lane_named(&self, name: &str) -> Result<Option<LaneId>> {
        let query = "SELECT lane FROM subscribers WHERE name = $1 AND removed IS NULL";
        Ok(self.sql.first(query, &[&name])?.map(|row| row.try_get(0)).transpose()?)
    }

    fn live_version(&self, lane: LaneId) -> Result<Option<u64>> {
        let query = "SELECT version FROM subscribers WHERE lane = $1 AND removed IS NULL";
        let version = self.sql.first(query, &[&lane])?.map(|row| row.try_get::<_, Count>(0)).transpose()?;
        Ok(version.map(|version| version.0))
    }

    fn insert_secret(&self, lane: LaneId, secret: &str) -> Result<()> {
        let insert = "INSERT INTO secrets (lane, secret, created) VALUES ($1, $2, $3)";
        self.sql.execute(insert, &[&lane, &secret, &self.now])?;
        Ok(())
    }
}

/// Whether settings name window caps, or can't be read: the one thing of them that a store reads.
fn has_window_caps(settings: &str) -> bool {
    let read: std::result::Result<serde_json::Value, _> = serde_json::from_str(settings);
    read.map_or(true, |settings| {
        settings
            .pointer("/limit/windows")
            .and_then(serde_json::Value::as_array)
            .is_some_and(|caps| !caps.is_empty())
    })
}
