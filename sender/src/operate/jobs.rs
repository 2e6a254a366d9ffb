//! Plans and progress of jobs.

use std::fmt::{self, Display};
use std::sync::Arc;

use serde_json::{Value, json};

use super::backlog::Clearing;
use super::dead::GROUPS_MAX;
use super::json_forms::moment;
use super::shed::Plan;
use crate::engine::{LaneId, StoreTime};
use crate::event::{EventPatterns, Pattern};
use crate::roster::Roster;
use crate::store::StoreError;
use crate::store::command::Dead;
use crate::store::job::{Job, JobKind, Task};
use crate::store::lane::Counts;
use crate::store::read::{Place, Reader};
use crate::units::rough;

/// Dead letters for a job.
#[derive(Clone, Debug)]
pub(crate) struct Letters {
    pub(crate) kind: JobKind,
    pub(crate) which: Dead,
    /// Only those given up since then.
    pub(crate) since: StoreTime,
}

impl Letters {
    fn count(&self, reader: &dyn Reader, now: StoreTime) -> Result<u64, StoreError> {
        let kept = |counts: Counts| counts.dead_kept;
        Ok(match &self.which {
            Dead::These(ids) => {
                let mut found = 0;
                for id in ids {
                    let letter = reader.delivery(*id)?.filter(|found| found.place == Place::Dead);
                    found += u64::from(letter.is_some_and(|letter| letter.at >= self.since));
                }
                found
            }
            Dead::All if self.since == StoreTime(0) => kept(reader.status(now)?.counts),
            Dead::Of(lane) if self.since == StoreTime(0) => {
                reader.lane(*lane)?.map_or(0, |lane| kept(lane.counts))
            }
            which => {
                let groups = reader.dead_groups(self.since, GROUPS_MAX)?;
                let is_meant = |lane| *which == Dead::All || *which == Dead::Of(lane);
                groups.iter().filter(|group| is_meant(group.lane)).map(|group| group.rows).sum()
            }
        })
    }

    pub(crate) fn plan(
        &self,
        reader: &dyn Reader,
        roster: &Roster,
        now: StoreTime,
    ) -> Result<LetterPlan, StoreError> {
        let dead = self.count(reader, now)?;
        let lane = match self.which {
            Dead::Of(lane) if self.kind == JobKind::Redrive => reader.lane(lane)?,
            _ => None,
        };
        let room = lane.as_ref().map(|lane| lane.bounds.rows_max.saturating_sub(lane.counts.waiting));
        let contract = lane.and_then(|lane| roster.get(lane.lane)).map(|known| known.settings().contract());
        let takes = contract.map(|contract| Clearing::of(dead, contract, None));
        Ok(LetterPlan { dead, without_room: room.map(|room| dead.saturating_sub(room)), takes })
    }

    pub(crate) fn task(self, reader: &dyn Reader, now: StoreTime, by: Arc<str>) -> Result<Task, StoreError> {
        let (planned, last) = (self.count(reader, now)?, reader.glance()?.last);
        let before = StoreTime(0);
        let (kind, which, since) = (self.kind, self.which, self.since);
        Ok(Task { kind, which, since, before, events: None, last, planned, by })
    }
}

/// What was delivered to a subscriber in a span.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    lane: LaneId,
    since: StoreTime,
    before: StoreTime,
    events: Option<EventPatterns>,
}

impl Replay {
    pub(crate) fn new(
        lane: LaneId,
        since: StoreTime,
        before: StoreTime,
        events: Option<EventPatterns>,
        now: StoreTime,
    ) -> Result<Self, String> {
        let before = before.min(now);
        if since >= before {
            let (since, before) = (moment(since), moment(before));
            return Err(format!(
                "the replay would begin at {since} and end at {before}; expected an earlier beginning"
            ));
        }
        Ok(Self { lane, since, before, events })
    }

    fn count(&self, reader: &dyn Reader) -> Result<u64, StoreError> {
        reader.delivered(self.lane, (self.since, self.before), self.events.as_ref())
    }

    pub(crate) fn plan(self, reader: &dyn Reader, roster: &Roster) -> Result<ReplayPlan, StoreError> {
        let delivered = self.count(reader)?;
        let contract = roster.get(self.lane).map(|known| known.settings().contract());
        let takes = contract.map(|contract| Clearing::of(delivered, contract, None));
        Ok(ReplayPlan { delivered, events: self.events, takes })
    }

    pub(crate) fn task(self, reader: &dyn Reader, by: Arc<str>) -> Result<Task, StoreError> {
        let (planned, last) = (self.count(reader)?, reader.glance()?.last);
        let Self { lane, since, before, events } = self;
        Ok(Task { kind: JobKind::Replay, which: Dead::Of(lane), since, before, events, last, planned, by })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ReplayPlan {
    delivered: u64,
    events: Option<EventPatterns>,
    /// At the subscriber's limits.
    takes: Option<Clearing>,
}

impl ReplayPlan {
    pub(crate) fn to_json(&self) -> Value {
        json!({ "delivered": self.delivered, "events": self.events, "takes_ms": millis(self.takes) })
    }
}

impl Display for ReplayPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "delivered ones to send again: {}", self.delivered)?;
        if let Some(events) = &self.events {
            write!(f, " of {}", in_words(events))?;
        }
        f.write_str(&at_its_limits(self.takes))
    }
}

pub(crate) fn shed_task(lane: LaneId, plan: &Plan, by: Arc<str>) -> Task {
    let (last, planned) = (plan.last, plan.would_shed);
    let (kind, which, never) = (JobKind::Shed, Dead::Of(lane), StoreTime(0));
    Task { kind, which, since: never, before: never, events: None, last, planned, by }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LetterPlan {
    dead: u64,
    /// Those of a redrive to one subscriber that have to wait for room.
    without_room: Option<u64>,
    /// A redrive to one subscriber, at its limits.
    takes: Option<Clearing>,
}

impl LetterPlan {
    pub(crate) fn to_json(self) -> Value {
        json!({
            "dead": self.dead,
            "without_room": self.without_room,
            "takes_ms": millis(self.takes),
        })
    }
}

impl Display for LetterPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dead letters: {}", self.dead)?;
        if let Some(without @ 1..) = self.without_room {
            write!(f, "; without room in the queue as it is: {without}")?;
        }
        f.write_str(&at_its_limits(self.takes))
    }
}

fn millis(takes: Option<Clearing>) -> Option<u64> {
    takes.map(|takes| takes.length().0 / 1_000_000)
}

fn at_its_limits(takes: Option<Clearing>) -> String {
    takes.map_or(String::new(), |takes| format!("; at its limits: {} at least", rough(takes.length())))
}

pub(crate) fn in_words(events: &EventPatterns) -> String {
    events.as_slice().iter().map(Pattern::to_string).collect::<Vec<_>>().join(", ")
}

/// `subscriber`: the id of [`Job::lane`].
pub(crate) fn to_json(job: &Job, subscriber: Option<&str>) -> Value {
    let Job { task, .. } = job;
    json!({
        "id": job.id.0,
        "kind": task.kind.name(),
        "subscriber": subscriber,
        "since": (task.since > StoreTime(0)).then(|| moment(task.since)),
        "before": (task.before > StoreTime(0)).then(|| moment(task.before)),
        "events": task.events,
        "by": &*task.by,
        "state": job.state.name(),
        "planned": task.planned,
        "done": job.done,
        "skipped": job.skipped,
        "begun": moment(job.begun),
        "ended": job.ended.map(moment),
        "error": job.error.as_deref(),
    })
}
