//! How far sweeps have noted expiries. In memory: a restart continues from the stored position and examines
//! everything after it.

use std::collections::VecDeque;

use crate::engine::{Nanos, StoreTime};

/// How long a delivery waits at least before a sweep examines it.
pub(super) const NOTED_AFTER: Nanos = Nanos::from_secs(10);
const LOOKED_AT_MAX: u64 = 8_192;
/// The distance of marks. Between two marks, deliveries are examined earlier than necessary.
const MARKS_APART: Nanos = Nanos::SECOND;

#[derive(Debug)]
pub(super) struct Unswept {
    /// Times, each with the last delivery recorded by then.
    marks: VecDeque<(StoreTime, u64)>,
    /// The last delivery examined, if it is later than the stored position.
    looked_at: u64,
    passed_over: u64,
    /// Deliveries examined at once. Reduced around unreadable ones.
    at_once: u64,
}

impl Default for Unswept {
    fn default() -> Self {
        Self { marks: VecDeque::new(), looked_at: 0, passed_over: 0, at_once: LOOKED_AT_MAX }
    }
}

impl Unswept {
    /// The last delivery that may be older than [`NOTED_AFTER`]. All deliveries after the first younger mark are
    /// younger. Without such a mark their age is unknown.
    pub(super) fn old(&mut self, now: StoreTime, newest: u64) -> u64 {
        let is_young = |at: StoreTime| at <= now && now.since(at) < NOTED_AFTER;
        while self.marks.pop_front_if(|(at, _)| !is_young(*at)).is_some() {}
        let old = self.marks.front().map_or(newest, |(_, last)| *last);
        if self.marks.back().is_none_or(|(at, _)| now.since(*at) >= MARKS_APART) {
            self.marks.push_back((now, newest));
        }
        old
    }

    pub(super) fn after(&self, kept: u64) -> u64 {
        kept.max(self.looked_at).max(self.passed_over)
    }

    pub(super) fn step(&self, after: u64) -> u64 {
        after.saturating_add(self.at_once)
    }

    /// Notes that everything up to `last` was examined. Returns whether to store that position: regularly, so that a
    /// restart repeats little, and always around unreadable rows, because the next commit may fail.
    pub(super) fn reach(&mut self, last: u64, kept: u64) -> bool {
        let is_slow = self.at_once < LOOKED_AT_MAX;
        self.looked_at = last;
        self.at_once = self.at_once.saturating_mul(2).min(LOOKED_AT_MAX);
        is_slow || last - kept >= LOOKED_AT_MAX
    }

    /// Notes an unreadable row. The next step examines fewer, and skips a single one.
    pub(super) fn fail(&mut self, after: u64, last: u64) {
        self.at_once = ((last - after) / 2).max(1);
        if last - after <= 1 {
            self.passed_over = last;
        }
    }

    /// After a failed commit, examined expiries may not be noted.
    pub(super) fn undo(&mut self) {
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
    fn what_was_recorded_after_a_young_mark_is_left_alone_and_all_else_is_old() {
        let mut unswept = Unswept::default();
        assert_eq!(unswept.old(NOW, 5), 5, "nobody knows when those came");
        assert_eq!(unswept.old(after(Nanos::SECOND), 8), 5);
        assert_eq!(unswept.old(after(Nanos(NOTED_AFTER.0 - 1)), 20), 5);
        assert_eq!(unswept.old(after(NOTED_AFTER), 30), 8);
        // Without a sweep for long, or after a step back of the clock.
        assert_eq!(unswept.old(after(NOTED_AFTER.times(3)), 40), 40);
        assert_eq!(unswept.old(NOW, 50), 50);
    }

    #[test]
    fn there_are_no_more_marks_than_seconds() {
        let mut unswept = Unswept::default();
        (0..10_000).for_each(|step| {
            unswept.old(after(Nanos::from_millis(step * 7)), step);
        });
        assert!(unswept.marks.len() <= 10, "{}", unswept.marks.len());
    }

    /// Simulates sweeps that fail on unreadable deliveries; returns the deliveries that they read.
    fn looked_at(unreadable: std::ops::Range<u64>) -> Vec<u64> {
        const NEWEST: u64 = 20_000;
        let mut unswept = Unswept::default();
        let (mut kept, mut seen) = (0, Vec::new());
        for _ in 0..1_000 {
            let after = unswept.after(kept);
            if after == NEWEST {
                break;
            }
            let last = unswept.step(after).min(unswept.old(NOW, NEWEST));
            if (after + 1..=last).any(|number| unreadable.contains(&number)) {
                unswept.fail(after, last);
                unswept.undo();
            } else {
                seen.extend(after + 1..=last);
                if unswept.reach(last, kept) {
                    kept = last;
                }
            }
        }
        seen
    }

    #[test]
    fn what_cannot_be_read_is_passed_over_alone() {
        let all_but = |unreadable: std::ops::Range<u64>| -> Vec<u64> {
            (1..=20_000).filter(|number| !unreadable.contains(number)).collect()
        };
        for unreadable in [1..2, 9_000..9_040, 8_192..8_194, 19_999..20_000] {
            assert_eq!(looked_at(unreadable.clone()), all_but(unreadable.clone()), "{unreadable:?}");
        }
    }
}
