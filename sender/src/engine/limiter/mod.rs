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
//! **Silence.** An attempt that ended without an answer may still lie in the endpoint's socket. It stays in flight for
//! a further `quarantine`.
//!
//! **Change.** Levels and ends carry over, so a lowered limit counts what came before it. While a rate is raised the
//! level drains faster and no sooner; a burst that was raised and lowered again leaves the level that it allowed. A
//! window cap counts all ends that the limiter remembers: those within the longest window of the contract, and for
//! that long of the contracts before it. A window longer than any before it counts from when it came.
//!
//! **Hand-over.** A lane given back in order leaves a [`Snapshot`]. After a crash the worst is assumed: everything that
//! the contract allows at once was sent, and arrives as late as `hold` from now. The level is full and does not drain
//! until then, and nothing starts; that is stricter than "no tokens", because the last requests of a dead owner may still
//! lie in a socket.
//!
//! The figures are integers: a level counts in units of 1/`rate.per` of an attempt, and drains `rate.count` units a
//! nanosecond. Nothing is rounded but once per change of rate, upwards.

mod ends;
mod level;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::contract::{BURST_MAX, Bucket, Contract, IN_FLIGHT_MAX, Rate};
use super::time::{Instant, Nanos};
use ends::Ends;
use level::Level;

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
    OnEnd,
}

impl Ready {
    /// The stricter of two answers.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::OnEnd, _) | (_, Self::OnEnd) => Self::OnEnd,
            (Self::At(a), Self::At(b)) => Self::At(a.max(b)),
            (Self::Now, limiting) | (limiting, Self::Now) => limiting,
        }
    }
}

/// One subscriber's limiter. Moments handed to it must not run backwards.
#[derive(Clone, Debug)]
pub struct Limiter {
    contract: Contract,
    level: Level,
    ends: Option<Box<Ends>>,
    /// Started and not ended.
    open: u32,
    /// Ended in silence; in flight until then. The earliest first.
    quarantined: VecDeque<Instant>,
}

/// What a limiter that stopped in order hands to the next one. Lengths count from the moment it was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    rate_count: u64,
    rate_per: u64,
    burst: u32,
    /// The level in whole attempts, and what is left in units of 1/`rate_per`.
    level: u32,
    level_rest: u64,
    /// Attempts that were in flight, of a limiter that may never have ended in order.
    in_flight: u32,
    /// How long the level does not drain yet.
    held: u64,
    /// How long ago attempts ended, and how many; the oldest first.
    ends: Vec<(u64, u32)>,
    /// The longest window that the ends are kept for.
    remembered: u64,
    /// For how much longer silent attempts stay in flight.
    quarantined: Vec<u64>,
}

impl Limiter {
    /// A limiter for an endpoint that was never sent anything.
    #[must_use]
    pub fn fresh(contract: Contract) -> Self {
        let ends = Ends::for_windows(contract.windows());
        Self { contract, level: Level::EMPTY, ends, open: 0, quarantined: VecDeque::new() }
    }

    /// Goes on where a limiter stopped in order, at least `downtime` ago. A snapshot that makes no sense counts as a
    /// crash that just happened, after the highest burst.
    #[must_use]
    pub fn resume(contract: Contract, snapshot: &Snapshot, downtime: Nanos, now: Instant) -> Self {
        let Some(mut limiter) = snapshot.restore(&contract, downtime, now) else {
            return Self::fresh(contract).seized(BURST_MAX, now);
        };
        limiter.change(contract, now);
        limiter
    }

    /// Takes over from a limiter that crashed or lost its lease. All that it allowed may arrive as late as `until`; what
    /// it left, if anything, says how much it had allowed before its contract was lowered, at least `downtime` ago.
    #[must_use]
    pub fn seize(
        contract: Contract,
        left: Option<&Snapshot>,
        downtime: Nanos,
        until: Instant,
        now: Instant,
    ) -> Self {
        match left {
            Some(left) => Self::resume(contract, left, downtime, now).seized(left.burst, until),
            None => Self::fresh(contract).seized(0, until),
        }
    }

    /// Fills the bucket, up to the higher of its burst and `burst`, and all windows, and keeps them so until then.
    fn seized(mut self, burst: u32, until: Instant) -> Self {
        let bucket = self.contract.bucket();
        let full = u128::from(burst.min(BURST_MAX).max(bucket.burst()));
        self.level.raise(full * u128::from(bucket.rate().per().0));
        self.level.hold(until);
        if let Some(ends) = &mut self.ends {
            ends.fill(until);
        }
        self
    }

    /// The contract in force.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// Attempts whose request may yet arrive: those under way and those in quarantine.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.open + u32::try_from(self.quarantined.len()).expect("never more than were in flight")
    }

    /// Attempts under way.
    #[must_use]
    pub fn open(&self) -> u32 {
        self.open
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
        let next = self.in_flight() + 1;
        let mut ready = if next > self.contract.in_flight() { Ready::OnEnd } else { Ready::Now };
        ready = ready.and(self.level.ready(self.contract.bucket(), next));
        // Before a hold is over it is not known what of the owner before is still under way.
        if self.level.as_of() > now {
            ready = ready.and(Ready::At(self.level.as_of()));
        }
        if let Some(ends) = &self.ends {
            ready = ready.and(ends.ready(next));
        }
        match (ready, self.quarantined.front()) {
            (Ready::OnEnd, Some(&release)) => Ready::At(release),
            _ => ready,
        }
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

    /// An attempt ended. One that ended in silence may still arrive for as long as `quarantine`.
    pub fn end(&mut self, now: Instant, quarantine: Nanos) {
        debug_assert!(self.open > 0, "an attempt ended that never started");
        self.advance(now);
        self.open = self.open.saturating_sub(1);
        if quarantine == Nanos::ZERO {
            self.charge(now);
        } else {
            let release = now + quarantine;
            let place = self.quarantined.partition_point(|earlier| *earlier <= release);
            self.quarantined.insert(place, release);
        }
    }

    /// Replaces the contract. What was sent before counts against the new one at once.
    pub fn change(&mut self, contract: Contract, now: Instant) {
        self.advance(now);
        self.level.change_rate(self.contract.bucket().rate(), contract.bucket().rate());
        match &mut self.ends {
            Some(ends) => ends.change(contract.windows(), now),
            None => self.ends = Ends::for_windows(contract.windows()),
        }
        // The level does not drain yet: requests of an owner before us may still arrive, for a new window too.
        if self.level.as_of() > now
            && let Some(ends) = &mut self.ends
        {
            ends.fill(self.level.as_of());
        }
        self.contract = contract;
    }

    /// What the next limiter needs to go on from here. Only for a lane with no attempt under way.
    pub fn snapshot(&mut self, now: Instant) -> Snapshot {
        debug_assert_eq!(self.open, 0, "an attempt under way has no place in a snapshot");
        self.advance(now);
        let (ends, remembered) = self.ends.as_ref().map_or_else(Default::default, |ends| ends.ages(now));
        let quarantined = self.quarantined.iter().map(|release| release.since(now).0).collect();
        Snapshot { ends, remembered: remembered.0, quarantined, ..self.owed(0, now) }
    }

    /// What the next limiter needs to know if this one should never stop in order: how much may have arrived by then
    /// of what is under way now.
    pub fn worst(&mut self, now: Instant) -> Snapshot {
        // For how long ends matter goes with it: a window that was lifted lately counts the next owner's, too.
        let remembered = self.ends.as_ref().map_or(Nanos::ZERO, |ends| ends.memory());
        Snapshot { remembered: remembered.0, ..self.owed(self.in_flight(), now) }
    }

    fn owed(&mut self, in_flight: u32, now: Instant) -> Snapshot {
        self.advance(now);
        let bucket = self.contract.bucket();
        let per = bucket.rate().per().0;
        let level = u32::try_from(self.level.units() / u128::from(per)).unwrap_or(LEVEL_MAX);
        let rest = self.level.units() % u128::from(per);
        Snapshot {
            rate_count: bucket.rate().count(),
            rate_per: per,
            burst: bucket.burst(),
            level,
            in_flight,
            level_rest: u64::try_from(rest).expect("less than the period, which is a u64"),
            held: self.level.as_of().since(now).0,
            ends: Vec::new(),
            remembered: 0,
            quarantined: Vec::new(),
        }
    }

    /// Brings level and ends to `now`, charging in order the silent attempts whose quarantine is over.
    fn advance(&mut self, now: Instant) {
        while let Some(&release) = self.quarantined.front()
            && release <= now
        {
            self.quarantined.pop_front();
            self.charge(release);
        }
        if self.quarantined.is_empty() && self.quarantined.capacity() > 0 {
            self.quarantined = VecDeque::new();
        }
        self.level.drain(self.contract.bucket().rate(), now);
        if let Some(ends) = &mut self.ends {
            ends.advance(now);
            if ends.is_needless() {
                self.ends = None;
            }
        }
    }

    fn charge(&mut self, ended: Instant) {
        let rate = self.contract.bucket().rate();
        self.level.drain(rate, ended);
        self.level.charge(rate);
        if let Some(ends) = &mut self.ends {
            ends.push(ended);
        }
    }
}

impl Snapshot {
    /// A limiter without windows where this one was, unless the snapshot is damaged. If the contract changed meanwhile,
    /// nobody knows when: the downtime counts at the slower of both rates.
    fn restore(&self, next: &Contract, downtime: Nanos, now: Instant) -> Option<Limiter> {
        let rate = Rate::new(self.rate_count, Nanos(self.rate_per)).ok()?;
        let is_reduced = (rate.count(), rate.per().0) == (self.rate_count, self.rate_per);
        let bucket = Bucket::new(rate, self.burst).ok().filter(|_| is_reduced)?;
        let whole = u128::from(self.level.min(LEVEL_MAX)) * u128::from(self.rate_per);
        let mut level = Level::new(whole + u128::from(self.level_rest), now);
        let rate = rate.slower(next.bucket().rate());
        level.change_rate(bucket.rate(), rate);
        let contract =
            Contract::new(Some(Bucket::new(rate, self.burst).ok()?), Vec::new(), next.in_flight()).ok()?;
        // The windows to come count what the silent attempts below do.
        let longest = next.windows().iter().map(|window| window.length()).fold(Nanos::ZERO, Nanos::max);
        let remembered = Nanos(self.remembered).max(longest);
        let mut ends = Ends::restore(&self.ends, remembered, downtime, now);
        let mut quarantined: Vec<_> = self.quarantined.iter().copied().map(Nanos).collect();
        quarantined.sort_unstable();
        quarantined.truncate(IN_FLIGHT_MAX as usize);
        let held = Nanos(self.held);
        if held > Nanos::ZERO
            && let Some(ends) = &mut ends
        {
            // Requests of an owner before that one may have arrived, or still arrive, as late as this.
            ends.fill(now.sooner(downtime.less(held)) + held.less(downtime));
        }
        // Lives through the downtime: what was silent then is charged when its quarantine ended.
        let mut drained = held;
        let later = quarantined.partition_point(|left| *left <= downtime);
        for left in quarantined.drain(..later) {
            level.drain_for(rate, left.less(drained));
            drained = drained.max(left);
            level.charge(rate);
            if let Some(ends) = &mut ends {
                ends.push(now.sooner(downtime.less(left)));
            }
        }
        level.drain_for(rate, downtime.less(drained));
        // What was in flight may have arrived as late as now.
        for _ in 0..self.in_flight.min(IN_FLIGHT_MAX) {
            level.charge(rate);
        }
        level.hold(now + held.less(downtime));
        let quarantined = quarantined.into_iter().map(|left| now + left.less(downtime)).collect();
        Some(Limiter { contract, level, ends, open: 0, quarantined })
    }
}
