//! The state of a run, with its shared operations. The seed decides the order of events at one instant.

use std::collections::BTreeMap;
use std::sync::Arc;

use hookproof_judge::scenario::{FaultPlan, Scenario};
use hookproof_judge::trace::Record;
use hookproof_play::fault::{Skews, Step, Stops};
use hookproof_play::traffic::Chance;
use hookproof_sender::delivery_ids::DeliveryIds;
use hookproof_sender::engine::{LaneId, Nanos, StoreTime};
use hookproof_sender::roster::Roster;
use hookproof_sender::runtime::LOOK_EVERY;
use hookproof_sender::store::lane::OwnerId;
use hookproof_sender::store::reply::ClaimedRow;
use tempfile::TempDir;

use super::book::Book;
use super::error::SimError;
use super::event::{ProcessEvent, SimEvent};
use super::exchange::Network;
use super::figures::Figures;
use super::heap::Heap;
use super::liveness::Liveness;
use super::mutant::ToLose;
use super::offers::Play;
use super::options::{EPOCH, Model, Options, ns};
use super::process::Process;

#[derive(Default)]
pub(super) struct WorkerSlot {
    pub(super) process: Option<Process>,
    pub(super) generation: u64,
    pub(super) stops: Stops,
    pub(super) stash: Vec<ProcessEvent>,
    pub(super) dirty: bool,
    pub(super) wake_at: u64,
    pub(super) skews: Skews,
    pub(super) roster: Arc<Roster>,
    pub(super) again_after: u64,
    pub(super) blocked_until: u64,
    pub(super) patience: u64,
    pub(super) parted_until: u64,
    /// End and length, in order of their ends.
    pub(super) delays: Vec<(u64, u64)>,
}

impl WorkerSlot {
    pub(super) fn is_frozen(&self) -> bool {
        self.stops.is_stopped()
    }
}

pub(super) struct Troubles<'a> {
    pub(super) steps: Vec<(u64, Step<'a>)>,
    pub(super) done: usize,
    pub(super) clock_offset: i64,
    pub(super) dead: Vec<OwnerId>,
    pub(super) starting: usize,
    pub(super) errands: Errands<'a>,
    pub(super) loses: ToLose,
}

#[derive(Clone, Copy)]
pub(super) struct SimInputs<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) options: &'a Options,
    pub(super) model: Model,
    pub(super) seed: u64,
    pub(super) lease: Nanos,
}

pub(super) struct World<'a> {
    pub(super) given: SimInputs<'a>,
    pub(super) now: u64,
    pub(super) heap: Heap<SimEvent>,
    pub(super) chance: Chance,
    pub(super) slots: Vec<WorkerSlot>,
    pub(super) net: Network,
    pub(super) figures: Figures,
    pub(super) play: Play,
    pub(super) book: Book,
    pub(super) liveness: Liveness,
    pub(super) troubles: Troubles<'a>,
    pub(super) folder: TempDir,
    pub(super) ids: DeliveryIds,
    pub(super) over: bool,
}

impl World<'_> {
    pub(super) fn later(&mut self, after: u64, what: SimEvent) {
        let tie = self.chance.bits();
        self.heap.push(self.now.saturating_add(after), tie, what);
    }

    pub(super) fn wire(&mut self) -> u64 {
        self.chance.between(self.given.model.wire_ns.0, self.given.model.wire_ns.1)
    }

    pub(super) fn wall(&self) -> StoreTime {
        self.wall_at(self.now)
    }

    pub(super) fn wall_of(&self, worker: usize, t: u64) -> StoreTime {
        StoreTime(self.wall_at(t).0.saturating_add_signed(self.slots[worker].skews.offset()))
    }

    fn wall_at(&self, t: u64) -> StoreTime {
        StoreTime((EPOCH.0 + t).saturating_add_signed(self.troubles.clock_offset))
    }

    pub(super) fn token(&self, row: &ClaimedRow) -> Option<u64> {
        self.play.tokens.find(row.event.as_bytes())
    }

    pub(super) fn intended(&self, token: u64) -> Option<u64> {
        self.play.schedule.due_of(token).map(|due| due.at)
    }

    pub(super) fn endpoint_of(&self, lane: LaneId) -> Result<usize, SimError> {
        let place = self.net.endpoints.binary_search_by_key(&lane, |endpoint| endpoint.lane);
        place.map_err(|_| SimError::Defect(format!("lane {} has no endpoint", lane.0)))
    }

    /// None if it can.
    pub(super) fn parted_for(&self, worker: usize) -> Option<u64> {
        self.slots[worker].parted_until.checked_sub(self.now).filter(|left| *left > 0)
    }

    /// Messages under way at the end of a delay arrive at once.
    pub(super) fn delay(&self, worker: usize, exchanges: u64) -> u64 {
        let lasting = self.slots[worker].delays.iter().filter(|(until, _)| *until > self.now);
        let lasting = lasting.map(|(until, by)| (until - self.now, by.saturating_mul(exchanges)));
        let all = lasting.clone().map(|(_, by)| by).fold(0, u64::saturating_add);
        lasting.fold(all, |left, (over, by)| left.min(over.max(left.saturating_sub(by))))
    }

    pub(super) fn is_frozen(&self, worker: usize, generation: u64) -> bool {
        self.slots[worker].is_frozen() && self.slots[worker].generation == generation
    }

    pub(super) fn stash_event(
        &mut self,
        worker: usize,
        generation: u64,
        event: ProcessEvent,
    ) -> Result<(), SimError> {
        if self.slots[worker].generation == generation {
            self.slots[worker].stash.push(event);
        }
        Ok(())
    }

    pub(super) fn schedule_for(&mut self, worker: usize, after: u64, event: ProcessEvent) {
        let generation = self.slots[worker].generation;
        self.later(after, SimEvent::Process { worker, generation, event });
    }

    pub(super) fn schedule_poll(&mut self, worker: usize) {
        let after = ns(LOOK_EVERY).saturating_add(self.delay(worker, 1));
        self.schedule_for(worker, after, ProcessEvent::Look);
    }

    pub(super) fn others_look_soon(&mut self, but: Option<usize>) {
        let others = (0..self.slots.len()).filter(|other| Some(*other) != but);
        others.for_each(|other| self.schedule_poll(other));
    }

    pub(super) fn write_record(&mut self, record: Record) -> Result<(), SimError> {
        self.book.write_record(&record)
    }

    /// For callers that cannot fail.
    pub(super) fn defer_record(&mut self, record: Record) {
        self.book.later.push(record);
    }

    pub(super) fn write_later(&mut self) -> Result<(), SimError> {
        let later = std::mem::take(&mut self.book.later);
        later.iter().try_for_each(|record| self.book.write_record(record))
    }
}

/// Each has the index of its endpoint.
pub(super) type Secrets = Vec<(usize, hookproof_judge::signature::Key)>;

#[derive(Default)]
pub(super) struct Errands<'a> {
    /// Oldest first.
    pub(super) waiting: Vec<&'a FaultPlan>,
    pub(super) asked: BTreeMap<u64, RequestedAction<'a>>,
    pub(super) count: u64,
}

pub(super) struct RequestedAction<'a> {
    pub(super) plan: &'a FaultPlan,
    pub(super) at: u64,
    /// The endpoints accept these once the action is done.
    pub(super) secrets: Secrets,
}

impl Errands<'_> {
    pub(super) fn are_done(&self) -> bool {
        self.waiting.is_empty() && self.asked.is_empty()
    }
}
