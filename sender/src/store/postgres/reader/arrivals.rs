//! Up to where all deliveries can be seen. Numbers come from a sequence, and nodes commit in any order: a number that is
//! missing below one that is there belongs to a commit under way, or to one that failed.

use crate::engine::{Nanos, StoreTime};

/// For how long a missing number is waited for, should a stranger's transaction keep us from knowing. Our own commits are cut off
/// sooner.
const WAITED_FOR: Nanos = Nanos::MINUTE;

/// What was seen of the numbers.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// All up to this one are there, or never will be; nothing before the first look.
    settled: Option<u64>,
    /// Those above that were there at the last look, in their order.
    above: Vec<u64>,
    /// The first that is missing.
    missing: Option<Missing>,
}

/// A number that was missing.
#[derive(Clone, Copy, Debug)]
struct Missing {
    number: u64,
    /// Whoever has it began before this transaction did; nothing, as long as that was not asked.
    began_before: Option<u64>,
    since: StoreTime,
}

impl Arrivals {
    /// Up to where all are there, unless this is the first look: then it is the last that there is. Whoever takes over a
    /// lane waits for all who are at it, and finds what they have recorded.
    pub(super) fn begin(&mut self, last: u64) -> u64 {
        *self.settled.get_or_insert(last)
    }

    /// Looks at the numbers above those settled, in their order; before which transaction all had ended, and when that was. Says whether
    /// one came that had been missing.
    pub(super) fn look(&mut self, numbers: &[u64], ended_before: u64, now: StoreTime) -> bool {
        let came = self.has_late(numbers);
        let settled = self.settle(numbers, ended_before, now);
        let place = numbers.partition_point(|number| *number <= settled);
        (self.settled, self.above) = (Some(settled), numbers[place..].to_vec());
        came
    }

    /// Whether one is there now and was not at the last look, though a higher one was.
    fn has_late(&self, numbers: &[u64]) -> bool {
        let mut above = self.above.iter().peekable();
        numbers.iter().any(|number| {
            while above.next_if(|known| *known < number).is_some() {}
            above.peek().is_some_and(|known| *known != number)
        })
    }

    /// Up to where all are there now. Notes the first that is missing.
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
                // Whoever had it has failed; and with it, whoever had the others of the same gap.
            }
            settled = *number;
        }
        settled
    }

    /// Whether a number has been found missing since the last [`Self::hear_next`].
    pub(super) fn wants_next(&self) -> bool {
        self.missing.is_some_and(|missing| missing.began_before.is_none())
    }

    /// The next transaction, as it is after a look. All who took a number before then had begun: they take none before they have
    /// locked a row. The highest that has ended, which every snapshot tells, would not do: who has the number may be above it.
    pub(super) fn hear_next(&mut self, next: u64) {
        if let Some(missing) = &mut self.missing {
            missing.began_before.get_or_insert(next);
        }
    }

    /// Up to where all are there.
    pub(super) fn settled(&self) -> u64 {
        self.settled.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_at(
        arrivals: &mut Arrivals,
        numbers: &[u64],
        (ended_before, next): (u64, u64),
        now: StoreTime,
    ) -> bool {
        let came = arrivals.look(numbers, ended_before, now);
        if arrivals.wants_next() {
            arrivals.hear_next(next);
        }
        came
    }

    fn look(arrivals: &mut Arrivals, numbers: &[u64], transactions: (u64, u64)) -> bool {
        look_at(arrivals, numbers, transactions, StoreTime::from_secs(1))
    }

    #[test]
    fn a_number_that_comes_late_is_waited_for_and_told() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.begin(10), 10);
        assert!(!look(&mut arrivals, &[11, 12, 14], (5, 9)));
        assert_eq!(arrivals.settled(), 12);
        assert!(!look(&mut arrivals, &[14, 15], (8, 11)), "who has it may still be under way");
        assert_eq!(arrivals.settled(), 12);
        assert!(look(&mut arrivals, &[13, 14, 15], (8, 12)));
        assert_eq!(arrivals.settled(), 15);
    }

    #[test]
    fn a_number_that_comes_late_is_told_though_one_before_it_is_still_missing() {
        let mut arrivals = Arrivals::default();
        arrivals.begin(10);
        assert!(!look(&mut arrivals, &[13], (5, 9)));
        assert!(look(&mut arrivals, &[12, 13], (5, 9)));
        assert!(!look(&mut arrivals, &[12, 13], (5, 9)), "it is told once");
        assert!(!look(&mut arrivals, &[12, 13, 15], (5, 9)), "whoever sees the last looks for it anyway");
        assert!(look(&mut arrivals, &[12, 13, 14, 15], (5, 9)));
        assert_eq!(arrivals.settled(), 10);
        assert!(!look(&mut arrivals, &[12, 13, 14, 15], (9, 9)), "nobody has the first any more");
        assert_eq!(arrivals.settled(), 15);
    }

    #[test]
    fn a_number_whose_commit_failed_is_passed_over() {
        let mut arrivals = Arrivals::default();
        arrivals.begin(0);
        assert!(!look(&mut arrivals, &[1, 4], (9, 9)), "who has it may have begun since the look");
        assert_eq!(arrivals.settled(), 1);
        assert!(!look(&mut arrivals, &[4, 5], (9, 12)), "all who were under way have ended");
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
            look_at(&mut arrivals, &[3], (5, 9), StoreTime::from_secs(1_000 + passed));
            assert_eq!(arrivals.settled(), 0);
        }
        look_at(&mut arrivals, &[3], (5, 9), StoreTime(begun.0 + WAITED_FOR.0));
        assert_eq!(arrivals.settled(), 3);
    }

    #[test]
    fn a_clock_that_is_set_back_makes_nobody_wait_for_longer_than_another_minute() {
        let mut arrivals = Arrivals::default();
        arrivals.begin(0);
        let begun = StoreTime::from_secs(1_000);
        look_at(&mut arrivals, &[3], (5, 9), later(begun, Nanos::HOUR));
        for (passed, settled) in [(Nanos::ZERO, 0), (WAITED_FOR, 3)] {
            look_at(&mut arrivals, &[3], (5, 9), later(begun, passed));
            assert_eq!(arrivals.settled(), settled, "after {passed:?}");
        }
    }

    fn later(moment: StoreTime, by: Nanos) -> StoreTime {
        StoreTime(moment.0 + by.0)
    }
}
