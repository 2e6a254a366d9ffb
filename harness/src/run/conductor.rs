//! Injects faults, samples the queue, and decides when the run is over. It never waits for the sender: operator actions
//! and database locks are tasks (`operator`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hookproof_judge::scenario::{
    FaultAction, FaultPlan, FaultTarget, KeptBound, Partition, Scenario, Standing, Store,
};
use hookproof_judge::signature::{Profile, Scheme};
use hookproof_judge::trace::{Depth, Ended, Fault, Record, Recorder, Retained, Undone};
use hookproof_play::fault::{self, Step};
use rustix::process::Pid;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};

use super::emitter::Emitting;
use super::operator::{ActionOutcome, Errand, Operator};
use super::view::View;
use super::{Interrupt, RunError};
use crate::clock::Clock;
use crate::database::{Link, Server};
use crate::driver::{self, Api, Blow, Cost, DriverFile, Processes, Processors, Sample, cost_of, processors};
use crate::endpoint::Keys;
use crate::fault::WallClock;
use crate::stall::Others;
use crate::traffic::Lag;

const TICK_NS: u64 = 10_000_000;
const SAMPLE_NS: u64 = 250_000_000;
const UNKNOWN: u64 = u64::MAX;

pub(super) struct Conductor<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) api: &'a Api,
    pub(super) processes: &'a mut Processes,
    pub(super) keys: Keys,
    pub(super) server: Option<Arc<Server>>,
    /// Links of each process, if a fault cuts them.
    pub(super) links: &'a [Link],
    pub(super) clocks: &'a mut BTreeMap<usize, WallClock>,
    pub(super) schemes: Vec<Scheme>,
    pub(super) clock: Clock,
    pub(super) recorder: Recorder,
    pub(super) traffic_end: u64,
    pub(super) view: View,
    /// Each fault has at most one.
    pub(super) errands: JoinSet<Result<ActionOutcome, String>>,
}

/// The latest sample of the queue, and the sender's process groups; shared with the sampling task.
#[derive(Debug, Default)]
struct Queue {
    waiting: AtomicU64,
    asked: AtomicU64,
    groups: watch::Sender<Vec<Pid>>,
}

impl Queue {
    /// The scan blocks, as a machine may have many processes.
    async fn cost(&self) -> (Option<Cost>, Option<Processors>) {
        let groups = self.groups.borrow().clone();
        let cost = tokio::task::spawn_blocking(move || (cost_of(&groups), processors()));
        cost.await.unwrap_or_default()
    }
}

impl Conductor<'_> {
    /// Returns how the run ended, and the generator's lag.
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
        // A generator that waits for a caller then sees the channel closed.
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
                self.handle_outcome(done);
            }
            self.processes.poll().map_err(RunError::Process)?;
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
            // Waits no longer than `drain` for a slow sender.
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
                Some(done) = self.errands.join_next() => self.handle_outcome(done),
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

    /// By the sender's report made after the last event, or by the harness's own ledger for a sender without a depth
    /// call.
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

    fn sample(&self, queue: &Arc<Queue>) -> JoinHandle<()> {
        let (api, clock, recorder) = (self.api.clone(), self.clock.clone(), self.recorder.clone());
        let queue = Arc::clone(queue);
        let has_depth = api.file().depth.is_some();
        let mut keeping = Keeping::of(self.scenario, &api);
        tokio::spawn(async move {
            let mut others = Others::default();
            loop {
                let asked = clock.now();
                let (cost, seen) = queue.cost().await;
                if let Some(stall) = others.at(asked, seen, cost.map(|cost| cost.processor_ns)) {
                    recorder.record(Record::Stall(stall));
                }
                let kept = keeping.poll(&api, asked).await;
                if !has_depth {
                    // The system reports memory and file sizes.
                    if cost.is_some() || kept.is_some() {
                        recorder.record(depth(asked, Sample::default(), cost, kept));
                    }
                } else if let Ok(samples) = api.depth().await {
                    // A sender that does not answer is asked again; the trace shows its silence as refusals.
                    if let Some(waiting) = samples.first().and_then(|whole| whole.waiting) {
                        queue.waiting.store(waiting, Ordering::Relaxed);
                        queue.asked.store(asked, Ordering::Relaxed);
                    }
                    let each = |sample| recorder.record(depth(asked, sample, cost, kept.clone()));
                    samples.into_iter().for_each(each);
                }
                clock.until(asked.saturating_add(SAMPLE_NS)).await;
            }
        })
    }

    /// So the sender stops as it would without faults.
    async fn relieve(&mut self) {
        self.errands.shutdown().await;
        self.links.iter().for_each(Link::open_again);
        let clocks = self.clocks.values_mut().map(WallClock::put_right).fold(Ok(()), Result::and);
        if let Err(error) = clocks.and(self.processes.relieve()) {
            self.view.print(&format!("a fault could not be ended: {error}"));
        }
    }

    fn handle_outcome(&mut self, done: Result<Result<ActionOutcome, String>, JoinError>) {
        match done.map_err(|error| format!("a fault was not injected: {error}")).flatten() {
            Ok(ActionOutcome::All) => {}
            Ok(ActionOutcome::Found(place, worker)) => self.strike_owner(place, worker),
            // It has no record, so its check reports that it saw none.
            Err(why) => self.view.print(&why),
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn depth(t: u64, sample: Sample, cost: Option<Cost>, kept: Option<Retained>) -> Record {
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

pub(crate) fn scheme(file: &DriverFile, wanted: Profile) -> Scheme {
    file.sign.as_ref().map_or_else(|| Scheme::from(wanted), |sign| sign.scheme.clone())
}

// Retained deliveries, by the sender's list and the size of its database.

/// The period; a list call costs the sender work.
const EVERY_NS: u64 = 1_000_000_000;

struct Keeping {
    bound: KeptBound,
    database: Option<PathBuf>,
    next: u64,
}

impl Keeping {
    pub(super) fn of(scenario: &Scenario, api: &Api) -> Self {
        let bound = scenario.expect.holds.kept;
        let template = api.file().start.as_ref().and_then(|start| start.database.as_ref());
        // A template that can't be filled leaves the size unknown.
        let path = template.and_then(|template| template.fill(&api.variables(0)).ok());
        let measured = bound.bytes.is_some() && scenario.sender.store == Store::Sqlite;
        Self { bound, database: path.map(PathBuf::from).filter(|_| measured), next: 0 }
    }

    /// None before it is time. Of a silent sender only the size is known.
    pub(super) async fn poll(&mut self, api: &Api, now: u64) -> Option<Retained> {
        if now < self.next || self.bound == KeptBound::default() {
            return None;
        }
        self.next = now.saturating_add(EVERY_NS);
        let oldest = if self.bound.age.is_some() { api.oldest_kept().await.ok() } else { None };
        let disk_bytes = self.database.as_deref().and_then(size);
        let listed = oldest.is_some();
        (listed || disk_bytes.is_some()).then(|| Retained {
            listed,
            oldest_unix_ns: oldest.flatten(),
            disk_bytes,
        })
    }
}

/// The size with its logs; none if the database does not exist.
fn size(database: &Path) -> Option<u64> {
    let beside = |end: &str| {
        let mut name = database.as_os_str().to_owned();
        name.push(end);
        std::fs::metadata(name).map_or(0, |file| file.len())
    };
    let own = std::fs::metadata(database).ok()?.len();
    Some(own + beside("-wal") + beside("-journal"))
}

impl Conductor<'_> {
    fn strike_owner(&mut self, place: usize, worker: usize) {
        let scenario = self.scenario;
        let Some(fault) = scenario.faults.get(place) else { return };
        let over = self.clock.now() >= fault.at.0.saturating_add(fault.lasts.0);
        if over && fault::ends(&fault.action) {
            let name = fault.action.kind();
            let why = "no process reported in time that it serves the subscriber";
            return self.view.print(&format!("{name} was not injected: {why}"));
        }
        self.strike(fault, Some(worker));
    }

    fn step(&mut self, step: Step<'_>) {
        match step {
            Step::Begin(fault) => self.begin(fault),
            Step::End(fault) => {
                let Some(place) = Fault::place(&self.scenario.faults, fault) else { return };
                if let Err(error) = self.end(place) {
                    self.view.print(&format!("{} could not be ended: {error}", fault.action.kind()));
                }
            }
        }
    }

    /// Continues after an error. `place` is unknown here if the fault was not injected.
    fn end(&mut self, place: u32) -> std::io::Result<()> {
        self.links.iter().for_each(|link| link.unbar(place));
        let clocks = self.clocks.values_mut().map(|clock| clock.end(place)).fold(Ok(()), Result::and);
        clocks.and(self.processes.end_fault(place))
    }

    fn begin(&mut self, fault: &FaultPlan) {
        let Some(name) = fault.worker.as_ref().and_then(FaultTarget::owner_of) else {
            return self.strike(fault, fault.worker.as_ref().and_then(FaultTarget::worker));
        };
        let place = Fault::place(&self.scenario.faults, fault).and_then(|place| usize::try_from(place).ok());
        let found = self.operator().find_owner(place.unwrap_or(usize::MAX), name.to_owned());
        self.errands.spawn(found);
    }

    fn strike(&mut self, fault: &FaultPlan, worker: Option<usize>) {
        let Some(place) = Fault::place(&self.scenario.faults, fault) else { return };
        // Taken first: the fault may cause later events.
        let (t, lasts) = (self.clock.now(), fault.lasts.0);
        // A late fault still ends as planned.
        let from = if fault::ends(&fault.action) { fault.at.0 } else { t };
        let (plan, until) = (Some(place), from.saturating_add(lasts).max(t));
        let blow = Blow { kills: fault.action == FaultAction::Kill, plan };
        let done = match &fault.action {
            FaultAction::Kill | FaultAction::Restart => {
                self.each(worker, |processes, worker| processes.strike(worker, blow, lasts))
            }
            FaultAction::Stop => self.each(worker, |processes, worker| processes.freeze(worker, place)),
            FaultAction::DiskFull if self.scenario.sender.store == Store::Postgres => {
                Err(std::io::Error::other("the sender writes to a server, not to its own disk"))
            }
            FaultAction::DiskFull => {
                self.ours().and_then(|processes| processes.fill_disk(worker, place, until))
            }
            FaultAction::Start => self.each(worker, Processes::join),
            FaultAction::ClockSkew { .. } => {
                let ahead = fault.action.clock_offset().unwrap_or_default();
                let concerned = self.clocks.iter_mut().filter(|(at, _)| worker.is_none_or(|one| one == **at));
                { concerned }.try_for_each(|(_, clock)| clock.begin(place, ahead))
            }
            FaultAction::ClockStep { .. } => {
                Err(std::io::Error::other("the machine's clock cannot be set without privilege"))
            }
            FaultAction::Partition(how) => self.cut_off(worker, place, *how),
            FaultAction::LockDatabase => return self.lock(fault),
            FaultAction::DatabaseRestart => return self.restart_database(fault),
            FaultAction::Limit { .. } | FaultAction::Rotate { .. } | FaultAction::Redrive { .. } => {
                return drop(self.errands.spawn(self.operator().carry_out(self.errand(fault))));
            }
        };
        if let Err(why) = done {
            let (kind, why) = (fault.action.kind(), why.to_string());
            self.view.print(&format!("{kind} was not injected: {why}"));
            return self.recorder.record(Record::Undone(Undone { t, kind, worker: None, plan, why }));
        }
        self.recorder.record(Record::Fault(fault::record(fault, plan, t, until, worker)));
    }

    fn take_back(&self, undone: driver::Undone) {
        self.view.print(&undone.to_string());
        self.recorder.record(Record::Undone(undone.record(self.clock.now())));
    }

    /// Succeeds if one of them could be struck.
    fn each(
        &mut self,
        worker: Option<usize>,
        mut strike: impl FnMut(&mut Processes, usize) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let processes = self.ours()?;
        let concerned = worker.map_or(0..processes.len(), |worker| worker..worker + 1);
        let results: Vec<_> = concerned.map(|worker| strike(processes, worker)).collect();
        if results.iter().any(Result::is_ok) { Ok(()) } else { results.into_iter().collect() }
    }

    fn ours(&mut self) -> std::io::Result<&mut Processes> {
        if self.processes.is_empty() {
            return Err(std::io::Error::other(
                "the driver file has no [start], so the sender's process is unknown",
            ));
        }
        Ok(&mut *self.processes)
    }

    fn links_of(&self, worker: Option<usize>) -> impl Iterator<Item = &Link> {
        let links = self.links.iter().enumerate();
        links.filter(move |(at, _)| worker.is_none_or(|one| one == *at)).map(|(_, link)| link)
    }

    fn cut_off(&self, worker: Option<usize>, place: u32, how: Partition) -> std::io::Result<()> {
        if self.links.is_empty() {
            return Err(std::io::Error::other("the database server is not the harness's own"));
        }
        if !self.links_of(worker).any(Link::is_used) {
            return Err(std::io::Error::other(
                "this process of the sender never connected to the database through the address given to it",
            ));
        }
        self.links_of(worker).for_each(|link| link.bar(place, how));
        Ok(())
    }

    fn operator(&self) -> Operator {
        Operator {
            api: self.api.clone(),
            clock: self.clock.clone(),
            recorder: self.recorder.clone(),
            keys: self.keys.clone(),
        }
    }

    fn errand(&self, fault: &FaultPlan) -> Errand {
        Errand::new(self.scenario, fault, &self.schemes)
    }

    fn lock(&mut self, fault: &FaultPlan) {
        let path = self.api.file().start.as_ref().and_then(|start| start.database.as_ref());
        let path = path.ok_or_else(|| "the [start] of the driver file has no `database`".to_owned());
        match path.and_then(|path| path.fill(&self.api.variables(0)).map_err(text)) {
            Ok(path) => drop(self.errands.spawn(self.operator().lock(path, self.errand(fault)))),
            Err(why) => self.view.print(&format!("lock-database was not injected: {why}")),
        }
    }

    fn restart_database(&mut self, fault: &FaultPlan) {
        match &self.server {
            Some(server) => {
                let server = Arc::clone(server);
                drop(self.errands.spawn(self.operator().restart_database(server, self.errand(fault))));
            }
            None => self.view.print(&format!(
                "{} was not injected: the database server is not the harness's own",
                fault.action.kind()
            )),
        }
    }
}

#[cfg(test)]
mod tests;
