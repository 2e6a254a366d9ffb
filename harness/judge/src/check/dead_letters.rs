//! A dead letter is without a cause if its reason is:
//!
//! - `expired`, though it was younger than its `ttl` at the end of the run. The longest delay is subtracted, as a
//!   sender may foresee that its next attempt comes too late, and a second for senders that count seconds.
//!   `queue.truth` judges the moment, by the dead letters that the sender counts ([`dead_from`]).
//! - `gone`, though its endpoint never answered 410.
//! - `overflow`, though its lane cannot have been full that often. A queue that holds `room` of `taken` deliveries
//!   sheds at most `taken − room`, as the last shedding left it full. It sheds only when an event finds it full: the
//!   judge plays the queue with each event as early as it was offered, and each delivery in it until the sender
//!   certainly recorded its success ([`most_shed`]). A lane with an unknown bound has room for the largest backlog that
//!   was ever reported.
//!
//! If a bound on all lanes exists (`queue_rows_max`, or the sender's arguments), a lane may also shed because of the
//! backlog of others. Let `all` be the total backlog at the last such shedding. Later sheddings of a lane follow its
//! own bound, which keeps at least as many deliveries as the lane had then. So at most `taken − all` of all accepted
//! deliveries were shed. If events differ in size, no count of rows tells how much a bound in bytes holds, and such
//! shedding counts as explained.
//!
//! A dead letter with a reason in the sender's own words has a cause if it can have expired, if its endpoint answered
//! 410 or a status that the driver declares final, or if its queue can have been full. It also has one if it had all its
//! attempts, or the endpoint hid some (a closed port, a reset before the request was read). `retry.attempts` judges
//! `exhausted`. A lane without a declared bound may have a bound of the sender's own ([`UNDECLARED_ROWS`],
//! [`UNDECLARED_BYTES`]).

use std::collections::BTreeMap;

use super::evidence::{Delivery, ENVELOPE_BYTES, Evidence, Lane, Outcome, concerns, surely_heard};
use super::retry::after::contract_wait;
use super::verdict::{show, show_beside};
use crate::scenario::{Answer, SECOND};
use crate::trace::{Depth, Ended};

const UNDECLARED_ROWS: u64 = 10_000;
const UNDECLARED_BYTES: u64 = 64 << 20;

pub(super) fn groundless<'e>(evidence: &'e Evidence<'_>) -> Vec<(&'e Delivery, String)> {
    let mut found = Vec::new();
    // A missing line may hold the cause.
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
                Some("gone") => (!reported_gone(evidence, lane))
                    .then(|| "given up as gone, but its endpoint never answered 410".to_owned()),
                Some("overflow") => {
                    shed.push(delivery);
                    None
                }
                Some("exhausted") | None => None,
                Some(_) => {
                    let explained = had_its_attempts(evidence, delivery)
                        || evidence.ended_finally(delivery)
                        || reported_gone(evidence, lane)
                        || too_young(evidence, lane, delivery).is_none();
                    shed.extend((!explained).then_some(delivery));
                    None
                }
            };
            found.extend(why.map(|why| (delivery, why)));
        }
        let most = most_shed(evidence, at, room(evidence, lane));
        lanes.push(Shed { lane, deliveries: shed, taken: accepted_max(evidence, deliveries), most });
    }
    found.extend(overflowed(evidence, lanes));
    found
}

struct Shed<'e> {
    lane: &'e Lane<'e>,
    deliveries: Vec<&'e Delivery>,
    taken: u64,
    most: u64,
}

fn most_shed(evidence: &Evidence<'_>, at: u32, room: u64) -> u64 {
    let mut steps: Vec<(u64, bool, u64)> = Vec::new();
    for delivery in evidence.deliveries_of(at).iter().filter(|one| one.owed) {
        let Some(event) = evidence.event(delivery) else { continue };
        let count = u64::from(event.offers.saturating_sub(event.refused));
        steps.push((evidence.trace.offers[event.offer as usize].t, false, count));
        let heard = evidence.attempts(delivery).iter().filter(|n| surely_heard(evidence, **n));
        let settled = heard.map(|n| evidence.noted_by(evidence.exchange(*n).end)).min();
        steps.extend(settled.filter(|_| count == 1).map(|t| (t, true, 1)));
    }
    steps.sort_unstable();
    let (mut waiting, mut shed) = (0_u64, 0_u64);
    for (_, leaves, count) in steps {
        if leaves {
            waiting = waiting.saturating_sub(1);
            continue;
        }
        let full = waiting.saturating_add(count).saturating_sub(room).min(count);
        shed += full;
        waiting += count - full;
    }
    shed
}

fn last_status(evidence: &Evidence<'_>, delivery: &Delivery) -> Option<u16> {
    evidence.exchange(*evidence.attempts(delivery).last()?).status()
}

fn overflowed<'e>(evidence: &'e Evidence<'_>, lanes: Vec<Shed<'e>>) -> Vec<(&'e Delivery, String)> {
    let taken: u64 = lanes.iter().map(|one| one.taken).sum();
    let shed: u64 = lanes.iter().map(|one| one.deliveries.len() as u64).sum();
    // The backlog of one lane was part of the total.
    let each = lanes.iter().map(|one| backlog_max(evidence, Some(one.lane)));
    let held_in_all = each.chain([backlog_max(evidence, None)]).max().unwrap_or(0);
    let for_all = if rows_tell(evidence) { taken.saturating_sub(held_in_all) } else { taken };
    let mut beyond_all = shed.saturating_sub(for_all);
    let mut found = Vec::new();
    for Shed { lane, mut deliveries, taken: own, most } in lanes {
        let for_others = sheds_for_others(evidence, lane);
        let seen = if for_others && rows_tell(evidence) { backlog_max(evidence, Some(lane)) } else { 0 };
        let most = own.saturating_sub(room(evidence, lane).max(seen)).min(most);
        let mut surplus =
            deliveries.split_off(usize::try_from(most).unwrap_or(usize::MAX).min(deliveries.len()));
        if for_others {
            surplus.truncate(usize::try_from(beyond_all).unwrap_or(usize::MAX));
            beyond_all -= surplus.len() as u64;
        }
        let why = |delivery: &Delivery| {
            let tried = evidence.attempts(delivery).len();
            let reason = reason(evidence, delivery).unwrap_or_default();
            let own = format!("its queue took {own} deliveries and can have shed at most {most}");
            let own = match last_status(evidence, delivery).filter(|status| !matches!(status, 200..=299)) {
                Some(status) => {
                    format!("the last answer was {status}, which the driver does not declare final; {own}")
                }
                None => own,
            };
            let all = format!("all queues took {taken} and shed {shed}, and can have shed at most {for_all}");
            format!("given up as {reason:?}; attempts: {tried}; {own}; {all}")
        };
        found.extend(surplus.into_iter().map(|delivery| (delivery, why(delivery))));
    }
    found
}

/// Also true where the endpoint may have hidden attempts.
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
    let event = evidence.event(delivery)?;
    let offered = evidence.trace.offers[event.offer as usize].t;
    let (ahead, _) = evidence.clock_set(offered, evidence.end);
    let age = evidence.end.saturating_sub(offered).saturating_add(ahead);
    let ttl = lane.subscriber.retry.ttl.0;
    let oldest =
        age.saturating_add(longest_delay(lane, lane.subscriber.retry.attempts)).saturating_add(SECOND);
    (oldest < ttl).then(|| {
        format!(
            "given up as expired at an age of at most {}; its ttl is {}",
            show_beside(age, ttl),
            show(ttl)
        )
    })
}

/// The earliest moment at which a listed dead letter can have been given up for its reason.
pub(super) fn dead_from(evidence: &Evidence<'_>, delivery: &Delivery) -> Option<u64> {
    let (reason, event) = (reason(evidence, delivery)?, evidence.event(delivery)?);
    let lane = &evidence.lanes[delivery.lane as usize];
    let offered = evidence.trace.offers[event.offer as usize].t;
    let retry = &lane.subscriber.retry;
    Some(match reason {
        "expired" => {
            let (ahead, _) = evidence.clock_set(offered, evidence.end);
            let early = longest_delay(lane, retry.attempts).saturating_add(SECOND).saturating_add(ahead);
            offered.saturating_add(retry.ttl.0.saturating_sub(early))
        }
        "gone" => lane.gone.map_or(offered, |gone| gone.max(offered)),
        _ => offered,
    })
}

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

pub(super) fn reported_gone(evidence: &Evidence<'_>, lane: &Lane<'_>) -> bool {
    let gone = |n: &u32| matches!(evidence.exchange(*n).outcome, Outcome::Answered { status: 410, .. });
    lane.arrivals.iter().any(gone)
}

fn accepted_max(evidence: &Evidence<'_>, deliveries: &[Delivery]) -> u64 {
    let events = deliveries.iter().filter_map(|delivery| evidence.event(delivery));
    events.map(|event| u64::from(event.offers.saturating_sub(event.refused))).sum()
}

/// The largest report, less the deliveries in flight, which a bound need not count. `None`: of the whole sender.
fn backlog_max(evidence: &Evidence<'_>, lane: Option<&Lane<'_>>) -> u64 {
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

/// Whether counts of rows tell how full a bound in bytes is: only if all events have one size.
fn rows_tell(evidence: &Evidence<'_>) -> bool {
    let bytes = &evidence.scenario.events.data_bytes;
    bytes.least == bytes.most
}

/// A bound on all lanes may exist, and the lane's own bound is not its only one.
fn sheds_for_others(evidence: &Evidence<'_>, lane: &Lane<'_>) -> bool {
    let (scenario, queue) = (evidence.scenario, &lane.subscriber.queue);
    let declared = queue.rows.is_some() || queue.bytes.is_some();
    !scenario.sender.arguments.is_empty() || (!declared && scenario.expect.queue_rows.max.is_some())
}

/// Deliveries that a lane's queue holds at least before it sheds by its own bound. The effect of the sender's
/// arguments, or of a bound on all, on a lane without its own bound is unknown.
pub(super) fn room(evidence: &Evidence<'_>, lane: &Lane<'_>) -> u64 {
    let (scenario, queue) = (evidence.scenario, &lane.subscriber.queue);
    let (rows, bytes) = match (queue.rows, queue.bytes) {
        (None, None) if sheds_for_others(evidence, lane) => return 0,
        (None, None) => (UNDECLARED_ROWS, Some(UNDECLARED_BYTES)),
        (rows, bytes) => (rows.unwrap_or(u64::MAX), bytes.map(|size| size.0)),
    };
    // Some senders count more than the body, but none counts twice its size.
    let each = scenario.events.data_bytes.most.0.saturating_add(ENVELOPE_BYTES).saturating_mul(2);
    rows.min(bytes.map_or(u64::MAX, |bytes| bytes / each))
}

// A count for a lane excuses deliveries of that lane alone: `recovery.drains` judges the reported backlog, and
// `queue.truth` compares it with the trace. A count for the whole sender, less the counts of its lanes, is shared among
// the lanes in which the scenario lets deliveries wait, or be given up ([`may_wait`]). A healthy lane without arrivals
// has no excuse.

const QUIET: u64 = 2 * SECOND;
/// How long a request without an answer may still arrive, by the most cautious sender.
const DOUBT: u64 = 60 * SECOND;

struct Word<'e> {
    whole: Option<&'e Depth>,
    lanes: BTreeMap<&'e str, &'e Depth>,
    /// A list names its dead letters; a mere count then accounts for nothing.
    dead_listed: bool,
}

impl<'e> Word<'e> {
    fn last(evidence: &'e Evidence<'_>) -> Self {
        let (mut whole, mut lanes) = (None, BTreeMap::<&str, &Depth>::new());
        let later = |known: Option<&Depth>, depth: &Depth| known.is_none_or(|known| known.t <= depth.t);
        for depth in evidence.trace.depths.iter().filter(|one| one.waiting.is_some() || one.dead.is_some()) {
            match depth.subscriber.as_deref() {
                None if later(whole, depth) => whole = Some(depth),
                Some(name) if later(lanes.get(name).copied(), depth) => {
                    lanes.insert(name, depth);
                }
                _ => {}
            }
        }
        if let (Some(depth), [only]) = (whole, evidence.scenario.subscribers.as_slice()) {
            lanes.entry(only.name.as_str()).or_insert(depth);
        }
        let dead_listed = evidence.trace.trailer.as_ref().is_some_and(|trailer| trailer.dead_listed);
        Self { whole, lanes, dead_listed }
    }

    fn accounts_for(&self, depth: &Depth, listed: u64) -> u64 {
        let dead = depth.dead.filter(|_| !self.dead_listed).unwrap_or(0);
        depth.waiting.unwrap_or(0).saturating_add(dead.saturating_sub(listed))
    }
}

/// The unsettled deliveries that the sender's report does not account for: the oldest of each lane, as the
/// count names none. `unsettled` is sorted by lane.
pub(super) fn unaccounted<'e>(evidence: &Evidence<'_>, unsettled: &[&'e Delivery]) -> Vec<&'e Delivery> {
    let word = Word::last(evidence);
    let listed =
        |name: &str| evidence.trace.dead.iter().filter(|dead| dead.subscriber == name).count() as u64;
    let told = |name: &str| word.lanes.get(name).map(|depth| word.accounts_for(depth, listed(name)));
    let all: u64 = word.lanes.keys().filter_map(|name| told(name)).sum();
    let dead = evidence.trace.dead.len() as u64;
    let mut rest = word.whole.map_or(0, |depth| word.accounts_for(depth, dead)).saturating_sub(all);
    let mut found = Vec::new();
    for lane in unsettled.chunk_by(|a, b| a.lane == b.lane) {
        let own = &evidence.lanes[lane[0].lane as usize];
        let excused = told(&own.subscriber.name).unwrap_or_else(|| {
            let shared = rest.min(may_wait(evidence, own, lane, word.whole));
            rest -= shared;
            shared
        });
        let lost = (lane.len() as u64).saturating_sub(excused);
        found.extend(lane.iter().take(usize::try_from(lost).unwrap_or(usize::MAX)).copied());
    }
    found
}

/// The last reported backlog: of the whole, or of all lanes together if that is more.
pub(super) fn waiting_at_end(evidence: &Evidence<'_>) -> Option<u64> {
    let told = || evidence.trace.depths.iter().filter_map(|depth| Some((depth, depth.waiting?)));
    let last = told().map(|(depth, _)| depth.t).max()?;
    let whole = told().filter(|(depth, _)| depth.subscriber.is_none()).max_by_key(|(depth, _)| depth.t);
    let lanes = told().filter(|(depth, _)| depth.subscriber.is_some() && depth.t == last);
    let lanes = lanes.map(|(_, waiting)| waiting).fold(0, u64::saturating_add);
    Some(whole.map_or(0, |(_, waiting)| waiting).max(lanes))
}

/// All if the lane was held back; if it was being served, those that no later delivery overtook.
fn may_wait(evidence: &Evidence<'_>, lane: &Lane<'_>, unsettled: &[&Delivery], word: Option<&Depth>) -> u64 {
    let at = word.map_or(evidence.end, |depth| depth.t);
    if is_held_back(evidence, lane, at, word) {
        return unsettled.len() as u64;
    }
    let quiet = QUIET.saturating_add(contract_wait(lane));
    let served = lane.begun.last().is_some_and(|n| evidence.exchange(*n).t.saturating_add(quiet) >= at);
    let tried =
        evidence.deliveries_of(unsettled[0].lane).iter().filter(|one| !evidence.attempts(one).is_empty());
    let latest = tried.filter_map(|one| evidence.accepted(one)).max().unwrap_or(0);
    let overtaken =
        |one: &&&Delivery| evidence.accepted(one).is_some_and(|t| t.saturating_add(quiet) < latest);
    if served { unsettled.iter().filter(|one| !overtaken(one)).count() as u64 } else { 0 }
}

/// Its endpoint misbehaved until shortly before, its bounded queue may have shed unlisted dead letters, a fault was
/// near, or the run was broken off.
fn is_held_back(evidence: &Evidence<'_>, lane: &Lane<'_>, at: u64, word: Option<&Depth>) -> bool {
    let whole_run = evidence.trace.trailer.as_ref().is_some_and(|trailer| trailer.ended == Ended::Done);
    let delay = longest_delay(lane, lane.subscriber.retry.attempts);
    let ill = lane.subscriber.behaviours.iter().any(|behaviour| {
        let doubt = if matches!(behaviour.answer, Answer::Status(_)) { 0 } else { DOUBT };
        let felt = |until: u64| until.saturating_add(delay).saturating_add(doubt) >= at;
        behaviour.at.0 <= at && behaviour.until().is_none_or(felt)
    });
    let queue = &lane.subscriber.queue;
    let bounded = queue.rows.is_some() || queue.bytes.is_some();
    let listed = evidence.trace.trailer.as_ref().is_some_and(|trailer| trailer.dead_listed);
    let shed = bounded && !listed && word.is_some_and(|depth| depth.dead.is_some());
    !whole_run || ill || shed || evidence.is_disturbed(at, at)
}
