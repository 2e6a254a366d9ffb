//! Spans in which a healthy endpoint received nothing while deliveries waited. They break no contract; every
//! report shows them, as the effects of a kill appear here first.
//!
//! A silence lasts from a request to the next one, counted from when an untried delivery waited and no cause explains
//! the wait:
//!
//! - no request is open;
//! - no behaviour of the endpoint covers it;
//! - no `Retry-After` holds;
//! - the last attempt had not failed;
//! - no backoff can follow attempts that the endpoint hides.
//!
//! It must last [`LEAST`], three gaps of the rate, and the longest window.

use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, Lane, Outcome};
use super::outcomes::{fates_of, settled_at};
use super::retry::asked::told_until;
use crate::scenario::SECOND;
use crate::trace::CutKind;

/// The shortest silence in a report.
const LEAST: u64 = SECOND;
/// After this many failures no backoff grows any more.
const BACKOFFS_MAX: u32 = 100;
/// Examined silences per subscriber, the longest first.
const LOOKED_MAX: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    pub subscriber: String,
    pub from: u64,
    pub until: u64,
    /// Untried deliveries at its end.
    pub waited: u64,
}

/// The longest first.
pub(crate) fn silences(evidence: &Evidence<'_>) -> Vec<Silence> {
    let mut silences: Vec<Silence> = (0..evidence.lanes.len()).flat_map(|at| of_lane(evidence, at)).collect();
    silences.sort_by_key(|one| (std::cmp::Reverse(one.until - one.from), one.from));
    silences
}

/// The span in which each delivery of a lane waited, by the harness's account: from its acknowledgement until
/// it was settled. Replaced deliveries, and deliveries for an endpoint that is gone, do not wait.
pub(crate) fn waiting(evidence: &Evidence<'_>, lane: usize) -> Vec<(u64, u64)> {
    let at = u32::try_from(lane).unwrap_or(u32::MAX);
    let whiles = fates_of(evidence, at).into_iter().filter_map(|(one, fate)| {
        let from = evidence.accepted(one)?;
        let until = settled_at(evidence, one, fate).unwrap_or(evidence.end);
        (until > from).then_some((from, until))
    });
    whiles.collect()
}

fn of_lane(evidence: &Evidence<'_>, at: usize) -> Vec<Silence> {
    let lane = &evidence.lanes[at];
    let least = least(lane);
    let times = lane.begun.iter().map(|n| evidence.exchange(*n).t);
    let times: Vec<u64> = std::iter::once(0).chain(times).chain([evidence.end]).collect();
    let mut gaps: Vec<(u64, u64)> = times.windows(2).map(|pair| (pair[0], pair[1])).collect();
    gaps.retain(|(from, until)| until.saturating_sub(*from) >= least);
    gaps.sort_by_key(|(from, until)| std::cmp::Reverse(until - from));
    let told = gaps.into_iter().take(LOOKED_MAX).filter_map(|gap| unexplained(evidence, at, gap));
    told.filter(|one| one.until - one.from >= least).collect()
}

/// Shorter spans are explained by the contract.
fn least(lane: &Lane<'_>) -> u64 {
    let limits = lane.epochs.iter().map(|epoch| &epoch.limit);
    let explained = limits.flat_map(|limit| {
        let gap = limit.bucket.map(|bucket| bucket.rate.per.0.saturating_mul(3) / bucket.rate.count.max(1));
        gap.into_iter().chain(limit.windows.iter().map(|window| window.length.0))
    });
    explained.fold(LEAST, u64::max)
}

/// The unexplained part of a gap between requests.
fn unexplained(evidence: &Evidence<'_>, at: usize, (from, until): (u64, u64)) -> Option<Silence> {
    let lane = &evidence.lanes[at];
    let before = lane.begun.iter().map(|n| evidence.exchange(*n)).filter(|one| one.t <= from);
    let last = before.clone().max_by_key(|one| one.end);
    if last.is_some_and(|one| failed(one.outcome)) || lane.gone.is_some_and(|gone| gone <= until) {
        return None;
    }
    let own = u32::try_from(at).ok()?;
    let first = |one: &&super::deliveries::Delivery| {
        evidence.attempts(one).first().map_or(evidence.end, |n| evidence.exchange(*n).t)
    };
    let pending = evidence.deliveries_of(own).iter().filter(|one| one.owed && first(one) >= until);
    let pending = pending.filter(|one| one.dead.is_none_or(|at| evidence.trace.dead[at as usize].t >= until));
    let waits: Vec<u64> = pending
        .filter_map(|one| evidence.accepted(one))
        .map(|accepted| due(lane, accepted, until))
        .filter(|t| *t < until)
        .collect();
    let began = *waits.iter().min()?;
    let over = last.map_or(0, |one| if is_senders(one.outcome) { one.t } else { one.end });
    let since = from;
    let mut from = from.max(began).max(over).max(told_until(evidence, lane, until));
    for behaviour in lane.subscriber.behaviours.iter().filter(|one| one.at.0 < until) {
        // An endpoint counts as ill during a behaviour, and until a sender can notice its end.
        let over = behaviour.until()?;
        let noticed = if over > since && behaviour.answer.hides_attempts() { cooldown(lane) } else { 0 };
        from = from.max(over.saturating_add(noticed));
    }
    let (subscriber, waited) = (lane.subscriber.name.clone(), waits.len() as u64);
    (from < until).then_some(Silence { subscriber, from, until, waited })
}

/// When an event acknowledged at `accepted` must be tried: at once, or after the longest pause that may
/// follow attempts which its endpoint hides.
fn due(lane: &Lane<'_>, accepted: u64, until: u64) -> u64 {
    let retry = &lane.subscriber.retry;
    let backoff = (1..=retry.attempts.min(BACKOFFS_MAX)).map(|failures| retry.bounds(failures).1).max();
    let pause = backoff.unwrap_or(0).saturating_add(cooldown(lane));
    let hidden = lane.subscriber.behaviours.iter();
    let hidden = hidden.filter(|one| one.answer.hides_attempts() && one.at.0 < until);
    let over = hidden.map(|one| one.until().unwrap_or(u64::MAX)).filter(|over| *over > accepted);
    over.map(|over| over.saturating_add(pause)).fold(accepted, u64::max)
}

/// The longest pause after a failure.
fn cooldown(lane: &Lane<'_>) -> u64 {
    lane.subscriber.breaker.as_ref().map_or(0, |breaker| breaker.cooldown_max.0)
}

/// Whether the attempt failed at the endpoint.
fn failed(outcome: Outcome) -> bool {
    !is_senders(outcome) && !matches!(outcome, Outcome::Answered { status: 200..=299, whole: true })
}

/// Whether the sender itself ended an attempt, such as by its death.
fn is_senders(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Open | Outcome::Cut(CutKind::PeerGone | CutKind::RunEnded))
}
