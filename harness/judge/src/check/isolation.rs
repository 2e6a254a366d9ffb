//! `isolation.latency` compares the waits of healthy subscribers beside others in trouble with those before.
//!
//! A subscriber is *healthy* if it has no behaviours. It is judged if one contract held throughout and nothing holds it
//! back on purpose. Others are in *trouble* from their first behaviour to the end of the last, of any kind: silence,
//! failures, requests for a pause, closed ports. The check compares the first arrivals with the earliest schedule that
//! the contract allows for the same acknowledgements: each event at the latest of its acknowledgement, the bucket's
//! next moment (GCRA's theoretical arrival time), the end of each full window, and the cap in flight. The 95th percentile of the excess
//! during the trouble may be `slower_beside_slow` above the percentile before it.
//!
//! `isolation.gap` judges single late deliveries too, as percentiles hide a few. A first attempt is late if it comes
//! `gap_max` after the earliest moment of the contract ([`earliest`]). That is unexplained if the contract left no
//! backlog, no fault hit the sender meanwhile, and the lane was served throughout: of the later accepted deliveries
//! that came long enough before the late one, nine of ten were in time. So a sender that is late with everything is not
//! judged here. A fault excuses a wait until the lane was served again.

use super::evidence::{Evidence, Lane};
use super::verdict::{Finding, Tally, show, show_beside};
use crate::check::{Check, Picture, Simulated, Stall};
use crate::entry::Severity;
use crate::scenario::{Answer, Behaviour, Limit, SECOND, Subscriber};

/// Least deliveries on each side of a comparison.
const SAMPLES_MIN: usize = 20;

fn is_slow(behaviour: &Behaviour) -> bool {
    let late = behaviour.latency.is_some_and(|latency| latency.most.0 >= SECOND);
    late || matches!(
        behaviour.answer,
        Answer::Stall | Answer::NoAccept | Answer::Blackhole | Answer::Drip { .. }
    )
}

fn is_healthy(subscriber: &Subscriber) -> bool {
    subscriber.behaviours.is_empty() && subscriber.answers.most.0 < SECOND
}

pub(super) fn is_judged(lane: &Lane<'_>) -> bool {
    is_healthy(lane.subscriber) && lane.has_one_contract() && lane.is_judged_by_its_speed()
}

fn trouble(evidence: &Evidence<'_>, counts: fn(&Behaviour) -> bool) -> Option<(u64, u64)> {
    let behaviours =
        || evidence.scenario.subscribers.iter().flat_map(|one| &one.behaviours).filter(|one| counts(one));
    let from = behaviours().map(|one| one.at.0).min()?;
    Some((from, behaviours().map(|one| one.until().unwrap_or(u64::MAX)).max()?))
}

/// The earliest moments that a contract allows for deliveries due at `due`, in their order, each of them open for
/// `answer`.
#[must_use]
pub fn earliest(due: &[u64], limit: &Limit, answer: u64) -> Vec<u64> {
    let mut times: Vec<u64> = Vec::with_capacity(due.len());
    // Theoretical arrival time in units of 1/count of a nanosecond, which makes each gap a whole number.
    let mut theoretical = 0_u128;
    for t in due {
        let mut t = times.last().map_or(*t, |last| (*last).max(*t));
        if let Some(bucket) = limit.bucket {
            let (count, per) = (u128::from(bucket.rate.count), u128::from(bucket.rate.per.0));
            // An even pace allows no burst.
            let burst = if limit.pace { 1 } else { bucket.burst };
            let tolerance = u128::from(burst - 1) * per;
            let allowed = theoretical.saturating_sub(tolerance).div_ceil(count);
            t = t.max(u64::try_from(allowed).unwrap_or(u64::MAX));
            theoretical = theoretical.max(u128::from(t) * count) + per;
        }
        let windows = limit.windows.iter().map(|window| (window.count, window.length.0));
        let open = limit.in_flight_told().map(|cap| (u64::from(cap), answer));
        for (count, length) in windows.chain(open) {
            let place = usize::try_from(count).ok().and_then(|count| times.len().checked_sub(count));
            t = place.map_or(t, |at| t.max(times[at].saturating_add(length)));
        }
        times.push(t);
    }
    times
}

/// When each arrived delivery was due, when its contract allowed it, when it came.
fn waits(evidence: &Evidence<'_>, at: u32, lane: &Lane<'_>) -> Vec<(u64, u64, u64)> {
    let came = evidence.deliveries_of(at).iter().filter_map(|delivery| {
        let first = evidence.attempts(delivery).first().map(|n| evidence.exchange(*n).t)?;
        Some((evidence.accepted(delivery)?, first))
    });
    let mut came: Vec<(u64, u64)> = came.collect();
    came.sort_unstable();
    let due: Vec<u64> = came.iter().map(|(due, _)| *due).collect();
    let allowed = earliest(&due, &lane.subscriber.limit, lane.subscriber.answers.most.0);
    // The sender chooses the order, so the schedule is compared by position.
    let mut arrived: Vec<u64> = came.into_iter().map(|(_, came)| came).collect();
    arrived.sort_unstable();
    due.into_iter().zip(allowed).zip(arrived).map(|((due, allowed), came)| (due, allowed, came)).collect()
}

fn percentile95(mut values: Vec<u64>) -> Option<u64> {
    if values.len() < SAMPLES_MIN {
        return None;
    }
    values.sort_unstable();
    values.get((values.len() * 95).div_ceil(100) - 1).copied()
}

fn compare(
    evidence: &Evidence<'_>,
    waits: &[(u64, u64, u64)],
    span: (u64, u64),
) -> Option<(u64, u64, (u64, u64))> {
    let (from, until) = span;
    let before = waits.iter().filter(|(due, ..)| *due < from);
    let alone = percentile95(before.map(|(_, allowed, came)| came.saturating_sub(*allowed)).collect())?;
    let inside = waits.iter().filter(|(due, ..)| from <= *due && *due <= until);
    let beside = percentile95(inside.map(|(_, allowed, came)| evidence.late(*allowed, *came)).collect())?;
    Some((alone, beside, span))
}

pub(super) const LATENCY: Check = Check {
    id: "isolation.latency",
    severity: Severity::Must,
    source: "existing senders",
    requirement: "endpoints that are slow or fail raise the delivery latency of healthy subscribers by at most \
        slower_beside_slow",
    why: "with one shared pool, as many slow endpoints as workers stop all deliveries",
    remedy: "give each subscriber its own queue and in-flight cap; never let one shared pool wait for an \
        endpoint or for its pause",
    stall: Stall::Delays,
    simulated: Simulated::Figure,
    picture: Picture::Backlog,
    find: latency,
    ..Check::PLAIN
};

pub(super) fn latency(evidence: &Evidence<'_>) -> Finding {
    let Some(any) = trouble(evidence, |_| true) else { return Finding::unasked("no endpoint misbehaves") };
    // Where trouble begins with the run, nothing came before it; something may have come before the slow ones.
    let spans = [Some(any), trouble(evidence, is_slow).filter(|slow| *slow != any)];
    let mut tally = Tally::default();
    let mut healthy = 0;
    let mut worst: Option<(u64, String)> = None;
    for (at, lane) in (0..).zip(&evidence.lanes).filter(|(_, lane)| is_judged(lane)) {
        healthy += 1;
        let waits = waits(evidence, at, lane);
        let compared = spans.iter().flatten().filter_map(|span| compare(evidence, &waits, *span));
        // Of two comparisons the worse one counts.
        let Some((alone, beside, (from, until))) =
            compared.max_by_key(|(alone, beside, _)| beside.saturating_sub(*alone))
        else {
            continue;
        };
        tally.see();
        let name = &lane.subscriber.name;
        let text =
            format!("{} beside endpoints in trouble, {} before", show_beside(beside, alone), show(alone));
        if worst.as_ref().is_none_or(|(most, _)| beside > *most) {
            worst = Some((beside, format!("{name}: {text}")));
        }
        if beside > alone.saturating_add(evidence.scenario.expect.slower_beside_slow.0) {
            let what = format!("p95 of the wait: {text}");
            tally.broke(|| super::verdict::Witness {
                from,
                until: until.min(evidence.end),
                ..evidence.witness(at, &[], what)
            });
        }
    }
    if healthy == 0 {
        return Finding::unasked("no subscriber is healthy throughout");
    }
    // A run with slow endpoints and without a comparison missed its purpose.
    if tally.seen == 0 && trouble(evidence, is_slow).is_none() {
        return Finding::unasked("no healthy subscriber had deliveries enough before and beside the trouble");
    }
    let finding = tally.finding(
        "healthy subscribers",
        "as fast beside endpoints in trouble as before",
        "slower beside endpoints in trouble",
    );
    worst.into_iter().fold(finding, |finding, (_, text)| finding.with("slowest", text))
}

pub(super) const GAP: Check = Check {
    id: "isolation.gap",
    severity: Severity::Must,
    source: "derived: a mean hides a pause",
    requirement: "a healthy subscriber with due deliveries never waits longer than gap_max for an arrival",
    why: "a mean over minutes looks healthy even if a subscriber received nothing half of the time",
    remedy: "look for a lock, a pool or a batch that waits for its slowest member",
    stall: Stall::Delays,
    simulated: Simulated::Figure,
    picture: Picture::Backlog,
    find: gap,
    ..Check::PLAIN
};

pub(super) fn gap(evidence: &Evidence<'_>) -> Finding {
    if trouble(evidence, |_| true).is_none() {
        return Finding::unasked("no endpoint misbehaves");
    }
    if !evidence.lanes.iter().any(is_judged) {
        return Finding::unasked("no subscriber is healthy throughout");
    }
    let mut tally = Tally::default();
    let mut longest = 0;
    for (at, lane) in (0..).zip(&evidence.lanes).filter(|(_, lane)| is_judged(lane)) {
        let mut gap: Option<(u64, u64, u64)> = None;
        let mut before = 0;
        for (_, allowed, came) in waits(evidence, at, lane) {
            let since = allowed.max(before);
            before = came;
            let length = evidence.late(since, came);
            if gap.is_none_or(|(most, ..)| length > most) && !evidence.is_excused(lane, since, came) {
                gap = Some((length, since, came));
            }
        }
        let Some((length, since, came)) = gap else { continue };
        tally.see();
        longest = longest.max(length);
        if length > evidence.scenario.expect.gap_max.0 {
            let what = format!(
                "no request for {}, though a delivery was due and its contract allowed it",
                show(length)
            );
            tally.broke(|| super::verdict::Witness {
                from: since,
                until: came,
                ..evidence.witness(at, &[], what)
            });
        }
    }
    if tally.seen == 0 && trouble(evidence, is_slow).is_none() {
        return Finding::unasked("no healthy subscriber had a delivery to time");
    }
    tally
        .finding("healthy subscribers", "no gap was too long", "a gap was too long")
        .with("longest gap", show(longest))
}

/// A shorter wait counts as none.
const AT_ONCE: u64 = SECOND / 2;

#[derive(Clone, Copy)]
struct Wait {
    taken: u64,
    allowed: u64,
    came: u64,
    token: u64,
}

/// Returns the longest wait from acknowledgement to first attempt, and its subscriber.
pub(super) fn unexplained<'e>(evidence: &'e Evidence<'_>, tally: &mut Tally) -> Option<(u64, &'e str)> {
    let mut longest = None;
    for (at, lane) in (0..).zip(&evidence.lanes).filter(|(_, lane)| is_judged(lane)) {
        let waits = first_waits(evidence, at, lane);
        if waits.is_empty() {
            continue;
        }
        tally.see();
        let most = waits.iter().map(|wait| wait.came.saturating_sub(wait.taken)).max().unwrap_or(0);
        longest = longest.max(Some((most, lane.subscriber.name.as_str())));
        judge_lane(evidence, (at, lane), &waits, tally);
    }
    longest
}

fn first_waits(evidence: &Evidence<'_>, at: u32, lane: &Lane<'_>) -> Vec<Wait> {
    let came =
        evidence.deliveries_of(at).iter().filter(|one| one.owed && one.dead.is_none()).filter_map(|one| {
            let first = evidence.attempts(one).first().map(|n| evidence.exchange(*n).t)?;
            let event = evidence.event(one).filter(|event| event.offers == 1)?;
            Some(Wait { taken: event.accepted?, allowed: 0, came: first, token: one.token })
        });
    let mut waits: Vec<Wait> = came.collect();
    waits.sort_unstable_by_key(|wait| (wait.taken, wait.token));
    let due: Vec<u64> = waits.iter().map(|wait| wait.taken).collect();
    let allowed = earliest(&due, &lane.subscriber.limit, lane.subscriber.answers.most.0);
    waits.iter_mut().zip(allowed).for_each(|(wait, allowed)| wait.allowed = allowed);
    waits
}

fn judge_lane(evidence: &Evidence<'_>, (at, lane): (u32, &Lane<'_>), waits: &[Wait], tally: &mut Tally) {
    let most = evidence.scenario.expect.gap_max.0;
    let is_late = |wait: &Wait| evidence.late(wait.allowed, wait.came) > most;
    let mut late_before = Vec::with_capacity(waits.len() + 1);
    late_before.push(0_usize);
    for wait in waits {
        late_before.push(late_before.last().copied().unwrap_or(0) + usize::from(is_late(wait)));
    }
    for (place, wait) in waits.iter().enumerate().filter(|(_, wait)| is_late(wait)) {
        // After a fault, the deliveries count that were accepted once the lane was served again.
        let Some(since) = evidence.timed_from(lane, wait.taken, wait.came) else { continue };
        let first = waits.partition_point(|other| other.taken < since).max(place + 1);
        let until = waits.partition_point(|other| other.taken.saturating_add(most) <= wait.came);
        let later = until.saturating_sub(first);
        let late = late_before[until.max(first)] - late_before[first];
        let served = later > 0 && late * 10 <= later;
        let at_once = wait.allowed.saturating_sub(wait.taken) <= AT_ONCE;
        if served && at_once && evidence.late(since, wait.came) > most {
            let what = format!(
                "event {} arrived {} after it was accepted; {} of {later} later events arrived in time",
                wait.token,
                show(wait.came - wait.taken),
                later - late
            );
            tally.broke(|| evidence.witness(at, &[], what));
        }
    }
}

impl Lane<'_> {
    /// Whether only the contract delays the lane: coalescing and ordering hold deliveries back on purpose.
    pub(crate) fn is_judged_by_its_speed(&self) -> bool {
        let handling = &self.subscriber.handling;
        handling.coalesce.is_empty() && !handling.ordered
    }

    pub(crate) fn has_one_contract(&self) -> bool {
        self.epochs.len() == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Bucket, Duration, Rate};

    #[test]
    fn the_earliest_schedule_spends_the_burst_and_then_keeps_the_rate() {
        let rate = Rate { count: 1, per: Duration(10) };
        let limit = Limit { bucket: Some(Bucket { rate, burst: 2 }), ..Limit::default() };
        assert_eq!(earliest(&[0, 0, 0, 0, 100], &limit, 0), [0, 0, 10, 20, 100]);
    }

    #[test]
    fn a_full_window_makes_the_next_one_wait() {
        let limit = Limit { windows: vec!["2 per 10ns".parse().expect("a cap")], ..Limit::default() };
        assert_eq!(earliest(&[0, 1, 2, 3], &limit, 0), [0, 1, 10, 11]);
    }
}
