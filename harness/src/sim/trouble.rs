//! Faults in virtual time: processes that are killed, stopped or asked to end, clocks that step, stores that can't write,
//! and what operators do.

use hookproof_sender::engine::{LaneId, Nanos};
use hookproof_sender::store::Reader;
use hookproof_sender::store::command::{Change, Command, Dead, Redrive, Rotate};
use hookproof_sender::store::lane::Secret;
use hookproof_sender::store::read::Whom;

use super::network::profile;
use super::process::Then;
use super::subscribe::relimited;
use super::world::{Happening, Knock, World};
use super::{SimError, store_failed};
use crate::fault::Step;
use crate::scenario::{FaultAction, FaultPlan, Limit};
use crate::trace::{Fault, Process, ProcessEvent, Record};
use crate::wire::digest::base64;

/// How long a process takes from its start until it is ready.
const STARTS_NS: (u64, u64) = (5_000_000, 40_000_000);
/// How soon another process notices that one has died.
const NOTICE_NS: u64 = 1_000_000_000;
/// Dead letters that are redriven at once.
const REDRIVE_MAX: u32 = 100_000;

impl World<'_> {
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

    fn strike(&mut self, fault: &FaultPlan) -> Result<(), SimError> {
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
            }
            FaultAction::Limit { subscriber, limit, .. } => self.relimit(subscriber.as_deref(), limit)?,
            FaultAction::Rotate { subscriber } => self.rotate(subscriber.as_deref(), lasts)?,
            FaultAction::Redrive { subscriber } => self.redrive(subscriber.as_deref())?,
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
        if durable {
            process.commit_silently(now)?;
        }
        self.process_record(worker, ProcessEvent::Killed, None)?;
        self.process_record(worker, ProcessEvent::Exited, Some("signal 9"))?;
        self.gone(worker, process, lasts)
    }

    /// A process is no more; another takes its seat after `lasts`.
    fn gone(&mut self, worker: usize, process: super::process::Process, lasts: u64) -> Result<(), SimError> {
        let mut unanswered = process.unanswered();
        let stash = std::mem::take(&mut self.seats[worker].stash);
        for knock in stash {
            if let Knock::Offered(places) = knock {
                unanswered.extend(places.iter().map(|place| self.play.schedule.due()[*place].token));
            }
        }
        self.play.open = self.play.open.saturating_sub(unanswered.len());
        for token in unanswered {
            self.refuse(token, None, true, "the connection broke")?;
        }
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

    /// The lanes that an operator means, and where their endpoints are.
    fn meant(&self, whom: Option<&str>) -> Vec<(usize, LaneId)> {
        let all = self.given.scenario.subscribers.iter().enumerate();
        let meant = all.filter(|(_, one)| whom.is_none_or(|whom| whom == one.group || whom == one.name));
        meant.map(|(at, _)| (at, self.net.endpoints[at].lane)).collect()
    }

    /// Has a process carry out what an operator wants.
    fn operate(&mut self, commands: Vec<Command>) {
        if let Some(seat) = self.seats.iter_mut().find(|seat| seat.process.is_some() && !seat.frozen)
            && let Some(process) = seat.process.as_mut()
        {
            process.submit(commands, Then::Operate);
            seat.dirty = true;
        }
    }

    fn relimit(&mut self, whom: Option<&str>, limit: &Limit) -> Result<(), SimError> {
        let mut commands = Vec::new();
        for (at, lane) in self.meant(whom) {
            let name = &self.given.scenario.subscribers[at].name;
            let Some(process) = self.seats.iter().find_map(|seat| seat.process.as_ref()) else { continue };
            let found = process.reader.subscriber(&Whom::Name(name.as_str().into()));
            let Some(row) = found.map_err(store_failed("read a subscriber"))? else { continue };
            let settings = relimited(&row.settings, limit)
                .map_err(|why| SimError::Subscriber { name: name.clone(), why })?;
            commands.push(Command::Change(Change { settings: Some(settings.into()), ..Change::of(lane) }));
        }
        self.operate(commands);
        Ok(())
    }

    fn rotate(&mut self, whom: Option<&str>, lasts: u64) -> Result<(), SimError> {
        let mut commands = Vec::new();
        for (at, lane) in self.meant(whom) {
            let bytes: Vec<u8> = (0..4).flat_map(|_| self.chance.bits().to_le_bytes()).collect();
            let secret = format!("whsec_{}", base64(&bytes));
            let Some(process) = self.seats.iter().find_map(|seat| seat.process.as_ref()) else { continue };
            let retire = process.steady(self.now);
            let retire = hookproof_sender::engine::WallTime(retire.0 + Nanos(lasts).0);
            let profile = profile(self.given.scenario.subscribers[at].sign)?;
            let parsed = crate::wire::Secret::parse(profile, &secret);
            self.net.endpoints[at].secrets.push(parsed.map_err(|error| SimError::Defect(error.to_string()))?);
            commands.push(Command::Rotate(Rotate { lane, secret: Secret::new(secret), retire }));
        }
        self.operate(commands);
        Ok(())
    }

    fn redrive(&mut self, whom: Option<&str>) -> Result<(), SimError> {
        let which = |lane| Redrive { which: Dead::Of(lane), after: None, max: REDRIVE_MAX };
        let commands = self.meant(whom).into_iter().map(|(_, lane)| Command::Redrive(which(lane)));
        let commands = commands.collect();
        self.operate(commands);
        Ok(())
    }
}
