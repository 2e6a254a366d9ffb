//! Reasons that weaken a finding: the driver lacks a call, a fault was not injected, the contract of the
//! moment is unknown, or the machine's wall clock was set. Each check declares which of them concern it.

use super::Check;
use super::WallClock;
use super::epochs::unknown;
use super::evidence::{Evidence, Lane};
use super::retry::asked::Asked;
use super::verdict::{Finding, Found, show};
use crate::scenario::FaultKind;
use crate::trace::{ClockSet, Lack, Trace};

/// The finding with every excuse of this module applied.
pub(super) fn weigh(check: &Check, finding: Finding, evidence: &Evidence<'_>) -> Finding {
    let finding = by_wall_clock(check, finding, evidence);
    let finding = by_lack(check, finding, evidence.trace);
    let finding = by_unknown_contract(check, finding, evidence);
    by_missing_fault(check, finding, evidence.trace)
}

/// Begins each such reason, so that reports can tell it from a scenario that arranges nothing.
pub(crate) const DRIVER: &str = "the driver file ";

pub(super) fn lacking(what: Lack) -> Finding {
    Finding::unasked(format!("{DRIVER}{}", reason(what)))
}

/// Not applicable, with the reason, where a check saw nothing because the driver lacks a call, or saw
/// behaviour that nobody promised.
fn by_lack(check: &Check, finding: Finding, trace: &Trace) -> Finding {
    let breaker = check.needs.contains(&Lack::Breaker) && finding.found == Found::Unasked;
    // The order that a sender without ordering keeps is chance.
    let chance = check.needs.contains(&Lack::Order) && finding.found != Found::Unasked;
    if finding.found != Found::Unseen && !breaker && !chance {
        return finding;
    }
    match check.needs.iter().find(|lack| trace.declared.lacks(**lack)) {
        Some(lack) => lacking(*lack),
        None => finding,
    }
}

const fn reason(what: Lack) -> &'static str {
    match what {
        Lack::Start => "has no [start]: the harness has no process to stop, kill or measure",
        Lack::Process => "starts a sender that is detached: the harness has no process to measure",
        Lack::Database => "names no database that could be locked or measured",
        Lack::Depth => "has no [depth]: nobody can ask how much waits",
        Lack::Kept => "has no [depth.kept]: nobody can ask what is kept",
        Lack::DeadLetters => "declares no dead letters, or has no [dead]",
        Lack::Breaker => "declares that there is no breaker",
        Lack::Order => "declares that no order is kept",
        Lack::Change => "has no [change]: no limit can be changed",
        Lack::Rotate => "has no [rotate]: no secret can be added",
        Lack::Redrive => "has no [redrive]: no dead letter can be sent again",
        Lack::Signature => "says that nothing is signed",
    }
}

/// The sender follows the machine's wall clock, the harness a monotonic clock.
fn by_wall_clock(check: &Check, finding: Finding, evidence: &Evidence<'_>) -> Finding {
    let Some(set) = first_set(evidence) else { return finding };
    let concerned = match check.wall_clock {
        WallClock::Ignored => false,
        WallClock::Dates => finding.found == Found::Broken && has_dates(evidence),
        WallClock::Always => true,
    };
    if !concerned {
        return finding;
    }
    let last = evidence.trace.arrivals.iter().map(|arrival| arrival.read).max();
    unless_set(finding, set, last)
}

/// The same for a finding that depends on the time of day of everything seen up to `last`.
pub(super) fn unless_clock_set(finding: Finding, evidence: &Evidence<'_>, last: Option<u64>) -> Finding {
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
        // A failure from before the step stands.
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

/// A check passes only if the contract of every request is known.
fn by_unknown_contract(check: &Check, finding: Finding, evidence: &Evidence<'_>) -> Finding {
    if check.by_contract
        && finding.found == Found::Held
        && let Some(sentence) = evidence.lanes.iter().find_map(|lane| unheld(evidence, lane))
    {
        return Finding { sentence, found: Found::Unseen, ..finding };
    }
    finding
}

/// Why the contract of some requests of a lane is unknown.
fn unheld(evidence: &Evidence<'_>, lane: &Lane<'_>) -> Option<String> {
    let unknown = unknown(evidence.scenario, evidence.trace, lane.subscriber);
    let is_inside = |t: u64| unknown.iter().any(|(from, until)| *from < t && t < *until);
    let count = lane.begun.iter().filter(|n| is_inside(evidence.exchange(**n).t)).count();
    let name = &lane.subscriber.name;
    let what = format!(
        "{count} requests to {name} came since a change of its limit that the sender did not confirm"
    );
    (count > 0).then(|| format!("{what}: by which contract, nobody knows"))
}

/// Names the fault that was not injected, for a check that saw nothing.
fn by_missing_fault(check: &Check, mut finding: Finding, trace: &Trace) -> Finding {
    if finding.found == Found::Unseen && check.follows_fault {
        // No check needs the stop at the end of the run.
        let missing = trace.undone.iter().filter(|one| one.plan.is_some() || one.kind != FaultKind::Stop);
        let told = missing.map(|one| format!("; {} was not done: {}", one.kind, one.why));
        finding.sentence.extend(told.take(1));
    }
    finding
}
