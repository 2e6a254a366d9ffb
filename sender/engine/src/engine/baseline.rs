//! The usual latency of an endpoint over a day.
//!
//! The day is a ring of 24 figures, each the 95th percentile of at least an hour. The baseline is the median of
//! the ring. The first 16 answers fill the whole ring; later, a slowdown must last half a day before it counts
//! as usual. An hour enters the ring when it is over, so no answer changes the baseline that judges it.
//!
//! The percentile of an hour uses at most 32 evenly spaced answers: first every answer, then every second,
//! every fourth and so on. Each latency takes one byte and is at most an eighth too high.

use serde::{Deserialize, Serialize};

use super::time::{Nanos, StoreTime};

const HOURS: usize = 24;
const KEPT_MAX: usize = 32;
/// An hour goes on until it has this many answers. The first baseline needs as many.
const KEPT_MIN: usize = KEPT_MAX / 2;
/// Each doubling has 2³ steps. Below 2³ µs, each microsecond is a step.
const STEP_BITS: u32 = 3;
const STEPS: u64 = 1 << STEP_BITS;

#[derive(Clone, Debug, Default)]
pub struct Baseline {
    /// Oldest first; all 0 before the first baseline.
    hours: [u8; HOURS],
    kept: [u8; KEPT_MAX],
    count: u8,
    /// A power of two.
    stride: u32,
    passes: u32,
    began: StoreTime,
    /// Cached, as [`Self::get`] runs with every answer.
    median: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BaselineRecord {
    /// Oldest first.
    hours: Vec<u8>,
    kept: Vec<u8>,
    stride: u32,
    /// Nanoseconds since the present hour began.
    lasted: u64,
}

impl Baseline {
    /// The usual latency, at most an eighth too high. Nothing before 16 answers.
    #[must_use]
    pub fn get(&self) -> Option<Nanos> {
        (self.median > 0).then(|| longest(self.median))
    }

    /// Returns true if the persisted state has changed: an hour ended, or the first baseline exists.
    pub fn answered(&mut self, latency: Nanos, now: StoreTime) -> bool {
        let is_over = now.since(self.began) >= Nanos::HOUR && usize::from(self.count) >= KEPT_MIN;
        if is_over {
            self.hours.rotate_left(1);
            self.hours[HOURS - 1] = self.percentile();
            self.begin(now);
        }
        if self.stride == 0 {
            self.begin(now);
        }
        self.retain_step(step(latency));
        let is_first = self.median == 0 && usize::from(self.count) >= KEPT_MIN;
        if is_first {
            self.hours = [self.percentile(); HOURS];
        }
        if is_over || is_first {
            self.median = median(self.hours);
        }
        is_over || is_first
    }

    fn begin(&mut self, now: StoreTime) {
        (self.count, self.stride, self.passes, self.began) = (0, 1, 0, now);
    }

    fn retain_step(&mut self, step: u8) {
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

    fn percentile(&self) -> u8 {
        let count = usize::from(self.count);
        let mut sorted = self.kept;
        sorted[..count].sort_unstable();
        sorted[(count * 95).div_ceil(100).max(1) - 1]
    }

    pub(super) fn record(&self, now: StoreTime) -> Option<BaselineRecord> {
        (self.stride > 0).then(|| BaselineRecord {
            hours: if self.median > 0 { self.hours.to_vec() } else { Vec::new() },
            kept: self.kept[..usize::from(self.count)].to_vec(),
            stride: self.stride,
            lasted: now.since(self.began).0,
        })
    }

    /// An invalid record counts as none.
    pub(super) fn restore(record: Option<&BaselineRecord>, downtime: Nanos, now: StoreTime) -> Self {
        record.and_then(|record| Self::read(record, downtime, now)).unwrap_or_default()
    }

    fn read(record: &BaselineRecord, downtime: Nanos, now: StoreTime) -> Option<Self> {
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

fn median(mut hours: [u8; HOURS]) -> u8 {
    *hours.select_nth_unstable((HOURS - 1) / 2).1
}

/// Never 0, because 0 means "no value".
fn step(latency: Nanos) -> u8 {
    let us = (latency.0 / 1_000).max(1);
    let doublings = (u64::BITS - us.leading_zeros()).saturating_sub(STEP_BITS + 1);
    // Latencies over nearly five hours become the last step.
    u8::try_from(u64::from(doublings) * STEPS + (us >> doublings)).unwrap_or(u8::MAX)
}

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
            Baseline::restore(Some(&record), Nanos::ZERO, StoreTime(1) + Nanos::DAY).get()
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
