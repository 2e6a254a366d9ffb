//! Tries a subscriber or one delivery at once, in steps of one commit each.

use std::fmt::{self, Display};
use std::sync::Arc;

use serde_json::{Value, json};

use super::json_forms::moment;
use crate::dispatch::handover;
use crate::engine::{Holds, LaneId, StoreTime};
use crate::runtime::jobs::STEP_ROWS;
use crate::store::StoreError;
use crate::store::command::{Command, Retry, ToRetry};
use crate::store::read::Reader;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    next: Retry,
    brought: u64,
    more: bool,
    found: Found,
}

impl Steps {
    /// `insist`: end the pause that the endpoint asked for.
    pub(crate) fn read(
        reader: &dyn Reader,
        which: ToRetry,
        insist: bool,
        now: StoreTime,
    ) -> Result<Self, StoreError> {
        let lane = match which {
            ToRetry::Of(lane) => Some(lane),
            ToRetry::This(delivery) => reader.delivery(delivery)?.map(|found| found.lane),
        };
        let mut found = lane.map_or_else(|| Ok(Found::default()), |lane| Found::read(reader, lane, now))?;
        found.waits_until = found.waits_until.filter(|_| !insist);
        let next = Retry { which, insist, probe: true, max: STEP_ROWS };
        Ok(Self { next, brought: 0, more: true, found })
    }

    /// The first step is the change that is recorded. `delivery` is its id.
    pub(crate) fn command(&self, by: &Arc<str>, delivery: Option<&str>) -> Command {
        let retry = Command::Retry(self.next);
        if self.next.probe { retry.by(by, delivery) } else { retry }
    }

    /// Only the first step asks for the probe. Returns whether another step must follow.
    pub(crate) const fn done(&mut self, rows: u64, more: bool) -> bool {
        self.next.probe = false;
        self.brought += rows;
        self.more = more;
        more
    }

    pub(crate) const fn result(&self) -> Retried {
        Retried { brought: self.brought, more: self.more, found: self.found }
    }
}

/// By the checkpoint that the lane's owner writes at each change.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    breaker_open: bool,
    throttled_to: Option<u32>,
    /// The end of the pause that the endpoint asked for.
    waits_until: Option<StoreTime>,
}

impl Found {
    fn read(reader: &dyn Reader, lane: LaneId, now: StoreTime) -> Result<Self, StoreError> {
        let kept = reader.checkpoints(&[lane])?;
        let found = kept.first().and_then(|(_, record)| Some((record.at, handover::holds(record)?)));
        Ok(found.map_or_else(Self::default, |(at, Holds { breaker, throttle, paused_until, .. })| Self {
            breaker_open: breaker.is_open(),
            throttled_to: throttle.map(|shift| shift.to),
            // Without a pause it is the moment of the record, by the clock of another process.
            waits_until: Some(paused_until).filter(|until| *until > now.max(at)),
        }))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Retried {
    brought: u64,
    more: bool,
    found: Found,
}

impl Retried {
    pub(crate) fn to_json(self) -> Value {
        json!({
            "brought_forward": self.brought,
            "more": self.more,
            "breaker_open": self.found.breaker_open,
            "throttled_to_percent": self.found.throttled_to,
            "waits_until": self.found.waits_until.map(moment),
        })
    }
}

impl Display for Retried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Found { breaker_open, throttled_to, waits_until } = self.found;
        write!(f, "retries brought forward: {}", self.brought)?;
        if self.brought == 0 {
            f.write_str("; none waited for a later time")?;
        }
        if breaker_open {
            f.write_str("; its circuit breaker is open and lets one probe through")?;
        }
        if let Some(percent) = throttled_to {
            let now = "it goes on at half or more, and at all of it after a good answer";
            write!(f, "; it was throttled to {percent} % of its contract: {now}")?;
        }
        waits_until.map_or(Ok(()), |until| {
            let until = moment(until);
            write!(
                f,
                "; the endpoint asked by Retry-After to wait until {until}: --ignore-retry-after tries it now"
            )
        })
    }
}
