//! `rate.utilisation`.
//!
//! A *busy interval* begins with the acknowledgement of an event and ends when no untried delivery waits. Only
//! intervals in which nothing else can limit the sender are judged: before the endpoint's first behaviour, without a
//! fault near, and as long as [`BUSY_MIN`] and [`DUE_MIN`] attempts. Little's law must allow the rate: with answers of
//! length a, a limit that holds at the receiver allows at most `(burst − 1) ÷ a`, `in_flight ÷ a`, and `L ÷ (W + a)`.
//! The least of these and the rate is due. Stalls of a tenth of an interval make it say nothing.

use crate::check::epochs::Epoch;
use crate::check::evidence::{Evidence, Lane};
use crate::check::verdict::{Finding, Tally, show};
use crate::check::{Check, Picture, Simulated, Stall};
use crate::entry::Severity;
use crate::scenario::{Bucket, SECOND};

const BUSY_MIN: u64 = 2 * SECOND;
const DUE_MIN: u128 = 30;

/// Disjoint.
pub(in crate::check) fn busy(mut waits: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    waits.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (from, until) in waits {
        match merged.last_mut().filter(|last| from <= last.1) {
            Some(last) => last.1 = last.1.max(until),
            None => merged.push((from, until)),
        }
    }
    merged
}

/// Whether only the contract's rate limits a sender, with answers that take `answer`.
fn is_fast(epoch: &Epoch, bucket: Bucket, answer: u64) -> bool {
    // n in every (window + answer) is at least the rate: n·per ≥ count·(window + answer).
    let carries = |n: u64, length: u64| {
        u128::from(n) * u128::from(bucket.rate.per.0) >= u128::from(bucket.rate.count) * u128::from(length)
    };
    let windows = epoch.limit.windows.iter().all(|window| carries(window.count, window.length.0 + answer));
    let in_flight = epoch.limit.in_flight_told().is_none_or(|cap| carries(u64::from(cap), answer));
    // Half of the burst: a busy machine may oversleep the other half.
    windows && in_flight && carries(u64::from(bucket.burst.saturating_sub(1) / 2), answer + SECOND / 50)
}

/// Only where one contract alone holds.
fn limited<'e, 'a>(
    evidence: &'e Evidence<'a>,
) -> impl Iterator<Item = (u32, &'e Lane<'a>, &'e Epoch, Bucket)> {
    (0..).zip(&evidence.lanes).flat_map(|(at, lane)| {
        let sure = lane.epochs.iter().filter(|epoch| epoch.is_sure);
        sure.filter_map(move |epoch| epoch.limit.bucket.map(|bucket| (at, lane, epoch, bucket)))
    })
}

pub(in crate::check) fn waits(evidence: &Evidence<'_>, at: u32) -> Vec<(u64, u64)> {
    let wait = evidence.deliveries_of(at).iter().filter_map(|delivery| {
        let accepted = evidence.accepted(delivery)?;
        let first = evidence.attempts(delivery).first().map(|n| evidence.exchange(*n).t)?;
        (accepted < first).then_some((accepted, first))
    });
    wait.collect()
}

fn is_judged(evidence: &Evidence<'_>, lane: &Lane<'_>, epoch: &Epoch, (from, until): (u64, u64)) -> bool {
    let unwell = lane.subscriber.behaviours.iter().map(|one| one.at.0).min().unwrap_or(u64::MAX);
    until - from >= BUSY_MIN
        && until < unwell
        && epoch.from <= from
        && until <= epoch.until
        && !evidence.is_lane_disturbed(lane, from, until)
}

pub(in crate::check) const CHECK: Check = Check {
    id: "rate.utilisation",
    severity: Severity::Should,
    source: "derived: a limiter that never reaches its limit enforces a lower one",
    requirement: "with due deliveries and a fast endpoint, the sender uses the agreed share of the rate",
    why: "a limiter that wastes its tokens lets the backlog grow, though the endpoint could take it",
    remedy: "wake when the next token is due instead of polling; claim deliveries before they are needed",
    figure: Some("utilisation_min"),
    stall: Stall::Delays,
    simulated: Simulated::Figure,
    picture: Picture::Level,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    if limited(evidence).next().is_none() {
        return Finding::unasked("no subscriber has a rate limit");
    }
    let mut tally = Tally::default();
    let mut least: Option<u128> = None;
    let share_min = u128::from(evidence.scenario.expect.utilisation_min.0);
    for (at, lane, epoch, bucket) in limited(evidence) {
        if !is_fast(epoch, bucket, lane.subscriber.answers.most.0) || !lane.is_judged_by_its_speed() {
            continue;
        }
        for interval in
            busy(waits(evidence, at)).into_iter().filter(|one| is_judged(evidence, lane, epoch, *one))
        {
            let (from, until) = interval;
            let (rate, length) = (bucket.rate, evidence.late(from, until));
            // Between such stalls the machine is slow, too.
            let stalled = until - from - length;
            if stalled > 0 && stalled >= (until - from) / 10 {
                continue;
            }
            let due = u128::from(rate.count) * u128::from(length) / u128::from(rate.per.0);
            if due < DUE_MIN {
                continue;
            }
            let place = |t: u64| lane.arrivals.partition_point(|n| evidence.exchange(*n).t <= t);
            let (first, last) = (place(from), place(until));
            // A request may carry several events.
            let carried = |n: &u32| 1 + evidence.trace.arrivals[*n as usize].more.len();
            let sent: usize = lane.arrivals[first..last].iter().map(carried).sum();
            let share = sent as u128 * 1_000_000 / due;
            tally.see();
            least = Some(least.map_or(share, |least| least.min(share)));
            if share < share_min {
                let what = format!("{sent} deliveries in {}; {due} were due and allowed", show(until - from));
                tally.broke(|| evidence.witness(at, &lane.arrivals[first..last], what));
            }
        }
    }
    if tally.seen == 0 {
        return Finding::unasked("no fast, healthy endpoint had a backlog for long enough");
    }
    let percent = least.unwrap_or(0).min(1_000_000) / 100;
    tally
        .finding("busy intervals", "the rate was used", "too little of the rate was used")
        .with("least used", format!("{}.{:02} %", percent / 100, percent % 100))
}
