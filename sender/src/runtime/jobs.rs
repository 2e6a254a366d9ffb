//! Works at jobs, a step of one at a time. Each step is a commit, so a job goes on wherever a process ends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use super::clock::{Clock, rest};
use super::link::{Failed, commit};
use super::readers::Readers;
use crate::engine::Nanos;
use crate::store::job::{Job, JobId, JobState, SetJob, StepJob};
use crate::store::lane::OwnerId;
use crate::store::thread::Handle;
use crate::store::{Command, Reply, StoreError};

/// How soon a job of another process, or of one that died, is seen.
const LOOK_EVERY: Nanos = Nanos::from_millis(500);
/// Other commands run between two steps.
pub(crate) const STEP_ROWS: u32 = 500;
const REST_MAX: Nanos = Nanos::SECOND;

/// As long as the step itself, so that such work takes at most half of the disk's capacity.
pub(crate) fn rest_after(step: Nanos) -> Nanos {
    step.min(REST_MAX)
}

pub(super) struct Jobs {
    /// Wakes the worker.
    pub(super) started: Arc<Notify>,
    pub(super) worker: JoinHandle<()>,
}

impl Jobs {
    pub(super) fn start(
        store: Handle,
        readers: Arc<Readers>,
        clock: Clock,
        owner: OwnerId,
        delivers: bool,
        stop: &watch::Receiver<bool>,
    ) -> Self {
        let started = Arc::new(Notify::new());
        let worker = Worker { store, readers, clock, owner, delivers, started: Arc::clone(&started) };
        Self { started, worker: tokio::spawn(worker.run(stop.clone())) }
    }
}

struct Worker {
    store: Handle,
    readers: Arc<Readers>,
    clock: Clock,
    owner: OwnerId,
    /// Otherwise it works at its own jobs only.
    delivers: bool,
    started: Arc<Notify>,
}

impl Worker {
    async fn run(self, mut stop: watch::Receiver<bool>) {
        // A step that is under way at the stop is committed, or not at all.
        tokio::select! {
            _ = stop.changed() => {}
            never = self.work() => match never {},
        }
    }

    async fn work(&self) -> std::convert::Infallible {
        let mut looks = interval(Duration::from_nanos(LOOK_EVERY.0));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut fails = false;
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                () = self.started.notified() => {}
            }
            let (mut standing, mut looked) = (BTreeSet::new(), self.clock.now());
            loop {
                if self.clock.now().since(looked) >= LOOK_EVERY {
                    (standing, looked) = (BTreeSet::new(), self.clock.now());
                }
                let next = self.next(&standing).await;
                // The store tells of a failure that may pass.
                if let Err(error) = &next
                    && !fails
                    && !error.may_pass()
                {
                    warn!(%error, "jobs stand still: the database cannot list them");
                }
                fails = next.is_err();
                let Ok(Some(job)) = next else { break };
                let began = self.clock.now();
                match self.step(&job).await {
                    Stepped::On => {}
                    Stepped::Stands => drop(standing.insert(job.id)),
                    Stepped::Failed => break,
                }
                rest(rest_after(self.clock.now().since(began))).await;
            }
        }
    }

    /// The one that waits the longest for its next step.
    async fn next(&self, except: &BTreeSet<JobId>) -> Result<Option<Job>, StoreError> {
        let jobs = self.readers.query(|reader| reader.jobs(None)).await??;
        let now = self.clock.now();
        let may = |job: &Job| self.delivers || job.worker == self.owner;
        let free = jobs.into_iter().filter(|job| may(job) && job.is_free_for(self.owner, now));
        Ok(free.filter(|job| !except.contains(&job.id)).min_by_key(|job| job.until))
    }

    async fn step(&self, before: &Job) -> Stepped {
        let (lane, job) = (before.lane(), before.id);
        let step = StepJob { job, lane, worker: self.owner, max: STEP_ROWS };
        match commit(&self.store, Command::StepJob(step)).await {
            Ok(Reply::Job(job)) => {
                log_end(&job);
                if job.stands_since(before) { Stepped::Stands } else { Stepped::On }
            }
            Err(Failed::Store(error)) if error.is_damage() => {
                let error = Some(error.to_string().into());
                let failed = Command::SetJob(SetJob { job, state: JobState::Failed, error });
                if let Ok(Reply::Job(job)) = commit(&self.store, failed).await {
                    log_end(&job);
                }
                Stepped::Failed
            }
            Ok(_) | Err(_) => Stepped::Failed,
        }
    }
}

enum Stepped {
    On,
    /// It waits for room, so that others go first.
    Stands,
    Failed,
}

fn log_end(job: &Job) {
    let (id, kind, done, skipped) = (job.id.0, job.task.kind.name(), job.done, job.skipped);
    match job.state {
        JobState::Done => info!(id, kind, done, skipped, "a job is done"),
        JobState::Failed => warn!(id, kind, done, error = job.error.as_deref(), "a job failed"),
        JobState::Running | JobState::Paused | JobState::Cancelled => {}
    }
}
