//! Up to where all deliveries can be seen. Numbers come from a sequence, and nodes commit in any order: a number that is
//! missing below one that is there belongs to a commit under way, or to one that failed.

/// Looks after which a missing number is no longer waited for, should a stranger's transaction keep us from knowing: about a
/// minute. Our own commits are cut off sooner.
const LOOKS_MAX: u32 = 15_000;

/// What was seen of the numbers.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// All up to this one are there, or never will be; nothing before the first look.
    settled: Option<u64>,
    /// The first that is missing.
    missing: Option<Missing>,
}

/// A number that was missing.
#[derive(Clone, Copy, Debug)]
struct Missing {
    number: u64,
    /// Whoever has it began before this transaction did; nothing, as long as that was not asked.
    began_before: Option<u64>,
    looks: u32,
}

impl Arrivals {
    /// Up to where all are there, unless this is the first look: then it is the last that there is. Whoever takes over a
    /// lane waits for all who are at it, and finds what they have recorded.
    pub(super) fn begin(&mut self, last: u64) -> u64 {
        *self.settled.get_or_insert(last)
    }

    /// Looks at the numbers above those settled, in their order, and before which transaction all had ended. Says whether one came
    /// that had been missing.
    pub(super) fn look(&mut self, numbers: &[u64], ended_before: u64) -> bool {
        let mut settled = self.settled.unwrap_or_default();
        let was_missing = self.missing.take();
        let came = was_missing.is_some_and(|missing| numbers.contains(&missing.number));
        for number in numbers {
            while settled + 1 < *number {
                let known = was_missing.filter(|missing| missing.number == settled + 1);
                let missing = known.unwrap_or(Missing { number: settled + 1, began_before: None, looks: 0 });
                let has_ended = missing.began_before.is_some_and(|next| ended_before >= next);
                if !has_ended && missing.looks < LOOKS_MAX {
                    self.missing = Some(Missing { looks: missing.looks + 1, ..missing });
                    self.settled = Some(settled);
                    return came;
                }
                // Whoever had it has failed; and with it, whoever had the others of the same gap.
                settled = *number - 1;
            }
            settled = *number;
        }
        self.settled = Some(settled);
        came
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

    fn look(arrivals: &mut Arrivals, numbers: &[u64], (ended_before, next): (u64, u64)) -> bool {
        let came = arrivals.look(numbers, ended_before);
        if arrivals.wants_next() {
            arrivals.hear_next(next);
        }
        came
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
    fn a_number_whose_commit_failed_is_passed_over() {
        let mut arrivals = Arrivals::default();
        arrivals.begin(0);
        assert!(!look(&mut arrivals, &[1, 4], (9, 9)), "who has it may have begun since the look");
        assert_eq!(arrivals.settled(), 1);
        assert!(!look(&mut arrivals, &[4, 5], (9, 12)), "all who were under way have ended");
        assert_eq!(arrivals.settled(), 5);
        assert!(!arrivals.wants_next());
    }

    #[test]
    fn a_number_is_not_waited_for_for_ever() {
        let mut arrivals = Arrivals::default();
        arrivals.begin(0);
        for _ in 0..LOOKS_MAX {
            look(&mut arrivals, &[3], (5, 9));
            assert_eq!(arrivals.settled(), 0);
        }
        look(&mut arrivals, &[3], (5, 9));
        assert_eq!(arrivals.settled(), 3);
    }
}
