//! When the sender could write nothing down, or that only later, by what was done to it.

use super::stops::Stop;
use crate::trace::Fault;

/// A time in which nothing can be written down, or that only later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Unwritable {
    pub(super) from: u64,
    pub(super) until: u64,
    later_by: u64,
}

impl Unwritable {
    /// From when on it keeps nobody any more from writing down what was known at `t`.
    pub(super) fn over_for(self, t: u64) -> u64 {
        t.max(self.until.min(t.saturating_add(self.later_by)))
    }
}

/// Those of some faults and stops, in order.
pub(super) fn unwritable<'a>(
    faults: impl Iterator<Item = &'a Fault>,
    stops: impl Iterator<Item = &'a Stop>,
) -> Vec<Unwritable> {
    let hinders = |fault: &Fault| {
        let later_by = if fault.keeps_from_writing() { u64::MAX } else { fault.slows_writing() };
        (later_by > 0).then_some(Unwritable { from: fault.t, until: fault.until?, later_by })
    };
    let stops = stops.map(|stop| Unwritable { from: stop.from, until: stop.until, later_by: u64::MAX });
    let mut found: Vec<Unwritable> = faults.filter_map(hinders).chain(stops).collect();
    found.sort_unstable();
    found
}
