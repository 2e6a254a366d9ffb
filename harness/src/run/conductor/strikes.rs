//! Injects faults when they are due, reports and records them.

use std::sync::Arc;

use super::{Conductor, text};
use crate::database::Link;
use crate::driver::{self, Blow, Processes};
use crate::run::operator::{Errand, Operator};
use hookproof_judge::scenario::{FaultAction, FaultPlan, FaultTarget, Partition, Store};
use hookproof_judge::trace::{Fault, Record, Undone};
use hookproof_play::fault::Step;

impl Conductor<'_> {
    pub(super) fn strike_owner(&mut self, place: usize, worker: usize) {
        let scenario = self.scenario;
        let Some(fault) = scenario.faults.get(place) else { return };
        let over = self.clock.now() >= fault.at.0.saturating_add(fault.lasts.0);
        if over && hookproof_play::fault::ends(&fault.action) {
            let name = fault.action.kind();
            let why = "its time was over before its owner was known";
            return self.view.say(&format!("{name} was not applied: {why}"));
        }
        self.strike(fault, Some(worker));
    }

    pub(super) fn step(&mut self, step: Step<'_>) {
        match step {
            Step::Begin(fault) => self.begin(fault),
            Step::End(fault) => {
                let Some(place) = Fault::place(&self.scenario.faults, fault) else { return };
                if let Err(error) = self.end(place) {
                    self.view.say(&format!("{} could not be ended: {error}", fault.action.kind()));
                }
            }
        }
    }

    /// Ends a lasting fault on all of its targets, and continues after an error. A fault that was not
    /// injected is unknown here by its index.
    pub(super) fn end(&mut self, place: u32) -> std::io::Result<()> {
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

    /// Injects a fault; `worker` is its process, if it has one.
    fn strike(&mut self, fault: &FaultPlan, worker: Option<usize>) {
        let Some(place) = Fault::place(&self.scenario.faults, fault) else { return };
        // The time is taken first: later events may be caused by the fault.
        let (t, lasts) = (self.clock.now(), fault.lasts.0);
        // A fault that the harness ends itself ends as planned, even if its target was found late.
        let from = if hookproof_play::fault::ends(&fault.action) { fault.at.0 } else { t };
        let (plan, until) = (Some(place), from.saturating_add(lasts).max(t));
        let blow = Blow { kills: fault.action == FaultAction::Kill, plan };
        let done = match &fault.action {
            FaultAction::Kill | FaultAction::Restart => {
                self.each(worker, |processes, worker| processes.strike(worker, blow, lasts))
            }
            FaultAction::Stop => self.each(worker, |processes, worker| processes.freeze(worker, place)),
            FaultAction::DiskFull if self.scenario.sender.store == Store::Postgres => {
                Err(std::io::Error::other("the sender writes to a server, whose disk is not the sender's"))
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
                Err(std::io::Error::other("the machine's clock can't be set without privilege"))
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
            self.view.say(&format!("{kind} was not applied: {why}"));
            return self.recorder.keep(Record::Undone(Undone { t, kind, worker: None, plan, why }));
        }
        let detail = fault.worker.as_ref().map(|target| target.told(worker));
        let until = (lasts > 0).then_some(until);
        let kind = fault.action.kind();
        let delay = fault.action.delay().map(|delay| delay.0);
        self.recorder.keep(Record::Fault(Fault { t, kind, until, detail, delay, plan }));
    }

    pub(super) fn take_back(&self, undone: driver::Undone) {
        self.view.say(&undone.to_string());
        self.recorder.keep(Record::Undone(undone.record(self.clock.now())));
    }

    /// Strikes the processes of a fault. Succeeds if one of them could be struck.
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

    /// The sender's processes, if the harness started them.
    fn ours(&mut self) -> std::io::Result<&mut Processes> {
        if self.processes.is_empty() {
            return Err(std::io::Error::other(
                "the driver doesn't start the sender, so it has no process of ours",
            ));
        }
        Ok(&mut *self.processes)
    }

    /// The database links of a process, or of all.
    fn links_of(&self, worker: Option<usize>) -> impl Iterator<Item = &Link> {
        let links = self.links.iter().enumerate();
        links.filter(move |(at, _)| worker.is_none_or(|one| one == *at)).map(|(_, link)| link)
    }

    /// Cuts a process, or all of them, off from the database server.
    fn cut_off(&self, worker: Option<usize>, place: u32, how: Partition) -> std::io::Result<()> {
        if self.links.is_empty() {
            return Err(std::io::Error::other("the database server is not the harness's own"));
        }
        if !self.links_of(worker).any(Link::is_used) {
            return Err(std::io::Error::other(
                "the sender has never come to the database by the address that it was given for this process",
            ));
        }
        self.links_of(worker).for_each(|link| link.bar(place, how));
        Ok(())
    }

    pub(super) fn operator(&self) -> Operator {
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
        let path = path.ok_or_else(|| "the driver's [start] names no database".to_owned());
        match path.and_then(|path| path.fill(&self.api.variables(0)).map_err(text)) {
            Ok(path) => drop(self.errands.spawn(self.operator().lock(path, self.errand(fault)))),
            Err(why) => self.view.say(&format!("lock-database was not applied: {why}")),
        }
    }

    fn restart_database(&mut self, fault: &FaultPlan) {
        match &self.server {
            Some(server) => {
                let server = Arc::clone(server);
                drop(self.errands.spawn(self.operator().restart_database(server, self.errand(fault))));
            }
            None => self.view.say(&format!(
                "{} was not applied: the database server is not the harness's own",
                fault.action.kind()
            )),
        }
    }
}
