//! The picture around a witness: for a contract, the level request by request; for a delivery, its attempts and the
//! requested pauses; else the backlog.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::evidence::{Delivery, Evidence, Lane, Outcome};
use super::judge::Verdict;
use super::outcomes::{fates_of, settled_at};
use super::rate::Level;
use super::retry::{RequestedPause, pause_until};
use super::verdict::{Status, Witness, moment, show};
use super::{CHECKS, Check, Picture};
use crate::scenario::SECOND;
use crate::trace::{CutKind, ProcessEvent};

const CHECKS_MAX: usize = 12;
const WITNESSES_MAX: usize = 2;
/// The window of a picture ends where there are more.
const REQUESTS_MAX: usize = 600;
const ATTEMPTS_MAX: usize = 8;
const AROUND: u64 = SECOND / 20;
/// A fault so long before a picture may be its cause.
const CAUSE: u64 = 2 * SECOND;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closeup {
    pub check: String,
    /// Index from 0.
    pub witness: usize,
    pub from: u64,
    pub until: u64,
    pub what: String,
    /// Moments and levels, in thousandths.
    pub level: Vec<(u64, u64)>,
    /// In thousandths.
    pub bound: Option<u64>,
    /// Requests at the endpoint: first byte and outcome.
    pub requests: Vec<(u64, Came)>,
    /// Counted before the window was shortened; 0 in older reports.
    #[serde(default)]
    pub requests_in_all: usize,
    /// The history of one delivery, in order.
    pub course: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Came {
    Accused,
    /// An answer of 2xx.
    Taken,
    /// An answer of 429.
    Held,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub from: u64,
    pub until: u64,
    /// None for a pause and for actions of the emitter.
    pub came: Option<Came>,
    pub what: String,
}

pub(crate) fn closeups(evidence: &Evidence<'_>, verdicts: &[Verdict]) -> Vec<Closeup> {
    let mut told: Vec<&Verdict> =
        verdicts.iter().filter(|one| matches!(one.status, Status::Fail | Status::Warn)).collect();
    told.sort_by_key(|one| one.status != Status::Fail);
    let mut closeups = Vec::new();
    for verdict in told.into_iter().take(CHECKS_MAX) {
        let Some(check) = CHECKS.iter().find(|check| check.id == verdict.id) else { continue };
        for (at, witness) in verdict.witness.iter().take(WITNESSES_MAX).enumerate() {
            let drawn = closeup(evidence, check, witness);
            closeups.push(Closeup { check: verdict.id.clone(), witness: at, ..drawn });
        }
    }
    closeups
}

fn closeup(evidence: &Evidence<'_>, check: &Check, witness: &Witness) -> Closeup {
    let name = witness.subscriber.as_deref();
    let at = evidence.lanes.iter().position(|lane| Some(lane.subscriber.name.as_str()) == name);
    let Some(lane) = at.map(|at| &evidence.lanes[at]) else { return backlog(evidence, None, witness) };
    let limit = lane.epochs.iter().rfind(|epoch| epoch.from <= witness.from).map(|epoch| &epoch.limit);
    let drawn = match (check.picture, limit) {
        (Picture::Open, Some(limit)) => limit.in_flight.map(|cap| open(evidence, lane, witness, cap)),
        (Picture::Window, Some(limit)) => {
            let caps = limit.windows.iter();
            let passed = caps.filter(|cap| length(witness) < cap.length.0);
            let cap = passed.min_by_key(|cap| cap.length);
            cap.map(|cap| within(evidence, lane, witness, (cap.length.0, cap.count)))
        }
        (Picture::Level, Some(limit)) => limit.bucket.map(|_| bucket(evidence, lane, witness)),
        (Picture::Backlog, _) => None,
        (Picture::Delivery | Picture::Open | Picture::Window | Picture::Level, _) => {
            course(evidence, lane, witness)
        }
    };
    drawn.unwrap_or_else(|| backlog(evidence, at, witness))
}

fn empty(evidence: &Evidence<'_>, lane: Option<&Lane<'_>>, witness: &Witness, around: u64) -> Closeup {
    let around = around.max(AROUND);
    let mut until = witness.until.saturating_add(around).min(evidence.end);
    let from = witness.from.saturating_sub(around);
    let from = cause(evidence, from).unwrap_or(from);
    let accused: BTreeSet<u64> = witness.arrivals.iter().copied().collect();
    let own = lane.map_or(&[][..], |lane| &lane.begun);
    let first = own.partition_point(|n| evidence.exchange(*n).t < from);
    let after = own.partition_point(|n| evidence.exchange(*n).t <= until).max(first);
    let inside = &own[first..after];
    let requests: Vec<(u64, Came)> = inside
        .iter()
        .take(REQUESTS_MAX)
        .map(|n| {
            let exchange = evidence.exchange(*n);
            let came = if accused.contains(&u64::from(*n)) { Came::Accused } else { came(exchange.outcome) };
            (exchange.t, came)
        })
        .collect();
    let requests_in_all = inside.len();
    if requests_in_all > REQUESTS_MAX {
        until = requests.last().map_or(until, |(t, _)| *t);
    }
    let (check, what, course) = (String::new(), String::new(), Vec::new());
    let (level, bound) = (Vec::new(), None);
    Closeup { check, witness: 0, from, until, what, level, bound, requests, requests_in_all, course }
}

/// Early enough to show the last fault or end of a process before the witness.
fn cause(evidence: &Evidence<'_>, from: u64) -> Option<u64> {
    let trace = evidence.trace;
    let ends = trace.processes.iter();
    let ends = ends.filter(|one| matches!(one.event, ProcessEvent::Killed | ProcessEvent::Exited));
    let causes = trace.faults.iter().map(|fault| fault.t).chain(ends.map(|one| one.t));
    let last = causes.filter(|t| *t <= from && from - t <= CAUSE).max()?;
    Some(last.saturating_sub(AROUND))
}

/// A witness after the run's end has length 0.
fn length(witness: &Witness) -> u64 {
    witness.until.saturating_sub(witness.from)
}

fn came(outcome: Outcome) -> Came {
    match outcome {
        Outcome::Answered { status: 200..=299, whole: true } => Came::Taken,
        Outcome::Answered { status: 429, .. } => Came::Held,
        _ => Came::Failed,
    }
}

/// The level of the bucket in force at the witness: each request fills it, and time drains it.
fn bucket(evidence: &Evidence<'_>, lane: &Lane<'_>, witness: &Witness) -> Closeup {
    let epoch = lane.epochs.iter().rfind(|epoch| epoch.from <= witness.from);
    let Some((epoch, bucket)) = epoch.and_then(|epoch| Some((epoch, epoch.limit.bucket?))) else {
        return backlog(evidence, None, witness);
    };
    let per = bucket.rate.per.0;
    let around = (per / bucket.rate.count.max(1)).saturating_mul(4).max(length(witness));
    let mut drawn = empty(evidence, Some(lane), witness, around);
    let thousandths = |level: u128| u64::try_from(level * 1_000 / u128::from(per.max(1))).unwrap_or(u64::MAX);
    let mut level = Level::new(bucket.rate);
    let own = lane.begun.iter().map(|n| evidence.exchange(*n).t);
    let own: Vec<u64> = own.filter(|t| *t >= epoch.from && *t <= drawn.until).collect();
    let first = own.partition_point(|t| *t < drawn.from);
    for t in &own[..first] {
        level.arrive(*t);
    }
    drawn.level.push((drawn.from, thousandths(level.at(drawn.from))));
    let emptied = |level: &Level, t: u64| {
        let lasts = u64::try_from(level.at(t) / u128::from(bucket.rate.count.max(1))).unwrap_or(u64::MAX);
        t.saturating_add(lasts)
    };
    let falls = |level: &Level, latest: u64, t: u64| {
        let dry = Some(emptied(level, latest)).filter(|dry| *dry < t);
        dry.map(|dry| (dry, 0)).into_iter().chain([(t, thousandths(level.at(t)))])
    };
    let mut latest = drawn.from;
    for t in &own[first..] {
        drawn.level.extend(falls(&level, latest, *t));
        level.arrive(*t);
        drawn.level.push((*t, thousandths(level.level)));
        latest = *t;
    }
    drawn.level.extend(falls(&level, latest, drawn.until));
    drawn.bound = Some(u64::from(bucket.burst) * 1_000);
    drawn.what = format!("requests in the bucket, which drains at {}", bucket.rate);
    drawn
}

/// Counts the window that ends at each moment.
fn within(evidence: &Evidence<'_>, lane: &Lane<'_>, witness: &Witness, (window, cap): (u64, u64)) -> Closeup {
    let mut drawn = empty(evidence, Some(lane), witness, length(witness) / 2);
    let own: Vec<u64> = lane.begun.iter().map(|n| evidence.exchange(*n).t).collect();
    let count = |t: u64| {
        let left = own.partition_point(|one| one.saturating_add(window) <= t);
        (own.partition_point(|one| *one <= t) - left) as u64 * 1_000
    };
    let leaving = own.iter().map(|t| t.saturating_add(window));
    let mut changes: Vec<u64> = own.iter().copied().chain(leaving).collect();
    changes.retain(|t| drawn.from <= *t && *t <= drawn.until);
    changes.extend([drawn.from, drawn.until]);
    changes.sort_unstable();
    let mut last = count(drawn.from);
    for t in changes {
        drawn.level.extend([(t, last), (t, count(t))]);
        last = count(t);
    }
    drawn.bound = Some(cap * 1_000);
    drawn.what = format!("requests within the last {}", show(window));
    drawn
}

fn open(evidence: &Evidence<'_>, lane: &Lane<'_>, witness: &Witness, cap: u32) -> Closeup {
    let mut drawn = empty(evidence, Some(lane), witness, length(witness));
    let own: Vec<(u64, u64)> =
        lane.begun.iter().map(|n| (evidence.exchange(*n).t, evidence.exchange(*n).end)).collect();
    drawn.level = heights(&own, (drawn.from, drawn.until));
    drawn.bound = Some(u64::from(cap) * 1_000);
    drawn.what = "requests in flight".to_owned();
    drawn
}

/// In thousandths.
fn heights(whiles: &[(u64, u64)], (from, until): (u64, u64)) -> Vec<(u64, u64)> {
    let mut changes: Vec<(u64, i64)> =
        whiles.iter().flat_map(|(from, until)| [(*from, 1), (*until, -1)]).collect();
    changes.sort_unstable();
    let (mut height, mut points) = (0_i64, Vec::new());
    let mut begun = false;
    for (t, change) in changes {
        if t > until {
            break;
        }
        if t >= from {
            if !begun {
                points.push((from, height));
                begun = true;
            }
            points.extend([(t, height), (t, height + change)]);
        }
        height += change;
    }
    if !begun {
        points.push((from, height));
    }
    points.push((until, height));
    points.into_iter().map(|(t, height)| (t, u64::try_from(height).unwrap_or(0) * 1_000)).collect()
}

/// By the harness's account.
fn backlog(evidence: &Evidence<'_>, lane: Option<usize>, witness: &Witness) -> Closeup {
    let lasts = witness.until.min(evidence.end).saturating_sub(witness.from);
    let mut drawn = empty(evidence, lane.map(|at| &evidence.lanes[at]), witness, lasts / 4);
    let lanes: Vec<usize> = lane.map_or_else(|| (0..evidence.lanes.len()).collect(), |at| vec![at]);
    let whiles: Vec<(u64, u64)> = lanes.into_iter().flat_map(|at| waiting(evidence, at)).collect();
    drawn.level = heights(&whiles, (drawn.from, drawn.until));
    drawn.what = "deliveries acknowledged and not yet delivered".to_owned();
    drawn
}

/// The first delivery that the witness names.
fn course(evidence: &Evidence<'_>, lane: &Lane<'_>, witness: &Witness) -> Option<Closeup> {
    let first = usize::try_from(*witness.arrivals.first()?).ok()?;
    let arrival = evidence.trace.arrivals.get(first)?;
    let at = evidence.exchanges.get(first)?.lane?;
    let own = evidence.deliveries_of(at);
    let delivery = own.iter().find(|one| Some(one.token) == arrival.token)?;
    let steps = steps(evidence, lane, delivery, witness);
    let named = |step: &&Step| step.until >= witness.from && step.from <= witness.until;
    let last = steps.iter().filter(named).map(|step| step.until).max().unwrap_or(witness.until);
    let shown = Witness { until: last.max(witness.until), ..witness.clone() };
    let mut drawn = empty(evidence, Some(lane), &shown, length(&shown) / 4);
    let (from, until) = (drawn.from, drawn.until);
    drawn.course = steps.into_iter().filter(|step| step.until >= from && step.from <= until).collect();
    let shown = drawn.course.iter().filter(|step| step.came.is_some()).count();
    let all = evidence.attempts(delivery).len();
    let whose = if shown < all { format!("{shown} of its {all}") } else { "its".to_owned() };
    drawn.what = format!("event {} and {whose} attempts", delivery.token);
    Some(drawn)
}

/// Numbers and attempts: those that the witness names, then the nearest.
fn nearest(evidence: &Evidence<'_>, delivery: &Delivery, witness: &Witness) -> Vec<(u32, u32)> {
    let mut numbered: Vec<(u32, u32)> = (1..).zip(evidence.attempts(delivery).iter().copied()).collect();
    numbered.sort_by_key(|(number, n)| {
        let exchange = evidence.exchange(*n);
        let apart = exchange.t.saturating_sub(witness.until).max(witness.from.saturating_sub(exchange.end));
        (!witness.arrivals.contains(&u64::from(*n)), apart, *number)
    });
    numbered.truncate(ATTEMPTS_MAX);
    numbered.sort_unstable();
    numbered
}

const fn cut(how: CutKind) -> &'static str {
    match how {
        CutKind::Reset => "connection reset",
        CutKind::ResetAfterRead => "connection reset after the request",
        CutKind::Close => "connection closed",
        CutKind::HalfAnswer => "connection closed after half an answer",
        CutKind::Blackhole => "endpoint never answered",
        CutKind::PeerGone => "sender closed the connection",
        CutKind::Malformed => "not an HTTP request",
        CutKind::RunEnded => "end of the run",
    }
}

fn steps(evidence: &Evidence<'_>, lane: &Lane<'_>, delivery: &Delivery, witness: &Witness) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Some(event) = evidence.event(delivery) {
        let offer = &evidence.trace.offers[event.offer as usize];
        let until = event.accepted.unwrap_or(offer.t);
        let what = if event.accepted.is_some() { "emitted, and acknowledged" } else { "emitted" };
        steps.push(Step { from: offer.t, until, came: None, what: what.to_owned() });
    }
    let cap = lane.subscriber.retry.retry_after_cap.0;
    for (number, n) in nearest(evidence, delivery, witness) {
        let exchange = evidence.exchange(n);
        let asked = evidence.retry_after(n);
        let until = asked.map(RequestedPause::read).and_then(|asked| asked.until(evidence, exchange, cap));
        // The pause has a row of its own.
        let said = asked.filter(|_| until.is_none());
        let said = said.map_or(String::new(), |asked| format!(", Retry-After: {asked}"));
        let outcome = match exchange.outcome {
            Outcome::Answered { status, whole: true } => format!("{status}{said}"),
            Outcome::Answered { status, whole: false } => format!("{status}, cut off"),
            Outcome::Cut(how) => format!("no answer ({})", cut(how)),
            Outcome::Open => "no answer until the end of the run".to_owned(),
        };
        let is_accused = witness.arrivals.contains(&u64::from(n));
        let came = Some(came(exchange.outcome))
            .map(|came| if is_accused && came == Came::Taken { Came::Accused } else { came });
        let what = format!("attempt {number} at {}: {outcome}", moment(exchange.t));
        steps.push(Step { from: exchange.t, until: exchange.end, came, what });
        if let Some(until) = until {
            let what = format!("no retry before {}", moment(until));
            steps.push(Step { from: exchange.begun, until, came: None, what });
        }
    }
    if let Some(dead) = delivery.dead.map(|at| &evidence.trace.dead[at as usize]) {
        let what = format!("dead letter: {}", dead.reason);
        steps.push(Step { from: dead.t, until: dead.t, came: None, what });
    }
    steps
}

// Spans in which a healthy endpoint received nothing while deliveries waited. They break no contract; every
// report shows them, as the effects of a kill appear here first.
//
// A silence lasts from a request to the next one, counted from when an untried delivery waited and no cause explains
// the wait:
//
// - no request is open;
// - no behaviour of the endpoint covers it;
// - no `Retry-After` holds;
// - the last attempt had not failed;
// - no backoff can follow attempts that the endpoint hides.
//
// It must last [`LEAST`], three gaps of the rate, and the longest window.

const LEAST: u64 = SECOND;
const BACKOFFS_MAX: u32 = 100;
/// Examined silences per subscriber, the longest first.
const LOOKED_MAX: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    pub subscriber: String,
    pub from: u64,
    pub until: u64,
    pub waited: u64,
}

pub(crate) fn silences(evidence: &Evidence<'_>) -> Vec<Silence> {
    let mut silences: Vec<Silence> = (0..evidence.lanes.len()).flat_map(|at| of_lane(evidence, at)).collect();
    silences.sort_by_key(|one| (std::cmp::Reverse(one.until - one.from), one.from));
    silences
}

/// By the harness's account, until settled. Replaced deliveries, and deliveries for an endpoint that is gone, do not
/// wait.
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

fn least(lane: &Lane<'_>) -> u64 {
    let limits = lane.epochs.iter().map(|epoch| &epoch.limit);
    let explained = limits.flat_map(|limit| {
        let gap = limit.bucket.map(|bucket| bucket.rate.per.0.saturating_mul(3) / bucket.rate.count.max(1));
        gap.into_iter().chain(limit.windows.iter().map(|window| window.length.0))
    });
    explained.fold(LEAST, u64::max)
}

fn unexplained(evidence: &Evidence<'_>, at: usize, (from, until): (u64, u64)) -> Option<Silence> {
    let lane = &evidence.lanes[at];
    let before = lane.begun.iter().map(|n| evidence.exchange(*n)).filter(|one| one.t <= from);
    let last = before.clone().max_by_key(|one| one.end);
    if last.is_some_and(|one| failed(one.outcome)) || lane.gone.is_some_and(|gone| gone <= until) {
        return None;
    }
    let own = u32::try_from(at).ok()?;
    let first = |one: &&super::evidence::Delivery| {
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
    let mut from = from.max(began).max(over).max(pause_until(evidence, lane, until));
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

fn cooldown(lane: &Lane<'_>) -> u64 {
    lane.subscriber.breaker.as_ref().map_or(0, |breaker| breaker.cooldown_max.0)
}

fn failed(outcome: Outcome) -> bool {
    !is_senders(outcome) && !matches!(outcome, Outcome::Answered { status: 200..=299, whole: true })
}

fn is_senders(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Open | Outcome::Cut(CutKind::PeerGone | CutKind::RunEnded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_begin_and_end_with_the_span_and_count_what_is_there() {
        let whiles = [(0, 10), (5, 20), (12, 30)];
        assert_eq!(
            heights(&whiles, (6, 15)),
            [(6, 2_000), (10, 2_000), (10, 1_000), (12, 1_000), (12, 2_000), (15, 2_000)]
        );
        assert_eq!(heights(&whiles, (40, 50)), [(40, 0), (50, 0)]);
    }
}
