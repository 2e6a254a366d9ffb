//! What a driver file can't give, or its sender hasn't got: a check that needs it, and so saw nothing, is not applicable.

use super::verdict::{Finding, Found};
use crate::trace::{Lack, Trace};

/// How the reasons begin, so that reports can tell them from a scenario that arranges nothing.
pub(crate) const DRIVER: &str = "the driver file ";

/// Nothing can be told for want of that.
pub(super) fn lacking(what: Lack) -> Finding {
    Finding::unasked(format!("{DRIVER}{}", reason(what)))
}

/// What each of these checks needs.
const NEEDS: [(&str, Lack); 28] = [
    ("queue.bounded", Lack::Depth),
    ("queue.truth", Lack::Depth),
    ("queue.memory", Lack::Start),
    ("queue.memory", Lack::Process),
    ("network.huge-answer", Lack::Start),
    ("network.huge-answer", Lack::Process),
    ("fault.disk-full", Lack::Process),
    ("rate.across-restart", Lack::Start),
    ("rate.across-workers", Lack::Start),
    ("crash.ack-then-kill", Lack::Start),
    ("crash.stop", Lack::Start),
    ("crash.takeover", Lack::Start),
    ("recovery.gap", Lack::Start),
    ("process.exits", Lack::Start),
    ("fault.disk-full", Lack::Start),
    ("fault.locked", Lack::Start),
    ("fault.locked", Lack::Database),
    ("fault.database-restart", Lack::Start),
    ("fault.partition", Lack::Start),
    ("fault.clock-step", Lack::Start),
    ("fault.clock-skew", Lack::Start),
    ("breaker.opens", Lack::Breaker),
    ("breaker.one-probe", Lack::Breaker),
    ("breaker.cooldown", Lack::Breaker),
    ("order.per-key", Lack::Order),
    ("rate.live-change", Lack::Change),
    ("format.signature", Lack::Signature),
    ("identity.secret", Lack::Signature),
];

/// What a check found; not applicable, with the reason, where it saw nothing for want of something, or saw what nobody
/// promised.
pub(super) fn weigh(id: &str, finding: Finding, trace: &Trace) -> Finding {
    let breaker = id.starts_with("breaker.") && finding.found == Found::Unasked;
    // What a sender without a notion of order does with one is chance, whichever way it goes.
    let chance = id.starts_with("order.") && finding.found != Found::Unasked;
    if finding.found != Found::Unseen && !breaker && !chance {
        return finding;
    }
    let lacks = NEEDS.iter().find(|(needs, what)| *needs == id && trace.declared.lacks(*what));
    match lacks {
        Some((_, what)) => lacking(*what),
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
