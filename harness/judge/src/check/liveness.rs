//! `liveness.served`: a lane with a delivery due is silent for at most X, unless something holds it back.
//!
//! A delivery is *due* from its acknowledgement until its first attempt. After a failed attempt it is due from the end of
//! the longest delay of its retry schedule until the next one. One that is never settled is due until its `ttl` or the
//! end of the run. A lane is *silent* from one request to the next, as far as something was due all the while. A
//! silence counts from the latest moment until which something may have held the lane back:
//!
//! - a request that ended without an answer is in doubt: its end and `doubt`;
//! - the failures that ended last may have opened the breaker, which a sender may open sooner than declared
//!   ([`OWN_FAILURES`]): their end and the cooldown, doubled for each that may have been a probe;
//! - the endpoint asked for a pause: the longest that it asked for;
//! - a behaviour of the endpoint that hides attempts: its end, the longest delay, `cooldown_max` and `doubt`;
//! - a fault, or a process that was killed, stopped or asked to end: `takeover_within` after that is over. Where the lane
//!   keeps an order, or the contract has no room for twice the cap in flight, also as long as a request may be under way
//!   and in doubt;
//! - a window of the contract may be full: the end of the last request and the window's length.
//!
//! X is the sum of
//!
//! - `timeout`, for open requests;
//! - 1/rate, until the bucket has room for one more;
//! - `takeover_within`, as a living owner serves a lane no later than a new one;
//! - the longest window of a lane that coalesces;
//! - at an endpoint that has misbehaved by then, the longest pause of a sender that gives way to it ([`SLOWEST`]).
//!
//! Not judged are
//!
//! - a lane that keeps an order and saw a failure, or that coalesces while the clock was set;
//! - retries of a subscriber with a redrive;
//! - a lane whose excuse has no end: a behaviour hides attempts to the end of the run, or a request failed last and no
//!   breaker is declared. A sender that is declared to have none has no such excuse.

use super::breaker::BESIDE;
use super::dead_letters::longest_delay;
use super::evidence::{Delivery, Evidence, Exchange, Lane};
use super::outcomes::{Fate, fates_of};
use super::rate::utilisation::busy;
use super::retry::backoff_bounds::OWN_FAILURES;
use super::retry::pause_until;
use super::verdict::{Finding, Tally, Witness, show, show_beside};
use crate::check::{Check, Picture, Stall};
use crate::scenario::{Breaker, Limit, SECOND, Subscriber};
use crate::trace::Lack;

const UNBOUNDED: u64 = u64::MAX;
/// For how long a sender leaves an endpoint alone, between two requests, that has shown strain.
const SLOWEST: u64 = 60 * SECOND;

pub(super) const CHECK: Check = Check {
    id: "liveness.served",
    severity: crate::entry::Severity::Must,
    source: "derived: a stuck lane breaks no other requirement",
    requirement: "a subscriber with a due delivery, a healthy endpoint and room in its contract receives \
        a request in bounded time",
    why: "a lane that missed its wake-up looks idle, and the next event hides the standstill",
    remedy: "wake a lane for everything that it may wait for: an event, an answer, a commit, a claim, a \
        handover",
    stall: Stall::Delays,
    picture: Picture::Backlog,
    find: judge,
    ..Check::PLAIN
};

pub(super) fn judge(evidence: &Evidence<'_>) -> Finding {
    if !evidence.lanes.iter().any(|lane| is_judged(evidence, lane)) {
        return Finding::unasked("every subscriber may hold its deliveries back");
    }
    let mut tally = Tally::default();
    let (mut longest, mut unjudged) = (0, 0);
    for (at, lane) in (0..).zip(&evidence.lanes).filter(|(_, lane)| is_judged(evidence, lane)) {
        // A sender that acknowledges after the delivery lets none wait.
        if fates_of(evidence, at).is_empty() {
            continue;
        }
        let spans = busy(due(evidence, at, lane));
        let (mut is_judged, broken) = (true, tally.broken);
        for (from, until) in silences(evidence, lane, &spans) {
            let most = longest_silence(evidence, lane, until);
            // Nothing but excuses comes on top of the least that X can be.
            let since = if until - from > most { held_back_until(evidence, lane, from, until) } else { from };
            if since == UNBOUNDED {
                is_judged = false;
                continue;
            }
            let silent = evidence.late(since, until);
            longest = longest.max(silent);
            if silent > most {
                let what = format!(
                    "no request for {}, though a delivery was due and nothing held it back; at most {} is \
                        allowed",
                    show_beside(silent, most),
                    show(most)
                );
                tally.broke(|| Witness { from: since, until, ..evidence.witness(at, &[], what) });
            }
        }
        if is_judged || tally.broken > broken {
            tally.see();
        } else {
            unjudged += 1;
        }
    }
    if tally.seen == 0 && unjudged > 0 {
        return Finding::unasked("every subscriber with deliveries is excused until the end of the run");
    }
    tally
        .finding("subscribers with deliveries", "each received requests in time", "no request for too long")
        .with("longest silence", show(longest))
        .with("subscribers excused until the end", unjudged)
}

fn is_judged(evidence: &Evidence<'_>, lane: &Lane<'_>) -> bool {
    let handling = &lane.subscriber.handling;
    let failed = |n: &u32| {
        let exchange = evidence.exchange(*n);
        !exchange.is_delivered() || !evidence.is_in_time(*n, exchange.end)
    };
    let waits_for_a_key =
        handling.ordered && (lane.subscriber.hides_attempts() || lane.begun.iter().any(failed));
    // The length of a window is unknown if the clock was set.
    let waits_for_the_clock = !handling.coalesce.is_empty() && evidence.is_clock_set(0, evidence.end);
    !waits_for_a_key && !waits_for_the_clock
}

fn longest_silence(evidence: &Evidence<'_>, lane: &Lane<'_>, until: u64) -> u64 {
    let Subscriber { behaviours, handling, timeout, .. } = lane.subscriber;
    let buckets = limits(lane).filter_map(|limit| limit.bucket);
    let gap = buckets.map(|bucket| bucket.rate.per.0.div_ceil(bucket.rate.count)).max().unwrap_or(0);
    let strain = if behaviours.iter().any(|one| one.at.0 < until) { SLOWEST } else { 0 };
    let window = handling.coalesce.iter().map(|one| one.window.0).max().unwrap_or(0);
    let takeover = evidence.scenario.sender.takeover_within.0;
    [timeout.0, gap, strain, window, takeover].into_iter().fold(0, u64::saturating_add)
}

fn limits<'e>(lane: &'e Lane<'_>) -> impl Iterator<Item = &'e Limit> {
    lane.epochs.iter().map(|epoch| &epoch.limit)
}

fn due(evidence: &Evidence<'_>, at: u32, lane: &Lane<'_>) -> Vec<(u64, u64)> {
    let (mut spans, redriven) = (Vec::new(), lane.has_redrives(evidence));
    for (delivery, fate) in fates_of(evidence, at) {
        let Some(accepted) = evidence.accepted(delivery) else { continue };
        let old = accepted.saturating_add(lane.subscriber.retry.ttl.0);
        let attempts = evidence.attempts(delivery);
        let mut from = Some(accepted);
        for (number, n) in (1..).zip(attempts) {
            let exchange = evidence.exchange(*n);
            spans.extend(from.map(|from| (from, exchange.t.min(old))));
            let delay = lane.subscriber.retry.bounds(number).1;
            let retries = number < lane.subscriber.retry.attempts && !redriven;
            from = (retries && !exchange.is_delivered()).then(|| exchange.end.saturating_add(delay));
        }
        // A newer event may have replaced a coalescing delivery that failed.
        let replaced = !attempts.is_empty() && !lane.subscriber.handling.coalesce.is_empty();
        let is_open = fate == Fate::Unsettled && is_counted(evidence, delivery) && !replaced;
        spans.extend(from.filter(|_| is_open).map(|from| (from, evidence.at_work_until().min(old))));
    }
    spans.retain(|(from, until)| from < until);
    spans
}

/// Whether a delivery that was never settled was sure to be tried again.
fn is_counted(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    delivery.dead.is_none() && !evidence.subscriber(delivery).hides_attempts()
}

fn silences(evidence: &Evidence<'_>, lane: &Lane<'_>, spans: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    for (from, until) in spans {
        let times = lane.begun.iter().map(|n| evidence.exchange(*n).t);
        let inside = times.skip(lane.begun.partition_point(|n| evidence.exchange(*n).t <= *from));
        let mut since = *from;
        for t in inside.take_while(|t| t < until).chain([*until]) {
            found.push((since, t));
            since = t;
        }
    }
    found
}

/// [`UNBOUNDED`] if nothing says.
fn held_back_until(evidence: &Evidence<'_>, lane: &Lane<'_>, from: u64, until: u64) -> u64 {
    let before: Vec<&Exchange> =
        lane.begun.iter().map(|n| evidence.exchange(*n)).filter(|one| one.t < until).collect();
    let doubt = lane.subscriber.limit.doubt.0;
    let silent = before.iter().filter(|one| one.status().is_none() && one.end < until).map(|one| one.end);
    let in_doubt = silent.max().map_or(0, |end| end.saturating_add(doubt));
    let gone = if lane.gone.is_some_and(|gone| gone <= until) { until } else { 0 };
    let asked = pause_until(evidence, lane, until);
    [
        from,
        in_doubt,
        gone,
        asked,
        breaker_until(evidence, lane, &before, until),
        behaviours_until(lane, until, doubt),
        taken_over_by(evidence, lane, until),
        window_until(lane, &before, from),
    ]
    .into_iter()
    .max()
    .map_or(from, |held| if held == UNBOUNDED { held } else { held.min(until) })
}

fn breaker_until(evidence: &Evidence<'_>, lane: &Lane<'_>, before: &[&Exchange], until: u64) -> u64 {
    let ended = before.iter().filter(|one| one.end < until);
    let Some(last) = ended.max_by_key(|one| one.end).filter(|last| !last.is_delivered()) else { return 0 };
    match &lane.subscriber.breaker {
        Some(breaker) => last.end.saturating_add(longest_cooldown(lane, breaker, before, until)),
        None if evidence.trace.declared.lacks(Lack::Breaker) => 0,
        None => UNBOUNDED,
    }
}

/// 0 if it cannot be open.
fn longest_cooldown(lane: &Lane<'_>, breaker: &Breaker, before: &[&Exchange], until: u64) -> u64 {
    if lane.subscriber.behaviours.iter().any(|one| one.at.0 < until && one.answer.hides_attempts()) {
        return breaker.cooldown_max.0;
    }
    let well = before.iter().filter(|one| one.is_delivered() && one.end < until).map(|one| one.end).max();
    // The sender may have seen a success before a failure that ended just before it.
    let is_last = |one: &&&Exchange| {
        !one.is_delivered()
            && one.end < until
            && well.is_none_or(|well| one.end.saturating_add(BESIDE) > well)
    };
    if before.iter().filter(is_last).count() < breaker.failures.min(OWN_FAILURES) as usize {
        return 0;
    }
    // No request but the probe leaves during a cooldown, though an earlier one may be read then.
    let alone = breaker.cooldown.0 / 2;
    let probes =
        before.windows(2).filter(|pair| is_last(&&pair[1]) && pair[1].t - pair[0].t >= alone).count();
    let doubled = u32::try_from(probes).ok().and_then(|probes| 1_u64.checked_shl(probes)).unwrap_or(u64::MAX);
    breaker.cooldown.0.saturating_mul(doubled).min(breaker.cooldown_max.0)
}

/// A behaviour that answers excuses nothing: the longest delay, the breaker and a pause follow from its answers.
fn behaviours_until(lane: &Lane<'_>, until: u64, doubt: u64) -> u64 {
    let cooldown = lane.subscriber.breaker.as_ref().map_or(UNBOUNDED, |breaker| breaker.cooldown_max.0);
    let noticed = longest_delay(lane, lane.subscriber.retry.attempts)
        .saturating_add(cooldown)
        .saturating_add(doubt)
        .saturating_add(lane.subscriber.timeout.0);
    let behaviours = lane.subscriber.behaviours.iter();
    let hiding = behaviours.filter(|one| one.at.0 < until && one.answer.hides_attempts());
    hiding.map(|one| one.until().unwrap_or(UNBOUNDED).saturating_add(noticed)).max().unwrap_or(0)
}

fn taken_over_by(evidence: &Evidence<'_>, lane: &Lane<'_>, until: u64) -> u64 {
    let Some(over) = evidence.befallen_until(lane, until) else { return 0 };
    let doubt = lane.subscriber.timeout.0.saturating_add(lane.subscriber.limit.doubt.0);
    over.saturating_add(evidence.scenario.sender.takeover_within.0)
        .saturating_add(if lane.lacks_room() || lane.subscriber.handling.ordered { doubt } else { 0 })
}

/// A window may be full if as many requests as it allows ended within its length of `from`. Those that a new owner
/// has to count beside them are at most twice the cap in flight.
fn window_until(lane: &Lane<'_>, before: &[&Exchange], from: u64) -> u64 {
    let Some(last) =
        before.iter().map(|one| one.end.min(one.t.saturating_add(lane.subscriber.timeout.0))).max()
    else {
        return 0;
    };
    let full = limits(lane).flat_map(|limit| limit.windows.iter().map(move |window| (limit, window)));
    let full = full.filter(|(limit, window)| {
        let inside =
            before.iter().filter(|one| one.end.saturating_add(window.length.0) > from).count() as u64;
        let unseen = limit.in_flight.map_or(0, |cap| u64::from(cap).saturating_mul(2));
        inside.saturating_add(unseen) >= window.count
    });
    full.map(|(_, window)| last.saturating_add(window.length.0)).max().unwrap_or(0)
}
