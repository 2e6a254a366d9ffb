//! What was to be done to the sender, and was not: a check that saw nothing of it says so with the reason.

use super::epochs::unknown;
use super::evidence::{Evidence, Lane};
use super::verdict::{Finding, Found};
use crate::trace::Trace;

/// The checks that judge what follows when something is done to a sender.
const FOLLOWING: [&str; 6] =
    ["crash.", "fault.", "recovery.gap", "rate.across-", "rate.live-change", "identity.secret"];

/// The checks that hold requests to the contract of their time.
const BY_CONTRACT: [&str; 4] = ["rate.envelope", "rate.window", "rate.in-flight", "rate.across-"];

/// A finding, as far as it saw everything; with what was not done where it saw too little.
pub(super) fn weigh(id: &str, finding: Finding, evidence: &Evidence<'_>) -> Finding {
    let by_contract = BY_CONTRACT.iter().any(|start| id.starts_with(start));
    if by_contract
        && finding.found == Found::Held
        && let Some(sentence) = evidence.lanes.iter().find_map(|lane| unheld(evidence, lane))
    {
        return Finding { sentence, found: Found::Unseen, ..finding };
    }
    told(id, finding, evidence.trace)
}

/// Why requests of a lane could be held to no contract, if some could not.
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

fn told(id: &str, mut finding: Finding, trace: &Trace) -> Finding {
    let follows = FOLLOWING.iter().any(|start| id.starts_with(start));
    if finding.found == Found::Unseen && follows {
        // That it was not stopped at the end of the run, none of them needs.
        let faults = trace.undone.iter().filter(|one| one.plan.is_some() || one.action != "stop");
        let told = faults.map(|one| format!("; {} was not done: {}", one.action, one.why));
        finding.sentence.extend(told.take(1));
    }
    finding
}
