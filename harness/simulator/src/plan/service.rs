//! A lane's guaranteed service, by its contract and its endpoint's behaviours: the input of [`super::bound`].
//! Pure and conservative: a service that may fail counts as none.

use hookproof_judge::scenario::{
    Answer, Behaviour, FaultAction, FaultPlan, Limit, Millionths, RetryAfter, SECOND, Scenario, Subscriber,
};

use hookproof_sender::engine::Limits;

use super::bound::{Service, merged};
use crate::sim::Model;

/// The sender's own time for an attempt: a commit, a claim and the round trip, where commits are close.
const OWN_NS: u64 = 10_000_000;
/// Commits that an attempt may wait for: the one under way, its own, and its claim's.
const COMMITS: u64 = 3;
/// The guaranteed percentage of the contract: several limits interfere slightly.
const SURE_PERCENT: u64 = 95;
/// A lease, and the time until another process notices its end.
const LEASE_NS: u64 = 30 * SECOND;
/// The start of a process, and the time until others notice its death.
const START_NS: u64 = 2 * SECOND;
/// Ten successes at one attempt a minute, the throttle's minimum, bring a lane back to a twentieth.
const EASE_NS: u64 = 600 * SECOND;
/// From a twentieth on: ten successes at each of twenty steps.
const EASE_ATTEMPTS: u64 = 710;

/// All attempts together, with these deliveries owed, may reach the bound of one process.
#[must_use]
pub(super) fn is_crowded<'a>(scenario: &Scenario, owed: impl Iterator<Item = (&'a Subscriber, u64)>) -> bool {
    let at_once = |(subscriber, owed): (&Subscriber, u64)| {
        let limits = std::iter::once(&subscriber.limit).chain(changed(scenario, subscriber));
        limits
            .map(|limit| limit.in_flight_told().map_or(u64::MAX, u64::from))
            .max()
            .map_or(owed, |most| most.min(owed))
    };
    owed.map(at_once).fold(0, u64::saturating_add) > Limits::default().attempts() as u64
}

/// `commit_ns` is the longest commit. Where processes are crowded, a lane is sure of one attempt at a time.
#[must_use]
pub fn service(scenario: &Scenario, subscriber: &Subscriber, commit_ns: u64, is_crowded: bool) -> Service {
    let own_ns = OWN_NS + commit_ns.saturating_sub(Model::CLOSE.commit_ns.1).saturating_mul(COMMITS);
    if answers_late(subscriber.answers.most.0, subscriber) || redrives(scenario, subscriber) {
        return Service::default();
    }
    let good = subscriber.behaviours.iter().filter(|one| is_success(one, subscriber));
    let latency = good.filter_map(|one| one.latency);
    let slowest = latency.map(|range| range.most.0).fold(subscriber.answers.most.0, u64::max);
    let limits = std::iter::once(&subscriber.limit).chain(changed(scenario, subscriber));
    let (mut millihertz, mut latency_ns) = (u64::MAX, 0);
    for limit in limits {
        millihertz = millihertz.min(rate(limit, slowest.saturating_add(own_ns), is_crowded));
        let windows = limit.windows.iter().map(|window| window.length.0).max().unwrap_or(0);
        latency_ns = latency_ns.max(windows);
    }
    let millihertz =
        u64::try_from(u128::from(millihertz) * u128::from(SURE_PERCENT) / 100).unwrap_or(u64::MAX);
    let failing = subscriber.behaviours.iter().filter(|one| !is_success(one, subscriber));
    let pauses = failing.map(|one| away(one, subscriber, millihertz));
    let down = scenario.faults.iter().filter_map(|fault| outage(fault, subscriber));
    // The first event of a coalescing window waits for its end.
    let gathers = subscriber.handling.coalesce.iter().map(|one| one.window.0).max().unwrap_or(0);
    let latency = [latency_ns, gathers, slowest, own_ns.saturating_mul(2)];
    Service {
        millihertz,
        latency_ns: latency.into_iter().fold(0, u64::saturating_add),
        pauses: merged(pauses.chain(down).collect()),
    }
}

fn changed<'a>(scenario: &'a Scenario, subscriber: &'a Subscriber) -> impl Iterator<Item = &'a Limit> {
    scenario.faults.iter().filter_map(|fault| match &fault.action {
        FaultAction::Limit { subscriber: whom, limit, .. } => {
            concerns(whom.as_deref(), subscriber).then_some(limit)
        }
        _ => None,
    })
}

/// Redriven dead letters come at moments outside of the traffic.
fn redrives(scenario: &Scenario, subscriber: &Subscriber) -> bool {
    scenario.faults.iter().any(|fault| match &fault.action {
        FaultAction::Redrive { subscriber: whom } => concerns(whom.as_deref(), subscriber),
        _ => false,
    })
}

fn concerns(whom: Option<&str>, subscriber: &Subscriber) -> bool {
    whom.is_none_or(|whom| whom == subscriber.name || whom == subscriber.group)
}

/// Whether an answer with this latency may come after the sender's timeout, and so fail.
fn answers_late(latency_ns: u64, subscriber: &Subscriber) -> bool {
    latency_ns.saturating_add(OWN_NS) >= subscriber.timeout.0
}

/// The rate that a limit allows for this latency.
///
/// The bucket is a ring of σ permits, each in flight for the latency and then in a queue served at ρ. At
/// worst it is behind all others, so σ permits cycle within latency + σ/ρ. A window's cap holds each permit
/// for its length and the latency.
fn rate(limit: &Limit, latency_ns: u64, is_crowded: bool) -> u64 {
    let mut rate = u64::MAX;
    if let Some(bucket) = &limit.bucket {
        let round =
            u128::from(bucket.rate.per.0) * u128::from(bucket.burst) / u128::from(bucket.rate.count.max(1));
        rate = rate.min(millihertz(bucket.burst.into(), round + u128::from(latency_ns)));
    }
    if let Some(in_flight) = if is_crowded { Some(1) } else { limit.in_flight_told() } {
        rate = rate.min(millihertz(in_flight.into(), latency_ns.into()));
    }
    for window in &limit.windows {
        rate = rate.min(millihertz(window.count, u128::from(window.length.0) + u128::from(latency_ns)));
    }
    rate.min(1_000_000 * 1_000)
}

fn millihertz(count: u64, in_ns: u128) -> u64 {
    u64::try_from(u128::from(count) * 1_000 * u128::from(SECOND) / in_ns.max(1)).unwrap_or(u64::MAX)
}

fn is_success(behaviour: &Behaviour, subscriber: &Subscriber) -> bool {
    let latency = behaviour.latency.unwrap_or(subscriber.answers).most.0;
    matches!(&behaviour.answer, Answer::Status(reply) if (200..300).contains(&reply.status))
        && !answers_late(latency, subscriber)
}

#[must_use]
pub(super) fn never_recovers(subscriber: &Subscriber) -> bool {
    let mut forever = subscriber.behaviours.iter().filter(|one| one.until().is_none());
    forever.next().is_some_and(|one| {
        let fails = match &one.answer {
            Answer::Status(reply) => !(200..300).contains(&reply.status),
            Answer::Refuse
            | Answer::Reset
            | Answer::ResetAfterRead
            | Answer::Close
            | Answer::HalfAnswer
            | Answer::Blackhole
            | Answer::WrongCertificate(_) => true,
            _ => false,
        };
        fails && one.share == Millionths::ONE && one.attempts.is_none()
    })
}

/// Nothing is guaranteed until the lane is back at its contract.
fn away(behaviour: &Behaviour, subscriber: &Subscriber, millihertz: u64) -> (u64, u64) {
    let asked = match &behaviour.answer {
        Answer::Status(reply) => match &reply.retry_after {
            Some(RetryAfter::Seconds(seconds)) => seconds.saturating_mul(SECOND),
            _ => subscriber.retry.retry_after_cap.0.min(120 * SECOND),
        },
        _ => 0,
    };
    let cooldown = subscriber.breaker.as_ref().map_or(3_600 * SECOND, |breaker| breaker.cooldown_max.0);
    let ease = u128::from(EASE_ATTEMPTS) * 1_000 * u128::from(SECOND) / u128::from(millihertz.max(1));
    let back = [
        asked,
        cooldown,
        subscriber.retry.cap.0.min(subscriber.retry.ttl.0),
        subscriber.timeout.0.saturating_mul(2),
        subscriber.limit.doubt.0,
        EASE_NS,
        u64::try_from(ease).unwrap_or(u64::MAX),
    ];
    let back = back.into_iter().fold(SECOND, u64::saturating_add);
    (behaviour.at.0, behaviour.until().map_or(u64::MAX, |until| until.saturating_add(back)))
}

fn outage(fault: &FaultPlan, subscriber: &Subscriber) -> Option<(u64, u64)> {
    let limit = &subscriber.limit;
    // The next owner assumes that the whole allowance was just used, and that some of it is in doubt.
    let full = limit
        .bucket
        .as_ref()
        .map_or(0, |bucket| bucket.rate.per.0.saturating_mul(bucket.burst.into()) / bucket.rate.count.max(1));
    let windows = limit.windows.iter().map(|window| window.length.0).max().unwrap_or(0);
    let hold = [START_NS, limit.doubt.0, subscriber.timeout.0, full.max(windows)];
    let hold = hold.into_iter().fold(0, u64::saturating_add);
    let after = match fault.action {
        FaultAction::Kill => hold,
        FaultAction::Stop | FaultAction::Partition(_) => LEASE_NS.saturating_add(hold),
        FaultAction::Restart => hold.saturating_add(subscriber.timeout.0),
        FaultAction::DiskFull | FaultAction::LockDatabase | FaultAction::DatabaseRestart => SECOND,
        FaultAction::Start
        | FaultAction::ClockStep { .. }
        | FaultAction::ClockSkew { .. }
        | FaultAction::Limit { .. }
        | FaultAction::Rotate { .. }
        | FaultAction::Redrive { .. } => return None,
    };
    Some((fault.at.0, fault.at.0.saturating_add(fault.lasts.0).saturating_add(after)))
}

#[must_use]
pub(super) fn why_unbounded(scenario: &Scenario, subscriber: &Subscriber) -> &'static str {
    let failing = subscriber.behaviours.iter().filter(|one| !is_success(one, subscriber));
    let forever: Vec<&Behaviour> = failing.filter(|one| one.until().is_none()).collect();
    if answers_late(subscriber.answers.most.0, subscriber) {
        "it may answer later than the deadline"
    } else if redrives(scenario, subscriber) {
        "its dead letters are sent again"
    } else if forever.iter().any(|one| one.share < Millionths::ONE) {
        "it may fail at any time, so no rate is guaranteed"
    } else if !forever.is_empty() {
        "it fails permanently"
    } else {
        "its contract leaves no rate"
    }
}
