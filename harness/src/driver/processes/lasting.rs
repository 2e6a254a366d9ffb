//! Faults that last, by index in the scenario: each ends alone, and one that was not injected ends nothing.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;

use hookproof_judge::trace::ProcessEvent;
use rustix::process::{Pid, Signal};

use super::Processes;
use crate::driver::process::{Process, members};
use crate::fault::{Room, limit_files};

impl Processes {
    /// With SIGSTOP. The process continues when all faults that stop it are over. Fails when there is no process, or
    /// the signal can't be sent.
    pub fn freeze(&mut self, number: usize, fault: u32) -> io::Result<()> {
        self.bury(number)?;
        if !self.workers[number].stops.is_stopped() {
            self.signal(number, Signal::STOP, ProcessEvent::Stopped)?;
            self.api.set_frozen(number, true);
        }
        self.workers[number].stops.begin(fault);
        Ok(())
    }

    /// No process, its descendants or restarts write files until `until`. Fails when no process lives or restarts
    /// before that moment, or the system refuses.
    pub fn fill_disk(&mut self, worker: Option<usize>, fault: u32, until: u64) -> io::Result<()> {
        let concerned = self.concerned(worker);
        concerned.clone().try_for_each(|number| self.bury(number))?;
        let now = self.clock.now();
        let is_back = |number: usize| {
            let worker = &self.workers[number];
            // After a recent strike, the end of the sender is not confirmed yet.
            let after = worker.again_after.filter(|_| worker.strike.is_some());
            let at = worker.again_at.or(after.map(|after| now.saturating_add(after)));
            at.is_some_and(|at| at < until)
        };
        let there = self.members(concerned.clone());
        if there.is_empty() && !concerned.clone().any(is_back) {
            return Err(self.not_ours(concerned.start));
        }
        self.full.insert(fault, worker);
        there.into_iter().try_for_each(|pid| limit_files(pid, Room::Full))
    }

    pub(super) fn is_full(&self, number: usize) -> bool {
        self.full.values().any(|worker| worker.is_none_or(|one| one == number))
    }

    /// Its processes continue, unless another fault lasts. Returns the first failure, after all were tried.
    pub fn end_fault(&mut self, fault: u32) -> io::Result<()> {
        let numbers = 0..self.workers.len();
        let thawed = numbers.map(|number| self.thaw(number, fault)).fold(Ok(()), Result::and);
        let Some(worker) = self.full.remove(&fault) else { return thawed };
        let free = self.concerned(worker).filter(|number| !self.is_full(*number));
        let members = self.members(free).into_iter();
        members.map(|pid| limit_files(pid, Room::Free)).fold(thawed, Result::and)
    }

    /// Returns the first failure, after all were tried.
    pub fn relieve(&mut self) -> io::Result<()> {
        let stops = self.workers.iter().flat_map(|worker| worker.stops.faults());
        let all: BTreeSet<u32> = self.full.keys().copied().chain(stops).collect();
        all.into_iter().map(|fault| self.end_fault(fault)).fold(Ok(()), Result::and)
    }

    fn thaw(&mut self, number: usize, fault: u32) -> io::Result<()> {
        self.bury(number)?;
        if !self.workers[number].stops.end(fault) {
            return Ok(());
        }
        self.api.set_frozen(number, false);
        self.signal(number, Signal::CONT, ProcessEvent::Continued)
    }

    /// Lists the living ones and their descendants.
    fn members(&self, numbers: impl Iterator<Item = usize>) -> Vec<Pid> {
        let alive = numbers.filter_map(|number| self.workers[number].process.as_ref());
        members(&alive.map(Process::pid).collect::<Vec<_>>())
    }

    fn concerned(&self, worker: Option<usize>) -> Range<usize> {
        worker.map_or(0..self.workers.len(), |worker| worker..worker + 1)
    }
}
