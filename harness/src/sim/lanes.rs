//! Which lanes a process owns, and what it learns of their subscribers: as the sender's heart and watcher have it.

use std::sync::Arc;

use hookproof_sender::engine::{Input, Instant, LaneId, Taking, Term, WallTime};
use hookproof_sender::roster::Roster;
use hookproof_sender::runtime::clock::instant;
use hookproof_sender::runtime::handover;
use hookproof_sender::store::Reader;
use hookproof_sender::store::lane::LaneState;
use hookproof_sender::store::reply::{Renewed, Taken};

use super::mutant::Mutant;
use super::process::{Process, moment};
use super::{SimError, store_failed};

/// As in the sender's watcher.
const ROWS_MAX: u32 = 1_000;

impl Process {
    pub(super) fn take(&mut self, taken: Taken, asked: WallTime, now: u64) {
        let Taken { lane, term, state, handover, next } = taken;
        let Some(subscriber) = self.roster().get(lane).cloned() else {
            self.lanes.wait_for_roster(Taken { lane, term, state, handover, next }, asked);
            return;
        };
        // Another process may know how to sign for it: it is theirs.
        let is_of_no_use = subscriber.ready().is_err();
        let settings = Arc::clone(subscriber.settings());
        let moment = moment(now);
        let origin = handover::open(handover, settings.quarantine(), subscriber.deadline(), Some(&moment));
        let lease_until =
            if self.is(Mutant::LeaseNotFenced) { Instant::NEVER } else { instant(self.tenure.until(asked)) };
        let paused = state != LaneState::Active || !subscriber.is_sendable();
        let next = next.map(instant);
        self.lanes.take(lane, term);
        let taking = Taking { lane, term, settings, origin, lease_until, next, paused };
        self.handle(now, Input::Take(Box::new(taking)));
        if is_of_no_use {
            self.handle(now, Input::Leave { lane });
        }
    }

    pub(super) fn lose(&mut self, lane: LaneId, term: Term, now: u64) {
        if !self.is(Mutant::LeaseNotFenced) && self.lanes.forget(lane, term) {
            self.handle(now, Input::Lose { lane, term });
        }
    }

    pub(super) fn renew(&mut self, renewed: Renewed, asked: WallTime, now: u64) {
        self.tenure.renewed(asked);
        renewed.lost.into_iter().for_each(|(lane, term)| self.lose(lane, term, now));
        if self.is(Mutant::LeaseNotFenced) {
            return;
        }
        let until = instant(self.tenure.until(asked));
        for (lane, term) in self.lanes.ours() {
            self.handle(now, Input::Renew { lane, term, until });
        }
    }

    /// Looks at what others did to the database, as the watcher does.
    pub(super) fn look(&mut self, now: u64) -> Result<(), SimError> {
        let failed = store_failed("look");
        let glance = self.reader.glance().map_err(&failed)?;
        if glance.roster != self.seen.roster {
            let before = Arc::clone(self.keeper.present());
            let steady = self.steady(now);
            let roster = Arc::clone(self.keeper.catch_up(&self.reader, steady).map_err(&failed)?);
            self.change(&before, &roster, now);
        }
        let mut after = self.seen.last;
        while after < glance.last {
            let work = self.reader.work_after(after, ROWS_MAX).map_err(&failed)?;
            after = work.last;
            work.lanes.into_iter().for_each(|(lane, due)| self.work(lane, due, now));
            if !work.more {
                break;
            }
        }
        if glance.stirred != self.seen.stirred {
            let lanes: Vec<LaneId> = self.roster().lanes().collect();
            let heads = self.reader.heads(&lanes).map_err(&failed)?;
            heads.into_iter().for_each(|(lane, due)| self.work(lane, due, now));
        }
        self.seen = glance;
        Ok(())
    }

    fn change(&mut self, before: &Roster, roster: &Roster, now: u64) {
        for (lane, _) in self.lanes.ours() {
            let old = before.get(lane);
            let Some(new) = roster.get(lane).cloned() else {
                self.lanes.withdraw(lane);
                self.handle(now, Input::Leave { lane });
                continue;
            };
            if old.is_none_or(|old| !Arc::ptr_eq(old, &new)) {
                self.lanes.withdraw(lane);
            }
            if new.ready().is_err() {
                self.handle(now, Input::Leave { lane });
                continue;
            }
            if old.is_none_or(|old| !Arc::ptr_eq(old.settings(), new.settings())) {
                self.handle(now, Input::Change { lane, settings: Arc::clone(new.settings()) });
            }
            if old.is_none_or(|old| old.is_sendable() != new.is_sendable()) {
                let sendable = new.is_sendable();
                self.handle(now, if sendable { Input::Resume { lane } } else { Input::Pause { lane } });
            }
        }
        for subscriber in roster.subscribers() {
            let was_broken = before.get(subscriber.lane()).is_some_and(|old| old.ready().is_err());
            if was_broken && subscriber.ready().is_ok() {
                self.tenure.want(subscriber.lane());
            }
        }
        for (taken, asked) in self.lanes.waiting_for_roster() {
            self.take(taken, asked, now);
        }
    }
}
