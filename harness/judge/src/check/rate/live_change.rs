//! Judges every window that begins after the declared delay.

use super::envelope::arrivals;
use super::window::first_excess;
use super::{fits, least_burst, peak};
use crate::check::evidence::Evidence;
use crate::check::verdict::{Finding, Tally};
use crate::check::{Check, Picture, Stall};
use crate::entry::Severity;
use crate::scenario::FaultAction;
use crate::trace::Lack;

pub(in crate::check) const CHECK: Check = Check {
    id: "rate.live-change",
    severity: Severity::Should,
    source: "Hookdeck's rate limiter",
    requirement: "a lowered limit holds from its declared delay after the change",
    why: "an endpoint's operator lowers a limit because the endpoint is in trouble now",
    remedy: "let the limiter read its contract for each decision, or notify it of the change",
    needs: &[Lack::Change],
    stall: Stall::Crowds,
    follows_fault: true,
    stands_alone: true,
    picture: Picture::Level,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    let changes = |action: &FaultAction| matches!(action, FaultAction::Limit { .. });
    if !evidence.scenario.faults.iter().any(|fault| changes(&fault.action)) {
        return Finding::unasked("the scenario changes no limit");
    }
    let is_fixed = evidence.trace.declared.lacks(Lack::Change);
    if !is_fixed && evidence.lanes.iter().all(|lane| lane.epochs.len() == 1) {
        return Finding::unasked("each change is to the limit that holds");
    }
    let mut tally = Tally::default();
    for (at, lane) in (0..).zip(&evidence.lanes) {
        for epoch in lane.epochs.iter().skip(1).filter(|epoch| epoch.is_sure) {
            let (arrivals, times) = arrivals(evidence, lane, (epoch.from, epoch.until));
            if times.is_empty() {
                continue;
            }
            tally.see();
            if let Some(bucket) = epoch.limit.bucket
                && let Some(peak) = peak(&times, bucket.rate).filter(|peak| !fits(peak.level, bucket))
            {
                let needed = least_burst(peak.level, bucket.rate);
                let what = format!(
                    "the limit since the change is {} with burst {}; the arrivals need a burst of {needed}",
                    bucket.rate, bucket.burst
                );
                tally.broke(|| evidence.witness(at, &arrivals[peak.from..=peak.to], what));
            }
            for window in &epoch.limit.windows {
                if let Some((from, to)) = first_excess(&times, *window) {
                    let what = format!(
                        "the cap since the change is {window}; {} arrived in one window",
                        to - from + 1
                    );
                    tally.broke(|| evidence.witness(at, &arrivals[from..=to], what));
                }
            }
        }
    }
    tally.finding("changed limits with arrivals after them", "each holds", "exceeded")
}
