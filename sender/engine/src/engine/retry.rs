use std::ops::RangeInclusive;

use super::time::Nanos;
use super::{OutOfRange, within};

/// The shortest base of a backoff; a shorter one would be a busy loop.
pub const BASE_MIN: Nanos = Nanos::from_millis(1);
pub const DELAY_MAX: Nanos = Nanos::DAY.times(7);
pub const SCHEDULE_MAX: usize = 64;
pub const TTL: RangeInclusive<Nanos> = Nanos::from_millis(1)..=Nanos::DAY.times(31);
pub const RETRY_AFTER_CAP: RangeInclusive<Nanos> = Nanos::SECOND..=DELAY_MAX;
pub const ATTEMPTS_MAX: u32 = 1_000;

/// The delay after the nth failure of a delivery. `step(n)` is the smaller of `cap` and `base·2^(n−1)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff(Shape);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    Full { base: Nanos, cap: Nanos },
    Equal { base: Nanos, cap: Nanos },
    Additive { base: Nanos, cap: Nanos, jitter: Nanos },
    Fixed { delays: Vec<Nanos> },
}

impl Backoff {
    /// Between 0 and `step(n)`. Spreads retries the widest; the default.
    ///
    /// # Errors
    /// Fails if `base` is under 1 ms, or `cap` under `base` or over 7 days.
    pub fn full_jitter(base: Nanos, cap: Nanos) -> Result<Self, OutOfRange> {
        check_steps(base, cap)?;
        Ok(Self(Shape::Full { base, cap }))
    }

    /// Between half of `step(n)` and `step(n)`.
    ///
    /// # Errors
    /// As [`Self::full_jitter`].
    pub fn equal_jitter(base: Nanos, cap: Nanos) -> Result<Self, OutOfRange> {
        check_steps(base, cap)?;
        Ok(Self(Shape::Equal { base, cap }))
    }

    /// `base·2^(n−1)` plus between 0 and `jitter`; the sum is at most `cap`.
    ///
    /// # Errors
    /// As [`Self::full_jitter`]; fails also if `jitter` is over `cap`.
    pub fn additive(base: Nanos, cap: Nanos, jitter: Nanos) -> Result<Self, OutOfRange> {
        check_steps(base, cap)?;
        within("retry.jitter", jitter, Nanos::ZERO..=cap)?;
        Ok(Self(Shape::Additive { base, cap, jitter }))
    }

    /// The nth of `delays`, or the last. Fails unless there are 1 to 64 delays of 1 ms to 7 days.
    pub fn fixed(delays: Vec<Nanos>) -> Result<Self, OutOfRange> {
        within("retry.schedule (count)", delays.len(), 1..=SCHEDULE_MAX)?;
        for &delay in &delays {
            within("retry.schedule", delay, BASE_MIN..=DELAY_MAX)?;
        }
        Ok(Self(Shape::Fixed { delays }))
    }

    /// The shortest and the longest, after the `failures`th failure.
    #[must_use]
    pub fn bounds(&self, failures: u32) -> (Nanos, Nanos) {
        match &self.0 {
            Shape::Full { base, cap } => (Nanos::ZERO, step(*base, *cap, failures)),
            Shape::Equal { base, cap } => {
                let step = step(*base, *cap, failures);
                (Nanos(step.0 / 2), step)
            }
            Shape::Additive { base, cap, jitter } => {
                let step = step(*base, *cap, failures);
                (step, (step + *jitter).min(*cap))
            }
            Shape::Fixed { delays } => {
                let last = delays.len() - 1;
                let index = usize::try_from(failures.saturating_sub(1)).map_or(last, |index| index.min(last));
                (delays[index], delays[index])
            }
        }
    }

    fn delay(&self, failures: u32, rng: &mut Rng) -> Nanos {
        let (least, most) = self.bounds(failures);
        match self.0 {
            // The cap cuts the sum: near the cap, delays gather at it.
            Shape::Additive { jitter, cap, .. } => (least + rng.up_to(jitter)).min(cap),
            _ => least + rng.up_to(most.less(least)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    backoff: Backoff,
    attempts: u32,
    ttl: Nanos,
    retry_after_cap: Nanos,
}

impl RetryPolicy {
    /// At most `attempts` attempts, within `ttl` of the event. A `Retry-After` longer than `retry_after_cap` is cut
    /// to it.
    ///
    /// # Errors
    /// Fails unless `attempts` is 1 to 1,000, `ttl` 1 ms to 31 days and `retry_after_cap` 1 s to 7 days.
    pub fn new(
        backoff: Backoff,
        attempts: u32,
        ttl: Nanos,
        retry_after_cap: Nanos,
    ) -> Result<Self, OutOfRange> {
        within("retry.attempts", attempts, 1..=ATTEMPTS_MAX)?;
        within("retry.ttl", ttl, TTL)?;
        within("retry.retry_after_cap", retry_after_cap, RETRY_AFTER_CAP)?;
        Ok(Self { backoff, attempts, ttl, retry_after_cap })
    }

    #[must_use]
    pub fn backoff(&self) -> &Backoff {
        &self.backoff
    }

    /// The first included.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The emitter adds it to the event's time; the engine uses [`super::Due::expires`].
    #[must_use]
    pub fn ttl(&self) -> Nanos {
        self.ttl
    }

    #[must_use]
    pub fn retry_after_cap(&self) -> Nanos {
        self.retry_after_cap
    }

    /// Nothing if that was the last attempt.
    pub(super) fn delay(&self, failures: u32, rng: &mut Rng) -> Option<Nanos> {
        (failures < self.attempts).then(|| self.backoff.delay(failures, rng))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Success,
    Gone,
    /// Not accepted; try again. Includes redirects, because the sender does not follow them.
    Failure,
}

impl Meaning {
    /// Accepts any number, valid HTTP or not.
    #[must_use]
    pub fn of(status: u16) -> Self {
        match status {
            200..=299 => Self::Success,
            410 => Self::Gone,
            _ => Self::Failure,
        }
    }
}

fn check_steps(base: Nanos, cap: Nanos) -> Result<(), OutOfRange> {
    within("retry.base", base, BASE_MIN..=DELAY_MAX)?;
    within("retry.cap", cap, base..=DELAY_MAX).map(drop)
}

fn step(base: Nanos, cap: Nanos, failures: u32) -> Nanos {
    let doublings = failures.saturating_sub(1);
    let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
    base.times(factor).min(cap)
}

/// SplitMix64: the same on every machine. No secret depends on it.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Uniform in 0 to `most`, both included, up to one part in 2^64 ÷ `most`.
    pub(crate) fn up_to(&mut self, most: Nanos) -> Nanos {
        let choices = u128::from(most.0) + 1;
        let chosen = (u128::from(self.next()) * choices) >> 64;
        Nanos(u64::try_from(chosen).expect("a u64 times a fraction below one fits a u64"))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::SECOND;

    fn secs(secs: u64) -> Nanos {
        Nanos::from_secs(secs)
    }

    /// Minimum and maximum, in seconds.
    type Bounds = (u64, u64);

    fn grown_from() -> [(&'static str, Backoff, [Bounds; 4], Bounds); 4] {
        let full = Backoff::full_jitter(secs(30), Nanos::HOUR).unwrap();
        let equal = Backoff::equal_jitter(secs(2), Nanos::HOUR).unwrap();
        let additive = Backoff::additive(secs(2), Nanos::HOUR, secs(30)).unwrap();
        let fixed = Backoff::fixed(vec![secs(5), secs(300), secs(1_800)]).unwrap();
        [
            ("full", full, [(0, 30), (0, 60), (0, 120), (0, 240)], (0, 3_600)),
            ("equal", equal, [(1, 2), (2, 4), (4, 8), (8, 16)], (1_800, 3_600)),
            ("additive", additive, [(2, 32), (4, 34), (8, 38), (16, 46)], (3_600, 3_600)),
            ("fixed", fixed, [(5, 5), (300, 300), (1_800, 1_800), (1_800, 1_800)], (1_800, 1_800)),
        ]
    }

    #[test]
    fn delays_double_from_the_base_to_the_cap() {
        for (name, backoff, first, last) in grown_from() {
            let bounds = |failures| {
                let (least, most) = backoff.bounds(failures);
                (least.0 / SECOND.0, most.0 / SECOND.0)
            };
            assert_eq!([1, 2, 3, 4].map(bounds), first, "{name}");
            assert_eq!(bounds(u32::MAX), last, "{name}");
        }
    }

    #[test]
    fn every_delay_lies_within_its_bounds_and_they_fill_them() {
        let mut rng = Rng::new(3);
        for (name, backoff, ..) in grown_from() {
            for failures in 1..20 {
                let (least, most) = backoff.bounds(failures);
                let delays: Vec<_> = (0..200).map(|_| backoff.delay(failures, &mut rng)).collect();
                let (low, high) = (*delays.iter().min().unwrap(), *delays.iter().max().unwrap());
                assert!(least <= low && high <= most, "{name} after {failures}");
                assert!(
                    high.less(low).0 >= most.less(least).0 / 10 * 9,
                    "{name} after {failures}: not spread"
                );
            }
        }
    }

    #[test]
    fn the_last_attempt_has_no_successor() {
        let backoff = Backoff::full_jitter(SECOND, SECOND).unwrap();
        let policy = RetryPolicy::new(backoff, 3, Nanos::DAY, Nanos::DAY).unwrap();
        let mut rng = Rng::new(4);
        let has_next = [1, 2, 3, 4].map(|failures| policy.delay(failures, &mut rng).is_some());
        assert_eq!(has_next, [true, true, false, false]);
    }

    #[test]
    fn only_2xx_is_success_and_only_410_is_gone() {
        for status in 0..=u16::MAX {
            let expected = match status {
                410 => Meaning::Gone,
                _ if status / 100 == 2 => Meaning::Success,
                _ => Meaning::Failure,
            };
            assert_eq!(Meaning::of(status), expected, "{status}");
        }
    }

    #[test]
    fn bad_figures_name_the_field_the_value_and_the_allowed_range() {
        let policy = |attempts, ttl, cap| {
            let backoff = Backoff::full_jitter(SECOND, SECOND).unwrap();
            RetryPolicy::new(backoff, attempts, ttl, cap).map(drop)
        };
        let rows = [
            (Backoff::full_jitter(Nanos::ZERO, SECOND).map(drop), "retry.base is 0ns; expected 1ms to 7d"),
            (Backoff::equal_jitter(secs(2), SECOND).map(drop), "retry.cap is 1s; expected 2s to 7d"),
            (
                Backoff::additive(SECOND, secs(9), secs(10)).map(drop),
                "retry.jitter is 10s; expected 0ns to 9s",
            ),
            (Backoff::fixed(vec![]).map(drop), "retry.schedule (count) is 0; expected 1 to 64"),
            (Backoff::fixed(vec![Nanos::ZERO]).map(drop), "retry.schedule is 0ns; expected 1ms to 7d"),
            (policy(0, SECOND, SECOND), "retry.attempts is 0; expected 1 to 1000"),
            (policy(1, Nanos::ZERO, SECOND), "retry.ttl is 0ns; expected 1ms to 31d"),
            (policy(1, SECOND, Nanos::ZERO), "retry.retry_after_cap is 0ns; expected 1s to 7d"),
        ];
        for (result, message) in rows {
            assert_eq!(result.unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn both_ends_of_a_small_range_come_up_about_equally_often() {
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 4];
        for _ in 0..4_000 {
            seen[usize::try_from(rng.up_to(Nanos(3)).0).unwrap()] += 1;
        }
        assert!(seen.iter().all(|&count| (900..1_100).contains(&count)), "{seen:?}");
    }

    #[test]
    fn the_whole_range_is_reachable_without_overflow() {
        let mut rng = Rng::new(2);
        let highest = (0..1_000).map(|_| rng.up_to(Nanos(u64::MAX)).0).max().unwrap();
        assert!(highest > u64::MAX / 100 * 98);
        assert_eq!(rng.up_to(Nanos::ZERO), Nanos::ZERO);
    }
}
