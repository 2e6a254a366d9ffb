//! *Never early* is exact for every retry: it arrives no sooner than the answer's first byte plus the requested time
//! (or the date, on the harness's wall clock), or the declared `retry_after_cap` if that is less.
//!
//! *Not late* is judged at the end of each pause. Overlapping pauses are one, as the sender returns only after the last
//! of them. The first arrival after it comes within `retry_after_late` and the contract's wait for one attempt (one gap
//! of the rate, the longest window). A date counts whole seconds on both sides, so a return may be a second later.
//! Lateness is not judged near a fault, while the endpoint misbehaves, and where a failure without a requested pause
//! may have opened a breaker. An answer near the sender's deadline, or not recorded before a kill, informed nobody.

use super::{RequestedPause, has};
use crate::check::evidence::{Delivery, Evidence, Lane};
use crate::check::verdict::{Finding, Found, Tally, show};
use crate::check::{Check, Stall, WallClock};
use crate::entry::Severity;
use crate::scenario::{RetryAfter, SECOND};
use crate::trace::Lack;

type Wanted = fn(u16, RequestedPause) -> bool;

pub(in crate::check) const AFTER_429: Check = Check {
    id: "retry.after-429",
    severity: Severity::Must,
    source: "RFC 9110, section 10.2.3",
    requirement: "after a 429 with Retry-After the sender waits that long from the answer's last byte, \
        and retries soon after",
    why: "an endpoint that states a time counts earlier requests against the sender, and often restarts \
        the wait",
    remedy: "count from the end of the answer on a monotonic clock, and add jitter only after the stated \
        time",
    stall: Stall::Delays,
    wall_clock: WallClock::Dates,
    find: judge_429,
    ..Check::PLAIN
};

pub(in crate::check) fn judge_429(evidence: &Evidence<'_>) -> Finding {
    let has = has(evidence, |status, after| status == 429 && after.is_some_and(RetryAfter::is_plain));
    judge(evidence, has, |status, asked| status == 429 && asked != RequestedPause::Nonsense)
}

pub(in crate::check) const AFTER_503: Check = Check {
    id: "retry.after-503",
    severity: Severity::Must,
    source: "RFC 9110, section 10.2.3",
    requirement: "after a 503 with Retry-After the sender waits that long from the answer's last byte, \
        and retries soon after",
    why: "an endpoint that states a time is recovering, and every earlier request slows that down",
    remedy: "count from the end of the answer on a monotonic clock, and add jitter only after the stated \
        time",
    stall: Stall::Delays,
    wall_clock: WallClock::Dates,
    find: judge_503,
    ..Check::PLAIN
};

pub(in crate::check) fn judge_503(evidence: &Evidence<'_>) -> Finding {
    let has = has(evidence, |status, after| status == 503 && after.is_some_and(RetryAfter::is_plain));
    judge(evidence, has, |status, asked| status == 503 && asked != RequestedPause::Nonsense)
}

pub(in crate::check) const AFTER_DATE: Check = Check {
    id: "retry.after-date",
    severity: Severity::Must,
    source: "RFC 9110, section 10.2.3",
    requirement: "the sender honours Retry-After as an HTTP date",
    why: "the standard has two forms, and a sender that reads only one ignores the other",
    remedy: "parse both forms; compare the date with the answer's own Date header",
    stall: Stall::Delays,
    wall_clock: WallClock::Always,
    find: judge_date,
    ..Check::PLAIN
};

pub(in crate::check) fn judge_date(evidence: &Evidence<'_>) -> Finding {
    let has = has(evidence, |status, after| {
        matches!(status, 429 | 503) && matches!(after, Some(RetryAfter::Date(_)))
    });
    judge(evidence, has, |status, asked| {
        matches!(status, 429 | 503) && matches!(asked, RequestedPause::Date(_))
    })
}

fn judge(evidence: &Evidence<'_>, has: bool, wanted: Wanted) -> Finding {
    if !has {
        return Finding::unasked("no endpoint of the scenario answers so");
    }
    let (mut early, mut returns) = (Tally::default(), Tally::default());
    let mut soonest: Option<u64> = None;
    let mut has_outlasted = false;
    for (delivery, number, before, after) in evidence.retries() {
        let Some(until) = until(evidence, delivery, before, wanted) else { continue };
        let (came, sent) = (evidence.exchange(after).t, evidence.sent_from(after));
        // A request that a stalled endpoint read late may have left before the answer, and an answer near the
        // sender's deadline may have missed it.
        let told = evidence.exchange(before);
        let missed = !evidence.is_in_time(before, told.end) || evidence.may_be_forgotten(before);
        if (sent < came && sent < told.end) || missed {
            continue;
        }
        early.see();
        let backoff = evidence.subscriber(delivery).retry.bounds(number).1;
        has_outlasted |= until > told.end.saturating_add(backoff);
        if came < until {
            let left = show(until - came);
            let asked = evidence.retry_after(before).unwrap_or_default();
            let what = format!("retried {left} before the end of Retry-After: {asked}");
            early.broke(|| evidence.witness(delivery.lane, &[before, after], what));
        } else {
            soonest = Some(soonest.map_or(came - until, |least| least.min(came - until)));
        }
    }
    let latest = lateness(evidence, wanted, &mut returns);
    let late = if returns.seen == 0 { "no return was judged" } else { "none late" };
    let early = early.finding("retries with Retry-After", &format!("none early, {late}"), "too early");
    let short = "no pause with Retry-After was longer than the backoff of its retry".to_owned();
    let early = early.unless_shown((!has_outlasted).then_some(short));
    let finding = match returns.finding("returns after a pause", "", "too late") {
        late if late.found != Found::Broken => early,
        late if early.found == Found::Broken => Finding {
            sentence: format!("{}; {}", early.sentence, late.sentence),
            witness: [early.witness, late.witness].concat(),
            ..late
        },
        // No standard bounds the return.
        late => {
            let counts = match early.by_standard {
                Some(unseen) => unseen,
                None => Box::new(Finding { by_standard: None, ..early }),
            };
            Finding { by_standard: Some(counts), ..late }
        }
    };
    finding
        .with("soonest after the stated time", soonest.map_or("-".to_owned(), show))
        .with("latest return to an endpoint", latest.map_or("-".to_owned(), show))
}

fn until(evidence: &Evidence<'_>, delivery: &Delivery, n: u32, wanted: Wanted) -> Option<u64> {
    let exchange = evidence.exchange(n);
    let (status, asked) = (exchange.status()?, RequestedPause::read(evidence.retry_after(n)?));
    let cap = evidence.subscriber(delivery).retry.retry_after_cap.0;
    wanted(status, asked).then(|| asked.until(evidence, exchange, cap)).flatten()
}

/// Returns the greatest lateness.
fn lateness(evidence: &Evidence<'_>, wanted: Wanted, tally: &mut Tally) -> Option<u64> {
    let mut pauses: Vec<Pause> = Vec::new();
    for delivery in &evidence.deliveries {
        let attempts = evidence.attempts(delivery);
        let tried_again = attempts.windows(2).map(|pair| pair[0]);
        for n in tried_again {
            let any = until(evidence, delivery, n, |_, asked| asked != RequestedPause::Nonsense);
            let counts = until(evidence, delivery, n, wanted).is_some();
            let told = evidence.exchange(n).end;
            pauses.extend(any.map(|until| Pause { lane: delivery.lane, told, until, n, counts }));
        }
    }
    pauses.sort_unstable_by_key(|pause| (pause.lane, pause.told));
    let mut latest = None;
    for (at, pause) in pauses.iter().enumerate() {
        let lane = &evidence.lanes[pause.lane as usize];
        let next = pauses.get(at + 1).filter(|next| next.lane == pause.lane);
        let longest =
            pauses[..at].iter().rev().take(64).all(|one| one.lane != pause.lane || one.until <= pause.until);
        // Another answer before the end of the pause moved that end.
        if !pause.counts || !longest || next.is_some_and(|next| next.told <= pause.until) {
            continue;
        }
        latest = latest.max(late(evidence, lane, pause, tally));
    }
    latest
}

#[derive(Clone, Copy)]
struct Pause {
    lane: u32,
    told: u64,
    until: u64,
    n: u32,
    counts: bool,
}

fn late(evidence: &Evidence<'_>, lane: &Lane<'_>, pause: &Pause, tally: &mut Tally) -> Option<u64> {
    let next = lane.arrivals.partition_point(|n| evidence.exchange(*n).t < pause.until);
    let came = lane.arrivals.get(next).map(|n| evidence.exchange(*n).t)?;
    let unanswering = lane.subscriber.behaviours.iter().any(|behaviour| {
        let begins = behaviour.at.0 <= came && behaviour.until().is_none_or(|until| until >= pause.told);
        begins && !matches!(behaviour.answer, crate::scenario::Answer::Status(_))
    });
    if unanswering
        || evidence.is_lane_disturbed(lane, pause.told, came)
        || a_breaker_may_hold(evidence, lane, pause, came)
    {
        return None;
    }
    let dated = evidence
        .retry_after(pause.n)
        .is_some_and(|text| matches!(RequestedPause::read(text), RequestedPause::Date(_)));
    let late = evidence.late_after(pause.told, pause.until, came);
    let late = late.saturating_sub(if dated { SECOND } else { 0 });
    let most = evidence.scenario.expect.retry_after_late.0.saturating_add(contract_wait(lane));
    tally.see();
    if late > most {
        let what = format!("the next request came {} after the end of the pause", show(late));
        tally.broke(|| evidence.witness(pause.lane, &[pause.n, lane.arrivals[next]], what));
    }
    Some(late)
}

/// Whether a failure without a requested pause, in a row that lasted at `pause` or began before the return,
/// may have opened a breaker that outlasts the pause.
fn a_breaker_may_hold(evidence: &Evidence<'_>, lane: &Lane<'_>, pause: &Pause, came: u64) -> bool {
    if evidence.trace.declared.lacks(Lack::Breaker) {
        return false;
    }
    let ended = || lane.arrivals.iter().filter(|n| evidence.exchange(**n).end < came);
    let end = |n: &u32| evidence.exchange(*n).end;
    let taken = ended().filter(|n| evidence.exchange(**n).is_delivered() && end(n) < pause.told);
    let taken = taken.map(end).max().unwrap_or(0);
    ended().any(|n| {
        let failed = !evidence.exchange(*n).is_delivered() && evidence.requested_pause(*n).is_none();
        failed && end(n) > taken
    })
}

pub(in crate::check) fn contract_wait(lane: &Lane<'_>) -> u64 {
    let limits = lane.epochs.iter().map(|epoch| &epoch.limit);
    let gap = limits
        .clone()
        .filter_map(|limit| limit.bucket)
        .map(|bucket| bucket.rate.per.0.div_ceil(bucket.rate.count));
    let windows = limits.flat_map(|limit| &limit.windows).map(|window| window.length.0);
    gap.max().unwrap_or(0).saturating_add(windows.max().unwrap_or(0))
}
