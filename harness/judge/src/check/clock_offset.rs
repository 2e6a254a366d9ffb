//! The sender's clock against the harness's clock: its offset, the timestamps of requests, and processes with
//! a wrong clock.
//!
//! The run measures the offset of a sender on another machine ([`crate::trace::Offset`]). If its answers have
//! no `Date`, the offset is the median difference between its timestamps and their arrivals.

use crate::scenario::{FaultKind, SECOND, Scenario};
use crate::trace::{Arrival, Lack, Trace};

/// A larger offset is a mistake in the stamp, not a clock.
const FARTHEST: i64 = 600 * SECOND.cast_signed();

/// Offset of the sender's clock in nanoseconds; negative where it is behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// The best estimate.
    pub(crate) likely: i64,
    /// The upper bound.
    pub(crate) most: u64,
}

impl Ahead {
    pub(super) fn of(trace: &Trace) -> Self {
        Self { likely: likely(trace), most: most(trace) }
    }
}

/// 0 where the clock may be right.
fn likely(trace: &Trace) -> i64 {
    let ahead = match &trace.offset {
        Some(offset) if offset.ns.unsigned_abs() > offset.error => offset.ns,
        Some(_) => 0,
        // A process on the harness's machine has the same clock.
        None if trace.declared.lacks(Lack::Start) => by_stamps(trace),
        None => 0,
    };
    if ahead.abs() <= FARTHEST { ahead } else { 0 }
}

fn most(trace: &Trace) -> u64 {
    let is_ours = !trace.declared.lacks(Lack::Start);
    let most = match &trace.offset {
        // The clock seems to be this machine's.
        Some(offset) if is_ours && offset.ns.unsigned_abs() <= offset.error => 0,
        Some(offset) => offset.ns.saturating_add_unsigned(offset.error),
        None if is_ours => 0,
        // Stamps count whole seconds.
        None => by_stamps(trace).saturating_add_unsigned(SECOND),
    };
    if most <= FARTHEST { u64::try_from(most).unwrap_or(0) } else { 0 }
}

fn by_stamps(trace: &Trace) -> i64 {
    let ahead = |arrival: &Arrival| {
        let stamp = timestamp(arrival)?.parse::<i64>().ok()?.checked_mul(SECOND.cast_signed())?;
        let now = trace.header.began_unix_ns.saturating_add(arrival.t);
        stamp.checked_sub(i64::try_from(now).ok()?)
    };
    // Only stamps from before the wall clock was set count.
    let set = trace.host.clock_sets.iter().map(|set| set.from).min().unwrap_or(u64::MAX);
    let before = trace.arrivals.iter().filter(|arrival| arrival.t < set);
    let mut all: Vec<i64> = before.filter_map(ahead).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

/// Unix seconds, from the header or from inside the signature.
pub(super) fn timestamp(arrival: &Arrival) -> Option<&str> {
    let inside = || {
        let signature = arrival.signed.signature.as_deref()?;
        signature.split(',').find_map(|part| part.trim().strip_prefix("t="))
    };
    arrival.signed.timestamp.as_deref().or_else(inside)
}

/// In seconds.
pub(super) const TIMESTAMP_TOLERANCE: u64 = 5;

/// A span in which the wall clock of a process was set wrong.
pub(super) struct Skew {
    from: u64,
    until: u64,
    /// In nanoseconds.
    pub(super) ahead: i64,
}

impl Skew {
    /// Whether this clock may have stamped a request that arrived at `t`.
    pub(super) fn covers(&self, t: u64) -> bool {
        // The request may have been stamped up to a second before the clock was put right.
        self.from <= t && t <= self.until.saturating_add(SECOND)
    }
}

pub(super) fn skews(scenario: &Scenario, trace: &Trace) -> Vec<Skew> {
    let faults = trace.faults.iter().filter(|fault| fault.kind == FaultKind::ClockSkew);
    let skew = |fault: &crate::trace::Fault| {
        let plan = scenario.faults.get(usize::try_from(fault.plan?).ok()?)?;
        let ahead = plan.action.clock_offset()?;
        Some(Skew { from: fault.t, until: fault.until.unwrap_or(u64::MAX), ahead })
    };
    faults.filter_map(skew).collect()
}

/// The arrival in Unix seconds, by a clock that is `ahead` nanoseconds ahead of the harness's.
pub(super) fn unix_seconds(trace: &Trace, arrival: &Arrival, ahead: i64) -> u64 {
    trace.header.began_unix_ns.saturating_add(arrival.t).saturating_add_signed(ahead) / SECOND
}

/// Whether the timestamp agrees with the arrival by that clock.
pub(super) fn is_stamped(trace: &Trace, arrival: &Arrival, ahead: i64) -> bool {
    let stamp = timestamp(arrival).and_then(|text| text.parse::<u64>().ok());
    stamp.is_some_and(|stamp| stamp.abs_diff(unix_seconds(trace, arrival, ahead)) <= TIMESTAMP_TOLERANCE)
}
