//! The steps of processes: their events, their decisions and their timers.

use std::sync::Arc;

use hookproof_sender::engine::Nanos;
use hookproof_sender::runtime::{Retention, UPKEEP_ROWS, upkeep_due};

use super::commit_queue::Then;
use super::error::SimError;
use super::event::{ProcessEvent, SimEvent};
use super::options::Model;
use super::process::Act;
use super::world::World;

/// Pause after a failed commit.
const BLOCKED_NS: u64 = 100_000_000;
/// Round trips between a process and its store for one commit: locks, reads, writes.
const EXCHANGES_OF_A_COMMIT: u64 = 3;
/// Rows of one maintenance step if little is kept.
const STEP_ROWS: u32 = 20_000;

impl World<'_> {
    pub(super) fn process(
        &mut self,
        worker: usize,
        generation: u64,
        event: ProcessEvent,
    ) -> Result<(), SimError> {
        let slot = &mut self.slots[worker];
        if slot.generation != generation {
            return self.lost(event);
        }
        if slot.is_frozen() {
            slot.stash.push(event);
            return Ok(());
        }
        let (now, parted) = (self.now, self.now < slot.parted_until);
        let Some(process) = slot.process.as_mut() else { return self.lost(event) };
        slot.dirty = true;
        match event {
            ProcessEvent::Wake => {}
            // The process polls again once it reaches its store.
            ProcessEvent::Look | ProcessEvent::Evict if parted => {}
            ProcessEvent::Committed => return self.committed(worker),
            ProcessEvent::Dispatch(events) => {
                events.into_iter().for_each(|event| process.handle_event(now, event));
            }
            ProcessEvent::Look => {
                process.poll_store(now)?;
                slot.roster = Arc::clone(process.roster());
            }
            ProcessEvent::Evict => process.evict(&self.troubles.dead)?,
            ProcessEvent::Heard(exchange, heard) => return self.report_end(exchange, heard),
            ProcessEvent::LeaseOver(exchange) => return self.lease_over(exchange),
            ProcessEvent::Offered(places) => return self.hand_over(worker, &places),
            ProcessEvent::Late => return self.give_up_stopping(worker),
        }
        Ok(())
    }

    /// The connections of its emitters break.
    fn lost(&mut self, event: ProcessEvent) -> Result<(), SimError> {
        let ProcessEvent::Offered(places) = event else { return Ok(()) };
        places.into_iter().try_for_each(|place| {
            let token = self.play.schedule.due()[place].token;
            self.break_off(token)
        })
    }

    fn committed(&mut self, worker: usize) -> Result<(), SimError> {
        let slot = &mut self.slots[worker];
        if self.now < slot.blocked_until {
            let pause = BLOCKED_NS.min(slot.blocked_until - self.now);
            if let Some(process) = slot.process.as_mut() {
                process.queue.failing.get_or_insert(self.now.saturating_add(slot.patience));
            }
            self.schedule_for(worker, pause, ProcessEvent::Committed);
            return Ok(());
        }
        let mut acts = Vec::new();
        let now = self.now;
        let Some(process) = self.slots[worker].process.as_mut() else { return Ok(()) };
        process.queue.failing = None;
        let recorded = process.commit(now, &mut acts)?;
        self.figures.commits += 1;
        self.figures.ledger.add(std::mem::take(&mut process.queue.ledger));
        if std::mem::take(&mut process.queue.nodes_stirred) || recorded {
            self.others_look_soon(Some(worker));
        }
        self.act(worker, acts)
    }

    pub(super) fn step_all(&mut self) -> Result<(), SimError> {
        for worker in 0..self.slots.len() {
            if std::mem::take(&mut self.slots[worker].dirty) && !self.slots[worker].is_frozen() {
                self.step(worker)?;
            }
        }
        self.write_later()
    }

    fn step(&mut self, worker: usize) -> Result<(), SimError> {
        let (now, reaches) = (self.now, self.parted_for(worker).is_none());
        let Some(process) = self.slots[worker].process.as_mut() else { return Ok(()) };
        let mut acts = Vec::new();
        process.step(now, &mut acts)?;
        if reaches {
            process.claim(now, &mut acts)?;
        }
        let begins = process.queue.begin_commit();
        let (wake, over) = (process.next_wake(), process.is_over(now));
        self.act(worker, acts)?;
        if begins {
            let (least, most) = self.given.model.commit_ns;
            let takes =
                self.chance.between(least, most).saturating_add(self.delay(worker, EXCHANGES_OF_A_COMMIT));
            self.schedule_for(worker, takes, ProcessEvent::Committed);
        }
        let known = self.slots[worker].wake_at;
        if wake != u64::MAX && (known <= now || wake < known) {
            // A due timer already waits for an event on its way; ask again a little later.
            let after = wake.saturating_sub(now).max(1);
            self.slots[worker].wake_at = now + after;
            self.schedule_for(worker, after, ProcessEvent::Wake);
        }
        if over { self.exit(worker) } else { Ok(()) }
    }

    fn act(&mut self, worker: usize, acts: Vec<Act>) -> Result<(), SimError> {
        for act in acts {
            match act {
                Act::Send { attempt, timeout, lease } => self.send(worker, *attempt, timeout, lease)?,
                Act::Claimed(events) => {
                    let after = self.wire().saturating_add(self.delay(worker, 1));
                    self.schedule_for(worker, after, ProcessEvent::Dispatch(events));
                }
                Act::Emitted(answers) => self.answered(worker, answers)?,
                Act::Operated(errand) => {
                    self.record_done(errand)?;
                    self.others_look_soon(None);
                }
            }
        }
        Ok(())
    }

    /// Maintenance of every process: expiry, and deletion of old rows.
    pub(super) fn run_maintenance(&mut self) -> Result<(), SimError> {
        self.later(self.given.model.upkeep_ns, SimEvent::Upkeep);
        let now = self.now;
        let close = self.given.model.keep_ns >= Model::CLOSE.keep_ns;
        let rows = if close { UPKEEP_ROWS } else { STEP_ROWS };
        let keep = Nanos(self.given.model.keep_ns);
        let standard = Retention::default();
        let retention =
            Retention { settled: keep, attempts: if close { standard.attempts } else { keep }, ..standard };
        for slot in &mut self.slots {
            if slot.is_frozen() {
                continue;
            }
            let Some(process) = slot.process.as_mut().filter(|process| !process.is_stopping()) else {
                continue;
            };
            for command in upkeep_due(&retention, process.steady(now), rows) {
                process.queue.submit(vec![command], Then::Nothing);
            }
            slot.dirty = true;
        }
        Ok(())
    }
}
