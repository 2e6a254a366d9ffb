//! Jobs: work on many deliveries, in steps. A step and its job's row are one commit, so that a kill loses and repeats
//! nothing.

use std::sync::Arc;

use hookproof_words::event_type::EventPatterns;
pub use hookproof_words::ids::JobId;
pub use hookproof_words::states::{JobKind, JobState};

use super::lane::OwnerId;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};

pub const OPEN_JOBS_MAX: u64 = 32;
/// Beyond it the oldest are deleted.
pub const ENDED_JOBS_MAX: u64 = 100;
pub const JOB_IDS_MAX: usize = 1_000;
/// How long a worker keeps a job to itself after a step.
pub const JOB_LEASE: Nanos = Nanos::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dead {
    All,
    Of(LaneId),
    These(Vec<DeliveryId>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub kind: JobKind,
    /// A shed and a replay need [`Dead::Of`].
    pub which: Dead,
    /// Only dead letters given up, or for a replay deliveries made, since then.
    pub since: StoreTime,
    /// Only deliveries made before then: of a replay. At most its beginning, so that none is sent twice.
    pub before: StoreTime,
    /// Types of a replay; all if none.
    pub events: Option<EventPatterns>,
    /// Only deliveries up to this one, so that a job ends while others die.
    pub last: DeliveryId,
    /// How many there were. A shed gives up no more.
    pub planned: u64,
    pub by: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub id: JobId,
    pub task: Task,
    pub state: JobState,
    pub done: u64,
    /// Dead letters without room, or of a subscriber that takes nothing; delivered ones whose body is gone or cannot fit.
    pub skipped: u64,
    /// All deliveries up to this one are done.
    pub cursor: DeliveryId,
    pub begun: StoreTime,
    pub ended: Option<StoreTime>,
    pub error: Option<Arc<str>>,
    pub worker: OwnerId,
    /// Until then, no other process works at it.
    pub until: StoreTime,
}

impl Job {
    #[must_use]
    pub const fn lane(&self) -> Option<LaneId> {
        match self.task.which {
            Dead::Of(lane) => Some(lane),
            Dead::All | Dead::These(_) => None,
        }
    }

    /// Whether its last step found no room in the queue.
    #[must_use]
    pub fn stands_since(&self, before: &Self) -> bool {
        let reached = |job: &Self| (job.cursor, job.done, job.skipped);
        self.state == JobState::Running && self.until != before.until && reached(self) == reached(before)
    }

    #[must_use]
    pub fn is_free_for(&self, worker: OwnerId, now: StoreTime) -> bool {
        // Later, its clock was ahead.
        let latest = StoreTime(now.0.saturating_add(JOB_LEASE.0));
        let is_leased = now < self.until && self.until <= latest;
        self.state == JobState::Running && (self.worker == worker || !is_leased)
    }
}

#[derive(Clone, Debug)]
pub struct StartJob {
    pub task: Task,
    pub worker: OwnerId,
}

/// Changes nothing if the job does not run, or another process works at it.
#[derive(Clone, Copy, Debug)]
pub struct StepJob {
    pub job: JobId,
    /// Of [`Dead::Of`], to lock it at once.
    pub lane: Option<LaneId>,
    pub worker: OwnerId,
    pub max: u32,
}

#[derive(Clone, Debug)]
pub struct SetJob {
    pub job: JobId,
    pub state: JobState,
    pub error: Option<Arc<str>>,
}
