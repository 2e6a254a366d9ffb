//! Faults in virtual time: processes that are killed, stopped or asked to end, clocks that step, stores that can't write.

use super::SimError;
use super::world::{Happening, Knock, LOOK_NS, World};
use crate::fault::Step;
use crate::scenario::{FaultAction, FaultPlan};
use crate::trace::{Fault, Process, ProcessEvent, Record};

/// How long a process takes from its start until it is ready.
const STARTS_NS: (u64, u64) = (5_000_000, 40_000_000);
/// A writer waits so long for another one to let go, as the sender's store has it; a full disk is told of at once.
const PATIENCE_NS: u64 = 5_000_000_000;
/// How soon another process notices that one has died.
const NOTICE_NS: u64 = 1_000_000_000;

impl<'a> World<'a> {
    /// A fault begins, or ends.
    pub(super) fn trouble(&mut self, place: usize) -> Result<(), SimError> {
        self.troubles.done += 1;
        match self.troubles.steps[place].1 {
            Step::Begin(fault) => self.strike(fault),
            Step::End(fault) if fault.action == FaultAction::Stop => {
                self.concerned(fault).into_iter().try_for_each(|worker| self.thaw(worker))
            }
            Step::End(_) => Ok(()),
        }
    }

    fn strike(&mut self, fault: &'a FaultPlan) -> Result<(), SimError> {
        let lasts = fault.lasts.0;
        let concerned = self.concerned(fault);
        match &fault.action {
            FaultAction::Kill => concerned.into_iter().try_for_each(|worker| self.kill(worker, lasts))?,
            FaultAction::Stop => concerned.into_iter().try_for_each(|worker| self.freeze(worker))?,
            FaultAction::Restart => concerned.into_iter().try_for_each(|worker| self.ask(worker, lasts))?,
            FaultAction::ClockStep { by, back } => {
                let by = i64::try_from(by.0).unwrap_or(i64::MAX) * if *back { -1 } else { 1 };
                self.troubles.clock_offset += by;
                if lasts > 0 {
                    self.later(lasts, Happening::StepClock(-by));
                }
            }
            FaultAction::DiskFull | FaultAction::LockDatabase => {
                self.troubles.blocked_until = self.troubles.blocked_until.max(self.now + lasts);
                let locked = matches!(fault.action, FaultAction::LockDatabase);
                self.troubles.patience = if locked { PATIENCE_NS } else { 0 };
            }
            // What is wanted isn't done yet, and a fault is what was done.
            FaultAction::Limit { .. } | FaultAction::Rotate { .. } | FaultAction::Redrive { .. } => {
                self.want(fault);
                return Ok(());
            }
        }
        let worker = fault.worker.map(|worker| format!("worker {worker}"));
        let detail = worker.or_else(|| fault.action.subscriber().map(str::to_owned));
        let until = (lasts > 0).then(|| self.now.saturating_add(lasts));
        let (action, plan) =
            (fault.action.name().to_owned(), Fault::place(&self.given.scenario.faults, fault));
        self.keep(Record::Fault(Fault { t: self.now, action, until, detail, plan }))
    }

    fn concerned(&self, fault: &FaultPlan) -> Vec<usize> {
        let one = fault.worker.and_then(|worker| usize::try_from(worker).ok());
        one.map_or_else(|| (0..self.seats.len()).collect(), |worker| vec![worker])
    }

    pub(super) fn process_record(
        &mut self,
        worker: usize,
        event: ProcessEvent,
        status: Option<&str>,
    ) -> Result<(), SimError> {
        let worker = u32::try_from(worker).unwrap_or_default();
        self.keep(Record::Process(Process { t: self.now, worker, event, status: status.map(str::to_owned) }))
    }

    fn kill(&mut self, worker: usize, lasts: u64) -> Result<(), SimError> {
        let now = self.now;
        // A commit that is under way may have reached the file, with nobody left to say so; or not.
        let durable = self.chance.below(2) == 0 && now >= self.troubles.blocked_until;
        let Some(mut process) = self.seats[worker].process.take() else { return Ok(()) };
        let operated = if durable { process.commit_silently(now)? } else { Vec::new() };
        self.figures.ledger.add(std::mem::take(&mut process.desk.ledger));
        self.process_record(worker, ProcessEvent::Killed, None)?;
        self.process_record(worker, ProcessEvent::Exited, Some("signal 9"))?;
        for errand in operated {
            // An operator who looks finds it done, and so do the other processes.
            self.done(errand)?;
            (0..self.seats.len()).for_each(|other| self.tell(other, LOOK_NS, Knock::Look));
        }
        self.gone(worker, process, lasts)
    }

    /// A process is no more; another takes its seat after `lasts`.
    fn gone(&mut self, worker: usize, process: super::process::Process, lasts: u64) -> Result<(), SimError> {
        self.want_again(&process.errands());
        let mut unanswered = process.unanswered();
        let stash = std::mem::take(&mut self.seats[worker].stash);
        for knock in stash {
            if let Knock::Offered(places) = knock {
                unanswered.extend(places.iter().map(|place| self.play.schedule.due()[*place].token));
            }
        }
        unanswered.into_iter().try_for_each(|token| self.break_off(token))?;
        self.troubles.dead.push(process.owner);
        drop(process);
        let generation = self.seats[worker].generation;
        self.seats[worker].generation += 1;
        self.seats[worker].frozen = false;
        self.hang_up(worker, generation);
        self.write_later()?;
        let ready = self.chance.between(STARTS_NS.0, STARTS_NS.1);
        self.troubles.starting += 1;
        self.later(lasts.saturating_add(ready), Happening::Start(worker));
        (0..self.seats.len()).filter(|other| *other != worker).for_each(|other| {
            self.tell(other, NOTICE_NS, Knock::Evict);
        });
        Ok(())
    }

    fn freeze(&mut self, worker: usize) -> Result<(), SimError> {
        if self.seats[worker].process.is_none() {
            return Ok(());
        }
        self.seats[worker].frozen = true;
        self.process_record(worker, ProcessEvent::Stopped, None)
    }

    fn thaw(&mut self, worker: usize) -> Result<(), SimError> {
        if !std::mem::take(&mut self.seats[worker].frozen) {
            return Ok(());
        }
        self.process_record(worker, ProcessEvent::Continued, None)?;
        // It hears what had come while it slept in the order in which that came.
        for (place, knock) in (1_u64..).zip(std::mem::take(&mut self.seats[worker].stash)) {
            self.tell(worker, place, knock);
        }
        self.seats[worker].dirty = true;
        Ok(())
    }

    fn ask(&mut self, worker: usize, lasts: u64) -> Result<(), SimError> {
        let now = self.now;
        let Some(process) = self.seats[worker].process.as_mut() else { return Ok(()) };
        process.ask_to_stop(now);
        self.seats[worker].dirty = true;
        self.seats[worker].again_after = lasts;
        self.tell(worker, self.given.scenario.sender.stop_within.0, Knock::Late);
        self.process_record(worker, ProcessEvent::Asked, None)
    }

    /// A process that was asked to stop has come to its end.
    pub(super) fn exit(&mut self, worker: usize) -> Result<(), SimError> {
        let Some(process) = self.seats[worker].process.take() else { return Ok(()) };
        self.process_record(worker, ProcessEvent::Exited, Some("exit 0"))?;
        let after = self.seats[worker].again_after;
        self.gone(worker, process, after)
    }

    /// A process that was asked to stop has not, for as long as it may take.
    pub(super) fn give_up_stopping(&mut self, worker: usize) -> Result<(), SimError> {
        if self.seats[worker].process.as_ref().is_some_and(|process| process.stop.is_asked()) {
            let after = self.seats[worker].again_after;
            return self.kill(worker, after);
        }
        Ok(())
    }
}
