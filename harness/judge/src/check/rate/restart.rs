//! `rate.across-restart`: the pass of [`super::Level`] with a second level for windows that begin before an end of a
//! process and end after it. That level drains below 0, since such a window can't begin later. Window caps: L + 1
//! consecutive arrivals inside W, with an end of a process among them.

use super::Drain;
use super::envelope::{arrivals, limited};
use super::window::capped;
use crate::check::evidence::Evidence;
use crate::check::verdict::{Finding, Tally, show};
use crate::check::{Check, Picture, Stall};
use crate::entry::Severity;
use crate::scenario::{Bucket, FaultAction};
use crate::trace::{Lack, ProcessEvent};

/// The highest level of a window with a restart inside, and the index of its last arrival.
#[must_use]
pub fn peak_across(times: &[u64], restarts: &[u64], bucket: Bucket) -> Option<(u128, usize)> {
    across(times, restarts, &bucket.rate.into())
}

fn across(times: &[u64], restarts: &[u64], drain: &Drain) -> Option<(u128, usize)> {
    let per = i128::try_from(drain.per).unwrap_or(i128::MAX);
    let (mut any, mut across): (i128, Option<i128>) = (0, None);
    let mut peak: Option<(i128, usize)> = None;
    for (at, t) in times.iter().enumerate() {
        let earlier = at.checked_sub(1).map_or(0, |before| times[before]);
        let drained = i128::try_from(drain.between(earlier, *t)).unwrap_or(i128::MAX);
        let next = restarts.partition_point(|restart| *restart <= earlier);
        let between = at > 0 && restarts.get(next).is_some_and(|restart| restart <= t);
        let fresh = between.then_some(any - drained + per);
        across = across.map(|level| level - drained + per).max(fresh);
        any = (any - drained).max(0) + per;
        if let Some(level) = across.filter(|level| peak.is_none_or(|(most, _)| *level > most)) {
            peak = Some((level, at));
        }
    }
    peak.map(|(level, at)| (u128::try_from(level).unwrap_or(0), at))
}

pub(in crate::check) const CHECK: Check = Check {
    id: "rate.across-restart",
    severity: Severity::Must,
    source: "existing senders",
    requirement: "the contract holds across kills and restarts",
    why: "a sender that crashes in a loop starts with a full bucket each time, and floods its endpoints",
    remedy: "store the limiter's level, and start with an empty bucket if it could not be stored",
    needs: &[Lack::Start],
    stall: Stall::Crowds,
    follows_fault: true,
    by_contract: true,
    stands_alone: true,
    picture: Picture::Level,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    let ends = |action: &FaultAction| matches!(action, FaultAction::Kill | FaultAction::Restart);
    if !evidence.scenario.faults.iter().any(|fault| ends(&fault.action)) {
        return Finding::unasked("the scenario kills or restarts no process");
    }
    if limited(evidence).next().is_none() {
        return Finding::unasked("no subscriber has a rate limit");
    }
    let processes = evidence.trace.processes.iter();
    let gone = processes.filter(|one| matches!(one.event, ProcessEvent::Killed | ProcessEvent::Exited));
    let mut restarts: Vec<u64> = gone.map(|process| process.t).collect();
    restarts.sort_unstable();
    let mut tally = Tally::default();
    for (at, lane, stretch) in limited(evidence) {
        let (arrivals, times) = arrivals(evidence, lane, (stretch.from, stretch.until));
        let Some((level, to)) = across(&times, &restarts, &stretch.drain) else { continue };
        tally.see();
        let needed = stretch.needs(level);
        if needed > u128::from(stretch.burst) {
            let from = to.saturating_sub(usize::try_from(needed).unwrap_or(usize::MAX));
            let what = format!(
                "arrivals across the end of a process need a burst of {needed}; the contract allows {}",
                stretch.burst
            );
            tally.broke(|| evidence.witness(at, &arrivals[from..=to], what));
        }
    }
    for (at, lane) in (0..).zip(&evidence.lanes) {
        for (span, window) in capped(&lane.epochs) {
            let (arrivals, times) = arrivals(evidence, lane, span);
            let cap = usize::try_from(window.count).unwrap_or(usize::MAX);
            let later = times.get(cap..).unwrap_or_default();
            let across = |first: u64, last: u64| {
                let next = restarts.partition_point(|restart| *restart <= first);
                restarts.get(next).is_some_and(|restart| *restart <= last)
            };
            let excess = times
                .iter()
                .zip(later)
                .position(|(first, last)| last - first < window.length.0 && across(*first, *last));
            if let Some(from) = excess {
                let what = format!(
                    "{} arrivals in {} across the end of a process; the cap is {window}",
                    cap + 1,
                    show(times[from + cap] - times[from])
                );
                tally.broke(|| evidence.witness(at, &arrivals[from..=from + cap], what));
            }
        }
    }
    tally.finding(
        "limits with arrivals before and after the end of a process",
        "each held in every window",
        "exceeded in some window",
    )
}
