use hookproof_judge::scenario::{FaultAction, FaultPlan, FaultTarget, Partition};
use hookproof_judge::trace::{self, Fault, ProcessEvent as ProcessRecord, Record};
use hookproof_play::fault::{self, Step};
use hookproof_sender::dispatch::Event;
use hookproof_sender::runtime::OWNERS_EVERY;
use hookproof_sender::store::sqlite;

use super::close::all_lanes;
use super::error::SimError;
use super::event::{ProcessEvent, SimEvent};
use super::options::ns;
use super::process::Process;
use super::world::{WorkerSlot, World};

/// From a process's start until it is ready, in nanoseconds.
const STARTS_NS: (u64, u64) = (5_000_000, 40_000_000);

impl<'a> World<'a> {
    pub(super) fn trouble(&mut self, place: usize) -> Result<(), SimError> {
        self.troubles.done += 1;
        self.liveness.disturb(self.now);
        match self.troubles.steps[place].1 {
            Step::Begin(fault) => self.strike(fault),
            Step::End(fault) => match Fault::place(&self.given.scenario.faults, fault) {
                Some(place) => self.end(place),
                None => Ok(()),
            },
        }
    }

    fn end(&mut self, fault: u32) -> Result<(), SimError> {
        for slot in &mut self.slots {
            slot.skews.end(fault);
        }
        (0..self.slots.len()).try_for_each(|worker| self.thaw(worker, fault))
    }

    fn strike(&mut self, fault: &'a FaultPlan) -> Result<(), SimError> {
        let lasts = fault.lasts.0;
        let mut concerned = self.concerned(fault)?;
        if matches!(fault.action, FaultAction::Kill | FaultAction::Stop | FaultAction::Restart) {
            concerned.retain(|worker| self.slots[*worker].process.is_some());
        }
        if concerned.is_empty() {
            // No process is concerned, so nothing happens. The trace records only injected faults.
            return Ok(());
        }
        let one = concerned.first().copied();
        let plan = Fault::place(&self.given.scenario.faults, fault);
        let place = plan.unwrap_or(u32::MAX);
        match &fault.action {
            FaultAction::Kill => concerned.into_iter().try_for_each(|worker| self.kill(worker, lasts))?,
            FaultAction::Stop => concerned.into_iter().try_for_each(|worker| self.freeze(worker, place))?,
            FaultAction::Restart => {
                concerned.into_iter().try_for_each(|worker| self.request_stop(worker, lasts))?;
            }
            FaultAction::Start => concerned.into_iter().try_for_each(|worker| self.start(worker))?,
            FaultAction::ClockSkew { .. } => {
                let ahead = fault.action.clock_offset().unwrap_or_default();
                concerned.into_iter().for_each(|worker| self.slots[worker].skews.begin(place, ahead));
            }
            FaultAction::ClockStep { .. } => {
                let by = fault.action.clock_offset().unwrap_or_default();
                self.troubles.clock_offset = self.troubles.clock_offset.saturating_add(by);
                if lasts > 0 {
                    self.later(lasts, SimEvent::StepClock(-by));
                }
            }
            // A writer waits for the holder of the lock.
            FaultAction::LockDatabase => {
                self.block(&concerned, lasts, ns(sqlite::Options::default().patience));
            }
            FaultAction::DiskFull => self.block(&concerned, lasts, 0),
            FaultAction::Partition(Partition::Delay(by)) => self.delay_by(&concerned, lasts, by.0),
            FaultAction::DatabaseRestart | FaultAction::Partition(_) => self.part(&concerned, lasts),
            // The action is recorded when it is done.
            FaultAction::Limit { .. } | FaultAction::Rotate { .. } | FaultAction::Redrive { .. } => {
                self.want(fault);
                return Ok(());
            }
        }
        let until = self.now.saturating_add(lasts);
        self.write_record(Record::Fault(fault::record(fault, plan, self.now, until, one)))
    }

    /// Blocks writes for `lasts`. A try to write fails after `patience`.
    fn block(&mut self, concerned: &[usize], lasts: u64, patience: u64) {
        let until = self.now.saturating_add(lasts);
        for worker in concerned {
            let slot = &mut self.slots[*worker];
            slot.blocked_until = slot.blocked_until.max(until);
            slot.patience = patience;
        }
    }

    /// Cuts processes off from their store: no writes, no reads, no news of other processes.
    fn part(&mut self, concerned: &[usize], lasts: u64) {
        // A server that is not there fails at once.
        self.block(concerned, lasts, 0);
        let until = self.now.saturating_add(lasts);
        for worker in concerned {
            let slot = &mut self.slots[*worker];
            slot.parted_until = slot.parted_until.max(until);
            // They poll the missed news at the end.
            self.schedule_for(*worker, lasts, ProcessEvent::Look);
            self.schedule_for(*worker, lasts, ProcessEvent::Evict);
        }
    }

    /// Delays each direction.
    fn delay_by(&mut self, concerned: &[usize], lasts: u64, by: u64) {
        let until = self.now.saturating_add(lasts);
        for worker in concerned {
            let delays = &mut self.slots[*worker].delays;
            delays.push((until, by.saturating_mul(2)));
            delays.sort_unstable();
        }
    }

    fn concerned(&self, fault: &FaultPlan) -> Result<Vec<usize>, SimError> {
        match &fault.worker {
            None => Ok((0..self.slots.len()).collect()),
            Some(FaultTarget::OwnerOf(name)) => Ok(self.owner_of(name)?.into_iter().collect()),
            Some(target) => Ok(target.worker().into_iter().collect()),
        }
    }

    fn owner_of(&self, name: &str) -> Result<Option<usize>, SimError> {
        let Some(reader) = self.slots.iter().find_map(|slot| slot.process.as_ref()).map(|one| &one.reader)
        else {
            return Ok(None);
        };
        let lanes = all_lanes(reader)?;
        let owner = lanes.into_iter().find(|lane| *lane.name == *name).and_then(|lane| lane.owner);
        let is_it = |slot: &WorkerSlot| {
            slot.process.as_ref().is_some_and(|one| owner.is_some_and(|(owner, _)| one.owner == owner))
        };
        Ok(self.slots.iter().position(is_it))
    }

    pub(super) fn process_record(
        &mut self,
        worker: usize,
        event: ProcessRecord,
        status: Option<&str>,
    ) -> Result<(), SimError> {
        let worker = u32::try_from(worker).unwrap_or_default();
        self.write_record(Record::Process(trace::Process {
            t: self.now,
            worker,
            event,
            status: status.map(str::to_owned),
        }))
    }

    fn kill(&mut self, worker: usize, lasts: u64) -> Result<(), SimError> {
        let now = self.now;
        // A commit under way may or may not have reached the file.
        let durable = self.chance.below(2) == 0 && now >= self.slots[worker].blocked_until;
        let Some(mut process) = self.slots[worker].process.take() else { return Ok(()) };
        let operated = if durable { process.commit_silently(now)? } else { Vec::new() };
        let nodes_stirred = std::mem::take(&mut process.queue.nodes_stirred);
        self.figures.ledger.add(std::mem::take(&mut process.queue.ledger));
        self.process_record(worker, ProcessRecord::Killed, None)?;
        self.process_record(worker, ProcessRecord::Exited, Some("signal 9"))?;
        for errand in operated {
            // An operator who looks finds the action done, and so do the other processes.
            self.record_done(errand)?;
            self.others_look_soon(None);
        }
        if nodes_stirred {
            self.others_look_soon(None);
        }
        self.gone(worker, process, lasts)
    }

    fn gone(&mut self, worker: usize, process: Process, lasts: u64) -> Result<(), SimError> {
        self.want_again(&process.errands());
        let mut unanswered = process.unanswered();
        let stash = std::mem::take(&mut self.slots[worker].stash);
        for event in stash {
            if let ProcessEvent::Offered(places) = event {
                unanswered.extend(places.iter().map(|place| self.play.schedule.due()[*place].token));
            }
        }
        unanswered.into_iter().try_for_each(|token| self.break_off(token))?;
        self.troubles.dead.push(process.owner);
        self.liveness.disturb(self.now);
        drop(process);
        let generation = self.slots[worker].generation;
        self.slots[worker].generation += 1;
        self.slots[worker].stops.clear();
        self.hang_up(worker, generation);
        self.write_later()?;
        let ready = self.chance.between(STARTS_NS.0, STARTS_NS.1);
        self.troubles.starting += 1;
        self.later(lasts.saturating_add(ready), SimEvent::Start(worker));
        (0..self.slots.len()).filter(|other| *other != worker).for_each(|other| {
            // Each notices with one of its next polls.
            self.schedule_for(other, ns(OWNERS_EVERY), ProcessEvent::Evict);
        });
        Ok(())
    }

    fn freeze(&mut self, worker: usize, fault: u32) -> Result<(), SimError> {
        let slot = &mut self.slots[worker];
        if slot.process.is_none() || !slot.stops.begin(fault) {
            return Ok(());
        }
        self.process_record(worker, ProcessRecord::Stopped, None)
    }

    fn thaw(&mut self, worker: usize, fault: u32) -> Result<(), SimError> {
        let slot = &mut self.slots[worker];
        if !slot.stops.end(fault) {
            return Ok(());
        }
        self.process_record(worker, ProcessRecord::Continued, None)?;
        // It handles the events that came meanwhile, in their order.
        for (place, event) in (1_u64..).zip(std::mem::take(&mut self.slots[worker].stash)) {
            self.schedule_for(worker, place, event);
        }
        self.slots[worker].dirty = true;
        Ok(())
    }

    fn request_stop(&mut self, worker: usize, lasts: u64) -> Result<(), SimError> {
        let now = self.now;
        let Some(process) = self.slots[worker].process.as_mut() else { return Ok(()) };
        process.handle_event(now, Event::Stop);
        self.slots[worker].dirty = true;
        self.slots[worker].again_after = lasts;
        self.schedule_for(worker, self.given.scenario.sender.stop_within.0, ProcessEvent::Late);
        self.process_record(worker, ProcessRecord::Asked, None)
    }

    pub(super) fn exit(&mut self, worker: usize) -> Result<(), SimError> {
        let Some(process) = self.slots[worker].process.take() else { return Ok(()) };
        self.process_record(worker, ProcessRecord::Exited, Some("exit 0"))?;
        let after = self.slots[worker].again_after;
        self.gone(worker, process, after)
    }

    pub(super) fn give_up_stopping(&mut self, worker: usize) -> Result<(), SimError> {
        if self.slots[worker].process.as_ref().is_some_and(|process| process.is_stopping()) {
            let after = self.slots[worker].again_after;
            return self.kill(worker, after);
        }
        Ok(())
    }
}
