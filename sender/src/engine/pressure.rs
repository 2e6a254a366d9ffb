//! Pressure: sends less to an endpoint that shows strain than its contract allows, and comes back as it recovers.
//!
//! The lane works at a *share* of its contract, of the rate and of the cap in flight alike. A sign of strain halves
//! it; a streak of successes adds a twentieth of the contract (additive increase, multiplicative decrease). What was halved
//! again and again without a success in between, as in an outage, comes back by doubling with each success, up to the half
//! at which it began. Signs are a 429, latency that rises well above what it was, and a large share of failures. Attempts that started before the
//! last halving belong to the same trouble and do not halve again.
//!
//! Pressure only ever holds back: the contract is the limiter's affair and is neither widened nor charged here.

use std::ops::RangeInclusive;

use super::contract::Contract;
use super::limiter::Ready;
use super::range::{OutOfRange, within};
use super::time::{Instant, Nanos};

/// How slow the slowest pace may be.
pub const SLOWEST: RangeInclusive<Nanos> = Nanos::from_millis(1)..=Nanos::DAY;
/// How many successes in a row may be asked for.
pub const STREAK: RangeInclusive<u32> = 1..=1_000_000;
/// How many times as long answers may have to take.
pub const LATENCY_FACTOR: RangeInclusive<u32> = 2..=1_000;
/// The share of failures, in percent.
pub const FAILURES_PERCENT: RangeInclusive<u32> = 1..=100;
/// The whole contract.
const WHOLE: u32 = 1 << 16;
/// What a clean streak gives back.
const STEP: u32 = WHOLE / 20 + 1;
/// Fewer attempts than this say nothing about a trend.
const SAMPLES_MIN: u8 = 16;

/// What counts as strain, and how far the lane gives way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PressurePolicy {
    slowest: Nanos,
    streak: u32,
    latency_min: Nanos,
    latency_factor: u32,
    failures_percent: u32,
}

impl PressurePolicy {
    /// Never slower than one attempt per `slowest`. `streak` successes in a row give back a twentieth. Latency is strain
    /// above `latency_min` and at `latency_factor` times what it was, failures above `failures_percent`.
    ///
    /// # Errors
    /// When `slowest` is not 1 ms to 1 day, `streak` not 1 to 1,000,000, `latency_factor` not 2 to 1,000 or
    /// `failures_percent` not 1 to 100.
    pub fn new(
        slowest: Nanos,
        streak: u32,
        latency_min: Nanos,
        latency_factor: u32,
        failures_percent: u32,
    ) -> Result<Self, OutOfRange> {
        within("pressure.slowest", slowest, SLOWEST)?;
        within("pressure.streak", streak, STREAK)?;
        within("pressure.latency_factor", latency_factor, LATENCY_FACTOR)?;
        within("pressure.failures_percent", failures_percent, FAILURES_PERCENT)?;
        Ok(Self { slowest, streak, latency_min, latency_factor, failures_percent })
    }
}

impl Default for PressurePolicy {
    /// One attempt a minute at the least; ten successes; half a second and four times what it was; half of all.
    fn default() -> Self {
        Self {
            slowest: Nanos::MINUTE,
            streak: 10,
            latency_min: Nanos::from_millis(500),
            latency_factor: 4,
            failures_percent: 50,
        }
    }
}

/// One subscriber's pressure.
#[derive(Clone, Debug)]
pub struct Pressure {
    share: u32,
    /// Up to there each success doubles the share.
    regain: u32,
    /// Something succeeded since the last halving.
    succeeded: bool,
    /// Successes since the last sign of strain or step up.
    clean: u32,
    halved: Instant,
    started: Instant,
    /// Averages over about the last 8 attempts and the last 64, in nanoseconds.
    latency: (u64, u64),
    /// Average over about the last 32 attempts, `WHOLE` being all. Over 8, an endpoint that fails a third of them at random
    /// would look now and then as if it failed most, and never hold a streak that brings its share back.
    failures: u32,
    seen: u8,
}

impl Default for Pressure {
    fn default() -> Self {
        Self {
            share: WHOLE,
            regain: WHOLE,
            succeeded: true,
            clean: 0,
            halved: Instant::START,
            started: Instant::START,
            latency: (0, 0),
            failures: 0,
            seen: 0,
        }
    }
}

/// What an attempt says about the strain on its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strain {
    /// It took the request.
    None,
    /// It failed.
    Failed,
    /// It said that it was too much: 429.
    Refused,
}

impl Pressure {
    /// How much of the contract the lane works at, in percent, rounded up.
    #[must_use]
    pub fn percent(&self) -> u32 {
        (self.share * 100).div_ceil(WHOLE)
    }

    /// Whether an attempt may start beside the `open` ones under way.
    #[must_use]
    pub fn ready(&self, policy: &PressurePolicy, contract: &Contract, open: u32, now: Instant) -> Ready {
        if self.share == WHOLE {
            return Ready::Now;
        }
        if open >= self.cap(contract) {
            return Ready::OnEvent;
        }
        let next = self.started + self.gap(policy, contract);
        if next <= now { Ready::Now } else { Ready::At(next) }
    }

    /// How many attempts may start within `ahead`.
    #[must_use]
    pub fn room(&self, policy: &PressurePolicy, contract: &Contract, ahead: Nanos) -> u32 {
        if self.share == WHOLE {
            return u32::MAX;
        }
        let gaps = ahead.0 / self.gap(policy, contract).0.max(1);
        u32::try_from(gaps).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// An attempt starts.
    pub fn start(&mut self, now: Instant) {
        self.started = now;
    }

    /// An attempt ended that started at `started`.
    pub fn end(
        &mut self,
        policy: &PressurePolicy,
        contract: &Contract,
        strain: Strain,
        started: Instant,
        now: Instant,
    ) {
        let latency = now.since(started);
        self.average(latency, strain);
        // Each attempt speaks for itself: a success is no sign that others failed, nor a failure that answers are slow, nor a
        // quick answer that those before it were not.
        let is_strained = match strain {
            Strain::Refused => true,
            Strain::Failed => self.is_failing(policy),
            Strain::None => self.is_slowing(policy, latency),
        };
        if is_strained {
            self.clean = 0;
            self.give_way(least(policy, contract), started, now);
        } else if strain == Strain::None {
            self.recover(policy);
        } else {
            self.clean = 0;
        }
    }

    fn give_way(&mut self, least: u32, started: Instant, now: Instant) {
        let answers_the_same_trouble = started < self.halved;
        if !answers_the_same_trouble {
            self.share = (self.share / 2).max(least.min(self.share));
            if std::mem::take(&mut self.succeeded) {
                self.regain = self.share;
            }
            self.halved = now;
        }
    }

    fn recover(&mut self, policy: &PressurePolicy) {
        self.succeeded = true;
        if self.share == WHOLE {
            return;
        }
        if self.share < self.regain {
            self.share = (self.share * 2).min(self.regain);
            return;
        }
        self.clean += 1;
        if self.clean >= policy.streak {
            self.clean = 0;
            self.share = (self.share + STEP).min(WHOLE);
        }
    }

    fn average(&mut self, latency: Nanos, strain: Strain) {
        let toward = |average: u64, sample: u64, weight: u64| average - average / weight + sample / weight;
        let failed = if strain == Strain::None { 0 } else { WHOLE };
        if self.latency == (0, 0) {
            self.latency = (latency.0, latency.0);
        } else if strain == Strain::None {
            // What fails is counted as that: its latency is often a deadline, which says nothing about answers.
            let (quick, slow) = self.latency;
            self.latency = (toward(quick, latency.0, 8), toward(slow, latency.0, 64));
        }
        self.failures = self.failures - self.failures / 32 + failed / 32;
        self.seen = self.seen.saturating_add(1);
    }

    fn is_slowing(&self, policy: &PressurePolicy, latency: Nanos) -> bool {
        let (lately, before) = self.latency;
        let lately = lately.min(latency.0);
        self.seen >= SAMPLES_MIN
            && lately > policy.latency_min.0
            && lately / u64::from(policy.latency_factor) > before
    }

    fn is_failing(&self, policy: &PressurePolicy) -> bool {
        self.seen >= SAMPLES_MIN && self.failures > WHOLE / 100 * policy.failures_percent
    }

    fn cap(&self, contract: &Contract) -> u32 {
        let cap = u64::from(contract.in_flight()) * u64::from(self.share) / u64::from(WHOLE);
        u32::try_from(cap).expect("a share of a u32 is one").max(1)
    }

    fn gap(&self, policy: &PressurePolicy, contract: &Contract) -> Nanos {
        let gap = u128::from(contract.gap().0) * u128::from(WHOLE) / u128::from(self.share);
        Nanos(u64::try_from(gap).unwrap_or(u64::MAX)).min(policy.slowest)
    }
}

/// The share at which the lane makes one attempt per `slowest`: less would only make the way back longer.
fn least(policy: &PressurePolicy, contract: &Contract) -> u32 {
    let share = u128::from(contract.gap().0) * u128::from(WHOLE) / u128::from(policy.slowest.0);
    u32::try_from(share).unwrap_or(WHOLE).clamp(1, WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::contract::{Bucket, Rate};

    const QUICK: Nanos = Nanos::from_millis(20);

    struct Bench {
        pressure: Pressure,
        policy: PressurePolicy,
        contract: Contract,
        now: Instant,
    }

    impl Bench {
        /// Ten a second, eight in flight.
        fn new() -> Self {
            let bucket = Bucket::new(Rate::per_second(10).unwrap(), 20).unwrap();
            let contract = Contract::new(Some(bucket), vec![], 8).unwrap();
            let policy = PressurePolicy::default();
            Self { pressure: Pressure::default(), policy, contract, now: Instant(1) }
        }

        fn attempts(&mut self, count: u32, strain: Strain, latency: Nanos) -> u32 {
            for _ in 0..count {
                self.pressure.start(self.now);
                let started = self.now;
                self.now = self.now + latency;
                self.pressure.end(&self.policy, &self.contract, strain, started, self.now);
            }
            self.pressure.percent()
        }

        fn gap(&self) -> Nanos {
            match self.pressure.ready(&self.policy, &self.contract, 0, self.pressure.started) {
                Ready::At(next) => next.since(self.pressure.started),
                _ => Nanos::ZERO,
            }
        }
    }

    #[test]
    fn a_refusal_halves_rate_and_cap() {
        let mut bench = Bench::new();
        assert_eq!(bench.gap(), Nanos::ZERO);
        assert_eq!(bench.attempts(1, Strain::Refused, QUICK), 50);
        assert_eq!(bench.gap(), Nanos::from_millis(200));
        let later = bench.now + Nanos::SECOND;
        assert_eq!(bench.pressure.ready(&bench.policy, &bench.contract, 3, later), Ready::Now);
        assert_eq!(bench.pressure.ready(&bench.policy, &bench.contract, 4, later), Ready::OnEvent);
    }

    #[test]
    fn refusals_of_one_volley_halve_once() {
        let mut bench = Bench::new();
        let volley = bench.now;
        for later in 1..20 {
            bench.now = volley + Nanos::from_millis(later);
            bench.pressure.end(&bench.policy, &bench.contract, Strain::Refused, volley, bench.now);
        }
        assert_eq!(bench.pressure.percent(), 50);
    }

    #[test]
    fn never_falls_below_one_attempt_per_stated_interval() {
        let mut bench = Bench::new();
        bench.attempts(1_000, Strain::Refused, QUICK);
        assert_eq!(bench.gap(), Nanos::MINUTE);
        let later = bench.now + Nanos::MINUTE;
        assert_eq!(bench.pressure.ready(&bench.policy, &bench.contract, 0, later), Ready::Now);
    }

    #[test]
    fn what_an_outage_took_comes_back_by_doubling_up_to_the_half_at_which_it_began() {
        let mut bench = Bench::new();
        bench.attempts(100, Strain::Refused, QUICK);
        let outage = bench.gap();
        assert_eq!(outage, Nanos::MINUTE);
        // One each minute, thirty seconds, fifteen, …: two minutes in all.
        let mut waited = Nanos::ZERO;
        while bench.pressure.percent() < 50 {
            waited = waited + bench.gap();
            bench.attempts(1, Strain::None, QUICK);
        }
        assert!(waited < Nanos::from_secs(121), "{waited}");
        assert_eq!(bench.attempts(9, Strain::None, QUICK), 50, "from there on by streaks");
        assert_eq!(bench.attempts(1, Strain::None, QUICK), 56);
        // Strain that comes amid successes is no outage: no doubling back into it.
        assert_eq!(bench.attempts(1, Strain::Refused, QUICK), 28);
        assert_eq!(bench.attempts(1, Strain::Refused, QUICK), 14);
        assert_eq!(bench.attempts(1, Strain::None, QUICK), 28);
        assert_eq!(bench.attempts(1, Strain::Refused, QUICK), 14);
        assert_eq!(bench.attempts(9, Strain::None, QUICK), 14);
    }

    #[test]
    fn a_clean_streak_gives_back_a_twentieth_and_at_last_everything() {
        let mut bench = Bench::new();
        bench.attempts(1, Strain::Refused, QUICK);
        assert_eq!(bench.attempts(9, Strain::None, QUICK), 50);
        assert_eq!(bench.attempts(1, Strain::None, QUICK), 56);
        assert_eq!(bench.attempts(90, Strain::None, QUICK), 100);
        assert_eq!(bench.gap(), Nanos::ZERO);
    }

    #[test]
    fn a_failure_breaks_the_streak() {
        let mut bench = Bench::new();
        bench.attempts(1, Strain::Refused, QUICK);
        for _ in 0..20 {
            bench.attempts(9, Strain::None, QUICK);
            assert_eq!(bench.attempts(1, Strain::Failed, QUICK), 50);
        }
    }

    #[test]
    fn rising_latency_is_strain_and_steady_slowness_is_not() {
        let mut bench = Bench::new();
        bench.attempts(100, Strain::None, QUICK);
        assert!(bench.attempts(4, Strain::None, Nanos::from_secs(3)) < 100);
        let mut slow = Bench::new();
        assert_eq!(slow.attempts(200, Strain::None, Nanos::from_secs(3)), 100);
    }

    #[test]
    fn jitter_in_a_quick_endpoint_is_not_strain() {
        let mut bench = Bench::new();
        for n in 0..500 {
            assert_eq!(bench.attempts(1, Strain::None, Nanos::from_millis(1 + n % 90)), 100);
        }
    }

    #[test]
    fn a_large_share_of_failures_is_strain_and_a_small_one_is_not() {
        let mut bench = Bench::new();
        for _ in 0..100 {
            bench.attempts(4, Strain::None, QUICK);
            assert_eq!(bench.attempts(1, Strain::Failed, QUICK), 100);
        }
        assert!(bench.attempts(20, Strain::Failed, QUICK) < 100);
    }

    #[test]
    fn successes_after_an_outage_do_not_halve_again() {
        for latency in [QUICK, Nanos::from_secs(3)] {
            let mut bench = Bench::new();
            bench.attempts(100, Strain::None, QUICK);
            let fallen = bench.attempts(40, Strain::Failed, latency);
            assert!(fallen < 100);
            let mut before = fallen;
            for _ in 0..30 {
                let share = bench.attempts(1, Strain::None, QUICK);
                assert!(share >= before, "fell from {before} to {share} percent on a success");
                before = share;
            }
            assert!(before > fallen);
        }
    }

    #[test]
    fn a_few_answers_that_waited_for_us_do_not_starve_the_lane() {
        let mut bench = Bench::new();
        bench.attempts(100, Strain::None, QUICK);
        let frozen = bench.now;
        bench.now = frozen + Nanos::from_secs(27);
        for _ in 0..4 {
            bench.pressure.end(&bench.policy, &bench.contract, Strain::None, frozen, bench.now);
        }
        assert_eq!(bench.pressure.percent(), 50);
        assert_eq!(bench.attempts(10, Strain::None, QUICK), 56);
    }

    #[test]
    fn bad_figures_name_the_field_the_value_and_the_allowed_range() {
        let policy = |slowest, streak, factor, percent| {
            PressurePolicy::new(slowest, streak, QUICK, factor, percent).map(drop)
        };
        let rows = [
            (policy(Nanos::ZERO, 1, 2, 1), "pressure.slowest is 0ns: allowed is 1ms to 1d"),
            (policy(QUICK, 0, 2, 1), "pressure.streak is 0: allowed is 1 to 1000000"),
            (policy(QUICK, 1, 1, 1), "pressure.latency_factor is 1: allowed is 2 to 1000"),
            (policy(QUICK, 1, 2, 101), "pressure.failures_percent is 101: allowed is 1 to 100"),
        ];
        for (result, message) in rows {
            assert_eq!(result.unwrap_err().to_string(), message);
        }
    }
}
