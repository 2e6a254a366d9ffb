//! `network.reset`, `network.refused`, `network.stale`: the check breaks if a delivery of a lane was given up after
//! such an error with attempts and time left, and none of the lane was retried. Deliveries that a full queue sheds
//! don't count.
//!
//! `network.huge-answer`: memory stays flat while endpoints send huge answers.

use super::dead_letters::reported_gone;
use super::evidence::{Delivery, Evidence, Outcome};
use super::outcomes::{Fate, fates};
use super::outcomes::{missing, not_settled_in_time, unless_late};
use super::verdict::{Finding, Tally, show_bytes, show_bytes_beside};
use crate::check::{Check, Simulated};
use crate::entry::Severity;
use crate::scenario::{Answer, SECOND};
use crate::trace::CutKind;
use crate::trace::Lack;

const GROWTH_MAX: u64 = 64 << 20;

fn has(evidence: &Evidence<'_>, wanted: fn(&Answer) -> bool) -> bool {
    let mut behaviours = evidence.scenario.subscribers.iter().flat_map(|subscriber| &subscriber.behaviours);
    behaviours.any(|behaviour| wanted(&behaviour.answer))
}

pub(super) const RESET: Check = Check {
    id: "network.reset",
    severity: Severity::Must,
    source: "derived: a reset does not show whether the endpoint read the request",
    requirement: "a delivery on a reset connection is retried and not lost",
    why: "the endpoint may have read the request or not, so the sender must neither give up nor repeat it \
        at once",
    remedy: "treat an error after sending as a failed attempt, and let the backoff decide",
    find: reset,
    ..Check::PLAIN
};

pub(super) fn reset(evidence: &Evidence<'_>) -> Finding {
    let wanted = |answer: &Answer| matches!(answer, Answer::Reset | Answer::ResetAfterRead);
    let is_reset = |cut| matches!(cut, CutKind::Reset | CutKind::ResetAfterRead);
    let met = evidence.trace.cuts.iter().any(|cut| is_reset(cut.how));
    let none = || "no connection was reset".to_owned();
    survives(evidence, wanted, is_reset).unless_shown((!met).then(none))
}

pub(super) const STALE: Check = Check {
    id: "network.stale",
    severity: Severity::Must,
    source: "derived",
    requirement: "a keep-alive connection that the endpoint closed costs no delivery",
    why: "an endpoint may close a keep-alive connection at any moment, often just as the next request leaves",
    remedy: "close idle connections before the endpoint does, and count the failure as an attempt",
    find: stale,
    ..Check::PLAIN
};

pub(super) fn stale(evidence: &Evidence<'_>) -> Finding {
    let wanted = |answer: &Answer| matches!(answer, Answer::Close | Answer::HalfAnswer);
    survives(evidence, wanted, |cut| matches!(cut, CutKind::Close | CutKind::HalfAnswer))
}

pub(super) const REFUSED: Check = Check {
    id: "network.refused",
    severity: Severity::Must,
    source: "derived",
    requirement: "a delivery with a refused connection is retried and not lost",
    why: "the endpoint received nothing, so a retry is safe, and without one the delivery is lost",
    remedy: "treat an error while connecting as a failed attempt",
    find: refused,
    ..Check::PLAIN
};

pub(super) fn refused(evidence: &Evidence<'_>) -> Finding {
    survives(evidence, |answer| matches!(answer, Answer::Refuse), |_| false)
}

pub(super) fn survives(
    evidence: &Evidence<'_>,
    wanted: fn(&Answer) -> bool,
    cut: fn(CutKind) -> bool,
) -> Finding {
    if !has(evidence, wanted) {
        return Finding::unasked("no endpoint of the scenario behaves so");
    }
    let (tally, late) = survival(evidence, wanted, cut);
    unless_late(tally.finding(ERRORS, "none was lost", LOST), late)
}

pub(super) const ERRORS: &str = "deliveries with such an error";
pub(super) const LOST: &str = "lost, or not retried";

/// Returns the number of those that could still have come, too.
pub(super) fn survival(
    evidence: &Evidence<'_>,
    wanted: fn(&Answer) -> bool,
    cut: fn(CutKind) -> bool,
) -> (Tally, u64) {
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
    // A delivery that the sender reports as waiting is not lost.
    for delivery in missing(evidence, &unsettled) {
        tally.broke(|| evidence.absent(delivery, "neither delivered nor a dead letter".to_owned()));
    }
    for (at, _) in (0..).zip(&evidence.lanes) {
        if let Some((delivery, n)) = given_up(evidence, at, cut) {
            let what = format!("event {}: given up after this error, with attempts left", delivery.token);
            tally.broke(|| evidence.witness(at, &[n], what));
        }
    }
    (tally, not_settled_in_time(evidence, &unsettled))
}

/// Not judged where a breaker or an endpoint may hide attempts.
fn given_up<'e>(
    evidence: &'e Evidence<'_>,
    lane: u32,
    cut: fn(CutKind) -> bool,
) -> Option<(&'e Delivery, u32)> {
    let subscriber = evidence.lanes[lane as usize].subscriber;
    let retry = &subscriber.retry;
    if subscriber.hides_attempts() || subscriber.breaker.is_some() || retry.ttl.0 <= evidence.end {
        return None;
    }
    let is_cut = |n: &u32| matches!(evidence.exchange(*n).outcome, Outcome::Cut(kind) if cut(kind));
    let mut found = None;
    for delivery in evidence.deliveries_of(lane) {
        let Some((last, before)) = evidence.attempts(delivery).split_last() else { continue };
        if before.iter().any(is_cut) {
            return None;
        }
        let number = u32::try_from(before.len() + 1).unwrap_or(u32::MAX);
        let by = evidence.exchange(*last).end.saturating_add(retry.bounds(number).1);
        let had_time = by.saturating_add(10 * SECOND) < evidence.end;
        if is_cut(last) && number < retry.attempts && had_time && is_let_down(evidence, delivery) {
            found = found.or(Some((delivery, *last)));
        }
    }
    found
}

/// A reason in the sender's own words does not count: it may mean the queue or the endpoint's answer.
fn is_let_down(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    let reason = delivery.dead.map(|at| evidence.trace.dead[at as usize].reason.as_str());
    let subscriber = evidence.subscriber(delivery);
    let may_be_full = subscriber.queue.rows.is_some() || subscriber.queue.bytes.is_some();
    reason.is_some_and(|reason| match reason {
        "overflow" | "gone" => false,
        "exhausted" | "expired" => true,
        _ => !may_be_full && !reported_gone(evidence, &evidence.lanes[delivery.lane as usize]),
    })
}

pub(super) const HUGE_ANSWER: Check = Check {
    id: "network.huge-answer",
    severity: Severity::Must,
    source: "derived: the answer comes from an untrusted endpoint",
    requirement: "the sender's memory stays flat while an endpoint sends an endless answer",
    why: "one endless answer must not take the memory of all lanes",
    remedy: "read a bounded part of the body, then close the connection",
    needs: &[Lack::Start, Lack::Process],
    simulated: Simulated::Beyond("a simulated process has no memory of its own to measure"),
    find: huge_answer,
    ..Check::PLAIN
};

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
        return Finding::unseen("the sender's memory was not measured");
    };
    let allowed = evidence.scenario.expect.holds.rss_growth_max.map_or(GROWTH_MAX, |size| size.0);
    let growth = most.saturating_sub(before);
    let finding = if growth <= allowed {
        Finding::held(format!("memory grew by {} while endpoints sent huge answers", show_bytes(growth)))
    } else {
        let sentence = format!(
            "memory grew by {}; allowed: {}",
            show_bytes_beside(growth, allowed),
            show_bytes(allowed)
        );
        Finding::broken(sentence, Vec::new())
    };
    finding.with("resident before", show_bytes(before)).with("most", show_bytes(most))
}
