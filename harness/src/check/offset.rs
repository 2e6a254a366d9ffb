//! What requests are stamped with, against the moments of their arrival, and when a process's clock was set wrong.

use super::ahead::timestamp;
use super::evidence::Evidence;
use crate::scenario::SECOND;
use crate::trace::{Arrival, Trace};

/// How far a timestamp may be from its arrival, in seconds.
pub(super) const TIMESTAMP_TOLERANCE: u64 = 5;

/// A time in which the wall clock of some process was set wrong.
pub(super) struct Skew {
    from: u64,
    until: u64,
    /// How far it was ahead, in nanoseconds.
    pub(super) ahead: i64,
}

impl Skew {
    /// Whether a request that came at that moment may have been stamped by such a clock.
    pub(super) fn covers(&self, t: u64) -> bool {
        // A second more, as it may have been stamped before the clock was put right.
        self.from <= t && t <= self.until.saturating_add(SECOND)
    }
}

/// Whenever a process's clock was set wrong.
pub(super) fn skews(evidence: &Evidence<'_>) -> Vec<Skew> {
    let faults = evidence.trace.faults.iter().filter(|fault| fault.action == "clock-skew");
    let skew = |fault: &crate::trace::Fault| {
        let plan = evidence.scenario.faults.get(usize::try_from(fault.plan?).ok()?)?;
        let ahead = plan.action.clock_offset()?;
        Some(Skew { from: fault.t, until: fault.until.unwrap_or(u64::MAX), ahead })
    };
    faults.filter_map(skew).collect()
}

/// The moment of an arrival in Unix seconds, by a clock that is so many nanoseconds ahead of the harness's.
pub(super) fn unix_seconds(trace: &Trace, arrival: &Arrival, ahead: i64) -> u64 {
    trace.header.began_unix_ns.saturating_add(arrival.t).saturating_add_signed(ahead) / SECOND
}

/// Whether a request is stamped with the moment of its arrival, by such a clock.
pub(super) fn is_stamped(trace: &Trace, arrival: &Arrival, ahead: i64) -> bool {
    let stamp = timestamp(arrival).and_then(|text| text.parse::<u64>().ok());
    stamp.is_some_and(|stamp| stamp.abs_diff(unix_seconds(trace, arrival, ahead)) <= TIMESTAMP_TOLERANCE)
}
