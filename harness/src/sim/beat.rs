//! The processes in their turn: what each hears, what it does about it, and when it wants to be woken.

use std::sync::Arc;

use hookproof_sender::engine::WallTime;
use hookproof_sender::store::command::{self, Command, Purge, Sweep};

use super::process::{Act, Then};
use super::world::{Happening, Knock, LOOK_NS, World};
use super::{Model, SimError};

/// The pause after a commit that failed.
const BLOCKED_NS: u64 = 100_000_000;
/// Rows that upkeep looks at in one step where little is kept.
const STEP_ROWS: u32 = 20_000;

impl World<'_> {
    pub(super) fn process(&mut self, worker: usize, generation: u64, knock: Knock) -> Result<(), SimError> {
        let seat = &mut self.seats[worker];
        if seat.generation != generation {
            return self.lost(knock);
        }
        if seat.frozen {
            seat.stash.push(knock);
            return Ok(());
        }
        let Some(process) = seat.process.as_mut() else { return self.lost(knock) };
        seat.dirty = true;
        let now = self.now;
        match knock {
            Knock::Wake => {}
            Knock::Committed => return self.committed(worker),
            Knock::Claimed(claimed) => claimed.into_iter().for_each(|claimed| process.fill(claimed, now)),
            Knock::Look => {
                process.look(now)?;
                seat.roster = Arc::clone(process.roster());
            }
            Knock::Evict => process.evict(&self.troubles.dead)?,
            Knock::Heard(exchange, heard) => return self.heard(exchange, heard),
            Knock::Impossible { attempt, delivery } => {
                let record = impossible(process.steady(now));
                process.ended(now, attempt, delivery, hookproof_sender::engine::Outcome::Unsent, record);
            }
            Knock::Offered(places) => return self.hand_over(worker, &places),
            Knock::Late => return self.give_up_stopping(worker),
        }
        Ok(())
    }

    /// What was under way to a process that is no more. Whoever offered it events hears that the connection broke.
    fn lost(&mut self, knock: Knock) -> Result<(), SimError> {
        let Knock::Offered(places) = knock else { return Ok(()) };
        places.into_iter().try_for_each(|place| {
            let token = self.play.schedule.due()[place].token;
            self.break_off(token)
        })
    }

    /// A commit is over, unless the store can't write now.
    fn committed(&mut self, worker: usize) -> Result<(), SimError> {
        if self.now < self.troubles.blocked_until {
            let pause = BLOCKED_NS.min(self.troubles.blocked_until - self.now);
            if let Some(process) = self.seats[worker].process.as_mut() {
                process.desk.failing.get_or_insert(self.now.saturating_add(self.troubles.patience));
            }
            self.tell(worker, pause, Knock::Committed);
            return Ok(());
        }
        let mut acts = Vec::new();
        let now = self.now;
        let Some(process) = self.seats[worker].process.as_mut() else { return Ok(()) };
        process.desk.failing = None;
        let recorded = process.commit(now, &mut acts)?;
        self.figures.commits += 1;
        self.figures.ledger.add(std::mem::take(&mut process.desk.ledger));
        if recorded {
            (0..self.seats.len()).filter(|other| *other != worker).for_each(|other| {
                self.tell(other, LOOK_NS, Knock::Look);
            });
        }
        self.act(worker, acts)
    }

    /// Every process to which something happened decides what to do.
    pub(super) fn beat_all(&mut self) -> Result<(), SimError> {
        for worker in 0..self.seats.len() {
            if std::mem::take(&mut self.seats[worker].dirty) && !self.seats[worker].frozen {
                self.beat(worker)?;
            }
        }
        self.write_later()
    }

    fn beat(&mut self, worker: usize) -> Result<(), SimError> {
        let now = self.now;
        let Some(process) = self.seats[worker].process.as_mut() else { return Ok(()) };
        let mut acts = Vec::new();
        process.beat(now, &mut acts)?;
        let begins = process.begin_commit();
        let (wake, over) = (process.next_wake(), process.is_over());
        self.act(worker, acts)?;
        if begins {
            let (least, most) = self.given.model.commit_ns;
            let takes = self.chance.between(least, most);
            self.tell(worker, takes, Knock::Committed);
        }
        let known = self.seats[worker].wake_at;
        if wake != u64::MAX && (known <= now || wake < known) {
            // What is due already waits for something that is on its way; it is asked for again a little later.
            let after = wake.saturating_sub(now).max(1);
            self.seats[worker].wake_at = now + after;
            self.tell(worker, after, Knock::Wake);
        }
        if over { self.exit(worker) } else { Ok(()) }
    }

    fn act(&mut self, worker: usize, acts: Vec<Act>) -> Result<(), SimError> {
        for act in acts {
            match act {
                Act::Send { attempt, lane, row, number } => self.send(worker, attempt, lane, *row, number)?,
                Act::Impossible { attempt, delivery } => {
                    self.tell(worker, 1_000, Knock::Impossible { attempt, delivery });
                }
                Act::Claimed(claimed) => {
                    let after = self.wire();
                    self.tell(worker, after, Knock::Claimed(claimed));
                }
                Act::Emitted(answers) => self.answered(worker, answers)?,
                Act::Operated(errand) => {
                    self.done(errand)?;
                    (0..self.seats.len()).for_each(|other| self.tell(other, LOOK_NS, Knock::Look));
                }
            }
        }
        Ok(())
    }

    /// Gives up what has expired, deletes what was kept long enough: as every process does now and then.
    pub(super) fn keep_up(&mut self) -> Result<(), SimError> {
        self.later(self.given.model.upkeep_ns, Happening::Upkeep);
        let now = self.now;
        let close = self.given.model.keep_ns >= Model::CLOSE.keep_ns;
        let max = if close { 500 } else { STEP_ROWS };
        for seat in &mut self.seats {
            let Some(process) = seat.process.as_mut().filter(|process| !process.stop.is_asked()) else {
                continue;
            };
            if seat.frozen {
                continue;
            }
            let steady = process.steady(now);
            let before = |kept: u64| WallTime(steady.0.saturating_sub(kept));
            let purge = Purge {
                settled_before: before(self.given.model.keep_ns),
                attempts_before: before(self.given.model.keep_ns.saturating_mul(if close { 7 } else { 1 })),
                dead_before: before(30 * Model::CLOSE.keep_ns),
                max,
            };
            process.submit(vec![Command::Sweep(Sweep { max })], Then::Nothing);
            process.submit(vec![Command::Purge(purge)], Then::Nothing);
            seat.dirty = true;
        }
        Ok(())
    }
}

fn impossible(at: WallTime) -> command::Attempt {
    command::Attempt {
        at,
        latency: hookproof_sender::engine::Nanos::ZERO,
        outcome: command::Outcome::Unsent,
        status: None,
        error: Some("the subscriber was removed".into()),
        body_hash: 0,
    }
}
