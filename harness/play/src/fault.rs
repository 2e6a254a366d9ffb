//! The scenario's faults as steps: a beginning, and for those that last an end.

use hookproof_judge::scenario::{FaultAction, FaultPlan};

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A fault begins.
    Begin(&'a FaultPlan),
    /// A lasting fault ends.
    End(&'a FaultPlan),
}

/// All steps in order. At one moment, ends precede beginnings.
#[must_use]
pub fn timeline(faults: &[FaultPlan]) -> Vec<(u64, Step<'_>)> {
    let mut steps: Vec<_> = faults.iter().map(|fault| (fault.at.0, Step::Begin(fault))).collect();
    let lasting = faults.iter().filter(|fault| ends(&fault.action) && fault.lasts.0 > 0);
    steps.extend(lasting.map(|fault| (fault.at.0.saturating_add(fault.lasts.0), Step::End(fault))));
    steps.sort_by_key(|(at, step)| (*at, matches!(step, Step::Begin(_))));
    steps
}

/// Whether the harness acts at the end of it. A killed or stopped process restarts a time after its own end,
/// which is unknown beforehand; the holder of a database lock releases it itself.
pub const fn ends(action: &FaultAction) -> bool {
    use FaultAction::{ClockSkew, DiskFull, Partition, Stop};
    matches!(action, Stop | ClockSkew { .. } | DiskFull | Partition(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hookproof_judge::scenario::{Duration, Partition};

    #[test]
    fn what_lasts_has_two_steps_and_ends_before_the_next_begins() {
        let fault =
            |at, lasts, action| FaultPlan { at: Duration(at), lasts: Duration(lasts), worker: None, action };
        let faults = [
            fault(1, 4, FaultAction::Stop),
            fault(2, 9, FaultAction::Kill),
            fault(5, 1, FaultAction::DiskFull),
            fault(7, 2, FaultAction::Partition(Partition::Cut)),
        ];
        let steps = timeline(&faults);
        let expected = [
            (1, Step::Begin(&faults[0])),
            (2, Step::Begin(&faults[1])),
            (5, Step::End(&faults[0])),
            (5, Step::Begin(&faults[2])),
            (6, Step::End(&faults[2])),
            (7, Step::Begin(&faults[3])),
            (9, Step::End(&faults[3])),
        ];
        assert_eq!(steps, expected);
    }
}
