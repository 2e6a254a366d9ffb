//! A redriven dead letter starts anew and is no duplicate. A delivery that was delivered before, or never tried, was no
//! dead letter, and a redrive excuses nothing of it.
//!
//! An unsettled delivery is lost only if it can no longer come: its lane was silent for longer than everything that may
//! hold it back: delays, requested pauses, the contract, a takeover, and `linger`. A breaker may hold it back for ever
//! after a failed exchange, unless the sender is declared to have none.

use std::collections::BTreeMap;

use super::dead_letters::unaccounted;
use super::evidence::{Delivery, Evidence, Exchange, Lane, Outcome};
use super::isolation::earliest;
use super::retry::after::contract_wait;
use super::retry::pause_until;
use super::verdict::{Finding, Found};
use crate::scenario::{Behaviour, FaultKind, SECOND, Subscriber};
use crate::trace::{Ended, Lack};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Delivered,
    Dead,
    /// A newer event of its key replaces it.
    Coalesced,
    Unsettled,
}

/// In the deliveries' order. Deliveries for an endpoint that was gone need not be settled.
pub(super) fn fates<'e>(evidence: &'e Evidence<'_>) -> Vec<(&'e Delivery, Fate)> {
    of(evidence, &evidence.deliveries)
}

pub(crate) fn fates_of<'e>(evidence: &'e Evidence<'_>, lane: u32) -> Vec<(&'e Delivery, Fate)> {
    of(evidence, evidence.deliveries_of(lane))
}

fn of<'e>(evidence: &'e Evidence<'_>, deliveries: &'e [Delivery]) -> Vec<(&'e Delivery, Fate)> {
    let settled = settled(evidence, deliveries);
    let owed = deliveries.iter().filter(|one| one.owed && evidence.accepted(one).is_some());
    let mut backlogs = Backlogs::default();
    owed.map(|delivery| (delivery, fate(evidence, delivery, &settled, &mut backlogs)))
        .filter(|(delivery, fate)| *fate != Fate::Unsettled || !is_let_go(evidence, delivery))
        .collect()
}

fn fate(evidence: &Evidence<'_>, delivery: &Delivery, settled: &Settled<'_>, waits: &mut Backlogs) -> Fate {
    if evidence.is_delivered(delivery) {
        return Fate::Delivered;
    }
    if delivery.dead.is_some() || is_given_up_in_silence(evidence, delivery, waits) {
        return Fate::Dead;
    }
    if is_taken_at_length(evidence, delivery) {
        return Fate::Delivered;
    }
    if is_replaced(evidence, delivery, settled) { Fate::Coalesced } else { Fate::Unsettled }
}

/// A replaced delivery is settled at once.
pub(super) fn settled_at(evidence: &Evidence<'_>, delivery: &Delivery, fate: Fate) -> Option<u64> {
    let exchanges = evidence.attempts(delivery).iter().map(|n| evidence.exchange(*n));
    let taken = exchanges.filter(|one| one.is_delivered() || is_at_length(evidence, delivery, one));
    let dead = delivery.dead.map(|at| evidence.trace.dead[at as usize].t);
    let told = taken.map(|one| one.end).chain(dead).min();
    match fate {
        Fate::Unsettled => None,
        Fate::Coalesced => evidence.accepted(delivery),
        Fate::Delivered => told,
        Fate::Dead => told.or_else(|| given_up_at(evidence, delivery)),
    }
}

/// The earliest moment at which an unlisted delivery can have been given up: its endpoint was gone, it had
/// all its attempts, or it was too old.
fn given_up_at(evidence: &Evidence<'_>, delivery: &Delivery) -> Option<u64> {
    let (retry, accepted) = (&evidence.subscriber(delivery).retry, evidence.accepted(delivery)?);
    let gone = evidence.lanes[delivery.lane as usize].gone.map(|gone| gone.max(accepted));
    let last = usize::try_from(retry.attempts).ok().and_then(|count| count.checked_sub(1));
    let tried = last.and_then(|last| evidence.attempts(delivery).get(last));
    let tried = tried.map(|n| evidence.exchange(*n).end);
    let old = Some(accepted.saturating_add(retry.ttl.0)).filter(|until| *until <= evidence.end);
    gone.into_iter().chain(tried).chain(old).min()
}

/// Sorted tokens.
pub(super) fn replaced(evidence: &Evidence<'_>, lane: u32) -> Vec<u64> {
    if evidence.lanes[lane as usize].subscriber.handling.coalesce.is_empty() {
        return Vec::new();
    }
    let own = evidence.deliveries_of(lane);
    let settled = settled(evidence, own);
    let idle = own.iter().filter(|one| one.owed && !is_settled(evidence, one));
    idle.filter(|one| is_replaced(evidence, one, &settled)).map(|one| one.token).collect()
}

/// For a sender without a list of dead letters: the endpoint answered 410, all attempts were made, or the delivery
/// passed its `ttl` while something held it back.
fn is_given_up_in_silence(evidence: &Evidence<'_>, delivery: &Delivery, backlogs: &mut Backlogs) -> bool {
    let counted = evidence.trace.depths.iter().any(|depth| depth.dead.is_some());
    if counted || !evidence.trace.declared.lacks(Lack::DeadLetters) {
        return false;
    }
    let retry = &evidence.subscriber(delivery).retry;
    let tried = evidence.attempts(delivery).len();
    let Some(accepted) = evidence.accepted(delivery) else { return false };
    let until = accepted.saturating_add(retry.ttl.0);
    let behaviours = &evidence.subscriber(delivery).behaviours;
    let ill = |one: &Behaviour| one.at.0 <= until && one.until().is_none_or(|end| end >= accepted);
    let mut held_back = || {
        tried > 0
            || behaviours.iter().any(ill)
            || evidence.is_disturbed(accepted, until)
            || backlogs.waits(evidence, delivery)
    };
    // Deliveries that waited when the endpoint answered 410, but not those that were overdue by then.
    let turned_away = || {
        let lane = &evidence.lanes[delivery.lane as usize];
        let Some(gone) = lane.gone else { return false };
        let taken = lane.arrivals.iter().map(|n| evidence.exchange(*n)).filter(|one| one.is_delivered());
        let last = taken.map(|one| one.end).filter(|end| *end <= gone).max();
        tried > 0 || last.is_none_or(|last| accepted >= last)
    };
    turned_away()
        || evidence.ended_finally(delivery)
        || tried >= retry.attempts as usize
        || (until <= evidence.end && held_back())
}

/// Sorted tokens by lane, computed on demand.
#[derive(Default)]
struct Backlogs(BTreeMap<u32, Vec<u64>>);

impl Backlogs {
    const AT_ONCE: u64 = SECOND / 2;

    fn waits(&mut self, evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
        let of = || Self::of(evidence, delivery.lane);
        let waiting = self.0.entry(delivery.lane).or_insert_with(of);
        waiting.binary_search(&delivery.token).is_ok()
    }

    fn of(evidence: &Evidence<'_>, at: u32) -> Vec<u64> {
        let lane = &evidence.lanes[at as usize];
        let own = evidence.deliveries_of(at).iter().filter(|one| one.owed);
        let mut taken: Vec<(u64, u64)> =
            own.filter_map(|one| Some((evidence.accepted(one)?, one.token))).collect();
        taken.sort_unstable();
        let due: Vec<u64> = taken.iter().map(|(t, _)| *t).collect();
        let allowed = earliest(&due, &lane.subscriber.limit, lane.subscriber.answers.most.0);
        let late = |((t, _), allowed): &(&(u64, u64), u64)| *allowed > t.saturating_add(Self::AT_ONCE);
        let held = !lane.is_judged_by_its_speed() || !lane.has_one_contract();
        let waiting = taken.iter().zip(allowed).filter(|one| held || late(one));
        let mut tokens: Vec<u64> = waiting.map(|((_, token), _)| *token).collect();
        tokens.sort_unstable();
        tokens
    }
}

/// A sender may take that for success, or try again.
fn is_taken_at_length(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    let mut exchanges = evidence.attempts(delivery).iter().map(|n| evidence.exchange(*n));
    exchanges.any(|exchange| is_at_length(evidence, delivery, exchange))
}

fn is_at_length(evidence: &Evidence<'_>, delivery: &Delivery, exchange: &Exchange) -> bool {
    let behaviours = evidence.subscriber(delivery).behaviours.iter();
    let mut lengthy = behaviours.filter(|one| one.answer.is_lengthy());
    matches!(exchange.outcome, Outcome::Answered { status: 200..=299, .. })
        && lengthy.any(|behaviour| behaviour.covers(exchange.t))
}

/// Nothing is owed to an endpoint that had answered 410 before the acknowledgement, though the sender may keep a dead
/// letter.
fn is_let_go(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    let gone = evidence.lanes[delivery.lane as usize].gone;
    gone.zip(evidence.accepted(delivery)).is_some_and(|(gone, accepted)| gone <= accepted)
}

/// By lane, type and key.
type Settled<'e> = BTreeMap<(u32, &'e str, &'e str), Spans>;

#[derive(Default)]
struct Spans {
    offered: Vec<u64>,
    taken: Vec<u64>,
}

impl Spans {
    /// `until` is no sooner than `from`.
    fn between(&self, from: u64, until: u64) -> usize {
        let offered = self.offered.partition_point(|t| *t <= until);
        // Those were offered before `from`, too.
        offered - self.taken.partition_point(|t| *t < from)
    }
}

fn settled<'e>(evidence: &'e Evidence<'_>, deliveries: &[Delivery]) -> Settled<'e> {
    let mut settled = Settled::new();
    for delivery in deliveries.iter().filter(|one| is_settled(evidence, one)) {
        if let Some((key, t, _)) = key(evidence, delivery) {
            let of_key = settled.entry(key).or_default();
            of_key.offered.push(t);
            of_key.taken.push(taken_by(evidence, delivery).map_or(t, |taken| taken.max(t)));
        }
    }
    for of_key in settled.values_mut() {
        of_key.offered.sort_unstable();
        of_key.taken.sort_unstable();
    }
    settled
}

/// The latest moment at which the sender accepted the delivery's event: its acknowledgement, or an earlier
/// arrival. None without an acknowledgement: a late arrival does not make it the newer event.
fn taken_by(evidence: &Evidence<'_>, delivery: &Delivery) -> Option<u64> {
    let came = evidence.attempts(delivery).first().map(|n| evidence.exchange(*n).t);
    evidence.accepted(delivery).map(|accepted| came.map_or(accepted, |came| came.min(accepted)))
}

fn is_settled(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    !evidence.attempts(delivery).is_empty() || delivery.dead.is_some()
}

/// By an event offered inside the delivery's window that may have been accepted after it. Of two concurrent offers,
/// either may be the later one. A replacement keeps the due time of the first event, so an event offered after the
/// window replaces none. The window begins when the event was accepted at the latest.
fn is_replaced(evidence: &Evidence<'_>, delivery: &Delivery, settled: &Settled<'_>) -> bool {
    let Some((key, t, window)) = key(evidence, delivery) else { return false };
    let late = evidence.scenario.expect.retry_after_late.0;
    let begun = evidence.accepted(delivery).map_or(t, |accepted| accepted.max(t));
    let (_, back) = evidence.clock_set(begun, evidence.end);
    let until = [window, late, back].into_iter().fold(begun, u64::saturating_add);
    // An event does not replace itself.
    let itself = usize::from(is_settled(evidence, delivery));
    settled.get(&key).is_some_and(|of_key| of_key.between(t, until) > itself)
}

fn key<'e>(evidence: &'e Evidence<'_>, delivery: &Delivery) -> Option<((u32, &'e str, &'e str), u64, u64)> {
    let rules = &evidence.subscriber(delivery).handling.coalesce;
    if rules.is_empty() {
        return None;
    }
    let offer = &evidence.trace.offers[evidence.event(delivery)?.offer as usize];
    let kind = offer.kind.as_str();
    let rule = rules.iter().find(|rule| rule.kind == kind)?;
    Some(((delivery.lane, kind, offer.key.as_str()), offer.t, rule.window.0))
}

impl Evidence<'_> {
    pub(crate) fn has_redrives(&self) -> bool {
        self.trace.faults.iter().any(|fault| fault.kind == FaultKind::Redrive)
    }

    pub(crate) fn redrives(&self, delivery: &Delivery) -> impl Iterator<Item = u64> {
        let Subscriber { name, group, .. } = self.subscriber(delivery);
        let concerns = move |whom: &str| whom == name || whom == group;
        let redrives = self.trace.faults.iter().filter(|fault| fault.kind == FaultKind::Redrive);
        redrives.filter(move |fault| fault.detail.as_deref().is_none_or(concerns)).map(|fault| fault.t)
    }

    /// Whether a delivery may have been a dead letter that was redriven by `t`: it had been tried without
    /// success.
    pub(crate) fn is_redriven(&self, delivery: &Delivery, t: u64) -> bool {
        let exchanges = || self.attempts(delivery).iter().map(|n| self.exchange(*n));
        self.redrives(delivery).filter(|redrive| *redrive <= t).any(|redrive| {
            exchanges().any(|exchange| exchange.t < redrive)
                && !exchanges().any(|exchange| exchange.is_delivered() && exchange.end < redrive)
        })
    }
}

/// `unsettled` is sorted by lane.
pub(super) fn missing<'e>(evidence: &Evidence<'_>, unsettled: &[&'e Delivery]) -> Vec<&'e Delivery> {
    if is_broken_off(evidence) {
        return Vec::new();
    }
    let mut missing = unaccounted(evidence, unsettled);
    missing.retain(|one| !is_late(evidence, one));
    missing
}

/// An interrupted run proves no loss: everything that was open could still have come.
pub(super) fn is_broken_off(evidence: &Evidence<'_>) -> bool {
    evidence.trace.trailer.as_ref().is_some_and(|trailer| trailer.ended == Ended::Interrupted)
}

pub(super) fn not_settled_in_time(evidence: &Evidence<'_>, unsettled: &[&Delivery]) -> u64 {
    if is_broken_off(evidence) {
        return unaccounted(evidence, unsettled).len() as u64;
    }
    unsettled.iter().filter(|one| is_late(evidence, one)).count() as u64
}

pub(super) fn unless_late(finding: Finding, late: u64) -> Finding {
    if late == 0 || finding.found != Found::Held {
        return finding;
    }
    Finding::unseen(format!("deliveries outstanding at the end, which could have arrived later: {late}"))
}

/// Concerns only a sender that can't report its depth.
fn is_late(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    evidence.trace.declared.lacks(Lack::Depth) && may_still_come(evidence, delivery)
}

fn may_still_come(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    let lane = &evidence.lanes[delivery.lane as usize];
    let accepted = evidence.accepted(delivery).unwrap_or(0);
    let exchanges = || lane.arrivals.iter().map(|n| evidence.exchange(*n));
    let last = exchanges().map(|exchange| exchange.end).fold(accepted, u64::max);
    let failed = exchanges().max_by_key(|exchange| exchange.end).is_some_and(|last| !last.is_delivered());
    if failed && !evidence.trace.declared.lacks(Lack::Breaker) {
        return true;
    }
    let delay = delay(evidence, lane, delivery);
    let held = last.max(evidence.taken_over_by()).saturating_add(delay);
    let held = held.max(pause_until(evidence, lane, u64::MAX));
    let slack = contract_wait(lane).saturating_add(evidence.scenario.linger.0);
    held.saturating_add(slack) > evidence.at_work_until()
}

fn delay(evidence: &Evidence<'_>, lane: &Lane<'_>, delivery: &Delivery) -> u64 {
    let retry = &lane.subscriber.retry;
    if lane.subscriber.hides_attempts() {
        // The number of attempts is unknown.
        return retry.bounds(retry.attempts).1;
    }
    match u32::try_from(evidence.attempts(delivery).len()).unwrap_or(u32::MAX) {
        0 => 0,
        attempts => retry.bounds(attempts).1,
    }
}
