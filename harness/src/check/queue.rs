//! `queue.bounded`: what waits never exceeds its bound, and nothing is unaccounted for: at every sample, what the sender
//! says is delivered, dead, coalesced and waiting adds up to what it had acknowledged. The sum is at least what was surely
//! acknowledged at the sample before (it was asked after that), and at most what was offered before the sample after
//! (it had answered by then): samples follow one another. What is taken once an endpoint is gone (410) may count or not.
//!
//! `queue.visible`: overload is answered (429 or 503 with `Retry-After`) or shed to dead letters, never in silence.
//! `queue.memory`: resident memory grows by no more than `rss_growth_max`.
//! `queue.expires`: no attempt comes once a delivery is older than its `ttl`; its age counts from the acknowledgement at
//! the latest, and what had left in time is given `retry_after_late` to arrive.

use super::evidence::Evidence;
use super::retry::asked::Asked;
use super::verdict::{Finding, Tally, Witness, show};
use crate::trace::Depth;

/// `queue.bounded`
pub(super) fn bounded(evidence: &Evidence<'_>) -> Finding {
    let scenario = evidence.scenario;
    let mut tally = Tally::default();
    let mut most = 0;
    for depth in &evidence.trace.depths {
        let Some(waiting) = depth.waiting else { continue };
        tally.see();
        let (rows, bytes) = match depth.subscriber.as_deref() {
            None => {
                most = most.max(waiting);
                (scenario.expect.queue_rows_max, None)
            }
            Some(name) => {
                scenario.subscriber(name).map_or((None, None), |one| (one.queue.rows, one.queue.bytes))
            }
        };
        if let Some(rows) = rows.filter(|rows| waiting > *rows) {
            tally.broke(|| at(depth, format!("{waiting} deliveries wait; the bound is {rows}")));
        }
        if let Some((have, size)) = depth.bytes.zip(bytes).filter(|(have, size)| *have > size.0) {
            tally.broke(|| at(depth, format!("{have} bytes wait; the bound is {size}")));
        }
    }
    let sums = conserved(evidence, &mut tally);
    tally
        .finding(
            "samples of the queue",
            "inside its bound, and all accounted for",
            "beyond its bound, or not adding up",
        )
        .with("most waiting", most)
        .with("samples that add up", sums)
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

/// Judges every sample of the whole sender that has all four counts, and says how many there are.
fn conserved(evidence: &Evidence<'_>, tally: &mut Tally) -> u64 {
    let owed = |event: &super::evidence::Event| {
        let offer = &evidence.trace.offers[event.offer as usize];
        (offer.t, offer.owed.len() as u64)
    };
    let mut offered: Vec<(u64, u64)> = evidence.events.iter().map(owed).collect();
    let gone: Vec<(&str, u64)> =
        evidence.lanes.iter().filter_map(|lane| Some((lane.subscriber.name.as_str(), lane.gone?))).collect();
    // An event that comes once an endpoint is gone may be kept for it, or not.
    let let_go = |event: &super::evidence::Event, taken: u64| {
        let owed = &evidence.trace.offers[event.offer as usize].owed;
        let by_then = gone.iter().filter(|(name, at)| *at <= taken && owed.iter().any(|one| one == name));
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
        let (least, most) = (until(&accepted, asked), until(&offered, answered));
        if sum < least || sum > most {
            let what = format!(
                "{waiting} waiting, {delivered} delivered, {dead} dead and {coalesced} coalesced make {sum}; \
                 {least} to {most} are owed"
            );
            tally.broke(|| at(depth, what));
        }
    }
    judged
}

/// Running sums by time.
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

/// The sum of everything before `t`.
fn until(sums: &[(u64, u64)], t: u64) -> u64 {
    let after = sums.partition_point(|(at, _)| *at < t);
    after.checked_sub(1).map_or(0, |last| sums[last].1)
}

/// `queue.visible`
pub(super) fn visible(evidence: &Evidence<'_>) -> Finding {
    let trace = evidence.trace;
    let shed = trace.dead.iter().filter(|dead| dead.reason == "overflow").count();
    let turned_away = trace.refused.iter().filter(|one| one.status.is_some());
    let mut tally = Tally::default();
    for refusal in turned_away {
        tally.see();
        let status = refusal.status.unwrap_or_default();
        let told = refusal.retry_after.as_deref().is_some_and(|text| Asked::read(text) != Asked::Nonsense);
        if !matches!(status, 429 | 503) || !told {
            let asked = refusal.retry_after.as_deref().unwrap_or("none");
            let what = format!("event {} was refused with {status} and Retry-After: {asked}", refusal.token);
            let (from, until) = (refusal.t, refusal.t);
            tally.broke(|| Witness { subscriber: None, from, until, what, arrivals: Vec::new() });
        }
    }
    let answered = |event: &&super::evidence::Event| event.accepted.is_none() && !event.refused;
    let unknown: std::collections::BTreeSet<u64> = trace.refused.iter().map(|one| one.token).collect();
    for event in evidence.events.iter().filter(answered).filter(|event| !unknown.contains(&event.token)) {
        let offer = &trace.offers[event.offer as usize];
        if evidence.is_disturbed(offer.t, offer.t) || offer.t.saturating_add(30_000_000_000) > evidence.end {
            continue;
        }
        tally.see();
        let (from, until) = (offer.t, evidence.end);
        let what = format!("event {} was neither taken nor refused", event.token);
        tally.broke(|| Witness { subscriber: None, from, until, what, arrivals: Vec::new() });
    }
    if tally.seen == 0 && shed == 0 {
        return Finding::unasked("nothing was turned away");
    }
    if tally.seen == 0 {
        return Finding::held(format!("{shed} deliveries were shed to dead letters"));
    }
    tally.finding("events turned away", "each with a status that says so", "in silence").with("shed", shed)
}

/// `queue.memory`
pub(super) fn memory(evidence: &Evidence<'_>) -> Finding {
    let Some(allowed) = evidence.scenario.expect.rss_growth_max else {
        return Finding::unasked("the scenario sets no rss_growth_max");
    };
    let resident: Vec<(u64, u64)> =
        evidence.trace.depths.iter().filter_map(|depth| Some((depth.t, depth.resident_bytes?))).collect();
    let Some((_, first)) = resident.first().filter(|_| resident.len() > 1) else {
        return Finding::unseen("the sender's memory was not seen");
    };
    let (t, most) = resident.iter().max_by_key(|(_, bytes)| *bytes).copied().unwrap_or_default();
    let growth = most.saturating_sub(*first);
    let finding = if growth <= allowed.0 {
        Finding::held(format!("memory grew by {} KiB; {allowed} are allowed", growth >> 10))
    } else {
        let what = format!("{} KiB resident, {} KiB at first", most >> 10, first >> 10);
        let witness = Witness { subscriber: None, from: t, until: t, what, arrivals: Vec::new() };
        Finding::broken(format!("memory grew by {} KiB; {allowed} are allowed", growth >> 10), vec![witness])
    };
    finding
        .with("resident at first", format!("{} KiB", first >> 10))
        .with("most", format!("{} KiB", most >> 10))
}

/// `queue.expires`
pub(super) fn expires(evidence: &Evidence<'_>) -> Finding {
    let grace = evidence.scenario.expect.retry_after_late.0;
    let mut tally = Tally::default();
    for delivery in &evidence.deliveries {
        let Some(accepted) = evidence.accepted(delivery) else { continue };
        let ttl = evidence.subscriber(delivery).retry.ttl.0;
        let until = accepted.saturating_add(ttl).saturating_add(grace);
        if until >= evidence.end || evidence.is_redriven() {
            continue;
        }
        if evidence.is_delivered(delivery)
            && evidence.attempts(delivery).iter().all(|n| evidence.exchange(*n).t <= until)
        {
            continue;
        }
        tally.see();
        if let Some(n) = evidence.attempts(delivery).iter().find(|n| evidence.exchange(**n).t > until) {
            let age = show(evidence.exchange(*n).t - accepted);
            let what = format!("sent at the age of {age}; its ttl is {}", show(ttl));
            tally.broke(|| evidence.witness(delivery.lane, &[*n], what));
        }
    }
    if tally.seen == 0 {
        return Finding::unasked("no delivery outlived its ttl");
    }
    tally.finding("deliveries older than their ttl", "none was sent any more", "sent all the same")
}
