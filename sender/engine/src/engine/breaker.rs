//! While closed it counts failures in a row. At the threshold it opens for a cooldown and then lets one attempt
//! through, the probe. If the probe fails, the breaker opens for twice as long. Any success closes it. An operator may
//! ask for the probe before the end of the cooldown; its failure repeats the cooldown and doubles nothing. An endpoint
//! with a slow 95th percentile gets a lower threshold, because each failure may cost a whole deadline.
//!
//! While it is open, each failed probe adds the time since the failure before it, at most an hour or the longest
//! cooldown: silence counts for little. A success or an operator begins anew. At a limit the lane is disabled.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::limiter::Ready;
use super::time::{Nanos, StoreTime};
use super::{OutOfRange, within};

pub const FAILURES_MAX: u32 = 1_000_000;
pub const COOLDOWN_MIN: Nanos = Nanos::from_millis(1);
pub const COOLDOWN_MAX: Nanos = Nanos::DAY;
/// With fewer answers the 95th percentile is unknown.
const SAMPLES_MIN: u32 = 20;
pub const DISABLE_AFTER: Nanos = Nanos::DAY.times(5);
pub const DISABLE_AFTER_MAX: Nanos = Nanos::DAY.times(365);
const GAP_MAX: Nanos = Nanos::HOUR;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerPolicy {
    failures: u32,
    failures_when_slow: u32,
    slow: Nanos,
    cooldown: Nanos,
    cooldown_max: Nanos,
    disable_after: Nanos,
}

impl BreakerPolicy {
    /// Opens after `failures` in a row, or after `failures_when_slow` if the 95th percentile of latency is over
    /// `slow`. The cooldown doubles up to `cooldown_max`.
    ///
    /// # Errors
    /// Fails unless `failures` is 1 to 1,000,000, `failures_when_slow` is 1 to `failures`, `cooldown` is 1 ms to
    /// `cooldown_max`, and `cooldown_max` is at most 1 day.
    pub fn new(
        failures: u32,
        failures_when_slow: u32,
        slow: Nanos,
        cooldown: Nanos,
        cooldown_max: Nanos,
    ) -> Result<Self, OutOfRange> {
        within("breaker.failures", failures, 1..=FAILURES_MAX)?;
        within("breaker.failures_when_slow", failures_when_slow, 1..=failures)?;
        within("breaker.cooldown_max", cooldown_max, COOLDOWN_MIN..=COOLDOWN_MAX)?;
        within("breaker.cooldown", cooldown, COOLDOWN_MIN..=cooldown_max)?;
        Ok(Self { failures, failures_when_slow, slow, cooldown, cooldown_max, disable_after: DISABLE_AFTER })
    }

    /// Zero never disables a lane. At most 365 days.
    pub fn with_disable_after(self, disable_after: Nanos) -> Result<Self, OutOfRange> {
        within("breaker.disable_after", disable_after, Nanos::ZERO..=DISABLE_AFTER_MAX)?;
        Ok(Self { disable_after, ..self })
    }
}

impl Default for BreakerPolicy {
    /// 10 failures, 5 when the 95th percentile is over 5 s; 5 minutes, up to 1 hour; 5 days.
    fn default() -> Self {
        Self {
            failures: 10,
            failures_when_slow: 5,
            slow: Nanos::from_secs(5),
            cooldown: Nanos::from_secs(300),
            cooldown_max: Nanos::HOUR,
            disable_after: DISABLE_AFTER,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Breaker {
    state: State,
    /// While open.
    failing: Failing,
    latencies: SlowTally,
}

#[derive(Clone, Copy, Debug, Default)]
struct Failing {
    length: Nanos,
    since: StoreTime,
}

impl Failing {
    const fn new(now: StoreTime) -> Self {
        Self { length: Nanos::ZERO, since: now }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disabled {
    pub after: Nanos,
    pub last: Cause,
}

impl fmt::Display for Disabled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing but failures for {}, last: {}", self.after, self.last)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        opened: Opened,
        until: StoreTime,
        cooldown: Nanos,
        asked: bool,
    },
    /// `asked`: an operator asked for the probe.
    Probing {
        opened: Opened,
        cooldown: Nanos,
        asked: bool,
    },
}

impl Default for State {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Closed,
    /// Lets no attempt through before `until`. The first one after it is the probe.
    Open {
        opened: Opened,
        until: StoreTime,
    },
    Probing {
        opened: Opened,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// When the breaker opened. Failed probes leave it.
    pub since: StoreTime,
    pub cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    Answered(u16),
    Unsent,
    Silent,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered(status) => write!(f, "it answered {status}"),
            Self::Unsent => f.write_str("nothing could be sent to it"),
            Self::Silent => f.write_str("it did not answer"),
        }
    }
}

impl Standing {
    #[must_use]
    pub const fn is_open(self) -> bool {
        !matches!(self, Self::Closed)
    }

    /// Operators hear when a breaker opens, closes, or stays open for another cooldown.
    pub(super) fn is_news_after(self, before: Self, now: StoreTime) -> bool {
        match self {
            Self::Closed => before.is_open(),
            Self::Open { until, .. } => self != before && until > now,
            Self::Probing { .. } => false,
        }
    }
}

/// True for an attempt that an open breaker let through to try the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsProbe(pub bool);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Well,
    Ill(Cause),
    /// Neither: the endpoint answered with a time to come back.
    Busy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerRecord {
    /// Nanoseconds since the breaker opened.
    open_for: u64,
    cause: Cause,
    /// Nanoseconds until the breaker lets a probe through.
    remaining: u64,
    cooldown: u64,
    #[serde(default)]
    failing_for: u64,
    #[serde(default)]
    failed_ago: u64,
}

impl BreakerRecord {
    fn new(opened: Opened, remaining: Nanos, cooldown: Nanos, failing: Failing, now: StoreTime) -> Self {
        let Opened { since, cause } = opened;
        Self {
            open_for: now.since(since).0,
            cause,
            remaining: remaining.0,
            cooldown: cooldown.0,
            failing_for: failing.length.0,
            failed_ago: now.since(failing.since).0,
        }
    }

    /// The state that a record taken at `at` names.
    pub(super) fn standing(self, at: StoreTime) -> Standing {
        Standing::Open { opened: self.opened(at, Nanos::ZERO), until: at + Nanos(self.remaining) }
    }

    fn opened(self, now: StoreTime, downtime: Nanos) -> Opened {
        Opened { since: now.sooner(Nanos(self.open_for) + downtime), cause: self.cause }
    }
}

impl Breaker {
    /// Continues from another process's record, taken at least `downtime` ago.
    #[must_use]
    pub fn restore(
        record: Option<BreakerRecord>,
        policy: &BreakerPolicy,
        downtime: Nanos,
        now: StoreTime,
    ) -> Self {
        let failing = record.map_or_else(Failing::default, |record| Failing {
            length: Nanos(record.failing_for),
            since: now.sooner(Nanos(record.failed_ago) + downtime),
        });
        let state = record.map_or_else(State::default, |record| State::Open {
            opened: record.opened(now, downtime),
            until: now + Nanos(record.remaining).min(policy.cooldown_max).less(downtime),
            cooldown: Nanos(record.cooldown).clamp(policy.cooldown, policy.cooldown_max),
            asked: false,
        });
        Self { state, failing, latencies: SlowTally::default() }
    }

    /// The state for the next process. Nothing while the breaker is closed.
    #[must_use]
    pub fn record(&self, now: StoreTime) -> Option<BreakerRecord> {
        match self.state {
            State::Closed { .. } => None,
            State::Open { opened, until, cooldown, .. } => {
                Some(BreakerRecord::new(opened, until.since(now), cooldown, self.failing, now))
            }
            State::Probing { opened, cooldown, .. } => {
                Some(BreakerRecord::new(opened, Nanos::ZERO, cooldown, self.failing, now))
            }
        }
    }

    #[must_use]
    pub fn ready(&self, now: StoreTime) -> Ready {
        match self.state {
            State::Closed { .. } => Ready::Now,
            State::Open { until, .. } if until <= now => Ready::Now,
            State::Open { until, .. } => Ready::At(until),
            State::Probing { .. } => Ready::OnEvent,
        }
    }

    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed { .. })
    }

    #[must_use]
    pub fn standing(&self) -> Standing {
        match self.state {
            State::Closed { .. } => Standing::Closed,
            State::Open { opened, until, .. } => Standing::Open { opened, until },
            State::Probing { opened, .. } => Standing::Probing { opened },
        }
    }

    /// Starts an attempt. Pass the result to [`Self::end`].
    pub fn start(&mut self) -> IsProbe {
        if let State::Open { opened, cooldown, asked, .. } = self.state {
            self.state = State::Probing { opened, cooldown, asked };
            return IsProbe(true);
        }
        IsProbe(false)
    }

    /// Ends the cooldown for an operator, so that the next attempt is the probe. Earlier failures no longer count.
    pub fn probe_now(&mut self, now: StoreTime) {
        self.failing = Failing::new(now);
        match &mut self.state {
            State::Open { until, asked, .. } => (*until, *asked) = ((*until).min(now), true),
            State::Probing { asked, .. } => *asked = true,
            State::Closed { .. } => {}
        }
    }

    /// Ends an attempt. Returns true if [`Self::record`] has changed.
    pub fn end(
        &mut self,
        policy: &BreakerPolicy,
        probe: IsProbe,
        health: Health,
        latency: Nanos,
        now: StoreTime,
    ) -> bool {
        self.latencies.count(latency > policy.slow);
        let before = self.state;
        self.state = match (before, health) {
            (_, Health::Well) => State::default(),
            (State::Closed { failures }, Health::Ill(cause)) if failures + 1 >= self.threshold(policy) => {
                let cooldown = policy.cooldown;
                self.failing = Failing::new(now);
                let opened = Opened { since: now, cause };
                State::Open { opened, until: now + cooldown, cooldown, asked: false }
            }
            (State::Closed { failures }, Health::Ill(_)) => State::Closed { failures: failures + 1 },
            (State::Probing { opened, cooldown, asked }, Health::Ill(cause)) if probe.0 => {
                let cooldown = if asked { cooldown } else { cooldown.times(2).min(policy.cooldown_max) };
                let gap = now.since(self.failing.since).min(policy.cooldown_max.max(GAP_MAX));
                self.failing = Failing { length: self.failing.length + gap, since: now };
                State::Open {
                    opened: Opened { cause, ..opened },
                    until: now + cooldown,
                    cooldown,
                    asked: false,
                }
            }
            // The endpoint named the time of the next request itself: that request is the next probe.
            (State::Probing { opened, cooldown, asked }, Health::Busy) if probe.0 => {
                State::Open { opened, until: now, cooldown, asked }
            }
            // Attempts that began before the breaker opened show nothing new.
            (state, Health::Ill(_) | Health::Busy) => state,
        };
        let was_open = !matches!(before, State::Closed { .. });
        before != self.state && (was_open || self.is_open())
    }

    /// After a failed probe: whether the lane must be disabled.
    #[must_use]
    pub fn disables(&self, policy: &BreakerPolicy) -> Option<Disabled> {
        let BreakerPolicy { disable_after: after, .. } = *policy;
        let State::Open { opened, .. } = self.state else { return None };
        (after > Nanos::ZERO && self.failing.length >= after)
            .then_some(Disabled { after, last: opened.cause })
    }

    fn threshold(&self, policy: &BreakerPolicy) -> u32 {
        if self.latencies.p95_is_slow() { policy.failures_when_slow } else { policy.failures }
    }
}

/// One bit for each of the last 128 attempts: set if it was slow.
#[derive(Clone, Debug, Default)]
struct SlowTally {
    slow: [u64; 2],
    seen: u8,
}

impl SlowTally {
    fn count(&mut self, slow: bool) {
        self.slow = [self.slow[0] << 1 | u64::from(slow), self.slow[1] << 1 | self.slow[0] >> 63];
        self.seen = (self.seen + 1).min(128);
    }

    fn p95_is_slow(&self) -> bool {
        let slow = self.slow[0].count_ones() + self.slow[1].count_ones();
        u32::from(self.seen) >= SAMPLES_MIN && slow * 20 > u32::from(self.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ILL: Health = Health::Ill(Cause::Answered(500));
    const QUICK: Nanos = Nanos::from_millis(50);
    const LATE: Nanos = Nanos::from_secs(6);

    struct Bench {
        breaker: Breaker,
        policy: BreakerPolicy,
        now: StoreTime,
    }

    impl Bench {
        fn new() -> Self {
            Self { breaker: Breaker::default(), policy: BreakerPolicy::default(), now: StoreTime::START }
        }

        fn attempt(&mut self, health: Health, latency: Nanos) {
            assert_eq!(self.breaker.ready(self.now), Ready::Now);
            let probe = self.breaker.start();
            self.now = self.now + latency;
            self.breaker.end(&self.policy, probe, health, latency, self.now);
        }

        fn fail_until_open(&mut self, latency: Nanos) -> u32 {
            (1..)
                .find(|_| {
                    self.attempt(ILL, latency);
                    self.breaker.is_open()
                })
                .unwrap()
        }

        fn cooldown(&mut self) -> Nanos {
            let Ready::At(until) = self.breaker.ready(self.now) else { panic!("not open") };
            let length = until.since(self.now);
            self.now = until;
            length
        }
    }

    #[test]
    fn opens_after_ten_failures_in_a_row() {
        let mut bench = Bench::new();
        for _ in 0..9 {
            bench.attempt(ILL, QUICK);
        }
        bench.attempt(Health::Well, QUICK);
        assert_eq!(bench.fail_until_open(QUICK), 10);
    }

    #[test]
    fn the_cooldown_doubles_with_each_failed_probe_up_to_an_hour_and_starts_over_after_a_success() {
        let mut bench = Bench::new();
        bench.fail_until_open(QUICK);
        let mut cooldowns = vec![];
        for _ in 0..6 {
            cooldowns.push(bench.cooldown().0 / Nanos::SECOND.0);
            bench.attempt(ILL, QUICK);
        }
        assert_eq!(cooldowns, [300, 600, 1_200, 2_400, 3_600, 3_600]);
        bench.cooldown();
        bench.attempt(Health::Well, QUICK);
        assert_eq!(bench.fail_until_open(QUICK), 10);
        assert_eq!(bench.cooldown(), Nanos::from_secs(300));
    }

    #[test]
    fn an_operator_may_have_the_probe_at_once_and_its_failure_does_not_double_the_cooldown() {
        let mut bench = Bench::new();
        bench.fail_until_open(QUICK);
        for _ in 0..3 {
            bench.breaker.probe_now(bench.now);
            let before = bench.breaker.record(bench.now);
            bench.breaker.probe_now(bench.now);
            assert_eq!(bench.breaker.record(bench.now), before, "a second request changes nothing");
            bench.attempt(ILL, QUICK);
            assert_eq!(bench.breaker.ready(bench.now), Ready::At(bench.now + Nanos::from_secs(300)));
        }
        assert_eq!(bench.cooldown(), Nanos::from_secs(300));
        bench.attempt(ILL, QUICK);
        assert_eq!(bench.cooldown(), Nanos::from_secs(600));
    }

    #[test]
    fn a_probe_that_an_operator_asked_for_doubles_nothing_however_late_the_request_was() {
        let mut bench = Bench::new();
        bench.fail_until_open(QUICK);
        assert_eq!(bench.cooldown(), Nanos::from_secs(300));
        bench.breaker.probe_now(bench.now);
        bench.attempt(ILL, QUICK);
        assert_eq!(bench.cooldown(), Nanos::from_secs(300));
        let probe = bench.breaker.start();
        bench.breaker.probe_now(bench.now);
        bench.breaker.end(&bench.policy, probe, ILL, QUICK, bench.now);
        assert_eq!(bench.cooldown(), Nanos::from_secs(300));
    }

    #[test]
    fn a_probe_for_an_operator_is_one_and_closes_the_breaker() {
        let mut bench = Bench::new();
        bench.breaker.probe_now(bench.now);
        assert_eq!(bench.breaker.standing(), Standing::Closed);
        bench.fail_until_open(QUICK);
        bench.breaker.probe_now(bench.now);
        let probe = bench.breaker.start();
        assert_eq!(probe, IsProbe(true));
        bench.breaker.probe_now(bench.now);
        assert_eq!(bench.breaker.ready(bench.now), Ready::OnEvent);
        bench.breaker.end(&bench.policy, probe, Health::Well, QUICK, bench.now);
        assert_eq!(bench.breaker.standing(), Standing::Closed);
    }

    #[test]
    fn lets_one_probe_through_at_a_time() {
        let mut bench = Bench::new();
        bench.fail_until_open(QUICK);
        bench.cooldown();
        assert_eq!(bench.breaker.start(), IsProbe(true));
        assert_eq!(bench.breaker.ready(bench.now + Nanos::DAY), Ready::OnEvent);
    }

    #[test]
    fn stragglers_from_before_it_opened_neither_prolong_nor_probe() {
        let mut bench = Bench::new();
        let straggler = bench.breaker.start();
        bench.fail_until_open(QUICK);
        let until = bench.breaker.ready(bench.now);
        bench.breaker.end(&bench.policy, straggler, ILL, QUICK, bench.now);
        assert_eq!(bench.breaker.ready(bench.now), until);
        bench.cooldown();
        bench.breaker.start();
        bench.breaker.end(&bench.policy, straggler, ILL, QUICK, bench.now);
        assert_eq!(bench.breaker.ready(bench.now), Ready::OnEvent, "the probe is still under way");
    }

    #[test]
    fn a_slow_endpoint_is_allowed_half_the_failures() {
        let mut bench = Bench::new();
        for _ in 0..19 {
            bench.attempt(Health::Well, LATE);
        }
        assert_eq!(bench.fail_until_open(LATE), 5);
    }

    #[test]
    fn too_few_slow_answers_say_nothing() {
        assert_eq!(Bench::new().fail_until_open(LATE), 10);
    }

    #[test]
    fn one_slow_answer_in_twenty_is_not_the_95th_percentile() {
        let mut bench = Bench::new();
        for n in 0..200 {
            bench.attempt(Health::Well, if n % 20 == 0 { LATE } else { QUICK });
        }
        assert_eq!(bench.fail_until_open(QUICK), 10);
    }

    #[test]
    fn a_busy_probe_leaves_the_next_probe_to_the_endpoints_own_pause() {
        let mut bench = Bench::new();
        bench.fail_until_open(QUICK);
        bench.cooldown();
        bench.attempt(Health::Busy, QUICK);
        assert_eq!(bench.breaker.ready(bench.now), Ready::Now);
        assert_eq!(bench.breaker.start(), IsProbe(true));
    }

    #[test]
    fn an_open_breaker_outlives_its_process() {
        let mut bench = Bench::new();
        bench.fail_until_open(QUICK);
        let record = bench.breaker.record(bench.now);
        let now = StoreTime(7_000);
        let breaker = Breaker::restore(record, &bench.policy, Nanos::from_secs(100), now);
        assert_eq!(breaker.ready(now), Ready::At(now + Nanos::from_secs(200)));
    }

    #[test]
    fn an_open_breaker_says_since_when_and_the_last_failure_despite_failed_probes_and_a_takeover() {
        let mut bench = Bench::new();
        bench.fail_until_open(QUICK);
        let opened = Opened { since: bench.now, cause: Cause::Silent };
        bench.cooldown();
        bench.attempt(Health::Ill(Cause::Silent), QUICK);
        let told = |breaker: &Breaker| match breaker.standing() {
            Standing::Open { opened, .. } | Standing::Probing { opened } => opened,
            Standing::Closed => panic!("closed"),
        };
        assert_eq!(told(&bench.breaker), opened);
        let (record, downtime) = (bench.breaker.record(bench.now), Nanos::from_secs(100));
        assert_eq!(record.unwrap().standing(bench.now), bench.breaker.standing());
        let next = Breaker::restore(record, &bench.policy, downtime, bench.now + downtime);
        assert_eq!(told(&next), opened);
    }

    #[test]
    fn bad_figures_name_the_field_the_value_and_the_allowed_range() {
        let policy = |failures, slow, cooldown, most| {
            BreakerPolicy::new(failures, slow, LATE, cooldown, most).map(drop)
        };
        let rows = [
            (policy(0, 1, QUICK, QUICK), "breaker.failures is 0; expected 1 to 1000000"),
            (policy(5, 6, QUICK, QUICK), "breaker.failures_when_slow is 6; expected 1 to 5"),
            (policy(5, 5, Nanos::ZERO, QUICK), "breaker.cooldown is 0ns; expected 1ms to 50ms"),
            (policy(5, 5, QUICK, Nanos::DAY.times(2)), "breaker.cooldown_max is 2d; expected 1ms to 1d"),
        ];
        for (result, message) in rows {
            assert_eq!(result.unwrap_err().to_string(), message);
        }
    }
}
