//! The limit that holds at the receiver.
//!
//! A limiter that charges when it *sends* lets the network squeeze requests together: the endpoint sees more than
//! it allowed. This one charges when an attempt *ends*. An attempt holds a permit from its start to its end, and a
//! request reaches the endpoint somewhere between the two; the limiter allows what is safe wherever that was.
//!
//! **Token bucket (ρ, σ).** The level drains at ρ and grows by one when an attempt ends. An attempt starts only while
//! `level + in flight + 1 ≤ σ`. Take any arrivals of which the first comes at `t`, and let `s` be when the latest
//! started of them started. At `s` each of the others had either ended, after `t`, and had been charged, or was in
//! flight, and was counted. What was charged since `t` has drained by no more than `ρ·(s − t)`. So there are no more
//! than `σ + ρ·(s − t)` of them: the contract, over every window, by the endpoint's own clock.
//!
//! **Window cap (L, W).** Each attempt holds one of L permits until W after its end. Arrivals inside one half-open W,
//! L + 1 of them, would at the start of the latest started have held L + 1 permits at once.
//!
//! **In doubt.** An attempt that ended without an answer may still lie in the endpoint's socket. The assumption: it
//! arrives, if ever, within `doubt` of its end, and within `quarantine` of an answer to an attempt that began after its
//! end. So it stays in flight, in doubt, until the first of these has passed (and a durable record tells of it), and is
//! charged then: for both arguments above, that is its end. An answer to an attempt that began before says nothing.
//!
//! **Change.** Levels and ends carry over, so a lowered limit counts what came before it. While a rate is raised the
//! level drains faster and no sooner; a burst that was raised and lowered again leaves the level that it allowed. A
//! window cap counts all ends that the limiter remembers: those within the longest window of the contract, and for
//! that long of the contracts before it. A window longer than any before it counts from when it came. Attempts that
//! began before a change go by the longer of both quarantines and doubts.
//!
//! **Takeover.** What an owner has under way ends with its lease or its process, and a lane is taken over after that. Let R be
//! the last durable record of the lane. R tells the bound `F` that level and in flight together keep (σ, or what was left
//! of a higher one), the attempts in doubt `D`, and a bound `c` on the attempts in flight that R does not tell of. The
//! new owner counts D as R has it, c attempts in doubt that ended just now, and a level of `F − |D| − c`. Call the sum of
//! level and in flight that it would count if it sent nothing `E(t)`, and the sum of the owner before, had it lived on and
//! sent nothing, `T(t)`. *In flight, E has at least as many as T at any time:* what T has in doubt and R tells of is in D,
//! released no sooner; anything else is matched by one of the c, which ended no later and is released no sooner. *So
//! E(t) ≥ T(t):* at the takeover E ≥ F ≥ T; both fall only while their level drains, at ρ; if E drains while T does not, T's
//! level is empty, and T is what it has in flight, which E has too. So the new owner starts only what the owner before
//! could have started.
//!
//! (An owner that is stopped cannot close a connection. What it left open counts as in doubt, like the rest, and no longer
//! against the cap in flight: that cap is kept for what running processes have open.)
//!
//! *Why c is a bound:* nothing starts before a record of this owner, and of its present contract, is durable; and attempts
//! in doubt that no durable record tells of count against the cap in flight, as if they were open. Without that, a crash
//! after several time-outs in a row leaves more in flight than `c + |D|`. Quarantine and doubt of the c are those in R, for
//! the same reason: they were in force when these attempts started.
//!
//! *Windows:* what had ended by R is in R; what ended since is told by the store as far as its settlement is durable; the
//! rest is bounded by c too, because in a lane with windows an attempt counts against the cap in flight until its
//! settlement is durable. An attempt in doubt needs none: R tells of it until a later record tells how it ended.
//!
//! The figures are integers: a level counts in units of 1/`rate.per` of an attempt, and drains `rate.count` units a
//! nanosecond. Nothing is rounded but once per change of rate, upwards.

mod doubt;
mod ends;
mod level;
mod records;
mod snapshot;

use super::contract::{BURST_MAX, Contract, IN_FLIGHT_MAX};
use super::ids::Revision;
use super::lateness::Lateness;
use super::time::{Instant, Nanos};
use doubt::Doubts;
use ends::Ends;
use level::Level;
use records::Records;
pub use snapshot::{Since, Snapshot};

/// The fullest level, in attempts: all that the highest burst allowed, while a lower one holds.
const LEVEL_MAX: u32 = BURST_MAX + IN_FLIGHT_MAX;

/// Whether an attempt may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Now.
    Now,
    /// From then on, if nothing starts until then. An attempt that ends may bring it forward.
    At(Instant),
    /// When an attempt ends; time alone does not help.
    OnEvent,
}

impl Ready {
    /// The stricter of two answers.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::OnEvent, _) | (_, Self::OnEvent) => Self::OnEvent,
            (Self::At(a), Self::At(b)) => Self::At(a.max(b)),
            (Self::Now, limiting) | (limiting, Self::Now) => limiting,
        }
    }
}

/// How an attempt ended, as far as it matters for the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A whole answer came.
    Answered,
    /// Nothing of the request left.
    Unsent,
    /// There was no answer: the request may still arrive.
    Silent,
    /// The same, and no settlement tells of the attempt.
    CutOff,
}

/// One subscriber's limiter. Moments handed to it must not run backwards.
#[derive(Clone, Debug)]
pub struct Limiter {
    contract: Contract,
    lateness: Lateness,
    older: Option<Box<Older>>,
    level: Level,
    ends: Option<Box<Ends>>,
    /// Started and not ended.
    open: u32,
    /// Ended and counted by a window, and their settlement is not durable.
    unsettled: u32,
    doubts: Doubts,
    records: Records,
}

/// Attempts under way that began before the settings changed.
#[derive(Clone, Debug)]
struct Older {
    open: u32,
    /// When the settings changed.
    until: Instant,
    lateness: Lateness,
}

impl Limiter {
    /// A limiter for an endpoint that was never sent anything.
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

    /// The contract in force.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// Attempts whose request may yet arrive: those under way and those in doubt.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.open + self.doubts.count()
    }

    /// Attempts under way.
    #[must_use]
    pub fn open(&self) -> u32 {
        self.open
    }

    /// Attempts in doubt, and when the last of them is released at the latest.
    #[must_use]
    pub fn in_doubt(&self) -> (u32, Option<Instant>) {
        (self.doubts.count(), self.doubts.until())
    }

    /// How full the bucket is, in whole attempts, rounded up.
    #[must_use]
    pub fn level(&self) -> u64 {
        let tokens = self.level.units().div_ceil(u128::from(self.contract.bucket().rate().per().0));
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }

    /// Whether one more attempt may start.
    pub fn ready(&mut self, now: Instant) -> Ready {
        self.advance(now);
        if !self.has_place() || !self.records.cover() {
            return Ready::OnEvent;
        }
        let next = self.in_flight() + 1;
        let mut ready = self.level.ready(self.contract.bucket(), next);
        if let Some(ends) = &self.ends {
            ready = ready.and(ends.ready(next));
        }
        // What is in doubt leaves by time alone.
        let release = self.doubts.next_release();
        if ready == Ready::OnEvent && release < Instant::NEVER {
            ready = Ready::At(release);
        }
        ready
    }

    /// How many attempts the limits over time would let start between now and `ahead` from now, if all ended at once.
    pub fn room(&mut self, now: Instant, ahead: Nanos) -> u32 {
        self.advance(now);
        let taken = self.in_flight();
        let room = self.level.room(self.contract.bucket(), taken, now + ahead);
        self.ends.as_ref().map_or(room, |ends| room.min(ends.room(taken)))
    }

    /// An attempt starts: before its first byte is sent.
    ///
    /// # Panics
    /// In debug builds, if [`Self::ready`] does not say [`Ready::Now`].
    pub fn start(&mut self, now: Instant) {
        debug_assert_eq!(self.ready(now), Ready::Now, "an attempt started that the contract does not allow");
        self.open += 1;
    }

    /// An attempt ended that began at `started`. True if it counts against the cap in flight until [`Self::settled`] says
    /// that its settlement is durable.
    pub fn end(&mut self, started: Instant, end: End, now: Instant) -> bool {
        debug_assert!(self.open > 0, "an attempt ended that never started");
        self.advance(now);
        let lateness = self.longest();
        self.open = self.open.saturating_sub(1);
        self.forget_older(started);
        // What a record alone can tell the next owner is in doubt until one does, however short its doubt is.
        if end == End::CutOff || (end == End::Silent && lateness.doubt() > Nanos::ZERO) {
            self.doubts.add(now, 1, lateness, self.records.taken + 1, self.records.durable);
            self.records.stale = true;
            return false;
        }
        if end == End::Answered {
            self.doubts.heard(started, now, self.records.durable);
        }
        self.charge(now, 1);
        if self.ends.is_none() {
            return false;
        }
        self.unsettled += 1;
        self.records.count_end(now);
        true
    }

    /// The settlement is durable of an attempt for which [`Self::end`] said true.
    pub fn settled(&mut self) {
        self.unsettled = self.unsettled.saturating_sub(1);
    }

    /// That record is durable, and all before it.
    pub fn recorded(&mut self, revision: Revision) {
        if revision.0 <= self.records.taken {
            self.records.durable = self.records.durable.max(revision.0);
            self.doubts.recorded(self.records.durable);
        }
    }

    /// Whether a record is to be taken: the next owner would have to know something that none tells, of the limits or of
    /// what is `unsaved` beside them, and none is on its way to the store.
    #[must_use]
    pub fn wants_record(&self, unsaved: bool) -> bool {
        self.records.are_due(unsaved)
    }

    /// What the next owner needs to go on from here, and its number. `is_final` for a lane that has nothing under way and
    /// starts nothing more.
    pub fn snapshot(&mut self, is_final: bool, now: Instant) -> (Revision, Snapshot) {
        debug_assert!(!is_final || self.open == 0, "an attempt under way has no place in a final snapshot");
        self.advance(now);
        let snapshot = self.take_snapshot(is_final, now);
        (self.records.take(self.full(), now), snapshot)
    }

    /// Replaces the contract. What was sent before counts against the new one at once; nothing starts until a record of
    /// it is durable, because the next owner goes by that.
    pub fn change(&mut self, contract: Contract, lateness: Lateness, now: Instant) {
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

    /// The longest deadline, quarantine and doubt of what is under way or may start.
    fn longest(&self) -> Lateness {
        self.older.as_ref().map_or(self.lateness, |older| older.lateness.longer(self.lateness))
    }

    /// An attempt ended that began at `started`. One that began in the very moment of a change counts as a later one,
    /// though it may have been an earlier one: then the last end of all decides.
    fn forget_older(&mut self, started: Instant) {
        let open = self.open;
        self.older.take_if(|older| {
            older.open -= u32::from(started < older.until && older.open > 0);
            older.open == 0 || open == 0
        });
    }

    /// The most that level and attempts in flight may come to.
    fn full(&self) -> u32 {
        let level = u32::try_from(self.level()).unwrap_or(LEVEL_MAX);
        level.saturating_add(self.in_flight()).min(LEVEL_MAX).max(self.contract.bucket().burst())
    }

    /// Whether the cap in flight lets one more start.
    fn has_place(&self) -> bool {
        self.open + self.doubts.unrecorded() + self.unsettled < self.contract.in_flight()
    }

    /// Brings level and ends to `now`, charging in order the attempts that are no longer in doubt.
    fn advance(&mut self, now: Instant) {
        if self.doubts.next_release() <= now {
            for (at, count) in self.doubts.release(now, self.records.durable) {
                // Later, if it had to wait until a record was durable.
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
        // After a limit was lowered the next owner has to wait for what the last record says.
        let burst = self.contract.bucket().burst();
        if self.records.full > burst {
            self.records.stale |= (self.full() - burst) * 2 <= self.records.full - burst;
        }
    }

    fn charge(&mut self, ended: Instant, count: u32) {
        let rate = self.contract.bucket().rate();
        self.level.drain(rate, ended);
        self.level.charge(rate, count);
        if let Some(ends) = &mut self.ends {
            ends.push(ended, count);
        }
    }
}
