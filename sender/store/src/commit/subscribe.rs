//! Subscribers: adding, changing and removing them, and their secrets. Each change increments the version of the
//! subscriber set, so that emitters and other processes notice it.

use std::sync::Arc;

use serde_json::Value;

use super::Rows;
use crate::command::SECRETS_MAX;
use crate::command::{Change, Rotate, Subscribe};
use crate::engine::{LaneId, StoreTime};
use crate::lane::{LaneState, Pause};
use crate::reply::{Refusal, Reply};
use hookproof_words::ids::size;

pub(crate) trait SubscriberRows: Rows {
    fn roster(&self) -> u64;

    fn next_roster(&mut self) -> Result<u64, Self::Error>;

    fn id_is_taken(&mut self, id: &str) -> Result<bool, Self::Error>;

    fn lane_named(&mut self, name: &str) -> Result<Option<LaneId>, Self::Error>;

    fn insert_subscriber(&mut self, new: &Subscribe, version: u64) -> Result<LaneId, Self::Error>;

    /// A resumed subscriber and one with another URL are tried at once.
    fn update_subscriber(&mut self, change: &Change, resumed: bool, version: u64) -> Result<(), Self::Error>;

    /// Its attempts are kept for window caps. For good, so that a restored cap counts the requests sent meanwhile.
    fn mark_capped(&mut self, lane: LaneId) -> Result<(), Self::Error>;

    /// The version with which an operator last asked to try the endpoint at once.
    fn retried(&mut self, lane: LaneId) -> Result<u64, Self::Error>;

    fn set_pause(&mut self, lane: LaneId, pause: &Pause) -> Result<(), Self::Error>;

    fn live_version(&mut self, lane: LaneId) -> Result<Option<u64>, Self::Error>;

    fn set_version(&mut self, lane: LaneId, version: u64) -> Result<(), Self::Error>;

    /// Deletes the secrets that retired by then. Returns the number left.
    fn forget_secrets(&mut self, lane: LaneId, retired: StoreTime) -> Result<u64, Self::Error>;

    fn retire_secrets(&mut self, lane: LaneId, by: StoreTime) -> Result<(), Self::Error>;

    fn insert_secret(&mut self, lane: LaneId, secret: &str) -> Result<(), Self::Error>;

    fn set_removed(&mut self, lane: LaneId) -> Result<(), Self::Error>;

    fn subscribe(&mut self, new: &Subscribe) -> Result<Reply, Self::Error> {
        if self.id_is_taken(&new.id)? {
            return Ok(Reply::Refused(Refusal::IdTaken(new.id.clone())));
        }
        if self.lane_named(&new.name)?.is_some() {
            return Ok(Reply::Refused(Refusal::NameTaken(new.name.clone())));
        }
        let version = self.next_roster()?;
        let lane = self.insert_subscriber(new, version)?;
        if has_window_caps(&new.settings) {
            self.mark_capped(lane)?;
        }
        self.insert_secret(lane, new.secret.reveal())?;
        Ok(Reply::Subscribed { lane })
    }

    fn change(&mut self, change: &Change) -> Result<Reply, Self::Error> {
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
        let state = self.lane(lane)?.map(|lane| lane.state);
        if (state, change.state) == (Some(LaneState::Disabled), Some(LaneState::Paused)) {
            // It would record events that its endpoint refused.
            return Ok(Reply::Refused(Refusal::NotActive(LaneState::Disabled)));
        }
        if let Some(name) = &change.name
            && self.lane_named(name)?.is_some_and(|other| other != lane)
        {
            return Ok(Reply::Refused(Refusal::NameTaken(name.clone())));
        }
        let version = self.next_roster()?;
        let resumed = state != Some(LaneState::Active) && change.state == Some(LaneState::Active);
        self.amend(lane, |lane| {
            lane.bounds = change.bounds.unwrap_or(lane.bounds);
            lane.state = change.state.unwrap_or(lane.state);
        })?;
        self.update_subscriber(change, resumed, version)?;
        if change.settings.as_deref().is_some_and(has_window_caps) {
            self.mark_capped(lane)?;
        }
        match change.state {
            None => {}
            Some(LaneState::Paused) => self.set_pause(lane, &change.pause)?,
            Some(_) => self.set_pause(lane, &Pause::default())?,
        }
        Ok(Reply::Done)
    }

    fn rotate(&mut self, rotate: &Rotate) -> Result<Reply, Self::Error> {
        let lane = rotate.lane;
        if self.live_version(lane)?.is_none() {
            return Ok(Reply::Refused(Refusal::UnknownLane(lane)));
        }
        let live = self.forget_secrets(lane, rotate.now)?;
        // If the old secrets retire at once, only the new one stays, so the limit cannot be exceeded.
        let max = size(SECRETS_MAX);
        if rotate.now < rotate.retire && live >= max {
            return Ok(Reply::Refused(Refusal::TooManySecrets { live, max }));
        }
        self.retire_secrets(lane, rotate.retire)?;
        self.insert_secret(lane, rotate.secret.reveal())?;
        self.touch(lane)?;
        Ok(Reply::Done)
    }

    fn remove(&mut self, lane: LaneId) -> Result<Reply, Self::Error> {
        if self.live_version(lane)?.is_none() {
            return Ok(Reply::Refused(Refusal::UnknownLane(lane)));
        }
        self.touch(lane)?;
        self.set_removed(lane)?;
        self.amend(lane, |lane| lane.state = LaneState::Removed)?;
        Ok(Reply::Done)
    }

    /// `reason` ends with the moment.
    fn disable(&mut self, lane: LaneId, reason: Arc<str>) -> Result<(), Self::Error> {
        self.touch(lane)?;
        self.set_pause(lane, &Pause { reason: Some(reason), until: None })?;
        self.amend(lane, |lane| lane.state = LaneState::Disabled)
    }

    fn touch(&mut self, lane: LaneId) -> Result<(), Self::Error> {
        let version = self.next_roster()?;
        self.set_version(lane, version)
    }
}

/// Whether the settings contain window caps or are unreadable. The store reads nothing else in them.
fn has_window_caps(settings: &str) -> bool {
    serde_json::from_str(settings).map_or(true, |settings: Value| {
        let caps = settings.pointer("/limit/windows").and_then(Value::as_array);
        caps.is_some_and(|caps| !caps.is_empty())
    })
}
