//! A limiter whose limit holds at the receiver.
//!
//! A limiter that charges when it *sends* lets the network squeeze requests together: the endpoint sees more
//! than the limiter allowed. This one charges when an attempt *ends*. An attempt holds a permit from its start
//! to its end, and its request arrives between the two. The limiter allows only starts that are safe for every
//! moment of arrival.
//!
//! **Token bucket (ρ, σ).** The level drains at ρ and grows by one when an attempt ends. An attempt starts only
//! while `level + in flight + 1 ≤ σ`. Take any arrivals, the first at `t`, and let `s` be the latest start
//! among them. At `s`, each of the others had ended after `t` and was charged, or was in flight and counted.
//! Charges since `t` have drained by at most `ρ·(s − t)`. So at most `σ + ρ·(s − t)` requests arrived: the
//! contract, over every window, by the endpoint's own clock.
//!
//! **Window cap (L, W).** Each attempt holds one of L permits until W after its end. Suppose L + 1 requests
//! arrive inside one half-open W. At the latest start among them, these attempts would have held L + 1 permits
//! at once.
//!
//! **In doubt.** An attempt that ended without an answer may still lie in the endpoint's socket. The
//! assumption: if it arrives, it arrives within `doubt` of its end, and within `quarantine` of an answer to an
//! attempt that began after its end. So it stays in flight, in doubt, until the first of these times has passed
//! and a durable record includes it. Then it is charged: for both arguments above, that moment is its end. An
//! answer to an attempt that began before its end proves nothing.
//!
//! **Change.** Levels and ends carry over, so a lowered limit counts earlier attempts. A raised rate drains the
//! level faster and no sooner. A burst that is raised and lowered again leaves the level that it allowed. A
//! window cap counts all ends that the limiter remembers. It remembers ends for the longest window of the
//! contract; after a change, the longest window of the contract before still counts for its own length. A
//! window longer than any before it counts from its own start. Attempts that began before a change use the
//! longer of both quarantines and doubts.
//!
//! **Takeover.** An owner's attempts under way end with its lease or its process, and a takeover comes after
//! that. Let R be the last durable record of the lane. R has three parts:
//!
//! - `F`, a bound on level plus in flight: σ, or the rest of a higher burst;
//! - `D`, the attempts in doubt;
//! - `c`, a bound on the attempts in flight that R does not include.
//!
//! The new owner counts D as R has it, c attempts in doubt that ended just now, and a level of `F − |D| − c`.
//! Let `E(t)` be its level plus in flight if it sends nothing. Let `T(t)` be that sum of the previous owner,
//! had it lived on and sent nothing.
//!
//! *In flight, E always has at least as many as T.* An attempt that T has in doubt and R includes is in D, and
//! D releases it no sooner. Every other attempt of T is matched by one of the c, which ended no earlier and is
//! released no sooner.
//!
//! *So E(t) ≥ T(t).* At the takeover, E ≥ F ≥ T. Both fall only while their level drains, at ρ. If E drains
//! while T does not, T's level is empty. Then T consists of its attempts in flight, and E has at least as many.
//! So the new owner starts only attempts that the previous owner could have started.
//!
//! A stopped process (SIGSTOP) is the exception: it cannot close its connections. Its open attempts count as in
//! doubt like the rest, but no longer against the cap in flight. That cap holds for the connections of running
//! processes.
//!
//! *Why c is a bound.* Nothing starts before a record of this owner and its present contract is durable.
//! Attempts in doubt without a durable record count against the cap in flight, as if they were open. Otherwise
//! a crash after several time-outs in a row would leave more in flight than `c + |D|`. For the same reason the
//! c use the quarantine and doubt of R: these were in force when the attempts started.
//!
//! *Windows.* R has the ends before R. The store knows the ends since then that have a durable settlement. c
//! bounds the rest too, because in a lane with windows an attempt counts against the cap in flight until its
//! settlement is durable. An attempt in doubt needs no settlement: R includes it until a later record has its
//! end.
//!
//! A level counts in integer units of 1/`rate.per` of an attempt and drains `rate.count` units a nanosecond.
//! Only a change of rate rounds, upwards.

use doubt::Doubts;
use ends::Ends;
pub use snapshot::{Since, Snapshot};

use super::Revision;
use super::contract::{BURST_MAX, Contract, IN_FLIGHT_MAX, Lateness};
use super::time::{Nanos, StoreTime};
use crate::engine::contract::{Bucket, Rate};

mod doubt;
mod ends;
mod snapshot;

/// The highest level, in attempts: the highest burst was used up, and a lower one now holds.
const LEVEL_MAX: u32 = BURST_MAX + IN_FLIGHT_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    Now,
    /// At that moment, if nothing starts before. An attempt that ends may bring it forward.
    At(StoreTime),
    /// After an attempt has ended; waiting alone does not help.
    OnEvent,
}

impl Ready {
    /// The stricter of two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::OnEvent, _) | (_, Self::OnEvent) => Self::OnEvent,
            (Self::At(a), Self::At(b)) => Self::At(a.max(b)),
            (Self::Now, limiting) | (limiting, Self::Now) => limiting,
        }
    }
}

/// How an attempt ended, as far as the limits depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Answered,
    Unsent,
    /// Only its permission was asked for.
    Unpermitted,
    /// No answer came: the request may still arrive.
    Silent,
    /// As [`Self::Silent`], and no settlement counts the attempt.
    CutOff,
}

/// The moments passed to it must not run backwards.
#[derive(Clone, Debug)]
pub struct Limiter {
    contract: Contract,
    lateness: Lateness,
    older: Option<Box<Older>>,
    level: Level,
    ends: Option<Box<Ends>>,
    open: u32,
    /// Attempts that ended and count in a window, without a durable settlement.
    unsettled: u32,
    doubts: Doubts,
    records: Records,
}

/// Attempts under way that began before the settings changed.
#[derive(Clone, Debug)]
struct Older {
    open: u32,
    until: StoreTime,
    lateness: Lateness,
}

impl Limiter {
    /// A limiter for an endpoint that was never sent a request.
    #[must_use]
    pub fn fresh(contract: Contract, lateness: Lateness) -> Self {
        let mut records = Records::default();
        records.require();
        Self {
            ends: Ends::for_windows(contract.windows()),
            contract,
            lateness,
            older: None,
            level: Level::EMPTY,
            open: 0,
            unsettled: 0,
            doubts: Doubts::NONE,
            records,
        }
    }

    #[must_use]
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// Under way or in doubt.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.open + self.doubts.count()
    }

    #[must_use]
    pub fn open(&self) -> u32 {
        self.open
    }

    /// Attempts in doubt, and the latest moment at which the last of them is released.
    #[must_use]
    pub fn in_doubt(&self) -> (u32, Option<StoreTime>) {
        (self.doubts.count(), self.doubts.until())
    }

    /// The level of the bucket in whole attempts, rounded up.
    #[must_use]
    pub fn level(&self) -> u64 {
        let tokens = self.level.units().div_ceil(u128::from(self.contract.bucket().rate().per().0));
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }

    pub fn ready(&mut self, now: StoreTime) -> Ready {
        self.advance(now);
        if !self.has_place() || !self.records.cover() {
            return Ready::OnEvent;
        }
        let next = self.in_flight() + 1;
        let mut ready = self.level.ready(self.contract.bucket(), next);
        if let Some(ends) = &self.ends {
            ready = ready.and(ends.ready(next));
        }
        // Time alone releases them.
        let release = self.doubts.next_release();
        if ready == Ready::OnEvent && release < StoreTime::NEVER {
            ready = Ready::At(release);
        }
        ready
    }

    /// The attempts that rate and windows allow between `now` and `ahead` later, if all end at once.
    pub fn room(&mut self, now: StoreTime, ahead: Nanos) -> u32 {
        self.advance(now);
        let taken = self.in_flight();
        let room = self.level.room(self.contract.bucket(), taken, now + ahead);
        self.ends.as_ref().map_or(room, |ends| room.min(ends.room(taken)))
    }

    /// Call this before its first byte is sent.
    ///
    /// # Panics
    /// In debug builds, unless [`Self::ready`] returns [`Ready::Now`].
    pub fn start(&mut self, now: StoreTime) {
        debug_assert_eq!(self.ready(now), Ready::Now, "an attempt started that the contract does not allow");
        self.open += 1;
    }

    /// Ends an attempt that began at `started`. Returns true if it counts against the cap in flight until
    /// [`Self::settled`].
    pub fn end(&mut self, started: StoreTime, end: End, now: StoreTime) -> bool {
        debug_assert!(self.open > 0, "an attempt ended that never started");
        self.advance(now);
        let lateness = self.longest();
        self.open = self.open.saturating_sub(1);
        self.forget_older(started);
        if end == End::Unpermitted {
            return false;
        }
        // Only a record can pass this attempt on to the next owner: it is in doubt until one does, however short
        // `doubt` is.
        if end == End::CutOff || (end == End::Silent && lateness.doubt() > Nanos::ZERO) {
            self.doubts.add(now, 1, lateness, self.records.taken + 1, self.records.durable);
            self.records.stale = true;
            return false;
        }
        if end == End::Answered {
            self.doubts.record_answer(started, now, self.records.durable);
        }
        self.charge(now, 1);
        if self.ends.is_none() {
            return false;
        }
        self.unsettled += 1;
        self.records.count_end(now);
        true
    }

    /// The settlement of an attempt is durable for which [`Self::end`] returned true.
    pub fn settled(&mut self) {
        self.unsettled = self.unsettled.saturating_sub(1);
    }

    /// This record and all before it are durable.
    pub fn recorded(&mut self, revision: Revision) {
        if revision.0 <= self.records.taken {
            self.records.durable = self.records.durable.max(revision.0);
            self.doubts.recorded(self.records.durable);
        }
    }

    /// True if the limiter, or the `unsaved` state beside it, has changed since the last record, and no record
    /// is on its way to the store.
    #[must_use]
    pub fn wants_record(&self, unsaved: bool) -> bool {
        self.records.are_due(unsaved)
    }

    /// The state for the next owner, and its number. `is_final` means that nothing is under way and nothing
    /// starts any more.
    pub fn snapshot(&mut self, is_final: bool, now: StoreTime) -> (Revision, Snapshot) {
        debug_assert!(!is_final || self.open == 0, "an attempt under way has no place in a final snapshot");
        self.advance(now);
        let snapshot = self.take_snapshot(is_final, now);
        (self.records.take(self.full(), now), snapshot)
    }

    /// Earlier attempts count against the new one at once. Nothing starts until a record of the new contract is
    /// durable, because the next owner relies on it.
    pub fn change(&mut self, contract: Contract, lateness: Lateness, now: StoreTime) {
        self.advance(now);
        if self.open > 0 {
            let older = Older { open: self.open, until: now, lateness: self.longest() };
            self.older = Some(Box::new(older));
        }
        self.lateness = lateness;
        self.level.change_rate(self.contract.bucket().rate(), contract.bucket().rate());
        match &mut self.ends {
            Some(ends) => ends.change(contract.windows(), now),
            None => self.ends = Ends::for_windows(contract.windows()),
        }
        self.contract = contract;
        self.records.require();
    }

    /// The longest times of the attempts that are under way or may start.
    fn longest(&self) -> Lateness {
        self.older.as_ref().map_or(self.lateness, |older| older.lateness.longer(self.lateness))
    }

    /// An attempt that began at the very moment of a change counts as a later one. If it was an earlier one, the end
    /// of the last open attempt drops `older`.
    fn forget_older(&mut self, started: StoreTime) {
        let open = self.open;
        self.older.take_if(|older| {
            older.open -= u32::from(started < older.until && older.open > 0);
            older.open == 0 || open == 0
        });
    }

    fn full(&self) -> u32 {
        let level = u32::try_from(self.level()).unwrap_or(LEVEL_MAX);
        level.saturating_add(self.in_flight()).min(LEVEL_MAX).max(self.contract.bucket().burst())
    }

    fn has_place(&self) -> bool {
        self.open + self.doubts.unrecorded() + self.unsettled < self.contract.in_flight()
    }

    /// Charges in order the attempts that are no longer in doubt.
    fn advance(&mut self, now: StoreTime) {
        if self.doubts.next_release() <= now {
            for (at, count) in self.doubts.release(now, self.records.durable) {
                // Later than its release if it had to wait for a durable record.
                self.charge(at.max(self.level.as_of()), count);
            }
            self.records.stale = true;
        }
        self.level.drain(self.contract.bucket().rate(), now);
        if let Some(ends) = &mut self.ends {
            ends.advance(now);
            if ends.is_needless() {
                self.ends = None;
            }
        }
        // After a limit was lowered, the next owner would wait for the level in the last record.
        let burst = self.contract.bucket().burst();
        if self.records.full > burst {
            self.records.stale |= (self.full() - burst) * 2 <= self.records.full - burst;
        }
    }

    fn charge(&mut self, ended: StoreTime, count: u32) {
        let rate = self.contract.bucket().rate();
        self.level.drain(rate, ended);
        self.level.charge(rate, count);
        if let Some(ends) = &mut self.ends {
            ends.push(ended, count);
        }
    }
}

/// The level in units of 1/`rate.per` of an attempt, as of `as_of`. The rate comes with every call because it
/// belongs to the contract.
#[derive(Clone, Copy, Debug)]
struct Level {
    units: u128,
    as_of: StoreTime,
}

// The highest level in the finest units fits, even times the longest period, as a change of rate multiplies it.
const _: () = assert!((LEVEL_MAX as u128 + 1) * (Nanos::DAY.0 as u128) * (Nanos::DAY.0 as u128) < 1 << 114);

impl Level {
    const EMPTY: Self = Self { units: 0, as_of: StoreTime::START };

    fn new(units: u128, as_of: StoreTime) -> Self {
        Self { units, as_of }
    }

    fn units(self) -> u128 {
        self.units
    }

    fn as_of(self) -> StoreTime {
        self.as_of
    }

    /// Drains the level until `now`. Ignores earlier moments.
    fn drain(&mut self, rate: Rate, now: StoreTime) {
        if now <= self.as_of {
            return;
        }
        if self.units > 0 {
            let length = now.since(self.as_of);
            self.units = self.units.saturating_sub(u128::from(length.0) * u128::from(rate.count()));
        }
        self.as_of = now;
    }

    fn charge(&mut self, rate: Rate, count: u32) {
        self.units += u128::from(count) * u128::from(rate.per().0);
    }

    /// Converts to another rate's units, rounding up.
    fn change_rate(&mut self, from: Rate, to: Rate) {
        if from.per() != to.per() {
            self.units = (self.units * u128::from(to.per().0)).div_ceil(u128::from(from.per().0));
        }
    }

    fn ready(self, bucket: Bucket, next: u32) -> Ready {
        let Some(spare) = bucket.burst().checked_sub(next) else { return Ready::OnEvent };
        let allowed = u128::from(spare) * u128::from(bucket.rate().per().0);
        if self.units <= allowed {
            return Ready::Now;
        }
        let wait = (self.units - allowed).div_ceil(u128::from(bucket.rate().count()));
        Ready::At(self.as_of + Nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// The attempts that may start by `then` beside the `taken` ones in flight, if all end at once.
    fn room(self, bucket: Bucket, taken: u32, then: StoreTime) -> u32 {
        let per = u128::from(bucket.rate().per().0);
        let drained = u128::from(then.since(self.as_of).0) * u128::from(bucket.rate().count());
        let full = u128::from(bucket.burst()) * per + drained;
        let left = full.saturating_sub(self.units + u128::from(taken) * per) / per;
        u32::try_from(left).unwrap_or(u32::MAX)
    }
}

/// In a lane with window caps a record follows so soon, which bounds the ends that the store must list.
const ENDS_MAX: u32 = 1_024;
const AGE_MAX: Nanos = Nanos::MINUTE;

#[derive(Clone, Debug, Default)]
struct Records {
    taken: u64,
    durable: u64,
    /// Nothing starts before this record is durable.
    required: u64,
    /// State that a crash must not lose has changed since the last record.
    stale: bool,
    /// The bound on level plus in flight in the last record.
    full: u32,
    /// Ends since the last record that a window counts.
    ends: u32,
    at: StoreTime,
}

impl Records {
    fn require(&mut self) {
        self.required = self.taken + 1;
        self.stale = true;
    }

    fn cover(&self) -> bool {
        self.durable >= self.required
    }

    /// At most one record is on its way to the store.
    fn are_due(&self, unsaved: bool) -> bool {
        (self.stale || unsaved) && self.taken == self.durable
    }

    fn take(&mut self, full: u32, now: StoreTime) -> Revision {
        (self.stale, self.full, self.ends, self.at) = (false, full, 0, now);
        self.taken += 1;
        Revision(self.taken)
    }

    fn count_end(&mut self, now: StoreTime) {
        self.ends += 1;
        self.stale |= self.ends >= ENDS_MAX || now.since(self.at) >= AGE_MAX;
    }
}
