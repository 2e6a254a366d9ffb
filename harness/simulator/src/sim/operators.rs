//! An action is repeated until a process can do it, and recorded when it is done.

use hookproof_judge::scenario::{Duration, FaultAction, FaultPlan, Limit};
use hookproof_judge::trace::{Fault, Record};
use hookproof_play::fault;
use hookproof_sender::engine::{LaneId, StoreTime};
use hookproof_sender::store::Reader;
use hookproof_sender::store::command::{Change, Command, Dead, Redrive, Rotate};
use hookproof_sender::store::lane::Secret;
use hookproof_sender::store::read::SubscriberRef;

use super::commit_queue::Then;
use super::error::{SimError, store_failed};
use super::process::Process;
use super::subscribe::relimited;
use super::world::{Errands, RequestedAction, Secrets, World};

const REDRIVE_MAX: u32 = 100_000;

impl<'a> World<'a> {
    pub(super) fn want(&mut self, plan: &'a FaultPlan) {
        self.troubles.errands.waiting.push(plan);
    }

    pub(super) fn run_errands(&mut self) -> Result<(), SimError> {
        if self.troubles.errands.waiting.is_empty() {
            return Ok(());
        }
        let able = self.slots.iter().position(|slot| {
            let reaches = !slot.is_frozen() && self.now >= slot.parted_until;
            reaches && slot.process.as_ref().is_some_and(|process| !process.is_stopping())
        });
        let Some(worker) = able else { return Ok(()) };
        for plan in std::mem::take(&mut self.troubles.errands.waiting) {
            self.submit_action(worker, plan)?;
        }
        Ok(())
    }

    fn submit_action(&mut self, worker: usize, plan: &'a FaultPlan) -> Result<(), SimError> {
        let Some(mut process) = self.slots[worker].process.take() else { return Ok(()) };
        let made = self.commands(plan, &process);
        if let Ok((commands, secrets)) = made {
            let errands = &mut self.troubles.errands;
            errands.count += 1;
            errands.asked.insert(errands.count, RequestedAction { plan, at: self.now, secrets });
            process.queue.submit(commands, Then::Operate(errands.count));
            self.slots[worker].process = Some(process);
            self.slots[worker].dirty = true;
            return Ok(());
        }
        made.map(drop)
    }

    pub(super) fn record_done(&mut self, errand: u64) -> Result<(), SimError> {
        let Some(RequestedAction { plan, at, secrets }) = self.troubles.errands.asked.remove(&errand) else {
            return Ok(());
        };
        self.liveness.disturb(self.now);
        for (place, secret) in secrets {
            self.net.endpoints[place].secrets.push(secret);
        }
        let place = Fault::place(&self.given.scenario.faults, plan);
        let until = at.saturating_add(plan.lasts.0);
        self.write_record(Record::Fault(fault::record(plan, place, self.now, until, None)))
    }

    pub(super) fn want_again(&mut self, errands: &[u64]) {
        let Errands { waiting, asked, .. } = &mut self.troubles.errands;
        let again = errands.iter().filter_map(|errand| asked.remove(errand)).map(|asked| asked.plan);
        let later = std::mem::take(waiting);
        waiting.extend(again.chain(later));
    }

    fn commands(&mut self, plan: &FaultPlan, process: &Process) -> Result<(Vec<Command>, Secrets), SimError> {
        let meant = self.meant(plan.action.subscriber());
        match &plan.action {
            FaultAction::Limit { limit, timeout, .. } => {
                Ok((self.relimit(&meant, limit, *timeout, process)?, Vec::new()))
            }
            FaultAction::Rotate { .. } => {
                let retire = StoreTime(self.wall().0.saturating_add(plan.lasts.0));
                self.rotate(&meant, retire)
            }
            _ => {
                let redrive = |lane| Redrive { which: Dead::Of(lane), after: None, max: REDRIVE_MAX };
                Ok((meant.iter().map(|(_, lane)| Command::Redrive(redrive(*lane))).collect(), Vec::new()))
            }
        }
    }

    fn meant(&self, whom: Option<&str>) -> Vec<(usize, LaneId)> {
        let all = self.given.scenario.subscribers.iter().enumerate();
        let meant = all.filter(|(_, one)| whom.is_none_or(|whom| whom == one.group || whom == one.name));
        meant.map(|(at, _)| (at, self.net.endpoints[at].lane)).collect()
    }

    fn relimit(
        &self,
        meant: &[(usize, LaneId)],
        limit: &Limit,
        timeout: Option<Duration>,
        process: &Process,
    ) -> Result<Vec<Command>, SimError> {
        let mut commands = Vec::new();
        for (at, lane) in meant {
            let name = &self.given.scenario.subscribers[*at].name;
            let found = process.reader.subscriber(&SubscriberRef::Name(name.as_str().into()));
            let Some(row) = found.map_err(store_failed("read a subscriber"))? else { continue };
            let timeout = timeout.unwrap_or(self.given.scenario.subscribers[*at].timeout);
            let settings = relimited(&row.settings, limit, timeout)
                .map_err(|why| SimError::Subscriber { name: name.clone(), why })?;
            commands.push(Command::Change(Change { settings: Some(settings.into()), ..Change::of(*lane) }));
        }
        Ok(commands)
    }

    fn rotate(
        &mut self,
        meant: &[(usize, LaneId)],
        retire: StoreTime,
    ) -> Result<(Vec<Command>, Secrets), SimError> {
        let (mut commands, mut secrets) = (Vec::new(), Vec::new());
        for (at, lane) in meant {
            let bytes: Vec<u8> = (0..4).flat_map(|_| self.chance.bits().to_le_bytes()).collect();
            let profile = self.given.scenario.subscribers[*at].sign;
            let secret = profile.secret_of(&bytes);
            let key = profile.key(&secret);
            secrets.push((*at, key.map_err(|error| SimError::Defect(error.to_string()))?));
            commands.push(Command::Rotate(Rotate {
                lane: *lane,
                secret: Secret::new(secret),
                retire,
                now: self.wall(),
            }));
        }
        Ok((commands, secrets))
    }
}
