//! `network.reset`, `network.refused`, `network.stale`: a delivery whose connection was reset, refused, or closed while it
//! lay idle is tried again until it is settled. Whether it is delivered twice is judged by `duplicate.bounded`.
//!
//! `network.huge-answer`: the answer's body is not kept: memory stays flat while endpoints send huge ones.

use super::evidence::{Delivery, Evidence, Outcome};
use super::settled::{Fate, fates};
use super::unsettled::{missing, not_settled_in_time, unless_late};
use super::verdict::{Finding, Tally};
use crate::scenario::Answer;
use crate::trace::CutKind;

/// How much memory may grow where the scenario doesn't say.
const GROWTH_MAX: u64 = 64 << 20;

fn has(evidence: &Evidence<'_>, wanted: fn(&Answer) -> bool) -> bool {
    let mut behaviours = evidence.scenario.subscribers.iter().flat_map(|subscriber| &subscriber.behaviours);
    behaviours.any(|behaviour| wanted(&behaviour.answer))
}

/// `network.reset`
pub(super) fn reset(evidence: &Evidence<'_>) -> Finding {
    let wanted = |answer: &Answer| matches!(answer, Answer::Reset | Answer::ResetAfterRead);
    survives(evidence, wanted, |cut| matches!(cut, CutKind::Reset | CutKind::ResetAfterRead))
}

/// `network.stale`
pub(super) fn stale(evidence: &Evidence<'_>) -> Finding {
    let wanted = |answer: &Answer| matches!(answer, Answer::Close | Answer::HalfAnswer);
    survives(evidence, wanted, |cut| matches!(cut, CutKind::Close | CutKind::HalfAnswer))
}

/// `network.refused`
pub(super) fn refused(evidence: &Evidence<'_>) -> Finding {
    survives(evidence, |answer| matches!(answer, Answer::Refuse), |_| false)
}

/// Judges deliveries that were cut so, and those that fell due while the endpoint did so.
fn survives(evidence: &Evidence<'_>, wanted: fn(&Answer) -> bool, cut: fn(CutKind) -> bool) -> Finding {
    if !has(evidence, wanted) {
        return Finding::unasked("no endpoint does that");
    }
    let met = |delivery: &Delivery| {
        let hit = |n: &u32| matches!(evidence.exchange(*n).outcome, Outcome::Cut(kind) if cut(kind));
        let t = evidence.accepted(delivery).unwrap_or(u64::MAX);
        let behaviours = &evidence.subscriber(delivery).behaviours;
        let due = behaviours.iter().any(|one| wanted(&one.answer) && one.covers(t));
        due || evidence.attempts(delivery).iter().any(hit)
    };
    let mut tally = Tally::default();
    let mut unsettled = Vec::new();
    for (delivery, fate) in fates(evidence).into_iter().filter(|(delivery, _)| met(delivery)) {
        tally.see();
        if fate == Fate::Unsettled {
            unsettled.push(delivery);
        }
    }
    // What the sender says is still waiting is not lost.
    for delivery in missing(evidence, &unsettled) {
        tally.broke(|| evidence.absent(delivery, "neither delivered nor given up".to_owned()));
    }
    let finding = tally.finding("deliveries that met it", "none was lost", "lost");
    unless_late(finding, not_settled_in_time(evidence, &unsettled))
}

/// `network.huge-answer`
pub(super) fn huge_answer(evidence: &Evidence<'_>) -> Finding {
    let wanted = |answer: &Answer| matches!(answer, Answer::HugeAnswer { .. });
    if !has(evidence, wanted) {
        return Finding::unasked("no endpoint sends huge answers");
    }
    let behaviours = evidence.scenario.subscribers.iter().flat_map(|subscriber| &subscriber.behaviours);
    let begin = behaviours.filter(|one| wanted(&one.answer)).map(|one| one.at.0).min().unwrap_or(0);
    let resident = evidence.trace.depths.iter().filter_map(|depth| Some((depth.t, depth.resident_bytes?)));
    let before = resident.clone().filter(|(t, _)| *t <= begin).map(|(_, bytes)| bytes).max();
    let before = before.or_else(|| resident.clone().map(|(_, bytes)| bytes).next());
    let most = resident.filter(|(t, _)| *t > begin).map(|(_, bytes)| bytes).max();
    let (Some(before), Some(most)) = (before, most) else {
        return Finding::unseen("the sender's memory was not seen");
    };
    let allowed = evidence.scenario.expect.rss_growth_max.map_or(GROWTH_MAX, |size| size.0);
    let growth = most.saturating_sub(before);
    let finding = if growth <= allowed {
        Finding::held(format!("memory grew by {} KiB while endpoints sent huge answers", growth >> 10))
    } else {
        let sentence = format!("memory grew by {} KiB; {} KiB are allowed", growth >> 10, allowed >> 10);
        Finding::broken(sentence, Vec::new())
    };
    finding
        .with("resident before", format!("{} KiB", before >> 10))
        .with("most", format!("{} KiB", most >> 10))
}
