//! The scenario's faults as steps, for a run and the simulator alike.

use std::collections::BTreeSet;

use hookproof_judge::scenario::{FaultAction, FaultPlan};
use hookproof_judge::trace::Fault;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    Begin(&'a FaultPlan),
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

/// Whether a step ends it, as planned. A killed or stopped process restarts a time after its own end, which is
/// unknown beforehand; a lock, a server and an operator's action end by themselves.
#[must_use]
pub const fn ends(action: &FaultAction) -> bool {
    use FaultAction::{
        ClockSkew, ClockStep, DatabaseRestart, DiskFull, Kill, Limit, LockDatabase, Partition, Redrive,
        Restart, Rotate, Start, Stop,
    };
    match action {
        Stop | ClockSkew { .. } | DiskFull | Partition(_) => true,
        Kill
        | Restart
        | Start
        | ClockStep { .. }
        | LockDatabase
        | DatabaseRestart
        | Limit { .. }
        | Rotate { .. }
        | Redrive { .. } => false,
    }
}

/// By index in the scenario: the end of one ends no other.
#[derive(Clone, Debug, Default)]
pub struct Stops(BTreeSet<u32>);

impl Stops {
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        !self.0.is_empty()
    }

    pub fn begin(&mut self, fault: u32) -> bool {
        self.0.insert(fault) && self.0.len() == 1
    }

    pub fn end(&mut self, fault: u32) -> bool {
        self.0.remove(&fault) && self.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn faults(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }
}

/// By index in the scenario: the latest that lasts decides.
#[derive(Clone, Debug, Default)]
pub struct Skews(Vec<(u32, i64)>);

impl Skews {
    /// In nanoseconds; 0 without a fault.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.0.last().map_or(0, |(_, offset)| *offset)
    }

    pub fn begin(&mut self, fault: u32, offset: i64) {
        self.0.push((fault, offset));
    }

    /// Whether it had begun.
    pub fn end(&mut self, fault: u32) -> bool {
        let before = self.0.len();
        self.0.retain(|(one, _)| *one != fault);
        self.0.len() < before
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// `place` is its index in the scenario. `until` counts only for faults that last.
#[must_use]
pub fn record(plan: &FaultPlan, place: Option<u32>, t: u64, until: u64, struck: Option<usize>) -> Fault {
    let target = plan.worker.as_ref().map(|target| target.label(struck));
    Fault {
        t,
        kind: plan.action.kind(),
        until: (plan.lasts.0 > 0).then_some(until),
        detail: target.or_else(|| plan.action.subscriber().map(str::to_owned)),
        delay: plan.action.delay().map(|delay| delay.0),
        plan: place,
    }
}

#[cfg(test)]
mod tests {
    use hookproof_judge::scenario::{Duration, Partition};

    use super::*;

    #[test]
    fn a_lasting_fault_has_two_steps_and_ends_before_the_next_begins() {
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

    #[test]
    fn a_process_continues_when_the_last_fault_that_stops_it_ends() {
        let mut stops = Stops::default();
        assert!(stops.begin(0) && !stops.begin(1) && !stops.begin(1));
        assert!(!stops.end(2) && !stops.end(0) && stops.is_stopped());
        assert!(stops.end(1) && !stops.end(1) && !stops.is_stopped());
    }
}
