//! Tries a subscriber or one delivery at once, in steps of one commit each.

use std::fmt::{self, Display};

use serde_json::{Value, json};

use super::json_forms::moment;
use super::shed::STEP_ROWS;
use crate::dispatch::handover;
use crate::engine::{LaneId, StoreTime};
use crate::store::StoreError;
use crate::store::command::{Command, Retry, ToRetry};
use crate::store::read::Reader;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    next: Retry,
    brought: u64,
    more: bool,
}

impl Steps {
    /// `insist`: end the pause that the endpoint asked for.
    pub(crate) const fn new(which: ToRetry, insist: bool) -> Self {
        Self { next: Retry { which, insist, probe: true, max: STEP_ROWS }, brought: 0, more: true }
    }

    pub(crate) const fn command(&self) -> Command {
        Command::Retry(self.next)
    }

    /// Only the first step asks for the probe. Returns whether another step must follow.
    pub(crate) const fn done(&mut self, rows: u64, more: bool) -> bool {
        self.next.probe = false;
        self.brought += rows;
        self.more = more;
        more
    }

    pub(crate) fn result(
        &self,
        reader: &dyn Reader,
        lane: LaneId,
        now: StoreTime,
    ) -> Result<Retried, StoreError> {
        let waits_until = if self.next.insist { None } else { asked_to_wait(reader, lane, now)? };
        Ok(Retried { brought: self.brought, more: self.more, waits_until })
    }
}

/// The end of the pause that the endpoint asked for, by the checkpoint that the lane's owner writes at each change.
fn asked_to_wait(reader: &dyn Reader, lane: LaneId, now: StoreTime) -> Result<Option<StoreTime>, StoreError> {
    let found = reader.checkpoints(&[lane])?;
    let pause = found.first().and_then(|(_, record)| {
        let until = handover::holds(record)?.paused_until;
        // Without a pause it is the moment of the record, by the clock of another process.
        (until > now.max(record.at)).then_some(until)
    });
    Ok(pause)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Retried {
    brought: u64,
    more: bool,
    waits_until: Option<StoreTime>,
}

impl Retried {
    pub(crate) fn to_json(self) -> Value {
        json!({
            "brought_forward": self.brought,
            "more": self.more,
            "waits_until": self.waits_until.map(moment),
        })
    }
}

impl Display for Retried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "retries brought forward: {}; an open circuit breaker lets one probe through",
            self.brought
        )?;
        self.waits_until.map_or(Ok(()), |until| {
            let until = moment(until);
            write!(
                f,
                "; the endpoint asked by Retry-After to wait until {until}: --ignore-retry-after tries it now"
            )
        })
    }
}
