//! The run while it goes on: faults at their moments, samples of the queue, and the question whether it is over. Nothing here
//! waits for the sender: what an operator asks of it, and whoever holds its database, are tasks (`operator`).

mod strikes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::process::Pid;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};

use super::emitter::Emitting;
use super::keeping::Keeping;
use super::operator::Done;
use super::view::View;
use super::{Clock, Interrupt, Recorder, RunError};
use crate::database::{Link, Server};
use crate::driver::{Api, Cost, DriverFile, Processes, Sample, cost_of};
use crate::endpoint::Keys;
use crate::fault::WallClock;
use crate::scenario::{Scenario, Standing};
use crate::trace::{Depth, Ended, Kept, Record};
use crate::traffic::Lag;
use crate::wire::{Profile, Scheme};

/// How often everything is looked after.
const TICK_NS: u64 = 10_000_000;
/// How often the queue is looked into.
const SAMPLE_NS: u64 = 250_000_000;
/// No sample yet.
const UNKNOWN: u64 = u64::MAX;

/// Conducts one run.
pub(super) struct Conductor<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) api: &'a Api,
    pub(super) processes: &'a mut Processes,
    pub(super) keys: Keys,
    /// The database server, if it is the harness's own.
    pub(super) server: Option<Arc<Server>>,
    /// The way to it of each process, where it may be cut.
    pub(super) links: &'a [Link],
    /// The wall clocks that can be set, by their processes.
    pub(super) clocks: &'a mut BTreeMap<usize, WallClock>,
    /// Of each subscriber, in their order.
    pub(super) schemes: Vec<Scheme>,
    pub(super) clock: Clock,
    pub(super) recorder: Recorder,
    /// When the traffic is over.
    pub(super) traffic_end: u64,
    pub(super) view: View,
    /// What operators are about, and whoever holds the database: as many as the scenario has such faults.
    pub(super) errands: JoinSet<Result<Done, String>>,
}

/// What is known of the queue and of the sender's processes, shared with whoever asks the sender.
#[derive(Debug, Default)]
struct Queue {
    waiting: AtomicU64,
    /// When that was asked.
    asked: AtomicU64,
    /// The groups of the processes that live.
    groups: watch::Sender<Vec<Pid>>,
}

impl Queue {
    /// What the sender's processes cost. Nobody who has to be in time looks for that: a machine may have many processes.
    async fn cost(&self) -> Option<Cost> {
        let groups = self.groups.borrow().clone();
        tokio::task::spawn_blocking(move || cost_of(&groups)).await.ok().flatten()
    }
}

impl Conductor<'_> {
    /// Conducts until the end, and says how it ended and how well the generator kept its schedule.
    pub(super) async fn conduct(
        &mut self,
        mut emitting: Emitting,
        stop: &AtomicBool,
        mut interrupt: Interrupt,
    ) -> Result<(Ended, Lag), RunError> {
        let groups = watch::Sender::new(self.processes.groups());
        let queue = Arc::new(Queue { waiting: AtomicU64::new(UNKNOWN), groups, ..Queue::default() });
        let sampling = self.sample(&queue);
        let ended = self.until_the_end(&mut emitting, &queue, &mut interrupt).await;
        stop.store(true, Ordering::Relaxed);
        sampling.abort();
        self.relieve().await;
        // The callers go first: a generator that waits for one must see that nobody is left.
        if !matches!(ended, Ok(Ended::Done)) {
            emitting.callers.shutdown().await;
        }
        let generator = tokio::task::spawn_blocking(move || emitting.generator.join());
        let lag = generator.await.ok().and_then(Result::ok).ok_or(RunError::Generator)?;
        Ok((ended?, lag))
    }

    async fn until_the_end(
        &mut self,
        emitting: &mut Emitting,
        queue: &Queue,
        interrupt: &mut Interrupt,
    ) -> Result<Ended, RunError> {
        let steps = crate::fault::timeline(&self.scenario.faults);
        let mut steps = steps.into_iter().peekable();
        let mut idle_since = None;
        loop {
            while let Some((_, step)) = steps.next_if(|(at, _)| *at <= self.clock.now()) {
                self.step(step);
            }
            while let Some(done) = self.errands.try_join_next() {
                self.hear(done);
            }
            self.processes.look().map_err(RunError::Process)?;
            for undone in self.processes.take_undone() {
                self.take_back(undone);
            }
            queue.groups.send_replace(self.processes.groups());
            let now = self.clock.now();
            let waiting = queue.waiting.load(Ordering::Relaxed);
            self.view.update(now, &self.recorder, (waiting != UNKNOWN).then_some(waiting));
            // Without a trace there is nothing to go on for; why it can't be written, its writer says.
            if *interrupt.borrow() || self.recorder.is_broken() {
                return Ok(Ended::Interrupted);
            }
            if self.processes.is_gone() && steps.peek().is_none() {
                return Ok(Ended::SenderGone);
            }
            while let Some(done) = emitting.callers.try_join_next() {
                done.map_err(|_| RunError::Generator)?;
            }
            let emitted = emitting.generator.is_finished() && emitting.callers.is_empty();
            let drained = now >= self.traffic_end.saturating_add(self.scenario.drain.0);
            // A sender that takes its events more slowly than that isn't waited for: it could go on for days.
            if !emitted && drained {
                emitting.give_up.send_replace(true);
            }
            if emitted && steps.peek().is_none() && now >= self.traffic_end {
                let since = *idle_since.get_or_insert(now);
                if *emitting.give_up.borrow() || self.is_over(queue, since, now) {
                    return Ok(Ended::Done);
                }
            }
            tokio::select! {
                () = self.clock.pass(TICK_NS) => {}
                Some(done) = self.errands.join_next() => self.hear(done),
                _ = interrupt.changed() => {}
            }
        }
    }

    fn is_over(&self, queue: &Queue, since: u64, now: u64) -> bool {
        let tally = self.recorder.tally();
        let standing = Standing {
            since,
            settled: self.is_settled(queue, since),
            open: self.recorder.arrivals() > tally.ended.load(Ordering::Relaxed),
            came: tally.came.load(Ordering::Relaxed),
        };
        self.scenario.is_over(&standing, now)
    }

    /// Whether nothing is owed any more: by the sender's word, asked after everything was emitted; or, of one that can't be
    /// asked, by the harness's own account.
    fn is_settled(&self, queue: &Queue, since: u64) -> bool {
        let settled = match self.recorder.owed() {
            Some(owed) => owed == 0,
            None => {
                let asked = queue.asked.load(Ordering::Relaxed);
                asked > since && queue.waiting.load(Ordering::Relaxed) == 0
            }
        };
        settled && self.processes.is_whole() && self.errands.is_empty()
    }

    /// Looks into the queue again and again.
    fn sample(&self, queue: &Arc<Queue>) -> JoinHandle<()> {
        let (api, clock, recorder) = (self.api.clone(), self.clock.clone(), self.recorder.clone());
        let queue = Arc::clone(queue);
        let has_depth = api.file().depth.is_some();
        let mut keeping = Keeping::of(self.scenario, &api);
        tokio::spawn(async move {
            loop {
                let asked = clock.now();
                let cost = queue.cost().await;
                let kept = keeping.look(&api, asked).await;
                if !has_depth {
                    // Its memory and its files are the system's to tell.
                    if cost.is_some() || kept.is_some() {
                        recorder.keep(depth(asked, Sample::default(), cost, kept));
                    }
                } else if let Ok(samples) = api.depth().await {
                    // A sender that doesn't answer now is asked again; its silence is in the trace as refusals.
                    if let Some(waiting) = samples.first().and_then(|whole| whole.waiting) {
                        queue.waiting.store(waiting, Ordering::Relaxed);
                        queue.asked.store(asked, Ordering::Relaxed);
                    }
                    let each = |sample| recorder.keep(depth(asked, sample, cost, kept.clone()));
                    samples.into_iter().for_each(each);
                }
                clock.until(asked.saturating_add(SAMPLE_NS)).await;
            }
        })
    }

    /// Ends what still lasts: the sender is asked to stop as it is without faults.
    async fn relieve(&mut self) {
        self.errands.shutdown().await;
        self.links.iter().for_each(Link::open_again);
        let clocks = self.clocks.values_mut().map(WallClock::put_right).fold(Ok(()), Result::and);
        if let Err(error) = clocks.and(self.processes.relieve()) {
            self.view.say(&format!("a fault could not be ended: {error}"));
        }
    }

    /// Says what was not done, and goes on with what was prepared.
    fn hear(&mut self, done: Result<Result<Done, String>, JoinError>) {
        match done.map_err(|error| format!("a fault was not applied: {error}")).flatten() {
            Ok(Done::All) => {}
            Ok(Done::Found(place, worker)) => self.strike_owner(place, worker),
            // What was not done is no fault in the trace: its check then saw nothing, and says so.
            Err(why) => self.view.say(&why),
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The record of a sample. Memory, processor time, and what is kept, are the whole sender's.
fn depth(t: u64, sample: Sample, cost: Option<Cost>, kept: Option<Kept>) -> Record {
    let Sample { subscriber, waiting, bytes, dead, delivered, coalesced } = sample;
    let whole = subscriber.is_none();
    let (cost, kept) = (cost.filter(|_| whole), kept.filter(|_| whole));
    Record::Depth(Depth {
        t,
        subscriber,
        waiting,
        bytes,
        dead,
        delivered,
        coalesced,
        resident_bytes: cost.map(|cost| cost.resident_bytes),
        processor_ns: cost.map(|cost| cost.processor_ns),
        kept,
    })
}

/// The scheme by which a subscriber's deliveries are verified.
pub(crate) fn scheme(file: &DriverFile, wanted: crate::scenario::Profile) -> Result<Scheme, RunError> {
    match &file.sign {
        Some(sign) => Ok(sign.scheme.clone()),
        None => {
            let profile: Result<Profile, _> = wanted.name().parse();
            profile.map(Scheme::from).map_err(|error| RunError::Profile(text(error)))
        }
    }
}

#[cfg(test)]
mod tests;
