//! Latency histograms. Counts are exact, values are at most 1/32 too high, and each distinct step takes a few bytes.
//!
//! Finer steps would make the rows of a busy lane much larger, and they are written every second. For exact figures,
//! the attempts themselves are read ([`AttemptTimes`]).

use std::collections::BTreeMap;

pub use hookproof_words::states::Measure;

use super::command::{Attempt, AttemptOutcome};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};

/// Each doubling has 2⁵ steps. Below 2⁵ µs, each microsecond has its own.
const STEP_BITS: u32 = 5;
const STEPS: u64 = 1 << STEP_BITS;
/// The largest error of a percentile, in thousandths: 1/32, rounded up.
pub const TOO_HIGH_PERMILLE: u64 = 1_000_u64.div_ceil(STEPS);
/// Nearly 13 days, the longest value counted.
const LONGEST_US: u64 = (1 << 40) - 1;

/// An endpoint with a higher 95th percentile counts as slow.
pub const SLOW: Nanos = Nanos::from_secs(2);
/// With fewer attempts, an endpoint counts as slow only if half of at least `MOSTLY_SLOW_MIN` were.
pub const SLOW_SAMPLES_MIN: u64 = 20;
const MOSTLY_SLOW_MIN: u64 = 5;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Ascending steps.
    counts: Vec<(u16, u64)>,
    sum_us: u64,
    delivered: u64,
    failed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    pub samples: u64,
    pub p50: Nanos,
    pub p95: Nanos,
    pub p99: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastHour {
    pub lane: LaneId,
    pub delivered: u64,
    pub failed: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    pub answer: Histogram,
    /// [`Measure::FirstAttempt`].
    pub first_attempt: Histogram,
    pub delivery: Histogram,
}

impl Measured {
    pub fn of(&mut self, measure: Measure) -> &mut Histogram {
        match measure {
            Measure::Answer => &mut self.answer,
            Measure::FirstAttempt => &mut self.first_attempt,
            Measure::Delivery => &mut self.delivery,
        }
    }

    pub fn parts(&self) -> impl Iterator<Item = (Measure, &Histogram)> {
        let Self { answer, first_attempt, delivery } = self;
        [(Measure::Answer, answer), (Measure::FirstAttempt, first_attempt), (Measure::Delivery, delivery)]
            .into_iter()
    }

    pub fn attempt(&mut self, outcome: AttemptOutcome, times: AttemptTimes) {
        self.answer.attempt(outcome, times.answer);
        times.first_attempt.into_iter().for_each(|length| self.first_attempt.count(length));
        times.delivery.into_iter().for_each(|length| self.delivery.count(length));
    }

    pub fn add(&mut self, other: &Self) {
        self.answer.add(&other.answer);
        self.first_attempt.add(&other.first_attempt);
        self.delivery.add(&other.delivery);
    }
}

/// `None` for measures that do not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptTimes {
    pub answer: Option<Nanos>,
    /// [`Measure::FirstAttempt`].
    pub first_attempt: Option<Nanos>,
    pub delivery: Option<Nanos>,
}

impl AttemptTimes {
    /// `is_first`: the first attempt of its delivery. `received`: the event's receipt, if known.
    #[must_use]
    pub fn of(
        (at, took): (StoreTime, Nanos),
        outcome: AttemptOutcome,
        is_first: bool,
        received: Option<StoreTime>,
    ) -> Self {
        let since_received = |moment: StoreTime| received.map(|received| moment.since(received));
        let ended = StoreTime(at.0.saturating_add(took.0));
        Self {
            // Nothing was sent, so there is no answer time.
            answer: (outcome != AttemptOutcome::Unsent).then_some(took),
            first_attempt: since_received(at).filter(|_| is_first),
            delivery: since_received(ended).filter(|_| outcome == AttemptOutcome::Delivered),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimesPage {
    pub attempts: Vec<AttemptTimes>,
    /// Where the next page starts. `None` at the end.
    pub next: Option<(StoreTime, DeliveryId)>,
}

impl TimesPage {
    /// A page that ends with the attempt `last`. If it `is_full`, another follows.
    pub(super) fn new(
        attempts: Vec<AttemptTimes>,
        last: Option<(StoreTime, DeliveryId)>,
        is_full: bool,
    ) -> Self {
        let next = last.filter(|_| is_full);
        let next = next.map(|(at, delivery)| (at, DeliveryId(delivery.0.saturating_add(1))));
        Self { attempts, next }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// 24 clock hours, including the present one.
    Day { until: StoreTime },
    /// The lane's whole life.
    Ever,
}

impl Percentiles {
    /// False with too few attempts.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        (self.samples >= SLOW_SAMPLES_MIN && self.p95 > SLOW)
            || (self.samples >= MOSTLY_SLOW_MIN && self.p50 > SLOW)
    }
}

impl Histogram {
    pub fn count(&mut self, length: Nanos) {
        let us = length.0 / 1_000;
        self.count_more(step(us), 1);
        self.sum_us = self.sum_us.saturating_add(us);
    }

    fn count_more(&mut self, step: u16, more: u64) {
        let place = self.counts.partition_point(|(lower, _)| *lower < step);
        match self.counts.get_mut(place) {
            Some((found, count)) if *found == step => *count = count.saturating_add(more),
            _ => self.counts.insert(place, (step, more)),
        }
    }

    /// `length`: if anything was sent.
    pub fn attempt(&mut self, outcome: AttemptOutcome, length: Option<Nanos>) {
        length.into_iter().for_each(|length| self.count(length));
        let count = if outcome == AttemptOutcome::Delivered { &mut self.delivered } else { &mut self.failed };
        *count = count.saturating_add(1);
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.delivered == 0 && self.failed == 0
    }

    #[must_use]
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Attempts that failed, including unsent ones.
    #[must_use]
    pub const fn failed(&self) -> u64 {
        self.failed
    }

    pub fn add(&mut self, other: &Self) {
        for (step, more) in &other.counts {
            self.count_more(*step, *more);
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        self.delivered = self.delivered.saturating_add(other.delivered);
        self.failed = self.failed.saturating_add(other.failed);
    }

    #[must_use]
    pub fn samples(&self) -> u64 {
        self.counts.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Exact.
    #[must_use]
    pub const fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// The number of lengths surely at most `length`.
    #[must_use]
    pub fn at_most(&self, length: Nanos) -> u64 {
        let within = self.counts.iter().take_while(|(step, _)| longest_us(*step) <= length.0 / 1_000);
        within.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    #[must_use]
    pub fn percentiles(&self) -> Option<Percentiles> {
        let samples = self.samples();
        let at = |percent| self.percentile(samples, percent);
        Some(Percentiles { samples, p50: at(50)?, p95: at(95)?, p99: at(99)? })
    }

    fn percentile(&self, samples: u64, percent: u64) -> Option<Nanos> {
        let rank = u128::from(samples) * u128::from(percent);
        let mut seen = 0;
        let step = self.counts.iter().find(|(_, count)| {
            seen += u128::from(*count) * 100;
            seen >= rank
        });
        step.map(|(step, _)| Nanos::from_micros(longest_us(*step)))
    }

    /// Encodes each step as its distance from the previous one and its count, as variable-length numbers.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 + self.counts.len() * 3);
        [self.sum_us, self.delivered, self.failed].into_iter().for_each(|number| push(&mut bytes, number));
        let mut before = 0;
        for (step, count) in &self.counts {
            push(&mut bytes, u64::from(*step - before));
            push(&mut bytes, *count);
            before = *step;
        }
        bytes
    }

    /// Decodes [`Self::to_bytes`]. `None` for other bytes.
    #[must_use]
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let (sum_us, delivered, failed) = (pull(&mut bytes)?, pull(&mut bytes)?, pull(&mut bytes)?);
        let (mut counts, mut step) = (Vec::<(u16, u64)>::new(), 0_u16);
        while !bytes.is_empty() {
            step = step.checked_add(u16::try_from(pull(&mut bytes)?).ok()?)?;
            if step > self::step(LONGEST_US) || counts.last().is_some_and(|(before, _)| *before == step) {
                return None;
            }
            counts.push((step, pull(&mut bytes)?));
        }
        Some(Self { counts, sum_us, delivered, failed })
    }
}

fn step(us: u64) -> u16 {
    let us = us.min(LONGEST_US);
    let doublings = (u64::BITS - us.leading_zeros()).saturating_sub(STEP_BITS + 1);
    u16::try_from(u64::from(doublings) * STEPS + (us >> doublings)).unwrap_or(u16::MAX)
}

fn longest_us(step: u16) -> u64 {
    let step = u64::from(step);
    let doublings = (step / STEPS).saturating_sub(1);
    ((step - doublings * STEPS + 1) << doublings) - 1
}

fn push(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let seven = u8::try_from(number & 0x7f).unwrap_or(0x7f);
        number >>= 7;
        bytes.push(if number == 0 { seven } else { seven | 0x80 });
        if number == 0 {
            return;
        }
    }
}

fn pull(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(7 * place)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

// Latencies on their way to the store: a row for each lane, measure and hour, and one for all time, instead of a
// write for each attempt.
//
// Commits count in memory. A later commit writes the counts: every second, or up to every ten seconds with many busy
// lanes. A killed process loses only these counts.

/// The waiting time in memory for each [`WAITING_TOGETHER`] lanes and hours.
const WAIT: Nanos = Nanos::SECOND;
const WAITING_TOGETHER: usize = 100;
const WAIT_MAX: Nanos = Nanos::from_secs(10);
/// Beyond this number of lanes and hours, they are written sooner.
const SLICES_MAX: usize = 2_000;
const WRITTEN_MAX: usize = 500;
pub(super) type Slice = (LaneId, u64);

#[derive(Debug, Default)]
pub(super) struct Gathered {
    slices: BTreeMap<Slice, Measured>,
    since: Option<StoreTime>,
    staged: Vec<(Slice, AttemptOutcome, AttemptTimes)>,
    written: Vec<Slice>,
}

impl Gathered {
    /// Counts an attempt if the commit succeeds.
    pub(super) fn stage(&mut self, lane: LaneId, attempt: &Attempt, is_first: bool) {
        let &Attempt { at, latency, outcome, received, .. } = attempt;
        let times = AttemptTimes::of((at, latency), outcome, is_first, received);
        self.staged.push(((lane, hour(at)), outcome, times));
    }

    /// The counts that are due, within the limit for a commit.
    pub(super) fn due(&mut self, now: StoreTime) -> impl Iterator<Item = (Slice, &Measured)> {
        let is_due = self.since.is_some_and(|since| now.since(since) >= wait(self.slices.len()));
        self.first(if is_due || self.slices.len() > SLICES_MAX { WRITTEN_MAX } else { 0 })
    }

    pub(super) fn all(&mut self) -> impl Iterator<Item = (Slice, &Measured)> {
        self.first(usize::MAX)
    }

    fn first(&mut self, max: usize) -> impl Iterator<Item = (Slice, &Measured)> {
        let Self { slices, written, .. } = self;
        written.extend(slices.keys().take(max));
        slices.iter().take(max).map(|(slice, measured)| (*slice, measured))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    pub(super) fn commit(&mut self, now: StoreTime) {
        for slice in self.written.drain(..) {
            self.slices.remove(&slice);
        }
        if self.slices.is_empty() {
            self.since = None;
        }
        if !self.staged.is_empty() {
            self.since.get_or_insert(now);
        }
        for (slice, outcome, times) in self.staged.drain(..) {
            self.slices.entry(slice).or_default().attempt(outcome, times);
        }
    }

    pub(super) fn undo(&mut self) {
        self.staged.clear();
        self.written.clear();
    }
}

/// Each slice costs the same, however many attempts it counts.
fn wait(slices: usize) -> Nanos {
    let times = (slices / WAITING_TOGETHER).max(1) as u64;
    WAIT.times(times).min(WAIT_MAX)
}

/// The part of an hour's count that lies within the last sixty minutes, as if its attempts were evenly spread.
/// `is_present`: whether it is the present hour, or the one before.
pub(super) fn within_last_hour(count: u64, is_present: bool, now: StoreTime) -> u64 {
    let left = if is_present { Nanos::HOUR.0 } else { Nanos::HOUR.0 - now.0 % Nanos::HOUR.0 };
    let exact = u128::from(count) * u128::from(left) / u128::from(Nanos::HOUR.0);
    u64::try_from(exact).unwrap_or(u64::MAX)
}

pub(super) fn hour(at: StoreTime) -> u64 {
    at.0 / Nanos::HOUR.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(lengths_us: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        lengths_us
            .iter()
            .for_each(|us| histogram.attempt(AttemptOutcome::Delivered, Some(Nanos::from_micros(*us))));
        histogram
    }

    /// The definition: the least length that `percent` percent do not exceed.
    fn percentile(lengths_us: &[u64], percent: usize) -> u64 {
        let mut sorted = lengths_us.to_vec();
        sorted.sort_unstable();
        sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
    }

    #[test]
    fn twenty_attempts_with_a_95th_percentile_over_two_seconds_are_slow() {
        let verdict = |count: usize, us| of(&vec![us; count]).percentiles().unwrap().is_slow();
        assert!(verdict(20, 2_100_000));
        assert!(verdict(5, 2_100_000), "a few time-outs in a row");
        assert!(!verdict(4, 2_100_000));
        let mostly_quick: Vec<u64> = (0..19).map(|n| if n < 9 { 2_100_000 } else { 1_000 }).collect();
        assert!(!of(&mostly_quick).percentiles().unwrap().is_slow());
        assert!(!verdict(20, 1_900_000));
        assert_eq!(of(&[]).percentiles(), None);
    }

    #[test]
    fn a_stored_histogram_stays_small() {
        let lengths: Vec<u64> = (0..100_000).map(|number| 20_000 + number % 10_000).collect();
        assert!(of(&lengths).to_bytes().len() < 100);
        let every: Vec<u64> = (0..=step(LONGEST_US)).map(longest_us).collect();
        assert!(of(&every).to_bytes().len() < 2_500);
    }

    proptest! {
        #[test]
        fn percentiles_are_right_to_a_thirty_second(lengths in prop::collection::vec(0..LONGEST_US, 1..300)) {
            let found = of(&lengths).percentiles().unwrap();
            prop_assert_eq!(found.samples, u64::try_from(lengths.len()).unwrap());
            for (percent, found) in [(50, found.p50), (95, found.p95), (99, found.p99)] {
                let (exact, found) = (percentile(&lengths, percent), found.0 / 1_000);
                prop_assert!(exact <= found && found <= exact + exact / 32, "p{percent}: {exact} {found}");
            }
        }

        #[test]
        fn two_add_up_to_one(one in prop::collection::vec(0..LONGEST_US, 0..50), other in prop::collection::vec(0..LONGEST_US, 0..50)) {
            let mut sum = of(&one);
            sum.add(&of(&other));
            prop_assert_eq!(sum, of(&[one, other].concat()));
        }

        #[test]
        fn a_written_histogram_reads_back(lengths in prop::collection::vec(any::<u64>().prop_map(|it| it / 1_000), 0..100)) {
            let histogram = of(&lengths);
            prop_assert_eq!(Histogram::from_bytes(&histogram.to_bytes()), Some(histogram));
        }

        #[test]
        fn no_bytes_are_too_strange(bytes: Vec<u8>) {
            if let Some(read) = Histogram::from_bytes(&bytes) {
                prop_assert!(read.percentiles().is_none_or(|found| found.p50 <= found.p95 && found.p95 <= found.p99));
                let _ = read.at_most(SLOW);
            }
        }

        #[test]
        fn at_most_never_counts_what_took_longer(lengths in prop::collection::vec(0..LONGEST_US, 0..100), us in 0..LONGEST_US) {
            let within = u64::try_from(lengths.iter().filter(|length| **length <= us).count()).unwrap();
            prop_assert!(of(&lengths).at_most(Nanos::from_micros(us)) <= within);
        }
    }

    const NOW: StoreTime = StoreTime::from_secs(7_200);

    fn is_written(lanes: u64, waited: Nanos) -> bool {
        let attempt = Attempt {
            at: NOW,
            latency: Nanos(1),
            outcome: AttemptOutcome::Delivered,
            status: Some(204),
            error: None,
            body_hash: 1,
            received: Some(NOW),
            details: crate::command::Details::default(),
        };
        let mut gathered = Gathered::default();
        (0..lanes).for_each(|lane| gathered.stage(LaneId(lane), &attempt, true));
        gathered.commit(NOW);
        gathered.due(StoreTime(NOW.0 + waited.0)).next().is_some()
    }

    #[test]
    fn the_more_lanes_are_busy_the_longer_their_figures_wait() {
        for (lanes, seconds) in [(1, 1), (199, 1), (200, 2), (1_000, 10), (2_000, 10)] {
            let wait = Nanos::from_secs(seconds);
            assert!(!is_written(lanes, Nanos(wait.0 - 1)), "{lanes}");
            assert!(is_written(lanes, wait), "{lanes}");
        }
    }

    #[test]
    fn more_than_may_wait_are_written_at_once() {
        let most = SLICES_MAX as u64;
        assert!(!is_written(most, Nanos::ZERO) && is_written(most + 1, Nanos::ZERO));
    }
}
