//! The engine: all lanes, their attempts, timers and turns.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher};

use super::breaker::IsProbe;
use super::lane::{Attempt, Attempts, Ending, Lane, LaneView, Move, WINDOW_MAX};
use super::message::{Answer, Due, Fate, Input, Outcome, Output, Retried, Settlement, Takeover};
use super::retry::{Meaning, Rng};
use super::settling::Settling;
use super::time::StoreTime;
use super::timers::Timers;
use super::{AttemptId, LaneId, OutOfRange, Term, within};

const BOUND_MAX: usize = 10_000_000;

/// Over all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    attempts: usize,
    unsettled: usize,
}

impl Limits {
    /// - `attempts`: attempts under way. At the bound a lane may still have one, so that hung endpoints never keep a
    ///   healthy one waiting.
    /// - `unsettled`: settlements of attempts that the store has not confirmed. At the bound no attempt starts, which
    ///   bounds the deliveries that a crash could repeat. Attempts under way may still pass the bound.
    ///
    /// # Errors
    /// Fails unless each is 1 to 10,000,000.
    pub fn new(attempts: usize, unsettled: usize) -> Result<Self, OutOfRange> {
        within("engine.attempts", attempts, 1..=BOUND_MAX)?;
        within("engine.unsettled", unsettled, 1..=BOUND_MAX)?;
        Ok(Self { attempts, unsettled })
    }

    #[must_use]
    pub const fn attempts(&self) -> usize {
        self.attempts
    }
}

impl Default for Limits {
    /// 10,000 attempts, 20,000 settlements.
    fn default() -> Self {
        Self { attempts: 10_000, unsettled: 20_000 }
    }
}

/// All lanes of one process. See the [module](super) for how to drive it.
#[derive(Debug)]
pub struct Engine {
    now: StoreTime,
    rng: Rng,
    limits: Limits,
    lanes: Lanes,
    attempts: Attempts,
    settling: Settling,
    timers: Timers,
    /// Lanes that may be able to act, in turn order.
    ready: VecDeque<u32>,
    /// Lanes that wait for the number of attempts under way to fall, first come first.
    crowded: VecDeque<u32>,
    unsaved: Vec<u32>,
    outputs: VecDeque<Output>,
    stopping: bool,
}

impl Engine {
    /// An engine without lanes. `seed` decides all jitter.
    #[must_use]
    pub fn new(seed: u64, limits: Limits) -> Self {
        Self {
            now: StoreTime::START,
            rng: Rng::new(seed),
            limits,
            lanes: Lanes::default(),
            attempts: Attempts::default(),
            settling: Settling::default(),
            timers: Timers::default(),
            ready: VecDeque::new(),
            crowded: VecDeque::new(),
            unsaved: Vec::new(),
            outputs: VecDeque::new(),
            stopping: false,
        }
    }

    /// Then call [`Self::poll`] until it returns nothing. Handling several inputs before polling makes larger batches.
    pub fn handle(&mut self, now: StoreTime, input: Input) {
        self.now = self.now.max(now);
        while let Some(slot) = self.timers.pop_due(self.now) {
            self.enqueue(slot);
        }
        match input {
            Input::Tick => {}
            Input::Take(taking) => self.take(*taking),
            Input::Renew { lane, term, until } => self.with(lane, Some(term), |lane, _| lane.renew(until)),
            Input::Lose { lane, term } => self.lose(lane, term),
            Input::Leave { lane } => self.leave(lane),
            Input::Change { lane, settings } => self.with(lane, None, |lane, now| lane.change(settings, now)),
            Input::Pause { lane } => self.with(lane, None, |lane, _| lane.pause()),
            Input::Resume { lane } => self.with(lane, None, |lane, _| lane.resume()),
            Input::Retry { lane, asked } => self.retry(lane, asked),
            Input::Work { lane, due } => self.with(lane, None, |lane, _| lane.record_due(due)),
            Input::Claimed { lane, term, due, next } => {
                self.with(lane, Some(term), |lane, now| lane.fill(due, next, now));
            }
            Input::Ended { attempt, outcome } => self.end(attempt, &outcome),
            Input::Settled { batch } => {
                for (lane, term) in self.settling.answered(batch) {
                    self.with(lane, Some(term), |lane, _| lane.settled());
                }
            }
            Input::Persisted { lane, term, revision } => {
                self.with(lane, Some(term), |lane, _| lane.recorded(revision));
            }
            Input::Stop => self.stop(),
        }
    }

    /// The next output. After the last one, wait for an input or for [`Self::next_wake`].
    pub fn poll(&mut self) -> Option<Output> {
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return Some(output);
            }
            if self.settling.is_full() {
                return self.settling.flush();
            }
            if let Some(output) = self.take_turns() {
                return Some(output);
            }
            if self.outputs.is_empty() && !self.flush() {
                return None;
            }
        }
    }

    /// The time to call [`Self::handle`] with [`Input::Tick`], unless an input comes first.
    #[must_use]
    pub fn next_wake(&self) -> Option<StoreTime> {
        self.timers.next()
    }

    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.lanes.is_empty()
            && self.attempts.len() == 0
            && self.settling.is_empty()
            && self.outputs.is_empty()
    }

    #[must_use]
    pub fn views(&self) -> Vec<LaneView> {
        self.lanes.all().map(|lane| lane.view(self.now)).collect()
    }

    #[must_use]
    pub fn attempts(&self) -> usize {
        self.attempts.len()
    }

    /// Lets lanes act in turn until one has an output.
    fn take_turns(&mut self) -> Option<Output> {
        while self.outputs.is_empty()
            && !self.settling.is_full()
            && self.settling.total() < self.limits.unsettled
        {
            let Some(slot) = self.ready.pop_front() else {
                // The woken lanes may not have used the free places.
                if self.make_room() { continue } else { return None }
            };
            let (now, window) = (self.now, self.lanes.window());
            let room = self.attempts.len() < self.limits.attempts;
            let moved = self.lanes.act(slot, |lane| {
                lane.marks.queued = false;
                (lane.next_move(now, room, window), lane.wants_record())
            });
            let Some((next, wants_record)) = moved else { continue };
            if wants_record {
                self.unsaved.push(slot);
            }
            match next {
                Move::Crowd => {
                    if let Some(lane) = self.lanes.get_mut(slot)
                        && !std::mem::replace(&mut lane.marks.crowded, true)
                    {
                        self.crowded.push_back(slot);
                    }
                }
                Move::Wait(at) => self.timers.set(slot, at),
                Move::Rest => self.timers.clear(slot),
                acted => {
                    self.enqueue(slot);
                    if let Some(output) = self.carry_out(slot, acted) {
                        return Some(output);
                    }
                }
            }
        }
        None
    }

    fn carry_out(&mut self, slot: u32, acted: Move) -> Option<Output> {
        let lane = self.lanes.get_mut(slot)?;
        let (id, term) = (lane.id, lane.term);
        match acted {
            Move::Send(due, probe) => return Some(self.send(slot, id, term, due, probe)),
            Move::GiveUp(due, reason) => self.settle(id, term, due, Fate::Dead(reason)),
            Move::Release(window) => {
                for due in window {
                    self.settle(id, term, due, Fate::Released);
                }
            }
            Move::Claim(max) => {
                // The store must record retries before it reads due deliveries. It never hands out a delivered one.
                if self.settling.changes_queues() {
                    self.flush();
                }
                self.outputs.push_back(Output::Claim { lane: id, term, max });
            }
            Move::Crowd | Move::Wait(_) | Move::Rest => {}
        }
        None
    }

    fn send(&mut self, slot: u32, lane: LaneId, term: Term, due: Due, probe: IsProbe) -> Output {
        let Due { delivery, attempts, expires } = due;
        let number = attempts.saturating_add(1);
        let ending = Ending { attempts: number, expires, started: self.now, probe };
        let attempt = self.attempts.insert(Attempt { slot, lane, term, delivery, ending });
        Output::Send { attempt, lane, term, delivery, number }
    }

    fn settle(&mut self, lane: LaneId, term: Term, due: Due, fate: Fate) {
        let Due { delivery, attempts, .. } = due;
        self.settling
            .push(Settlement { lane, term, delivery, attempts, attempt: None, fate, disables: None }, false);
    }

    /// Moves waiting settlements and records to the outputs. Returns false if there were none.
    fn flush(&mut self) -> bool {
        while let Some(batch) = self.settling.flush() {
            self.outputs.push_back(batch);
        }
        for slot in std::mem::take(&mut self.unsaved) {
            if let Some(lane) = self.lanes.get_mut(slot)
                && lane.wants_record()
            {
                let (revision, record) = lane.record(self.now);
                let (lane, term, record) = (lane.id, lane.term, Box::new(record));
                self.outputs.push_back(Output::Persist { lane, term, revision, record });
            }
        }
        !self.outputs.is_empty()
    }

    /// Ignores late input: this engine does not own the lane, or owns it under another term.
    fn with(&mut self, id: LaneId, term: Option<Term>, act: impl FnOnce(&mut Lane, StoreTime)) {
        let Some(slot) = self.lanes.find(id) else { return };
        let now = self.now;
        let wants_record = self.lanes.act(slot, |lane| {
            if term.is_some_and(|term| term != lane.term) {
                return None;
            }
            act(lane, now);
            Some(lane.wants_record())
        });
        let Some(wants_record) = wants_record.flatten() else { return };
        if wants_record {
            self.unsaved.push(slot);
        }
        self.enqueue(slot);
    }

    fn enqueue(&mut self, slot: u32) {
        if let Some(lane) = self.lanes.get_mut(slot)
            && !std::mem::replace(&mut lane.marks.queued, true)
        {
            self.ready.push_back(slot);
        }
    }

    /// Gives the longest-waiting crowded lane a turn. Returns false without a free place or a waiting lane.
    fn make_room(&mut self) -> bool {
        if self.attempts.len() >= self.limits.attempts {
            return false;
        }
        let Some(slot) = self.crowded.pop_front() else { return false };
        if let Some(lane) = self.lanes.get_mut(slot) {
            lane.marks.crowded = false;
        }
        self.enqueue(slot);
        true
    }

    fn take(&mut self, taking: Takeover) {
        let (id, term) = (taking.lane, taking.term);
        if let Some(slot) = self.lanes.find(id) {
            let ours = self.lanes.get_mut(slot).map(|lane| lane.term);
            if ours.is_some_and(|ours| ours >= term) {
                return;
            }
            self.forget(slot);
        }
        let slot = self.lanes.insert(Lane::new(taking, self.now));
        self.with(id, None, |_, _| {});
        if self.stopping {
            self.leave_slot(slot);
        }
    }

    fn retry(&mut self, lane: LaneId, asked: Retried) {
        let mut taken_up = None;
        self.with(lane, None, |lane, now| taken_up = lane.retry(asked, now));
        self.outputs.extend(taken_up.map(|insist| Output::Retry { lane, insist }));
    }

    fn lose(&mut self, id: LaneId, term: Term) {
        if let Some(slot) = self.lanes.find(id)
            && self.lanes.get_mut(slot).is_some_and(|lane| lane.term == term)
        {
            self.forget(slot);
        }
    }

    fn leave(&mut self, id: LaneId) {
        if let Some(slot) = self.lanes.find(id) {
            self.leave_slot(slot);
        }
    }

    fn leave_slot(&mut self, slot: u32) {
        if self.lanes.act(slot, Lane::leave).is_some() {
            self.finish_leaving(slot);
        }
    }

    fn stop(&mut self) {
        self.stopping = true;
        for slot in self.lanes.slots() {
            self.leave_slot(slot);
        }
    }

    fn finish_leaving(&mut self, slot: u32) {
        if let Some(lane) = self.lanes.get_mut(slot)
            && lane.has_left()
        {
            let (lane, term, (revision, record)) = (lane.id, lane.term, lane.record(self.now));
            self.forget(slot);
            self.flush();
            self.outputs.push_back(Output::Persist { lane, term, revision, record: Box::new(record) });
        }
    }

    fn forget(&mut self, slot: u32) {
        self.timers.clear(slot);
        self.lanes.remove(slot);
    }

    fn end(&mut self, ended: AttemptId, outcome: &Outcome) {
        let Some(attempt) = self.attempts.remove(ended) else { return };
        self.make_room();
        let Attempt { slot, lane: id, term, delivery, ending } = attempt;
        let owner = self.lanes.get_mut(slot).filter(|lane| lane.id == id && lane.term == term);
        let mut awaited = false;
        let (fate, disables) = match owner {
            Some(lane) => {
                awaited = lane.charge(&ending, outcome, self.now);
                let before = lane.breaker();
                let ended = lane.end(&ending, outcome, &mut self.rng, self.now);
                let news = lane.take_news().map(|shift| Output::Tell { lane: id, shift });
                self.outputs.extend(news);
                let breaker = lane.breaker();
                if breaker.is_news_after(before, self.now) {
                    self.outputs.push_back(Output::Turn { lane: id, before, breaker });
                }
                ended
            }
            // The present owner repeats a failed attempt; a success counts under any owner.
            None if is_success(outcome) => (Fate::Delivered, None),
            None => return self.with(id, None, |lane, now| lane.heed(outcome, now)),
        };
        let made = u32::from(!outcome.is_by_us());
        let attempts = ending.attempts.saturating_sub(1) + made;
        let attempt = Some(ended);
        let settlement = Settlement { lane: id, term, delivery, attempts, attempt, fate, disables };
        self.settling.push(settlement, awaited);
        self.with(id, Some(term), |_, _| {});
        self.finish_leaving(slot);
    }
}

fn is_success(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Answered(Answer { status, .. }) if Meaning::of(*status) == Meaning::Success)
}

/// All lanes together should hold at most this many unsent deliveries. Lanes that hold any share it equally; a
/// smaller share takes effect with a lane's next claim.
const HELD: usize = 32_768;
/// The smallest share of a lane.
const WINDOW_LEAST: u32 = 4;

/// Hashed with the same key in every process, for determinism. Ids come from the store, so no caller can choose
/// colliding ones.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    slots: Vec<Option<Lane>>,
    free: Vec<u32>,
    by_id: HashMap<LaneId, u32, BuildHasherDefault<DefaultHasher>>,
    /// They hold deliveries or have asked for some.
    holding: usize,
}

impl Lanes {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn window(&self) -> u32 {
        share(self.holding)
    }

    /// Applies `act` and keeps `holding` up to date.
    pub(super) fn act<T>(&mut self, slot: u32, act: impl FnOnce(&mut Lane) -> T) -> Option<T> {
        let lane = self.slots.get_mut(slot as usize)?.as_mut()?;
        let before = lane.is_holding();
        let done = act(lane);
        match (before, lane.is_holding()) {
            (false, true) => self.holding += 1,
            (true, false) => self.holding -= 1,
            _ => {}
        }
        Some(done)
    }

    pub(super) fn find(&self, id: LaneId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Lane> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Lane> {
        self.slots.iter().flatten()
    }

    pub(super) fn insert(&mut self, lane: Lane) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("far fewer lanes than 2^32")
        });
        self.by_id.insert(lane.id, slot);
        self.holding += usize::from(lane.is_holding());
        self.slots[slot as usize] = Some(lane);
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) {
        if let Some(lane) = self.slots.get_mut(slot as usize).and_then(Option::take) {
            self.by_id.remove(&lane.id);
            self.holding -= usize::from(lane.is_holding());
            self.free.push(slot);
        }
    }

    /// In ascending order.
    pub(super) fn slots(&self) -> Vec<u32> {
        let used = self.slots.iter().enumerate().filter(|(_, lane)| lane.is_some());
        used.filter_map(|(slot, _)| u32::try_from(slot).ok()).collect()
    }
}

fn share(lanes: usize) -> u32 {
    let share = u32::try_from(HELD / lanes.max(1)).unwrap_or(WINDOW_MAX);
    share.clamp(WINDOW_LEAST, WINDOW_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_lanes_hold_anything_the_less_each_holds() {
        let shares = [0, 1, 128, 129, 1_000, 10_000_000].map(share);
        assert_eq!(shares, [256, 256, 256, 254, 32, 4]);
    }
}
