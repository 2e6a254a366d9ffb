//! Where the machine's wall clock was set during the run, or went on while the machine was suspended: what goes by the time of
//! day says nothing of what came from then on. The sender went by that clock, the harness by one that nobody sets.

use super::evidence::Evidence;
use super::retry::asked::Asked;
use super::verdict::{Finding, Found, show};
use crate::trace::ClockSet;

/// The checks that go by it. (`queue.retention` does with one of its halves, and asks by itself.)
const BY_TIME_OF_DAY: [&str; 2] = ["format.timestamp", "retry.after-date"];
/// Those that are broken by it where an endpoint asked for a pause until a date.
const BY_DATES: &str = "retry.after-";

/// A finding, as far as it holds whatever the wall clock showed.
pub(super) fn weigh(id: &str, finding: Finding, evidence: &Evidence<'_>) -> Finding {
    let Some(set) = first_set(evidence) else { return finding };
    let by_dates = id.starts_with(BY_DATES) && finding.found == Found::Broken && has_dates(evidence);
    if !by_dates && !BY_TIME_OF_DAY.contains(&id) {
        return finding;
    }
    let last = evidence.trace.arrivals.iter().map(|arrival| arrival.read).max();
    unless_set(finding, set, last)
}

/// The same of a finding that goes by the time of day of what was seen up to that moment.
pub(super) fn doubt(finding: Finding, evidence: &Evidence<'_>, last: Option<u64>) -> Finding {
    match first_set(evidence) {
        Some(set) => unless_set(finding, set, last),
        None => finding,
    }
}

fn first_set<'e>(evidence: &'e Evidence<'_>) -> Option<&'e ClockSet> {
    evidence.trace.host.clock_sets.iter().min_by_key(|set| set.from)
}

fn has_dates(evidence: &Evidence<'_>) -> bool {
    let mut asked = evidence.trace.answers.iter().filter_map(|answer| answer.retry_after.as_deref());
    asked.any(|text| matches!(Asked::read(text), Asked::Date(_)))
}

fn unless_set(finding: Finding, set: &ClockSet, last: Option<u64>) -> Finding {
    let says_nothing = match finding.found {
        // What was wrong before it was set is wrong.
        Found::Broken => finding.witness.iter().all(|one| one.until >= set.from),
        Found::Held => last.is_some_and(|last| last >= set.from),
        Found::Unseen | Found::Unasked => false,
    };
    if !says_nothing {
        return finding;
    }
    let (far, at) = (show(set.ns.unsigned_abs()), show(set.until));
    let side = if set.ns < 0 { "back" } else { "ahead" };
    let why = format!("the machine's wall clock was set {side} by {far} at {at}, and a sender goes by that");
    Finding { found: Found::Unseen, sentence: format!("{}; but {why}", finding.sentence), ..finding }
}
