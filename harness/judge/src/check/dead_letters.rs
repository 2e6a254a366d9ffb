//! Giving up without a cause: a dead letter whose reason cannot be true.
//!
//! - `expired`, though it was younger than its `ttl` to the very end (a sender may see that its next attempt would come
//!   too late, and so the longest delay is taken off; a second more, as some count in seconds). That it was so when it was
//!   given up is judged by what the sender says is dead ([`dead_from`], `queue.truth`);
//! - `gone`, though its endpoint never answered 410;
//! - `overflow`, though its lane cannot have been so full: of `taken` deliveries, a queue that holds `room` of them sheds
//!   `taken − room` at most, as the last one that was shed left it full. Where its bound is not known, it has room for what it
//!   was ever said to hold.
//!
//! Where something bounds all lanes together (the sender's arguments may, or `queue_rows_max`), a lane may also shed for what
//! others hold. If that never happened, each lane shed what its own bound explains. If it did, `all` waited in all at the
//! last such moment. Of those, a lane can only have shed later by its own bound, and then kept as many as that allows, which is
//! no fewer than it had. So of all that were taken, `taken − all` at most were shed, whatever each lane's own bound did. The
//! bound on all is no less than what the whole was ever said to hold. Where events differ in size, no count of rows says
//! what a bound in bytes holds, and such shedding is taken for explained.
//!
//! A sender's own word for a reason explains nothing by itself. Such a delivery was given up with a cause only if one of
//! those above may be it, or if it had all its attempts, or an endpoint hid some of them (a closed port, a reset before
//! the request was read). `exhausted` is judged by `retry.attempts`. A lane without a declared bound may have one of its
//! own ([`UNDECLARED_ROWS`], [`UNDECLARED_BYTES`]).

use super::evidence::{Delivery, ENVELOPE_BYTES, Evidence, Lane, Outcome, concerns};
use super::verdict::show;
use crate::scenario::{Answer, FaultAction, SECOND};
use crate::trace::Depth;

/// No sender's own bound on a queue is smaller.
const UNDECLARED_ROWS: u64 = 10_000;
/// Nor is it in bytes.
const UNDECLARED_BYTES: u64 = 64 << 20;

/// The deliveries that were given up, and not taken by their endpoint, for what cannot be the reason; and why not.
pub(super) fn groundless<'e>(evidence: &'e Evidence<'_>) -> Vec<(&'e Delivery, String)> {
    let mut found = Vec::new();
    // What is missing in the trace may be the cause.
    if evidence.trace.trailer.as_ref().is_none_or(|trailer| trailer.dropped > 0) {
        return found;
    }
    let mut lanes = Vec::new();
    for (at, lane) in (0..).zip(&evidence.lanes) {
        let deliveries = evidence.deliveries_of(at);
        let mut shed = Vec::new();
        for delivery in deliveries.iter().filter(|delivery| !evidence.is_delivered(delivery)) {
            let why = match reason(evidence, delivery) {
                Some("expired") => too_young(evidence, lane, delivery),
                Some("gone") => (!said_gone(evidence, lane))
                    .then(|| "given up as gone; its endpoint never answered 410".to_owned()),
                Some("overflow") => {
                    shed.push(delivery);
                    None
                }
                Some("exhausted") | None => None,
                Some(_) => {
                    let explained = had_its_attempts(evidence, delivery)
                        || said_gone(evidence, lane)
                        || too_young(evidence, lane, delivery).is_none();
                    shed.extend((!explained).then_some(delivery));
                    None
                }
            };
            found.extend(why.map(|why| (delivery, why)));
        }
        lanes.push(Shed { lane, deliveries: shed, taken: taken(evidence, deliveries) });
    }
    found.extend(overflowed(evidence, lanes));
    found
}

/// What a lane shed.
struct Shed<'e> {
    lane: &'e Lane<'e>,
    deliveries: Vec<&'e Delivery>,
    /// How many deliveries it took.
    taken: u64,
}

/// The deliveries that were shed beyond what the bounds of their lanes explain, and beyond what a bound on all does where
/// there may be one.
fn overflowed<'e>(evidence: &'e Evidence<'_>, lanes: Vec<Shed<'e>>) -> Vec<(&'e Delivery, String)> {
    let taken: u64 = lanes.iter().map(|one| one.taken).sum();
    let shed: u64 = lanes.iter().map(|one| one.deliveries.len() as u64).sum();
    // What one lane held, all held together.
    let each = lanes.iter().map(|one| held(evidence, Some(one.lane)));
    let held_in_all = each.chain([held(evidence, None)]).max().unwrap_or(0);
    let for_all = if rows_tell(evidence) { taken.saturating_sub(held_in_all) } else { taken };
    let mut beyond_all = shed.saturating_sub(for_all);
    let mut found = Vec::new();
    for Shed { lane, mut deliveries, taken: own } in lanes {
        let for_others = sheds_for_others(evidence, lane);
        let seen = if for_others && rows_tell(evidence) { held(evidence, Some(lane)) } else { 0 };
        let most = own.saturating_sub(room(evidence, lane).max(seen));
        let mut surplus =
            deliveries.split_off(usize::try_from(most).unwrap_or(usize::MAX).min(deliveries.len()));
        if for_others {
            surplus.truncate(usize::try_from(beyond_all).unwrap_or(usize::MAX));
            beyond_all -= surplus.len() as u64;
        }
        let why = |delivery: &Delivery| {
            let tried = evidence.attempts(delivery).len();
            let reason = reason(evidence, delivery).unwrap_or_default();
            let own = format!("of {own} deliveries its queue can have shed {most}");
            let all = format!("of {taken} in all {shed} were shed, and {for_all} can have been");
            format!("given up as {reason:?} after {tried} attempts; {own}; {all}")
        };
        found.extend(surplus.into_iter().map(|delivery| (delivery, why(delivery))));
    }
    found
}

/// Whether a delivery was tried as often as declared, or may have been where its endpoint doesn't see it.
fn had_its_attempts(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    let subscriber = evidence.subscriber(delivery);
    let since = evidence.accepted(delivery).unwrap_or(0);
    let mut hidden = subscriber.behaviours.iter().filter(|behaviour| behaviour.answer.hides_attempts());
    evidence.attempts(delivery).len() >= subscriber.retry.attempts as usize
        || hidden.any(|behaviour| behaviour.until().is_none_or(|until| until >= since))
}

fn reason<'e>(evidence: &'e Evidence<'_>, delivery: &Delivery) -> Option<&'e str> {
    delivery.dead.map(|at| evidence.trace.dead[at as usize].reason.as_str())
}

fn too_young(evidence: &Evidence<'_>, lane: &Lane<'_>, delivery: &Delivery) -> Option<String> {
    let steps = |action: &FaultAction| matches!(action, FaultAction::ClockStep { .. });
    let event = evidence.event(delivery)?;
    if evidence.scenario.faults.iter().any(|fault| steps(&fault.action)) {
        return None;
    }
    let offered = evidence.trace.offers[event.offer as usize].t;
    let age = evidence.end.saturating_sub(offered);
    let ttl = lane.subscriber.retry.ttl.0;
    let oldest =
        age.saturating_add(longest_delay(lane, lane.subscriber.retry.attempts)).saturating_add(SECOND);
    (oldest < ttl)
        .then(|| format!("given up as expired, {} old at most; its ttl is {}", show(age), show(ttl)))
}

/// The first moment at which a delivery that is listed as given up can have been, by the reason that is given.
pub(super) fn dead_from(evidence: &Evidence<'_>, delivery: &Delivery) -> Option<u64> {
    let (reason, event) = (reason(evidence, delivery)?, evidence.event(delivery)?);
    let lane = &evidence.lanes[delivery.lane as usize];
    let offered = evidence.trace.offers[event.offer as usize].t;
    let retry = &lane.subscriber.retry;
    let steps = |action: &FaultAction| matches!(action, FaultAction::ClockStep { .. });
    let is_stepped = evidence.scenario.faults.iter().any(|fault| steps(&fault.action));
    Some(match reason {
        "expired" if !is_stepped => {
            let early = longest_delay(lane, retry.attempts).saturating_add(SECOND);
            offered.saturating_add(retry.ttl.0.saturating_sub(early))
        }
        "gone" => lane.gone.map_or(offered, |gone| gone.max(offered)),
        _ => offered,
    })
}

/// How long a sender may have had to wait for the next attempt, after this one at the latest.
pub(super) fn longest_delay(lane: &Lane<'_>, attempt: u32) -> u64 {
    let subscriber = lane.subscriber;
    if subscriber.behaviours.is_empty() {
        return 0;
    }
    let tells = |answer: &Answer| match answer {
        Answer::Status(reply) => reply.retry_after.is_some(),
        answer => matches!(answer, Answer::Enforce { .. }),
    };
    let told = subscriber.behaviours.iter().any(|behaviour| tells(&behaviour.answer));
    let backoff = subscriber.retry.bounds(attempt).1;
    let cooldown = subscriber.breaker.as_ref().map_or(0, |breaker| breaker.cooldown_max.0);
    backoff.max(cooldown).max(if told { subscriber.retry.retry_after_cap.0 } else { 0 })
}

pub(super) fn said_gone(evidence: &Evidence<'_>, lane: &Lane<'_>) -> bool {
    let gone = |n: &u32| matches!(evidence.exchange(*n).outcome, Outcome::Answered { status: 410, .. });
    lane.arrivals.iter().any(gone)
}

/// How many deliveries of a lane the sender can have taken.
fn taken(evidence: &Evidence<'_>, deliveries: &[Delivery]) -> u64 {
    let events = deliveries.iter().filter_map(|delivery| evidence.event(delivery));
    events.map(|event| u64::from(event.offers.saturating_sub(event.refused))).sum()
}

/// How many deliveries a lane was said to hold at most, or the whole, and so can hold without shedding, less those that were
/// under way: a bound need not count them.
fn held(evidence: &Evidence<'_>, lane: Option<&Lane<'_>>) -> u64 {
    let is_meant = |one: &&Depth| {
        lane.map_or(one.subscriber.is_none(), |lane| concerns(one, lane.subscriber, evidence.scenario))
    };
    let most =
        evidence.trace.depths.iter().filter(is_meant).filter_map(|one| Some((one.waiting?, one.t))).max();
    most.map_or(0, |(waiting, t)| {
        let lanes = evidence
            .lanes
            .iter()
            .filter(|one| lane.is_none_or(|lane| lane.subscriber.name == one.subscriber.name));
        let under_way = lanes.flat_map(|one| &one.arrivals).map(|n| evidence.exchange(*n));
        let under_way = under_way.filter(|one| one.t <= t.saturating_add(SECOND / 2) && one.end >= t);
        waiting.saturating_sub(under_way.count() as u64)
    })
}

/// Whether what is full of bytes once holds as many deliveries each time: what bounds all lanes may count bytes, and then a queue
/// that was once full of small ones can be full of fewer that are large.
fn rows_tell(evidence: &Evidence<'_>) -> bool {
    let bytes = &evidence.scenario.events.data_bytes;
    bytes.least == bytes.most
}

/// Whether a lane may have been made to shed by what others hold: something may bound all of them together, and its own
/// bound is not all that it was given.
fn sheds_for_others(evidence: &Evidence<'_>, lane: &Lane<'_>) -> bool {
    let (scenario, queue) = (evidence.scenario, &lane.subscriber.queue);
    let declared = queue.rows.is_some() || queue.bytes.is_some();
    !scenario.sender.arguments.is_empty() || (!declared && scenario.expect.queue_rows.max.is_some())
}

/// How many deliveries a lane's queue holds at least before it sheds by its own bound. What the sender's arguments, or a bound
/// on all, make of a lane without one is not known.
pub(super) fn room(evidence: &Evidence<'_>, lane: &Lane<'_>) -> u64 {
    let (scenario, queue) = (evidence.scenario, &lane.subscriber.queue);
    let (rows, bytes) = match (queue.rows, queue.bytes) {
        (None, None) if sheds_for_others(evidence, lane) => return 0,
        (None, None) => (UNDECLARED_ROWS, Some(UNDECLARED_BYTES)),
        (rows, bytes) => (rows.unwrap_or(u64::MAX), bytes.map(|size| size.0)),
    };
    // Some count more than the body; none twice as much.
    let each = scenario.events.data_bytes.most.0.saturating_add(ENVELOPE_BYTES).saturating_mul(2);
    rows.min(bytes.map_or(u64::MAX, |bytes| bytes / each))
}
