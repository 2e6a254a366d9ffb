//! `queue.bounded`: a sample of the whole counts for an only lane too. A bound in rows holds too for the deliveries
//! whose later arrival proves that they waited (`truth`). The four counts add up to at least the deliveries
//! acknowledged at the previous sample, or before the declared age (`stale`), and at most those offered before the next
//! one. Deliveries accepted after a 410 may count or not.
//!
//! `queue.visible`: if no subscriber's queue refuses, nothing bounds the whole and no fault was near, a refusal needs
//! at least [`LOAD_MIN`] requested deliveries per second over the two seconds before it. One percent of the offers may
//! be refused without that load, as a machine may stall.
//!
//! `queue.memory`: resident memory grows by at most `rss_growth_max`. The default is [`GROWTH_BASE`], twice the size of
//! the waiting deliveries, and [`GROWTH_EACH`] for each subscriber.
//!
//! `queue.expires`: the `ttl` counts from the acknowledgement. A request that left in time has `retry_after_late` to
//! arrive; one that a stalled endpoint read late counts from its earliest possible sending.

use super::dead_letters::room;
use super::evidence::{Delivery, ENVELOPE_BYTES, Evidence, Lane, concerns};
use super::retry::RequestedPause;
use super::truth::proven;
use super::verdict::{Finding, Found, Tally, Witness, show, show_beside, show_bytes, show_bytes_beside};
use crate::check::{Check, Picture, Simulated, Stall};
use crate::entry::Severity;
use crate::scenario::{SECOND, Scenario, Size, Subscriber, WhenFull};
use crate::trace::{Depth, Lack, Refused};

pub(super) const BOUNDED: Check = Check {
    id: "queue.bounded",
    severity: Severity::Must,
    source: "the contract",
    requirement: "the rows and bytes that wait never exceed the bound, and accepted = delivered + dead + \
        coalesced + waiting in every sample",
    why: "a queue without a bound fills the disk, and a delivery that the sums lack was lost or doubled",
    remedy: "enforce the bound in the transaction that writes the queue",
    needs: &[Lack::Depth],
    picture: Picture::Backlog,
    find: bounded,
    ..Check::PLAIN
};

pub(super) fn bounded(evidence: &Evidence<'_>) -> Finding {
    let scenario = evidence.scenario;
    let mut tally = Tally::default();
    let mut most = 0;
    for depth in &evidence.trace.depths {
        let Some(waiting) = depth.waiting else { continue };
        tally.see();
        most = most.max(if depth.subscriber.is_none() { waiting } else { 0 });
        let lane = scenario.subscribers.iter().find(|one| concerns(depth, one, scenario));
        let (rows, bytes) = (rows_max(scenario, depth, lane), lane.and_then(|one| one.queue.bytes));
        if let Some(rows) = rows.filter(|rows| waiting > *rows) {
            tally.broke(|| at(depth, format!("{waiting} deliveries wait; the bound is {rows}")));
        }
        if let Some((have, size)) = depth.bytes.zip(bytes).filter(|(have, size)| *have > size.0) {
            let (have, bound) = (show_bytes_beside(have, size.0), show_bytes(size.0));
            tally.broke(|| at(depth, format!("{have} wait; the bound is {bound}")));
        }
    }
    proven_excess(evidence, &mut tally);
    let sums = conserved(evidence, &mut tally);
    let range = &scenario.expect.queue_rows;
    let is_bounded =
        scenario.subscribers.iter().any(|one| one.queue.rows.is_some() || one.queue.bytes.is_some());
    if tally.seen > 0 && sums == 0 && !is_bounded && range.min.is_none() && range.max.is_none() {
        return Finding::unasked("the scenario bounds no queue, and no sample has all four counts");
    }
    let unseen = (0..).zip(&evidence.lanes).find_map(|(at, lane)| unseen(evidence, at, lane));
    let good =
        if sums > 0 { "within the bound, and all deliveries accounted for" } else { "within the bound" };
    let finding = tally.finding(
        "queue samples",
        good,
        "above the bound, or with counts that do \
        not add up",
    );
    let least = scenario.expect.queue_rows.min.filter(|least| most < *least);
    let short = least.map(|least| {
        format!(
            "most deliveries waiting at once: {most}; the scenario needs \
        at least {least}"
        )
    });
    let finding = match short.or(unseen).filter(|_| finding.found == Found::Held) {
        Some(what) => Finding { figures: finding.figures, ..Finding::unseen(what) },
        None => finding,
    };
    let finding = finding.with("most waiting", most).with("samples that add up", sums);
    finding.unless_shown(never_full(evidence))
}

fn rows_max(scenario: &Scenario, depth: &Depth, lane: Option<&Subscriber>) -> Option<u64> {
    let whole = scenario.expect.queue_rows.max.filter(|_| depth.subscriber.is_none());
    lane.and_then(|one| one.queue.rows).into_iter().chain(whole).min()
}

fn proven_excess(evidence: &Evidence<'_>, tally: &mut Tally) {
    let scenario = evidence.scenario;
    let is_bounded = scenario.subscribers.iter().any(|one| one.queue.rows.is_some());
    if !is_bounded && scenario.expect.queue_rows.max.is_none() {
        return;
    }
    for (depth, waiting) in proven(evidence) {
        let lane = scenario.subscribers.iter().find(|one| concerns(depth, one, scenario));
        let Some(rows) = rows_max(scenario, depth, lane).filter(|rows| waiting > *rows) else { continue };
        if let Some(told) = depth.waiting.filter(|told| *told <= rows) {
            let what = format!(
                "{waiting} waiting deliveries came later, and {told} were reported; the bound is {rows}"
            );
            tally.broke(|| at(depth, what));
        }
    }
}

/// None if a queue with a bound was full.
fn never_full(evidence: &Evidence<'_>) -> Option<String> {
    let (trace, scenario) = (evidence.trace, evidence.scenario);
    let each = scenario.events.data_bytes.most.0.saturating_add(ENVELOPE_BYTES);
    let is_full = |depth: &Depth| {
        let lane = scenario.subscribers.iter().find(|one| concerns(depth, one, scenario));
        let waiting = depth.waiting.zip(rows_max(scenario, depth, lane));
        let bytes = depth.bytes.zip(lane.and_then(|one| one.queue.bytes));
        waiting.is_some_and(|(waiting, rows)| waiting >= rows)
            || bytes.is_some_and(|(have, most)| have.saturating_add(each) > most.0)
    };
    let has_shed = trace.dead.iter().any(|dead| dead.reason == "overflow");
    let has_refused = may_refuse(evidence) && trace.refused.iter().any(|one| one.status.is_some());
    let full = has_shed || has_refused || trace.depths.iter().any(is_full);
    (!full).then(|| "no queue with a bound was full".to_owned())
}

/// None if they can be judged.
fn unseen(evidence: &Evidence<'_>, at: u32, lane: &Lane<'_>) -> Option<String> {
    let Subscriber { name, queue, .. } = lane.subscriber;
    let depths = || evidence.trace.depths.iter();
    let own = || depths().filter(|one| concerns(one, lane.subscriber, evidence.scenario));
    let offered = offered(evidence, at);
    let whole = depths().filter(|one| one.subscriber.is_none());
    let whole = whole.filter_map(|one| one.waiting).max().unwrap_or(u64::MAX);
    let most = offered.min(whole);
    let each = evidence.scenario.events.data_bytes.most.0.saturating_add(ENVELOPE_BYTES);
    if queue.rows.is_some_and(|rows| rows < most) && !own().any(|one| one.waiting.is_some()) {
        return Some(format!("no queue sample counts the deliveries that wait for {name}"));
    }
    if queue.bytes.is_some_and(|bytes| bytes.0 < most.saturating_mul(each))
        && !own().any(|one| one.bytes.is_some())
    {
        return Some(format!("no queue sample counts the bytes that wait for {name}"));
    }
    None
}

/// An event that was offered more than once may be one delivery, or several.
fn offered(evidence: &Evidence<'_>, at: u32) -> u64 {
    let offers = |delivery: &Delivery| evidence.event(delivery).map_or(0, |event| u64::from(event.offers));
    evidence.deliveries_of(at).iter().filter(|one| one.owed).map(offers).sum()
}

pub(super) fn may_refuse(evidence: &Evidence<'_>) -> bool {
    (0..).zip(&evidence.lanes).any(|(at, lane)| {
        let queue = &lane.subscriber.queue;
        let declared = queue.rows.is_some() || queue.bytes.is_some();
        queue.when_full == WhenFull::Refuse && declared && offered(evidence, at) > room(evidence, lane)
    })
}

fn at(depth: &Depth, what: String) -> Witness {
    Witness {
        subscriber: depth.subscriber.clone(),
        from: depth.t,
        until: depth.t,
        what,
        arrivals: Vec::new(),
    }
}

/// Returns their number.
fn conserved(evidence: &Evidence<'_>, tally: &mut Tally) -> u64 {
    let owed = |event: &super::evidence::Event| {
        let offer = &evidence.trace.offers[event.offer as usize];
        (offer.t, offer.owed.len() as u64)
    };
    let mut offered: Vec<(u64, u64)> = evidence.events.iter().map(owed).collect();
    let gone: Vec<(&str, u64)> =
        evidence.lanes.iter().filter_map(|lane| Some((lane.subscriber.name.as_str(), lane.gone?))).collect();
    // The sender may keep an event for an endpoint that is gone, or not.
    let let_go = |event: &super::evidence::Event, taken: u64| {
        let owed = &evidence.trace.offers[event.offer as usize].owed;
        let by_then =
            gone.iter().filter(|(name, at)| *at <= taken && owed.iter().any(|one| one.as_str() == *name));
        by_then.count() as u64
    };
    let taken = evidence.events.iter().filter_map(|event| {
        let t = event.accepted?;
        Some((t, owed(event).1 - let_go(event, t)))
    });
    let mut accepted: Vec<(u64, u64)> = taken.collect();
    offered.sort_unstable();
    accepted.sort_unstable();
    let (offered, accepted) = (running(&offered), running(&accepted));
    let mut samples: Vec<&Depth> =
        evidence.trace.depths.iter().filter(|depth| depth.subscriber.is_none()).collect();
    samples.sort_by_key(|depth| depth.t);
    let mut judged = 0;
    for (place, depth) in samples.iter().enumerate() {
        let counts = [depth.waiting, depth.delivered, depth.dead, depth.coalesced];
        let [Some(waiting), Some(delivered), Some(dead), Some(coalesced)] = counts else { continue };
        judged += 1;
        let sum = waiting + delivered + dead + coalesced;
        let answered = samples.get(place + 1).map_or(evidence.end, |next| next.t);
        let asked = place.checked_sub(1).map_or(0, |before| samples[before].t);
        let asked = asked.min(depth.t.saturating_sub(evidence.trace.declared.stale));
        let (least, most) = (until(&accepted, asked), until(&offered, answered));
        if sum < least || sum > most {
            let what = format!(
                "{waiting} waiting, {delivered} delivered, {dead} dead and {coalesced} coalesced add up \
                    to {sum}; expected {least} to {most}"
            );
            tally.broke(|| at(depth, what));
        }
    }
    judged
}

fn running(steps: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut sum = 0;
    steps
        .iter()
        .map(|(t, count)| {
            sum += count;
            (*t, sum)
        })
        .collect()
}

fn until(sums: &[(u64, u64)], t: u64) -> u64 {
    let after = sums.partition_point(|(at, _)| *at < t);
    after.checked_sub(1).map_or(0, |last| sums[last].1)
}

/// So many deliveries per second may overload a sender on a slow machine.
const LOAD_MIN: u64 = 100;

/// Returns their number.
fn groundless(evidence: &Evidence<'_>, tally: &mut Tally) -> u64 {
    if evidence.scenario.expect.queue_rows.max.is_some() || may_refuse(evidence) {
        return 0;
    }
    let mut asked: Vec<(u64, u64)> =
        evidence.trace.offers.iter().map(|offer| (offer.t, offer.owed.len() as u64)).collect();
    asked.sort_unstable();
    let asked = running(&asked);
    let is_groundless = |refusal: &&Refused| {
        let t = refusal.t;
        let load = until(&asked, t) - until(&asked, t.saturating_sub(2 * SECOND));
        refusal.status.is_some() && load < 2 * LOAD_MIN && !evidence.is_disturbed(t, t)
    };
    let found: Vec<&Refused> = evidence.trace.refused.iter().filter(is_groundless).collect();
    if found.len() * 100 <= evidence.trace.offers.len() {
        return 0;
    }
    for refusal in &found {
        let (from, until) = (refusal.t, refusal.t);
        let status = refusal.status.unwrap_or_default();
        let what = format!("event {} was refused with {status}, though no queue was full", refusal.token);
        tally.broke(|| Witness { subscriber: None, from, until, what, arrivals: Vec::new() });
    }
    found.len() as u64
}

pub(super) const VISIBLE: Check = Check {
    id: "queue.visible",
    severity: Severity::Must,
    source: "existing senders",
    requirement: "the sender answers overload with 429 or 503 and Retry-After, or sheds deliveries to \
        dead letters; it drops nothing silently",
    why: "without an answer the emitter continues, and learns of the loss from its customers",
    remedy: "answer the emitter when the queue is full, or record each shed delivery with its reason",
    picture: Picture::Backlog,
    find: visible,
    ..Check::PLAIN
};

pub(super) fn visible(evidence: &Evidence<'_>) -> Finding {
    let trace = evidence.trace;
    let shed = trace.dead.iter().filter(|dead| dead.reason == "overflow").count();
    let turned_away = trace.refused.iter().filter(|one| one.status.is_some());
    let mut tally = Tally::default();
    for refusal in turned_away {
        tally.see();
        let status = refusal.status.unwrap_or_default();
        let told = refusal
            .retry_after
            .as_deref()
            .is_some_and(|text| RequestedPause::read(text) != RequestedPause::Nonsense);
        if !matches!(status, 429 | 503) || !told {
            let asked = refusal.retry_after.as_deref().unwrap_or("none");
            let what = format!(
                "event {} was refused with {status} and Retry-After: {asked}; expected 429 \
                or 503 with Retry-After",
                refusal.token
            );
            let (from, until) = (refusal.t, refusal.t);
            tally.broke(|| Witness { subscriber: None, from, until, what, arrivals: Vec::new() });
        }
    }
    let groundless = groundless(evidence, &mut tally);
    if tally.seen == 0 && shed == 0 {
        return Finding::unasked("no event was refused");
    }
    if tally.seen == 0 {
        return Finding::held(format!("deliveries shed to dead letters: {shed}"));
    }
    tally
        .finding(
            "refused events",
            "each with 429 or 503 and Retry-After",
            "without 429 or 503 and Retry-After, or without a cause",
        )
        .unless_shown(never_full(evidence))
        .with("shed", shed)
        .with("without a cause", groundless)
}

/// Caches, buffers, code pages.
const GROWTH_BASE: u64 = 256 << 20;
/// Such as connections.
const GROWTH_EACH: u64 = 64 << 10;

fn growth_allowed(evidence: &Evidence<'_>) -> Size {
    let scenario = evidence.scenario;
    let offered: u64 = evidence.trace.offers.iter().map(|offer| offer.owed.len() as u64).sum();
    // A reported backlog above the number of offers justifies no memory.
    let waiting =
        evidence.trace.depths.iter().filter_map(|depth| depth.waiting).max().unwrap_or(0).min(offered);
    let each = scenario.events.data_bytes.most.0.saturating_add(ENVELOPE_BYTES).saturating_mul(2);
    let subscribers = GROWTH_EACH.saturating_mul(scenario.subscribers.len() as u64);
    Size(GROWTH_BASE.saturating_add(waiting.saturating_mul(each)).saturating_add(subscribers))
}

pub(super) const MEMORY: Check = Check {
    id: "queue.memory",
    severity: Severity::Must,
    source: "existing senders",
    requirement: "the sender's resident memory stays flat while its queue is full",
    why: "a backlog that fits the disk must not end the process for lack of memory",
    remedy: "keep the backlog on disk, and read only deliveries that are due soon",
    needs: &[Lack::Start, Lack::Process],
    simulated: Simulated::Beyond("a simulated process has no memory of its own to measure"),
    picture: Picture::Backlog,
    find: memory,
    ..Check::PLAIN
};

pub(super) fn memory(evidence: &Evidence<'_>) -> Finding {
    let declared = evidence.scenario.expect.holds.rss_growth_max;
    let allowed = declared.unwrap_or_else(|| growth_allowed(evidence));
    let resident: Vec<(u64, u64)> =
        evidence.trace.depths.iter().filter_map(|depth| Some((depth.t, depth.resident_bytes?))).collect();
    let Some((_, first)) = resident.first().filter(|_| resident.len() > 1) else {
        let sentence = "the sender's memory was not measured";
        return if declared.is_some() { Finding::unseen(sentence) } else { Finding::unasked(sentence) };
    };
    let (t, most) = resident.iter().max_by_key(|(_, bytes)| *bytes).copied().unwrap_or_default();
    let growth = most.saturating_sub(*first);
    let (grown, most_grown) = (show_bytes_beside(growth, allowed.0), show_bytes(allowed.0));
    let sentence = format!("memory grew by {grown}; allowed: {most_grown}");
    let finding = if growth <= allowed.0 {
        Finding::held(sentence)
    } else {
        let what = format!("{} resident, {} at first", show_bytes(most), show_bytes(*first));
        let witness = Witness { subscriber: None, from: t, until: t, what, arrivals: Vec::new() };
        Finding::broken(sentence, vec![witness])
    };
    let finding = finding.with("resident at first", show_bytes(*first)).with("most", show_bytes(most));
    finding.unless_shown(never_full(evidence))
}

pub(super) const EXPIRES: Check = Check {
    id: "queue.expires",
    severity: Severity::Must,
    source: "existing senders",
    requirement: "a delivery older than its ttl becomes a dead letter and gets no further attempt",
    why: "an outdated alarm rings today, and delays deliveries that still matter",
    remedy: "check the age before every attempt, also after a restart",
    stall: Stall::Delays,
    picture: Picture::Backlog,
    find: expires,
    ..Check::PLAIN
};

pub(super) fn expires(evidence: &Evidence<'_>) -> Finding {
    let grace = evidence.scenario.expect.retry_after_late.0;
    let mut tally = Tally::default();
    for delivery in &evidence.deliveries {
        let Some(accepted) = evidence.accepted(delivery) else { continue };
        let ttl = evidence.subscriber(delivery).retry.ttl.0;
        let (_, back) = evidence.clock_set(accepted, evidence.end);
        let until = [ttl, grace, back].into_iter().fold(accepted, u64::saturating_add);
        let redriven = evidence.redrives(delivery).filter(|t| *t >= accepted).min().unwrap_or(u64::MAX);
        if until >= evidence.end {
            continue;
        }
        if evidence.is_delivered(delivery)
            && evidence.attempts(delivery).iter().all(|n| evidence.exchange(*n).t <= until)
        {
            continue;
        }
        tally.see();
        let taken = evidence.attempts(delivery).iter().map(|n| evidence.exchange(*n));
        let taken = taken.filter(|one| one.is_delivered()).map(|one| one.end).min().unwrap_or(u64::MAX);
        // A redriven dead letter is exempt; an event accepted before the redrive can be one.
        let excused = |t: u64| t >= redriven && taken >= redriven;
        let late = |n: &&u32| {
            evidence.late(until - grace, evidence.sent_from(**n)) > grace
                && !excused(evidence.exchange(**n).t)
        };
        if let Some(n) = evidence.attempts(delivery).iter().find(late) {
            let age = show_beside(evidence.exchange(*n).t - accepted, ttl);
            let what = format!("sent at an age of {age}; its ttl is {}", show(ttl));
            tally.broke(|| evidence.witness(delivery.lane, &[*n], what));
        }
    }
    if tally.seen == 0 {
        return Finding::unasked("no delivery outlived its ttl");
    }
    tally.finding("deliveries older than their ttl", "none was sent", "sent nevertheless")
}
