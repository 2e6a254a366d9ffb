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
    /// Transactions from this one on began after it was found missing.
    next_transaction: u64,
    looks: u32,
}

/// Which transactions a look saw.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// All before this one had ended.
    pub(super) ended_before: u64,
    /// None from this one on had begun.
    pub(super) next: u64,
}

impl Arrivals {
    /// Up to where all are there, unless this is the first look: then it is the last that there is. Whoever takes over a
    /// lane waits for all who are at it, and finds what they have recorded.
    pub(super) fn begin(&mut self, last: u64) -> u64 {
        *self.settled.get_or_insert(last)
    }

    /// Looks at the numbers above those settled, in their order. Says whether one came that had been missing.
    pub(super) fn look(&mut self, numbers: &[u64], seen: Seen) -> bool {
        let mut settled = self.settled.unwrap_or_default();
        let was_missing = self.missing.take();
        let came = was_missing.is_some_and(|missing| numbers.contains(&missing.number));
        for number in numbers {
            while settled + 1 < *number {
                let known = was_missing.filter(|missing| missing.number == settled + 1);
                let missing =
                    known.unwrap_or(Missing { number: settled + 1, next_transaction: seen.next, looks: 0 });
                let is_over = seen.ended_before >= missing.next_transaction || missing.looks >= LOOKS_MAX;
                if !is_over {
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

    /// Up to where all are there.
    pub(super) fn settled(&self) -> u64 {
        self.settled.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ended_before: u64, next: u64) -> Seen {
        Seen { ended_before, next }
    }

    #[test]
    fn a_number_that_comes_late_is_waited_for_and_told() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.begin(10), 10);
        assert!(!arrivals.look(&[11, 12, 14], seen(5, 9)));
        assert_eq!(arrivals.settled(), 12);
        assert!(!arrivals.look(&[14, 15], seen(5, 11)), "who has it may still be under way");
        assert_eq!(arrivals.settled(), 12);
        assert!(arrivals.look(&[13, 14, 15], seen(8, 12)));
        assert_eq!(arrivals.settled(), 15);
    }

    #[test]
    fn a_number_whose_commit_failed_is_passed_over() {
        let mut arrivals = Arrivals::default();
        arrivals.begin(0);
        assert!(!arrivals.look(&[1, 4], seen(7, 9)));
        assert_eq!(arrivals.settled(), 1);
        assert!(!arrivals.look(&[4, 5], seen(9, 12)), "all who were under way have ended");
        assert_eq!(arrivals.settled(), 5);
    }

    #[test]
    fn where_nobody_is_under_way_nothing_is_waited_for() {
        let mut arrivals = Arrivals::default();
        arrivals.begin(0);
        assert!(!arrivals.look(&[3], seen(9, 9)));
        assert_eq!(arrivals.settled(), 3);
    }
}
