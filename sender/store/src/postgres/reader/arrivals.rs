//! Finds the number up to which all deliveries are visible. Numbers come from a sequence, and nodes commit in any
//! order. A missing number below a visible one belongs to a commit under way, or to one that failed.

use crate::engine::{Nanos, StoreTime};

/// How long to wait for a missing number when an open transaction hides the answer. The store's own commits end
/// sooner.
const WAITED_FOR: Nanos = Nanos::MINUTE;

#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Everything up to here is visible or never will be. `None` before the first poll.
    settled: Option<u64>,
    above: Vec<u64>,
    missing: Option<Missing>,
}

#[derive(Clone, Copy, Debug)]
struct Missing {
    number: u64,
    /// The transaction with this number started before that one. `None`: not yet asked.
    began_before: Option<u64>,
    since: StoreTime,
}

impl Arrivals {
    /// The number up to which all are visible. The first poll takes the last one: a new lane owner waits for the
    /// lanes' commits and finds their deliveries.
    pub(super) fn begin(&mut self, last: u64) -> u64 {
        *self.settled.get_or_insert(last)
    }

    /// Processes the numbers above the settled one, in order. `ended_before`: all earlier transactions have ended.
    /// Returns whether a missing number appeared.
    pub(super) fn advance(&mut self, numbers: &[u64], ended_before: u64, now: StoreTime) -> bool {
        let came = self.has_late(numbers);
        let settled = self.settle(numbers, ended_before, now);
        let place = numbers.partition_point(|number| *number <= settled);
        (self.settled, self.above) = (Some(settled), numbers[place..].to_vec());
        came
    }

    fn has_late(&self, numbers: &[u64]) -> bool {
        let mut above = self.above.iter().peekable();
        numbers.iter().any(|number| {
            while above.next_if(|known| *known < number).is_some() {}
            above.peek().is_some_and(|known| *known != number)
        })
    }

    fn settle(&mut self, numbers: &[u64], ended_before: u64, now: StoreTime) -> u64 {
        let mut settled = self.settled.unwrap_or_default();
        let was_missing = self.missing.take();
        for number in numbers {
            if settled + 1 < *number {
                let known = was_missing.filter(|missing| missing.number == settled + 1);
                let mut missing =
                    known.unwrap_or(Missing { number: settled + 1, began_before: None, since: now });
                // The clock may have been set back.
                missing.since = missing.since.min(now);
                let has_ended = missing.began_before.is_some_and(|next| ended_before >= next);
                if !has_ended && now.since(missing.since) < WAITED_FOR {
                    self.missing = Some(missing);
                    return settled;
                }
                // Its transaction has ended, or was waited for long enough. The rest of the gap is skipped with it.
            }
            settled = *number;
        }
        settled
    }

    /// Whether [`Self::set_next`] should be called for a new missing number.
    pub(super) fn wants_next(&self) -> bool {
        self.missing.is_some_and(|missing| missing.began_before.is_none())
    }

    /// Sets the next transaction's number, read after the poll. Every transaction that took a delivery number has
    /// started before it, because it first locks a row. The highest ended transaction of a snapshot is no substitute:
    /// the missing number's transaction may be above it.
    pub(super) fn set_next(&mut self, next: u64) {
        if let Some(missing) = &mut self.missing {
            missing.began_before.get_or_insert(next);
        }
    }

    pub(super) fn settled(&self) -> u64 {
        self.settled.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advance_at(
        arrivals: &mut Arrivals,
        numbers: &[u64],
        (ended_before, next): (u64, u64),
        now: StoreTime,
    ) -> bool {
        let came = arrivals.advance(numbers, ended_before, now);
        if arrivals.wants_next() {
            arrivals.set_next(next);
        }
        came
    }

    fn advance(arrivals: &mut Arrivals, numbers: &[u64], transactions: (u64, u64)) -> bool {
        advance_at(arrivals, numbers, transactions, StoreTime::from_secs(1))
    }

    #[test]
    fn a_number_that_comes_late_is_waited_for_and_told() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.begin(10), 10);
        assert!(!advance(&mut arrivals, &[11, 12, 14], (5, 9)));
        assert_eq!(arrivals.settled(), 12);
        assert!(!advance(&mut arrivals, &[14, 15], (8, 11)), "who has it may still be under way");
        assert_eq!(arrivals.settled(), 12);
        assert!(advance(&mut arrivals, &[13, 14, 15], (8, 12)));
        assert_eq!(arrivals.settled(), 15);
    }

    #[test]
    fn a_number_that_comes_late_is_told_though_one_before_it_is_still_missing() {
        let mut arrivals = Arrivals::default();
        arrivals.begin(10);
        assert!(!advance(&mut arrivals, &[13], (5, 9)));
        assert!(advance(&mut arrivals, &[12, 13], (5, 9)));
        assert!(!advance(&mut arrivals, &[12, 13], (5, 9)), "it is told once");
        assert!(!advance(&mut arrivals, &[12, 13, 15], (5, 9)), "whoever sees the last looks for it anyway");
        assert!(advance(&mut arrivals, &[12, 13, 14, 15], (5, 9)));
        assert_eq!(arrivals.settled(), 10);
        assert!(!advance(&mut arrivals, &[12, 13, 14, 15], (9, 9)), "nobody has the first any more");
        assert_eq!(arrivals.settled(), 15);
    }

    #[test]
    fn a_number_whose_commit_failed_is_passed_over() {
        let mut arrivals = Arrivals::default();
        arrivals.begin(0);
        assert!(!advance(&mut arrivals, &[1, 4], (9, 9)), "who has it may have begun since the look");
        assert_eq!(arrivals.settled(), 1);
        assert!(!advance(&mut arrivals, &[4, 5], (9, 12)), "all who were under way have ended");
        assert_eq!(arrivals.settled(), 5);
        assert!(!arrivals.wants_next());
    }

    /// Regardless of the number of polls.
    #[test]
    fn a_number_is_waited_for_a_minute_and_not_for_ever() {
        let mut arrivals = Arrivals::default();
        arrivals.begin(0);
        let begun = StoreTime::from_secs(1_000);
        for passed in [0, 1, 1, 59] {
            advance_at(&mut arrivals, &[3], (5, 9), StoreTime::from_secs(1_000 + passed));
            assert_eq!(arrivals.settled(), 0);
        }
        advance_at(&mut arrivals, &[3], (5, 9), StoreTime(begun.0 + WAITED_FOR.0));
        assert_eq!(arrivals.settled(), 3);
    }

    #[test]
    fn a_clock_that_is_set_back_makes_nobody_wait_for_longer_than_another_minute() {
        let mut arrivals = Arrivals::default();
        arrivals.begin(0);
        let begun = StoreTime::from_secs(1_000);
        advance_at(&mut arrivals, &[3], (5, 9), later(begun, Nanos::HOUR));
        for (passed, settled) in [(Nanos::ZERO, 0), (WAITED_FOR, 3)] {
            advance_at(&mut arrivals, &[3], (5, 9), later(begun, passed));
            assert_eq!(arrivals.settled(), settled, "after {passed:?}");
        }
    }

    fn later(moment: StoreTime, by: Nanos) -> StoreTime {
        StoreTime(moment.0 + by.0)
    }
}
