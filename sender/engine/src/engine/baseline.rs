//! What is usual for an endpoint: how long its answers take over a day, in 80 bytes.
//!
//! The day is a ring of 24 figures, each the 95th percentile of at least an hour. The baseline is the median of the ring.
//! The first 16 answers fill the ring, so there is a baseline within moments; from then on the older half of a day has
//! to be slow before that becomes usual. An hour is counted when it is over, so no answer moves what it is judged by.
//!
//! An hour's percentile is that of up to 32 of its answers, evenly spaced: of every answer at first, then of every second,
//! every fourth and so on. Latencies are kept in one byte each, an eighth of their value too high at most.

use serde::{Deserialize, Serialize};

use super::time::{Instant, Nanos};

/// Hours in the ring.
const HOURS: usize = 24;
/// Answers kept of the present hour.
const KEPT_MAX: usize = 32;
/// Answers that an hour needs to be one; with fewer it goes on. The first baseline needs as many.
const KEPT_MIN: usize = KEPT_MAX / 2;
/// Each doubling has 2³ steps; below that, each microsecond is its own.
const STEP_BITS: u32 = 3;
const STEPS: u64 = 1 << STEP_BITS;

/// One endpoint's baseline.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    /// The oldest first; all 0 while nothing is known.
    hours: [u8; HOURS],
    kept: [u8; KEPT_MAX],
    count: u8,
    /// One answer in so many is kept; always a power of two.
    stride: u32,
    /// Answers to pass over before the next is kept.
    passes: u32,
    began: Instant,
    /// [`Self::get`], which is asked for with every answer.
    median: u8,
}

/// What of a baseline outlives its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BaselineRecord {
    /// The oldest first.
    hours: Vec<u8>,
    kept: Vec<u8>,
    stride: u32,
    /// For how long the present hour has lasted.
    lasted: u64,
}

impl Baseline {
    /// How long answers take usually, an eighth too high at most; nothing before there were 16.
    #[must_use]
    pub fn get(&self) -> Option<Nanos> {
        (self.median > 0).then(|| longest(self.median))
    }

    /// An answer took that long. True if that ended an hour, or there is a baseline now: its record has changed.
    pub fn answered(&mut self, latency: Nanos, now: Instant) -> bool {
        let is_over = now.since(self.began) >= Nanos::HOUR && usize::from(self.count) >= KEPT_MIN;
        if is_over {
            self.hours.rotate_left(1);
            self.hours[HOURS - 1] = self.percentile();
            self.begin(now);
        }
        if self.stride == 0 {
            self.begin(now);
        }
        self.keep(step(latency));
        let is_first = self.median == 0 && usize::from(self.count) >= KEPT_MIN;
        if is_first {
            self.hours = [self.percentile(); HOURS];
        }
        if is_over || is_first {
            self.median = median(self.hours);
        }
        is_over || is_first
    }

    fn begin(&mut self, now: Instant) {
        (self.count, self.stride, self.passes, self.began) = (0, 1, 0, now);
    }

    fn keep(&mut self, step: u8) {
        if self.passes > 0 {
            self.passes -= 1;
            return;
        }
        if usize::from(self.count) == KEPT_MAX {
            for place in 0..KEPT_MIN {
                self.kept[place] = self.kept[place * 2];
            }
            self.count /= 2;
            self.stride = self.stride.saturating_mul(2);
        }
        self.kept[usize::from(self.count)] = step;
        self.count += 1;
        self.passes = self.stride - 1;
    }

    /// The least that 95 of a hundred of the kept ones do not exceed.
    fn percentile(&self) -> u8 {
        let count = usize::from(self.count);
        let mut sorted = self.kept;
        sorted[..count].sort_unstable();
        sorted[(count * 95).div_ceil(100).max(1) - 1]
    }

    pub(super) fn record(&self, now: Instant) -> Option<BaselineRecord> {
        (self.stride > 0).then(|| BaselineRecord {
            hours: if self.median > 0 { self.hours.to_vec() } else { Vec::new() },
            kept: self.kept[..usize::from(self.count)].to_vec(),
            stride: self.stride,
            lasted: now.since(self.began).0,
        })
    }

    /// Goes on from a record that was taken `downtime` ago. One that makes no sense counts as none.
    pub(super) fn restore(record: Option<&BaselineRecord>, downtime: Nanos, now: Instant) -> Self {
        record.and_then(|record| Self::read(record, downtime, now)).unwrap_or_default()
    }

    fn read(record: &BaselineRecord, downtime: Nanos, now: Instant) -> Option<Self> {
        let hours = if record.hours.is_empty() { [0; HOURS] } else { record.hours[..].try_into().ok()? };
        let mut kept = [0; KEPT_MAX];
        kept.get_mut(..record.kept.len())?.copy_from_slice(&record.kept);
        let lasted = Nanos(record.lasted.min(Nanos::HOUR.0)) + downtime;
        (record.stride > 0).then(|| Self {
            hours,
            kept,
            count: u8::try_from(record.kept.len()).unwrap_or_default(),
            stride: record.stride,
            passes: record.stride - 1,
            began: now.sooner(lasted),
            median: median(hours),
        })
    }
}

/// The lower one, where two are in the middle.
fn median(mut hours: [u8; HOURS]) -> u8 {
    *hours.select_nth_unstable((HOURS - 1) / 2).1
}

/// Never 0, which stands for nothing.
fn step(latency: Nanos) -> u8 {
    let us = (latency.0 / 1_000).max(1);
    let doublings = (u64::BITS - us.leading_zeros()).saturating_sub(STEP_BITS + 1);
    // Nearly five hours are the longest that fit.
    u8::try_from(u64::from(doublings) * STEPS + (us >> doublings)).unwrap_or(u8::MAX)
}

/// The longest that falls into a step.
fn longest(step: u8) -> Nanos {
    let step = u64::from(step);
    let doublings = (step / STEPS).saturating_sub(1);
    Nanos::from_micros(((step - doublings * STEPS + 1) << doublings) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_tells_a_latency_within_an_eighth() {
        for us in (1..10_000).chain((4..34).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1])) {
            let told = longest(step(Nanos::from_micros(us))).0 / 1_000;
            assert!((us..=us + us / 8).contains(&told), "{us} us is told as {told}");
        }
        assert_eq!(step(Nanos(u64::MAX)), u8::MAX);
        assert_eq!(step(Nanos::ZERO), 1, "0 stands for nothing");
    }

    #[test]
    fn a_record_that_makes_no_sense_counts_as_none() {
        let good = BaselineRecord { hours: vec![9; HOURS], kept: vec![9; 3], stride: 4, lasted: 5 };
        let read = |record: BaselineRecord| {
            Baseline::restore(Some(&record), Nanos::ZERO, Instant(1) + Nanos::DAY).get()
        };
        assert_eq!(read(good.clone()), Some(longest(9)));
        assert_eq!(read(BaselineRecord { hours: vec![9; HOURS + 1], ..good.clone() }), None);
        assert_eq!(read(BaselineRecord { kept: vec![9; KEPT_MAX + 1], ..good.clone() }), None);
        assert_eq!(read(BaselineRecord { stride: 0, ..good }), None);
    }

    #[test]
    fn it_takes_eighty_bytes() {
        assert_eq!(size_of::<Baseline>(), 80);
    }
}
