//! How far the scans of sweeps and purges have come. Only in memory: a restart begins again.

use std::collections::{BTreeSet, VecDeque};

use crate::engine::{DeliveryId, Nanos, StoreTime};

/// Where the next purge continues. `None`: at the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Positions {
    pub(crate) event: Option<u64>,
    pub(crate) letter: Option<DeliveryId>,
    pub(crate) attempt: Option<(StoreTime, DeliveryId)>,
    /// The scans of letters, events and attempts that wait at their end for the longest one.
    pub(crate) ended: [bool; 3],
}

#[derive(Debug, Default)]
pub(crate) struct Scans {
    pub(crate) at: Positions,
    /// The positions after the last commit.
    committed: Positions,
    pub(crate) expiry: ExpiryScan,
    pub(crate) failed_events: FailedRows,
    pub(crate) failed_deliveries: FailedRows,
}

impl Scans {
    pub(super) const fn commit(&mut self) {
        self.committed = self.at;
    }

    pub(super) fn roll_back(&mut self) {
        self.at = self.committed;
        self.expiry.roll_back();
    }
}

/// Numbers of rows that made a commit fail, so that the next one skips them.
#[derive(Debug, Default)]
pub(crate) struct FailedRows(BTreeSet<u64>);

impl FailedRows {
    const ROWS_MAX: usize = 8_192;

    pub(crate) fn has(&self, number: u64) -> bool {
        self.0.contains(&number)
    }

    pub(crate) fn add(&mut self, number: u64) {
        if self.0.len() < Self::ROWS_MAX {
            self.0.insert(number);
        }
    }
}

/// How long a delivery waits at least before a sweep examines it.
pub(crate) const NOTED_AFTER: Nanos = Nanos::from_secs(10);
const LOOKED_AT_MAX: u64 = 8_192;
/// The distance of marks. Between two marks, deliveries are examined earlier than necessary.
const MARKS_APART: Nanos = Nanos::SECOND;

#[derive(Debug)]
pub(crate) struct ExpiryScan {
    /// Times, each with the last delivery recorded by then.
    marks: VecDeque<(StoreTime, u64)>,
    /// The last delivery examined, if it is later than the stored position.
    looked_at: u64,
    passed_over: u64,
    /// Deliveries examined at once. Reduced around unreadable ones.
    at_once: u64,
}

impl Default for ExpiryScan {
    fn default() -> Self {
        Self { marks: VecDeque::new(), looked_at: 0, passed_over: 0, at_once: LOOKED_AT_MAX }
    }
}

impl ExpiryScan {
    /// The last delivery that may be older than [`NOTED_AFTER`]. All deliveries after the first younger mark are
    /// younger. Without such a mark their age is unknown.
    pub(crate) fn old(&mut self, now: StoreTime, newest: u64) -> u64 {
        let is_young = |at: StoreTime| at <= now && now.since(at) < NOTED_AFTER;
        while self.marks.pop_front_if(|(at, _)| !is_young(*at)).is_some() {}
        let old = self.marks.front().map_or(newest, |(_, last)| *last);
        if self.marks.back().is_none_or(|(at, _)| now.since(*at) >= MARKS_APART) {
            self.marks.push_back((now, newest));
        }
        old
    }

    pub(crate) fn after(&self, kept: u64) -> u64 {
        kept.max(self.looked_at).max(self.passed_over)
    }

    pub(crate) fn step(&self, after: u64) -> u64 {
        after.saturating_add(self.at_once)
    }

    /// Notes that everything up to `last` was examined. Returns whether to store that position: regularly, so that a
    /// restart repeats little, and always around unreadable rows, because the next commit may fail.
    pub(crate) fn reach(&mut self, last: u64, kept: u64) -> bool {
        let is_slow = self.at_once < LOOKED_AT_MAX;
        self.looked_at = last;
        self.at_once = self.at_once.saturating_mul(2).min(LOOKED_AT_MAX);
        is_slow || last - kept >= LOOKED_AT_MAX
    }

    /// Notes an unreadable row. The next step examines fewer, and skips a single one.
    pub(crate) fn fail(&mut self, after: u64, last: u64) {
        self.at_once = ((last - after) / 2).max(1);
        if last - after <= 1 {
            self.passed_over = last;
        }
    }

    /// After a failed commit, examined expiries may not be noted.
    fn roll_back(&mut self) {
        self.marks.clear();
        self.looked_at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: StoreTime = StoreTime::from_secs(1_000);

    fn after(length: Nanos) -> StoreTime {
        StoreTime(NOW.0 + length.0)
    }

    #[test]
    fn rows_after_a_young_mark_are_kept_and_all_others_are_old() {
        let mut scan = ExpiryScan::default();
        assert_eq!(scan.old(NOW, 5), 5, "nobody knows when those came");
        assert_eq!(scan.old(after(Nanos::SECOND), 8), 5);
        assert_eq!(scan.old(after(Nanos(NOTED_AFTER.0 - 1)), 20), 5);
        assert_eq!(scan.old(after(NOTED_AFTER), 30), 8);
        // Without a sweep for long, or after a step back of the clock.
        assert_eq!(scan.old(after(NOTED_AFTER.times(3)), 40), 40);
        assert_eq!(scan.old(NOW, 50), 50);
    }

    #[test]
    fn there_are_no_more_marks_than_seconds() {
        let mut scan = ExpiryScan::default();
        (0..10_000).for_each(|step| {
            scan.old(after(Nanos::from_millis(step * 7)), step);
        });
        assert!(scan.marks.len() <= 10, "{}", scan.marks.len());
    }

    /// Simulates sweeps that fail on unreadable deliveries; returns the deliveries that they read.
    fn looked_at(unreadable: std::ops::Range<u64>) -> Vec<u64> {
        const NEWEST: u64 = 20_000;
        let mut scan = ExpiryScan::default();
        let (mut kept, mut seen) = (0, Vec::new());
        for _ in 0..1_000 {
            let after = scan.after(kept);
            if after == NEWEST {
                break;
            }
            let last = scan.step(after).min(scan.old(NOW, NEWEST));
            if (after + 1..=last).any(|number| unreadable.contains(&number)) {
                scan.fail(after, last);
                scan.roll_back();
            } else {
                seen.extend(after + 1..=last);
                if scan.reach(last, kept) {
                    kept = last;
                }
            }
        }
        seen
    }

    #[test]
    fn only_the_unreadable_row_is_skipped() {
        let all_but = |unreadable: std::ops::Range<u64>| -> Vec<u64> {
            (1..=20_000).filter(|number| !unreadable.contains(number)).collect()
        };
        for unreadable in [1..2, 9_000..9_040, 8_192..8_194, 19_999..20_000] {
            assert_eq!(looked_at(unreadable.clone()), all_but(unreadable.clone()), "{unreadable:?}");
        }
    }
}
