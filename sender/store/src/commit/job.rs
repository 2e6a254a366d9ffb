//! Jobs. A step applies the rule of its kind to the next deliveries, and its row follows in the same commit.

use hookproof_words::event_type::EventPatterns;
use hookproof_words::ids::size;

use super::retry::RetryRows;
use crate::command::{Dead, Reason};
use crate::engine::{DeliveryId, LaneId};
use crate::job::{
    ENDED_JOBS_MAX, JOB_IDS_MAX, JOB_LEASE, Job, JobId, JobKind, JobState, OPEN_JOBS_MAX, SetJob, StartJob,
    StepJob,
};
use crate::lane::LaneState;
use crate::paging::last_if_full;
use crate::read::Place;
use crate::reply::{Refusal, Reply};

/// One step of a replay examines so many deliveries, of all lanes.
pub(crate) const LOOKED_AT_MAX: u32 = 5_000;
/// And it sends so many again: each is several statements, under the lane's lock.
const REPLAYED_MAX: u32 = 100;

pub(crate) fn events_text(events: Option<&EventPatterns>) -> Option<String> {
    events.map(|events| serde_json::json!(events).to_string())
}

pub(crate) fn read_events(text: Option<&str>) -> serde_json::Result<Option<EventPatterns>> {
    text.map(serde_json::from_str).transpose()
}

pub(crate) fn is_of(events: Option<&EventPatterns>, kind: Option<&str>) -> bool {
    let matches = |events: &EventPatterns| {
        kind.and_then(|kind| kind.parse().ok()).is_some_and(|kind| events.matches(&kind))
    };
    events.is_none_or(matches)
}

/// A part of the deliveries, in their order.
pub(crate) struct Examined {
    /// Those delivered to the lane in its span.
    pub(crate) delivered: Vec<DeliveryId>,
    /// None after the last of the job.
    pub(crate) next: Option<DeliveryId>,
}

impl Examined {
    /// `rows`: deliveries, and whether each is wanted; at most [`LOOKED_AT_MAX`].
    pub(crate) fn of<E>(
        rows: impl Iterator<Item = Result<(DeliveryId, bool), E>>,
        max: u32,
    ) -> Result<Self, E> {
        let (mut delivered, mut looked_at) = (Vec::new(), 0);
        for row in rows {
            let (delivery, is_wanted) = row?;
            looked_at += 1;
            if is_wanted {
                delivered.push(delivery);
            }
            if looked_at >= LOOKED_AT_MAX || size(delivered.len()) >= u64::from(max) {
                return Ok(Self { delivered, next: Some(delivery) });
            }
        }
        Ok(Self { delivered, next: None })
    }
}

pub(crate) trait JobRows: RetryRows {
    /// After all numbers that are kept. Numbers are not used again, because the newest jobs are kept.
    fn next_job(&mut self) -> Result<JobId, Self::Error>;

    fn open_jobs(&mut self) -> Result<u64, Self::Error>;

    /// Its row is locked.
    fn job(&mut self, job: JobId) -> Result<Option<Job>, Self::Error>;

    /// Inserts or updates.
    fn put_job(&mut self, job: &Job) -> Result<(), Self::Error>;

    /// Examines deliveries after the cursor of a replay.
    fn delivered(&mut self, lane: LaneId, replay: &Job, max: u32) -> Result<Examined, Self::Error>;

    /// Deletes the oldest that are over, except so many.
    fn forget_jobs(&mut self, kept: u64) -> Result<(), Self::Error>;

    fn start_job(&mut self, start: &StartJob) -> Result<Reply, Self::Error> {
        let StartJob { task, worker } = start;
        let is_of_letters = matches!(task.kind, JobKind::Redrive | JobKind::Purge);
        let is_named = match &task.which {
            Dead::All => is_of_letters,
            Dead::Of(_) => true,
            Dead::These(ids) if ids.len() > JOB_IDS_MAX => {
                return Ok(Reply::Refused(Refusal::TooManyIds(ids.len())));
            }
            Dead::These(_) => is_of_letters,
        };
        if !is_named {
            return Ok(Reply::Refused(Refusal::Nonsense("a job cannot have these deliveries")));
        }
        if self.open_jobs()? >= OPEN_JOBS_MAX {
            return Ok(Reply::Refused(Refusal::TooManyJobs));
        }
        let job = Job {
            id: self.next_job()?,
            task: task.clone(),
            state: JobState::Running,
            done: 0,
            skipped: 0,
            cursor: DeliveryId(0),
            begun: self.now(),
            ended: None,
            error: None,
            worker: *worker,
            until: self.after(JOB_LEASE),
        };
        self.put_job(&job)?;
        Ok(Reply::Job(Box::new(job)))
    }

    fn step_job(&mut self, step: StepJob) -> Result<Reply, Self::Error> {
        let Some(mut job) = self.job(step.job)? else {
            return Ok(Reply::Refused(Refusal::UnknownJob(step.job)));
        };
        if !job.is_free_for(step.worker, self.now()) {
            return Ok(Reply::Job(Box::new(job)));
        }
        let is_over = match job.task.kind {
            JobKind::Redrive | JobKind::Purge => self.step_letters(&mut job, step.max)?,
            JobKind::Shed => self.step_shed(&mut job, step.max)?,
            JobKind::Replay => self.step_replay(&mut job, step.max)?,
        };
        if is_over && job.error.is_none() {
            job.state = JobState::Done;
        }
        (job.worker, job.until) = (step.worker, self.after(JOB_LEASE));
        self.leave(job)
    }

    fn set_job(&mut self, set: &SetJob) -> Result<Reply, Self::Error> {
        let Some(mut job) = self.job(set.job)? else {
            return Ok(Reply::Refused(Refusal::UnknownJob(set.job)));
        };
        if job.state.is_over() {
            return Ok(Reply::Refused(Refusal::JobOver(job.state)));
        }
        (job.state, job.error) = (set.state, set.error.clone());
        self.leave(job)
    }

    fn leave(&mut self, mut job: Job) -> Result<Reply, Self::Error> {
        job.ended = job.state.is_over().then_some(self.now());
        self.put_job(&job)?;
        if job.ended.is_some() {
            self.forget_jobs(ENDED_JOBS_MAX)?;
        }
        Ok(Reply::Job(Box::new(job)))
    }

    /// Each kind's step returns whether none is left.
    fn step_letters(&mut self, job: &mut Job, max: u32) -> Result<bool, Self::Error> {
        let last = job.task.last;
        let mut letters = self.chosen(&job.task.which, Some(job.cursor), max)?;
        let is_over = last_if_full(&letters, max, |letter| *letter).is_none_or(|letter| letter >= last);
        letters.retain(|letter| *letter <= last);
        job.cursor = letters.last().copied().unwrap_or(job.cursor);
        let mut letters = self.letters(&letters)?;
        // Leaves letters out that a faster clock gave up: they seem to die later.
        letters.retain(|letter| job.task.since <= letter.at && letter.at <= job.begun);
        if job.task.kind == JobKind::Redrive {
            // One lane's letters wait for room. Those of many must not wait for one.
            let waits = matches!(job.task.which, Dead::Of(_));
            let (redriven, full) = self.redrive_letters(letters, waits)?;
            job.done += size(redriven.rows.len());
            job.skipped += redriven.kept;
            if let Some(full) = full {
                job.cursor = DeliveryId(full.0.saturating_sub(1));
                return Ok(false);
            }
        } else {
            let letters: Vec<_> = letters.into_iter().map(|letter| letter.delivery).collect();
            job.done += self.forget_letters(&letters)?;
        }
        Ok(is_over)
    }

    fn step_replay(&mut self, job: &mut Job, max: u32) -> Result<bool, Self::Error> {
        let Dead::Of(lane) = job.task.which else { return Ok(true) };
        let state = self.lane(lane)?.map_or(LaneState::Removed, |lane| lane.state);
        if !state.accepts() {
            let refusal = Refusal::NotActive(state);
            (job.state, job.error) = (JobState::Failed, Some(refusal.to_string().into()));
            return Ok(true);
        }
        let Examined { delivered, next } = self.delivered(lane, job, max.min(REPLAYED_MAX))?;
        for delivery in delivered {
            match self.resendable(delivery)? {
                Some(body) if self.could_fit(lane, body.bytes)? => {
                    if self.bound_reached(lane, body.bytes)?.is_some() {
                        return Ok(false);
                    }
                    let is_sent = self.send_again(lane, delivery, Place::Delivered, &body)?;
                    *if is_sent { &mut job.done } else { &mut job.skipped } += 1;
                }
                Some(_) | None => job.skipped += 1,
            }
            job.cursor = delivery;
        }
        job.cursor = next.unwrap_or(job.task.last);
        Ok(next.is_none())
    }

    fn step_shed(&mut self, job: &mut Job, max: u32) -> Result<bool, Self::Error> {
        let Dead::Of(lane) = job.task.which else { return Ok(true) };
        if self.lane(lane)?.is_none() {
            let refusal = Refusal::UnknownLane(lane);
            (job.state, job.error) = (JobState::Failed, Some(refusal.to_string().into()));
            return Ok(true);
        }
        let left = job.task.planned.saturating_sub(job.done);
        let max = u32::try_from(left).unwrap_or(u32::MAX).min(max);
        let mut victims = self.longest_due(lane, max)?;
        let is_last = size(victims.len()) < u64::from(max);
        victims.retain(|victim| *victim <= job.task.last);
        for victim in &victims {
            self.bury(lane, *victim, Reason::Shed)?;
        }
        job.done += size(victims.len());
        Ok(is_last || victims.is_empty() || job.done >= job.task.planned)
    }
}
