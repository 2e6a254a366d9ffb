//! The sender's clock against the harness's: its offset, the timestamps of requests, and processes whose clock was set wrong.
//!
//! A sender on another machine is judged by its own clock: by the offset that the run measured ([`crate::trace::Offset`]), or,
//! where its answers have no `Date`, by the median of its timestamps against their arrivals.

use crate::scenario::{FaultKind, SECOND, Scenario};
use crate::trace::{Arrival, Lack, Trace};

/// What is further off is no clock of a machine that is looked after, but a mistake in the stamp.
const FARTHEST: i64 = 600 * SECOND.cast_signed();

/// How far the sender's clock is ahead, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// As far as can be told; less than 0 where it is behind.
    pub(crate) likely: i64,
    /// At most.
    pub(crate) most: u64,
}

impl Ahead {
    /// As a run shows it.
    pub(super) fn of(trace: &Trace) -> Self {
        Self { likely: likely(trace), most: most(trace) }
    }
}

/// How far it is, in nanoseconds: less than 0 where it is behind, 0 where it may well be right.
fn likely(trace: &Trace) -> i64 {
    let ahead = match &trace.offset {
        Some(offset) if offset.ns.unsigned_abs() > offset.error => offset.ns,
        Some(_) => 0,
        // A process of the harness's own machine goes by its clock.
        None if trace.declared.lacks(Lack::Start) => by_stamps(trace),
        None => 0,
    };
    if ahead.abs() <= FARTHEST { ahead } else { 0 }
}

/// How far it may be at most, in nanoseconds.
fn most(trace: &Trace) -> u64 {
    let is_ours = !trace.declared.lacks(Lack::Start);
    let most = match &trace.offset {
        // As far as can be told, it is this machine's.
        Some(offset) if is_ours && offset.ns.unsigned_abs() <= offset.error => 0,
        Some(offset) => offset.ns.saturating_add_unsigned(offset.error),
        None if is_ours => 0,
        // Stamps count in whole seconds.
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
    // By a wall clock that nobody had set yet.
    let set = trace.host.clock_sets.iter().map(|set| set.from).min().unwrap_or(u64::MAX);
    let before = trace.arrivals.iter().filter(|arrival| arrival.t < set);
    let mut all: Vec<i64> = before.filter_map(ahead).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

/// The timestamp of a request, in Unix seconds: its header's, or the one inside the signature.
pub(super) fn timestamp(arrival: &Arrival) -> Option<&str> {
    let inside = || {
        let signature = arrival.signed.signature.as_deref()?;
        signature.split(',').find_map(|part| part.trim().strip_prefix("t="))
    };
    arrival.signed.timestamp.as_deref().or_else(inside)
}

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
pub(super) fn skews(scenario: &Scenario, trace: &Trace) -> Vec<Skew> {
    let faults = trace.faults.iter().filter(|fault| fault.kind == FaultKind::ClockSkew);
    let skew = |fault: &crate::trace::Fault| {
        let plan = scenario.faults.get(usize::try_from(fault.plan?).ok()?)?;
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
