//! What was to be done to the sender, and was not: a check that saw nothing of it says so with the reason.

use super::verdict::{Finding, Found};
use crate::trace::Trace;

/// The checks that judge what follows when something is done to a sender.
const FOLLOWING: [&str; 6] =
    ["crash.", "fault.", "recovery.gap", "rate.across-", "rate.live-change", "identity.secret"];

/// A finding, with what was not done where it saw too little.
pub(super) fn weigh(id: &str, mut finding: Finding, trace: &Trace) -> Finding {
    let follows = FOLLOWING.iter().any(|start| id.starts_with(start));
    if finding.found == Found::Unseen && follows {
        // That it was not stopped at the end of the run, none of them needs.
        let faults = trace.undone.iter().filter(|one| one.plan.is_some() || one.action != "stop");
        let told = faults.map(|one| format!("; {} was not done: {}", one.action, one.why));
        finding.sentence.extend(told.take(1));
    }
    finding
}
