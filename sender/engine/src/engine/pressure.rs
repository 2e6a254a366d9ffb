//! Pressure lowers the load of an endpoint under strain below its contract, and raises it again as the endpoint
//! recovers.
//!
//! The lane works at a *share* of its contract: of the rate and of the cap in flight alike. Additive increase,
//! multiplicative decrease:
//!
//! - A 429, or too many failures, halves the share.
//! - Latency over the target lowers the share in proportion, by half at most.
//! - A streak of successes within the target adds a twentieth of the contract. Near the target it adds a tenth of that.
//!   Around the share at which latency last exceeded the target it adds a fiftieth.
//! - After halvings without a success in between (an outage), each success doubles the share, up to the half at which
//!   the outage began.
//! - An attempt that began before the last lowering does not lower the share again.
//!
//! The operator sets the target; otherwise it is a multiple of the usual latency of a day ([`super::baseline`]). The
//! average of the last answers is only compared with the target and never becomes one. So an endpoint that slows down
//! under load gets as much as it answers within its target. An endpoint that is slow at any load would get ever less to
//! no purpose: latency alone lowers the share to `latency_least` and no further.
//!
//! Pressure only holds back.

use std::ops::RangeInclusive;

use super::baseline::Baseline;
use super::contract::Contract;
use super::limiter::Ready;
use super::shift::{Journal, Shift, ShiftRecord, Why};
use super::time::{Nanos, StoreTime};
use super::{OutOfRange, within};

pub const SLOWEST: RangeInclusive<Nanos> = Nanos::from_millis(1)..=Nanos::DAY;
pub const STREAK: RangeInclusive<u32> = 1..=1_000_000;
pub const LATENCY_FACTOR: RangeInclusive<u32> = 2..=1_000;
pub const FAILURES_PERCENT: RangeInclusive<u32> = 1..=100;
pub const LATENCY_LEAST: RangeInclusive<u32> = 1..=100;
const WHOLE: u32 = 1 << 16;
const STEP: u32 = WHOLE / 20 + 1;
/// The step up while latency is over 3/4 of the target.
const STEP_NEAR: u32 = STEP / 10;
/// The step up around the share at which latency last exceeded its target: a queue at the endpoint must grow
/// slowly enough to be seen.
const STEP_AT_EDGE: u32 = STEP / 50;
/// How long that share is remembered. The endpoint may manage more by then.
const EDGE_LASTS: Nanos = Nanos::MINUTE.times(10);
/// With fewer attempts a trend is unknown.
const SAMPLES_MIN: u8 = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PressurePolicy {
    slowest: Nanos,
    streak: u32,
    target: Option<Nanos>,
    latency_min: Nanos,
    latency_factor: u32,
    latency_least: u32,
    failures_percent: u32,
}

impl PressurePolicy {
    /// The lane makes at least one attempt per `slowest`. `streak` successes in a row add a twentieth. Latency is
    /// strain above `latency_min` and above `latency_factor` times the usual latency; failures are strain above
    /// `failures_percent`.
    ///
    /// # Errors
    /// Fails unless `slowest` is 1 ms to 1 day, `streak` 1 to 1,000,000, `latency_factor` 2 to 1,000 and
    /// `failures_percent` 1 to 100.
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
        Ok(Self { slowest, streak, latency_min, latency_factor, failures_percent, ..Self::default() })
    }

    /// Latency over `target` is strain; the usual latency does not count.
    #[must_use]
    pub fn with_target(self, target: Option<Nanos>) -> Self {
        Self { target, ..self }
    }

    /// Latency alone never lowers the share below this. Fails unless `percent` is 1 to 100.
    pub fn with_latency_least(self, percent: u32) -> Result<Self, OutOfRange> {
        within("pressure.latency_least", percent, LATENCY_LEAST)?;
        Ok(Self { latency_least: percent, ..self })
    }
}

impl Default for PressurePolicy {
    /// At least one attempt a minute; 10 successes; 500 ms and 4 times the usual latency, down to 10 %; 50 %
    /// failures.
    fn default() -> Self {
        Self {
            slowest: Nanos::MINUTE,
            streak: 10,
            target: None,
            latency_min: Nanos::from_millis(500),
            latency_factor: 4,
            latency_least: 10,
            failures_percent: 50,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Pressure {
    share: u32,
    /// The share in the lane's last record.
    recorded: u32,
    /// Below this share each success doubles it.
    regain: u32,
    /// The middle between the share at which latency last exceeded its target and the share after that
    /// lowering. 0 if there was none.
    edge: u32,
    /// An attempt succeeded since the last halving or latency lowering, so the next one begins a new trouble.
    succeeded: bool,
    /// Successes since the last sign of strain or step up.
    clean: u32,
    lowered: StoreTime,
    started: StoreTime,
    /// Average over about the last 8 answers, in nanoseconds.
    lately: u64,
    baseline: Baseline,
    /// Average over about the last 32 attempts; `WHOLE` means all failed. Over 8, a third of random failures would
    /// often look like an outage.
    failures: u32,
    seen: u8,
    journal: Journal,
}

impl Default for Pressure {
    fn default() -> Self {
        Self::new(Baseline::default())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strain {
    None,
    Failed,
    Refused,
}

impl Pressure {
    /// Starts at the whole contract, with the known usual latency.
    #[must_use]
    pub fn new(baseline: Baseline) -> Self {
        Self {
            share: WHOLE,
            recorded: WHOLE,
            regain: WHOLE,
            edge: 0,
            succeeded: true,
            clean: 0,
            lowered: StoreTime::START,
            started: StoreTime::START,
            lately: 0,
            baseline,
            failures: 0,
            seen: 0,
            journal: Journal::default(),
        }
    }

    /// Rounded up.
    #[must_use]
    pub fn percent(&self) -> u32 {
        percent(self.share)
    }

    #[must_use]
    pub fn last_shift(&self) -> Option<Shift> {
        self.journal.last()
    }

    /// The next change to report to operators.
    pub fn take_news(&mut self) -> Option<Shift> {
        self.journal.take_news()
    }

    #[must_use]
    pub const fn baseline(&self) -> &Baseline {
        &self.baseline
    }

    /// The latency above which the share is lowered. Nothing before enough answers came.
    #[must_use]
    pub fn target(&self, policy: &PressurePolicy) -> Option<Nanos> {
        let usual = || self.baseline.get().map(|it| it.times(u64::from(policy.latency_factor)));
        policy.target.or_else(|| usual().map(|it| it.max(policy.latency_min)))
    }

    /// When an attempt may start beside the `open` ones.
    #[must_use]
    pub fn ready(&self, policy: &PressurePolicy, contract: &Contract, open: u32, now: StoreTime) -> Ready {
        if self.share == WHOLE {
            return Ready::Now;
        }
        if open >= self.cap(contract) {
            return Ready::OnEvent;
        }
        let next = self.started + self.gap(policy, contract);
        if next <= now { Ready::Now } else { Ready::At(next) }
    }

    #[must_use]
    pub fn room(&self, policy: &PressurePolicy, contract: &Contract, ahead: Nanos) -> u32 {
        if self.share == WHOLE {
            return u32::MAX;
        }
        let gaps = ahead.0 / self.gap(policy, contract).0.max(1);
        u32::try_from(gaps).unwrap_or(u32::MAX).saturating_add(1)
    }

    pub fn start(&mut self, now: StoreTime) {
        self.started = now;
    }

    /// An operator asked for it: an attempt may start at once, the share is at least half, one good answer restores the
    /// whole contract, and earlier answers no longer count.
    pub fn start_over(&mut self, now: StoreTime) {
        let before = std::mem::take(self);
        let (share, recorded) = (before.share, before.recorded);
        *self = Self { share, recorded, lowered: now, journal: before.journal, ..Self::new(before.baseline) };
        self.shift(share.max(WHOLE / 2), Why::Asked, now);
    }

    /// The present share for other processes. Nothing at the whole contract.
    pub(super) fn record(&mut self, now: StoreTime) -> Option<ShiftRecord> {
        self.recorded = self.share;
        let last = self.last_shift().filter(|_| self.percent() < 100)?;
        Some(ShiftRecord::new(last, now))
    }

    /// The record names another half: few records, and none far off.
    fn is_far_from_record(&self) -> bool {
        let Self { share, recorded, .. } = *self;
        share != recorded
            && (share == WHOLE || recorded == WHOLE || share <= recorded / 2 || share / 2 >= recorded)
    }

    /// Returns true if the state that a record keeps has changed.
    pub fn end(
        &mut self,
        policy: &PressurePolicy,
        contract: &Contract,
        strain: Strain,
        started: StoreTime,
        now: StoreTime,
    ) -> bool {
        let latency = now.since(started);
        let target = self.target(policy);
        self.average(latency, strain);
        let lowered = Lowering { started, now };
        // A success proves no failures, a failure proves no latency, and a quick answer does not clear the slow ones
        // before it.
        match strain {
            Strain::Refused => self.halve(Why::Refused, least(policy, contract), lowered),
            Strain::Failed if self.is_failing(policy) => {
                let why = Why::Failures { percent: self.failed_percent() };
                self.halve(why, least(policy, contract), lowered);
            }
            Strain::Failed => self.clean = 0,
            Strain::None => match target {
                Some(target) if latency > target => self.slow(policy, latency, target, lowered),
                target => self.recover(policy, WHOLE, self.step_up(latency, target, now), now),
            },
        }
        let is_usual_new = strain == Strain::None && self.baseline.answered(latency, now);
        is_usual_new || self.is_far_from_record()
    }

    fn halve(&mut self, why: Why, least: u32, lowering: Lowering) {
        self.clean = 0;
        if self.answers_the_same_trouble(lowering) {
            return;
        }
        let share = (self.share / 2).max(least.min(self.share));
        if std::mem::take(&mut self.succeeded) {
            self.regain = share;
        }
        self.lower(share, why, lowering);
    }

    fn slow(&mut self, policy: &PressurePolicy, latency: Nanos, target: Nanos, lowering: Lowering) {
        let floor = WHOLE * policy.latency_least / 100;
        if self.share < floor {
            // A cause other than latency took the share below the floor.
            return self.recover(policy, floor, STEP, lowering.now);
        }
        self.clean = 0;
        let lately = Nanos(self.lately).min(latency);
        if self.seen < SAMPLES_MIN || lately <= target || self.answers_the_same_trouble(lowering) {
            return;
        }
        let share = u128::from(self.share) * u128::from(target.0) / u128::from(lately.0);
        let share = u32::try_from(share).unwrap_or(WHOLE).max(self.share / 2).max(floor);
        if std::mem::take(&mut self.succeeded) {
            self.edge = self.share.midpoint(share);
        }
        // The lane found this share by probing: no doubling past it.
        self.regain = self.regain.min(share);
        self.lower(share, Why::Latency { lately, target }, lowering);
    }

    fn answers_the_same_trouble(&self, lowering: Lowering) -> bool {
        lowering.started < self.lowered
    }

    fn lower(&mut self, share: u32, why: Why, Lowering { now, .. }: Lowering) {
        self.lowered = now;
        self.shift(share, why, now);
    }

    /// `latency` is the last answer's.
    fn step_up(&self, latency: Nanos, target: Option<Nanos>, now: StoreTime) -> u32 {
        let around_edge = self.edge.saturating_sub(2 * STEP)..=self.edge + STEP;
        let is_recent = self.edge > 0 && now.since(self.lowered) < EDGE_LASTS;
        if is_recent && around_edge.contains(&self.share) {
            STEP_AT_EDGE
        } else if target.is_some_and(|target| self.lately.min(latency.0) > target.0 / 4 * 3) {
            STEP_NEAR
        } else {
            STEP
        }
    }

    fn recover(&mut self, policy: &PressurePolicy, most: u32, step: u32, now: StoreTime) {
        self.succeeded = true;
        if self.share == WHOLE {
            return;
        }
        if self.share < self.regain {
            let share = (self.share * 2).min(self.regain).min(most);
            return self.shift(share, Why::Recovered, now);
        }
        self.clean += 1;
        if self.clean >= policy.streak {
            self.clean = 0;
            self.shift((self.share + step).min(most), Why::Recovered, now);
        }
    }

    fn shift(&mut self, share: u32, why: Why, now: StoreTime) {
        let shift = Shift { at: now, from: percent(self.share), to: percent(share), why };
        if share != self.share {
            self.share = share;
            self.journal.report_change(shift, share == WHOLE);
        }
    }

    fn average(&mut self, latency: Nanos, strain: Strain) {
        let failed = if strain == Strain::None { 0 } else { WHOLE };
        // The latency of a failure is often a deadline, which says nothing about answers.
        if strain == Strain::None {
            let before = if self.lately == 0 { latency.0 } else { self.lately };
            self.lately = before - before / 8 + latency.0 / 8;
        }
        self.failures = averaged(self.failures, failed);
        self.seen = self.seen.saturating_add(1);
    }

    fn is_failing(&self, policy: &PressurePolicy) -> bool {
        self.seen >= SAMPLES_MIN && self.failures > WHOLE / 100 * policy.failures_percent
    }

    /// The average begins at 0, so the first failures would count less than they are.
    fn failed_percent(&self) -> u32 {
        let all_failed = (0..self.seen).fold(0, |sum, _| averaged(sum, WHOLE)).max(1);
        self.failures * 100 / all_failed
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

#[derive(Clone, Copy)]
struct Lowering {
    started: StoreTime,
    now: StoreTime,
}

const fn averaged(before: u32, next: u32) -> u32 {
    before - before / 32 + next / 32
}

/// A share of [`WHOLE`], rounded up.
const fn percent(share: u32) -> u32 {
    (share * 100).div_ceil(WHOLE)
}

/// A lower share would only make the way back longer.
fn least(policy: &PressurePolicy, contract: &Contract) -> u32 {
    let share = u128::from(contract.gap().0) * u128::from(WHOLE) / u128::from(policy.slowest.0);
    u32::try_from(share).unwrap_or(WHOLE).clamp(1, WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::contract::{Bucket, Rate};

    const QUICK: Nanos = Nanos::from_millis(20);

    #[derive(Clone)]
    struct Bench {
        pressure: Pressure,
        policy: PressurePolicy,
        contract: Contract,
        now: StoreTime,
    }

    impl Bench {
        /// 10/s, 8 in flight.
        fn new() -> Self {
            let bucket = Bucket::new(Rate::per_second(10).unwrap(), 20).unwrap();
            let contract = Contract::new(Some(bucket), vec![], 8).unwrap();
            let policy = PressurePolicy::default();
            Self { pressure: Pressure::default(), policy, contract, now: StoreTime(1) }
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
    fn after_an_outage_the_rate_doubles_up_to_half_of_its_earlier_rate() {
        let mut bench = Bench::new();
        bench.attempts(100, Strain::Refused, QUICK);
        let outage = bench.gap();
        assert_eq!(outage, Nanos::MINUTE);
        // One a minute, then 30 s, 15 s, …: two minutes in all.
        let mut waited = Nanos::ZERO;
        while bench.pressure.percent() < 50 {
            waited = waited + bench.gap();
            bench.attempts(1, Strain::None, QUICK);
        }
        assert!(waited < Nanos::from_secs(121), "{waited}");
        assert_eq!(bench.attempts(9, Strain::None, QUICK), 50, "from there on by streaks");
        assert_eq!(bench.attempts(1, Strain::None, QUICK), 56);
        // Strain after a success is no outage.
        assert_eq!(bench.attempts(1, Strain::Refused, QUICK), 28);
        assert_eq!(bench.attempts(1, Strain::Refused, QUICK), 14);
        assert_eq!(bench.attempts(1, Strain::None, QUICK), 28);
        assert_eq!(bench.attempts(1, Strain::Refused, QUICK), 14);
        assert_eq!(bench.attempts(9, Strain::None, QUICK), 14);
    }

    #[test]
    fn an_operators_retry_tries_at_once_and_one_good_answer_ends_the_throttle() {
        let mut bench = Bench::new();
        bench.attempts(100, Strain::Refused, QUICK);
        assert_eq!(bench.pressure.percent(), 1);
        bench.pressure.start_over(bench.now);
        assert_eq!(bench.pressure.percent(), 50);
        assert_eq!(bench.pressure.ready(&bench.policy, &bench.contract, 3, bench.now), Ready::Now);
        let last = bench.pressure.last_shift().unwrap();
        assert_eq!((last.from, last.to, last.why), (1, 50, Why::Asked));
        let mut still_ill = bench.clone();
        assert_eq!(still_ill.attempts(1, Strain::Refused, QUICK), 25);
        assert_eq!(bench.attempts(1, Strain::None, QUICK), 100);
        bench.pressure.start_over(bench.now);
        assert_eq!(bench.pressure.percent(), 100, "a retry only raises");
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
    fn latency_over_what_is_usual_is_strain_for_as_long_as_it_lasts_and_usual_slowness_is_not() {
        let mut bench = Bench::new();
        bench.attempts(100, Strain::None, QUICK);
        assert!(bench.attempts(4, Strain::None, Nanos::from_secs(3)) < 100);
        for _ in 0..100 {
            assert_eq!(
                bench.attempts(10, Strain::None, Nanos::from_secs(3)).max(11),
                11,
                "a tenth, and no less"
            );
        }
        let why = bench.pressure.last_shift().map(|shift| shift.why);
        assert!(
            matches!(why, Some(Why::Latency { target, .. }) if target == Nanos::from_millis(500)),
            "{why:?}"
        );
        let mut slow = Bench::new();
        assert_eq!(slow.attempts(200, Strain::None, Nanos::from_secs(3)), 100);
    }

    #[test]
    fn latency_lowers_the_share_by_as_much_as_the_target_is_exceeded() {
        let target = Nanos::from_millis(100);
        for (latency, share) in [(100, 100), (125, 80), (160, 63), (200, 50), (1_000, 50)] {
            let mut bench = Bench::new();
            bench.policy = bench.policy.with_target(Some(target));
            bench.attempts(15, Strain::None, Nanos::from_millis(latency));
            assert_eq!(bench.pressure.percent(), 100, "so few say nothing");
            assert_eq!(bench.attempts(1, Strain::None, Nanos::from_millis(latency)), share, "{latency} ms");
        }
    }

    #[test]
    fn only_answers_within_the_target_raise_the_share_and_near_it_by_a_tenth_of_a_step() {
        let [quick, near, over] = [70, 80, 101].map(Nanos::from_millis);
        let mut bench = Bench::new();
        bench.policy = bench.policy.with_target(Some(Nanos::from_millis(100)));
        bench.attempts(1, Strain::Refused, quick);
        for _ in 0..20 {
            assert_eq!(bench.attempts(9, Strain::None, quick), 50);
            assert_eq!(bench.attempts(1, Strain::None, over), 50);
        }
        assert_eq!(bench.attempts(100, Strain::None, near), 55);
        assert_eq!(bench.attempts(20, Strain::None, near), 56);
    }

    #[test]
    fn around_the_share_at_which_latency_exceeded_the_target_a_streak_gives_back_a_thousandth() {
        let [quick, over] = [20, 125].map(Nanos::from_millis);
        let mut bench = Bench::new();
        bench.policy = bench.policy.with_target(Some(Nanos::from_millis(100)));
        bench.attempts(100, Strain::None, quick);
        bench.attempts(2, Strain::Refused, quick);
        while bench.attempts(10, Strain::None, quick) < 60 {}
        let exceeded = bench.pressure.share;
        while bench.pressure.share == exceeded {
            bench.attempts(1, Strain::None, over);
        }
        let edge = bench.pressure.edge;
        assert!(bench.pressure.share < edge && edge < exceeded, "{:?}", bench.pressure);
        bench.attempts(3, Strain::None, over);
        assert_eq!(bench.pressure.edge, edge, "what was answered late meanwhile is of the same trouble");
        while bench.pressure.share + 2 * STEP < edge {
            bench.attempts(10, Strain::None, quick);
        }
        let at_edge = bench.clone();
        let given_back = |bench: &mut Bench| {
            let before = bench.pressure.share;
            bench.attempts(10, Strain::None, quick);
            bench.pressure.share - before
        };
        while bench.pressure.share <= edge + STEP {
            assert_eq!(given_back(&mut bench), STEP_AT_EDGE);
        }
        assert_eq!(given_back(&mut bench), STEP, "the endpoint can do more than it could");
        let mut bench = at_edge;
        bench.now = bench.pressure.lowered + EDGE_LASTS;
        assert_eq!(given_back(&mut bench), STEP, "it may be able to do more by now");
    }

    #[test]
    fn after_refusals_the_rate_recovers_to_the_latency_floor_despite_slow_answers() {
        let mut bench = Bench::new();
        bench.policy = bench.policy.with_target(Some(QUICK));
        bench.attempts(100, Strain::Refused, QUICK);
        assert_eq!(bench.gap(), Nanos::MINUTE);
        assert_eq!(bench.attempts(100, Strain::None, Nanos::SECOND), 10);
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
    fn the_share_of_failures_is_right_from_the_first_attempts_on() {
        let mut bench = Bench::new();
        bench.attempts(31, Strain::Failed, QUICK);
        assert_eq!(bench.pressure.last_shift().unwrap().why, Why::Failures { percent: 100 });
        let mut bench = Bench::new();
        for number in 0..60 {
            let strain = if number % 3 == 0 { Strain::None } else { Strain::Failed };
            bench.attempts(1, strain, QUICK);
        }
        let why = bench.pressure.last_shift().unwrap().why;
        assert!(matches!(why, Why::Failures { percent: 60..75 }), "{why}");
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
            (policy(Nanos::ZERO, 1, 2, 1), "pressure.slowest is 0ns; expected 1ms to 1d"),
            (policy(QUICK, 0, 2, 1), "pressure.streak is 0; expected 1 to 1000000"),
            (policy(QUICK, 1, 1, 1), "pressure.latency_factor is 1; expected 2 to 1000"),
            (policy(QUICK, 1, 2, 101), "pressure.failures_percent is 101; expected 1 to 100"),
        ];
        let least = PressurePolicy::default().with_latency_least(0).unwrap_err();
        assert_eq!(least.to_string(), "pressure.latency_least is 0; expected 1 to 100");
        for (result, message) in rows {
            assert_eq!(result.unwrap_err().to_string(), message);
        }
    }
}
