//! Conducts the run: injects faults, samples the queue, and decides when the run is over. Nothing here waits
//! for the sender: operator actions and database locks are tasks (`operator`).

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
use super::{Interrupt, RunError};
use crate::clock::Clock;
use crate::database::{Link, Server};
use crate::driver::{Api, Cost, DriverFile, Processes, Sample, cost_of};
use crate::endpoint::Keys;
use crate::fault::WallClock;
use crate::traffic::Lag;
use hookproof_judge::scenario::{Scenario, Standing};
use hookproof_judge::signature::{Profile, Scheme};
use hookproof_judge::trace::Recorder;
use hookproof_judge::trace::{Depth, Ended, Kept, Record};

/// The period of the loop.
const TICK_NS: u64 = 10_000_000;
/// The period of queue samples.
const SAMPLE_NS: u64 = 250_000_000;
const UNKNOWN: u64 = u64::MAX;

pub(super) struct Conductor<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) api: &'a Api,
    pub(super) processes: &'a mut Processes,
    pub(super) keys: Keys,
    /// The private database server, if there is one.
    pub(super) server: Option<Arc<Server>>,
    /// Each process's link to it, if a fault cuts that.
    pub(super) links: &'a [Link],
    /// The wall clocks that faults set, by process.
    pub(super) clocks: &'a mut BTreeMap<usize, WallClock>,
    /// The scheme of each subscriber, in order.
    pub(super) schemes: Vec<Scheme>,
    pub(super) clock: Clock,
    pub(super) recorder: Recorder,
    /// The end of the traffic.
    pub(super) traffic_end: u64,
    pub(super) view: View,
    /// Operator actions and database locks under way; at most one for each fault.
    pub(super) errands: JoinSet<Result<Done, String>>,
}

/// The latest sample of the queue, and the sender's process groups; shared with the sampling task.
#[derive(Debug, Default)]
struct Queue {
    waiting: AtomicU64,
    /// The time of the sample.
    asked: AtomicU64,
    /// The process groups that live.
    groups: watch::Sender<Vec<Pid>>,
}

impl Queue {
    /// The cost of the sender's processes. The scan blocks, as a machine may have many processes.
    async fn cost(&self) -> Option<Cost> {
        let groups = self.groups.borrow().clone();
        tokio::task::spawn_blocking(move || cost_of(&groups)).await.ok().flatten()
    }
}

impl Conductor<'_> {
    /// Conducts until the end; returns how the run ended, and the generator's lag.
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
        // The callers end first, so that a generator that waits for one sees the channel closed.
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
        let steps = hookproof_play::fault::timeline(&self.scenario.faults);
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
            // Without a trace the run is useless; the writer reports the error.
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
            // A sender that takes events too slowly is not waited for beyond `drain`.
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

    /// Whether nothing is outstanding: by the sender's report made after the last event, or by the harness's
    /// own ledger for a sender without a depth call.
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

    /// Samples the queue periodically.
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
                    // The system reports memory and file sizes.
                    if cost.is_some() || kept.is_some() {
                        recorder.keep(depth(asked, Sample::default(), cost, kept));
                    }
                } else if let Ok(samples) = api.depth().await {
                    // A sender that does not answer is asked again; the trace shows its silence as refusals.
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

    /// Ends all lasting faults, so that the sender stops as it would without them.
    async fn relieve(&mut self) {
        self.errands.shutdown().await;
        self.links.iter().for_each(Link::open_again);
        let clocks = self.clocks.values_mut().map(WallClock::put_right).fold(Ok(()), Result::and);
        if let Err(error) = clocks.and(self.processes.relieve()) {
            self.view.say(&format!("a fault could not be ended: {error}"));
        }
    }

    /// Reports an action that was not done, or continues with a prepared one.
    fn hear(&mut self, done: Result<Result<Done, String>, JoinError>) {
        match done.map_err(|error| format!("a fault was not applied: {error}")).flatten() {
            Ok(Done::All) => {}
            Ok(Done::Found(place, worker)) => self.strike_owner(place, worker),
            // A fault that was not injected has no record, and its check reports that it saw none.
            Err(why) => self.view.say(&why),
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The record of a sample. Memory, processor time and retained deliveries concern the whole sender.
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

/// The scheme that verifies a subscriber's deliveries.
pub(crate) fn scheme(file: &DriverFile, wanted: Profile) -> Scheme {
    file.sign.as_ref().map_or_else(|| Scheme::from(wanted), |sign| sign.scheme.clone())
}

#[cfg(test)]
mod tests;
