//! `pressure.holds`.
//!
//! `expect.pressure` names the subscriber, the target and the moment from which it counts. From then on, the share
//! `within` of the answered requests took at most the target, from the request's first byte to the answer's last byte.
//! While untried deliveries waited, the endpoint could have given one answer in each `serves`, and gave the share
//! `used` of those. Both shares count the same span, so the machine's speed does not matter. Spans near a fault are not
//! judged, as a new process may have to find the rate again.

use super::evidence::{Evidence, Lane};
use super::rate::utilisation::{busy, waits};
use super::verdict::{Finding, Tally, show};
use crate::check::{Check, Picture, Simulated, Stall};
use crate::entry::Severity;
use crate::scenario::{Behaviour, PressureBound, SECOND};

/// A shorter backlog does not show the endpoint's capacity.
const BUSY_MIN: u64 = 2 * SECOND;

struct LaneObservations {
    from: u64,
    until: u64,
    answered: Vec<u32>,
    /// Answers for which there was work and time.
    possible: u64,
}

impl LaneObservations {
    /// None if too little waited, or a fault was near.
    fn of(evidence: &Evidence<'_>, at: u32, lane: &Lane<'_>, bound: &PressureBound) -> Option<Self> {
        let serves =
            |one: &&Behaviour| one.serves.is_some() && one.until().is_none_or(|end| end > bound.at.0);
        let behaviour = lane.subscriber.behaviours.iter().find(serves)?;
        let (begin, end) = (behaviour.at.0.max(bound.at.0), behaviour.until().unwrap_or(u64::MAX));
        let clip = |(from, until): (u64, u64)| (from.max(begin), until.min(end));
        let busy: Vec<_> =
            busy(waits(evidence, at)).into_iter().map(clip).filter(|(from, until)| from < until).collect();
        let (from, until) = (busy.first()?.0, busy.last()?.1);
        let length: u64 = busy.iter().map(|(from, until)| until - from).sum();
        let timed: u64 = busy.iter().map(|(from, until)| evidence.late(*from, *until)).sum();
        if length < BUSY_MIN || evidence.is_lane_disturbed(lane, from, until) {
            return None;
        }
        let counts = |n: &u32| {
            let exchange = evidence.exchange(*n);
            busy.iter().any(|(from, until)| (*from..=*until).contains(&exchange.t))
                && exchange.status().is_some()
        };
        let answered = lane.arrivals.iter().copied().filter(counts).collect();
        Some(Self { from, until, answered, possible: timed / behaviour.serves?.0.max(1) })
    }
}

pub(super) const CHECK: Check = Check {
    id: "pressure.holds",
    severity: Severity::Should,
    source: "Hookdeck's rate limiter",
    requirement: "if an endpoint slows down under load, the sender lowers its rate until the answers meet \
        their target, and keeps the endpoint busy",
    why: "a sender that takes slow answers for normal keeps the endpoint overloaded as long as it has a \
        backlog",
    remedy: "compare answer times with a day's usual ones or with a target; lower the rate while they are \
        above, and raise it only while they are below",
    stall: Stall::Delays,
    simulated: Simulated::Figure,
    picture: Picture::Backlog,
    find: holds,
    ..Check::PLAIN
};

pub(super) fn holds(evidence: &Evidence<'_>) -> Finding {
    let bounds = &evidence.scenario.expect.speeds.pressure;
    if bounds.is_empty() {
        return Finding::unasked("the scenario sets no `pressure` target");
    }
    let (mut tally, mut figures) = (Tally::default(), Vec::new());
    for bound in bounds {
        for (at, lane) in (0..).zip(&evidence.lanes) {
            if lane.subscriber.name != bound.name && lane.subscriber.group != bound.name {
                continue;
            }
            if let Some(seen) = LaneObservations::of(evidence, at, lane, bound) {
                hold(evidence, at, bound, &seen, &mut tally, &mut figures);
            }
        }
    }
    let finding = tally.finding("shares (answers in time, capacity used)", "each is high enough", "too low");
    figures.into_iter().fold(finding, |finding, (name, value)| finding.with(name, value))
}

fn hold(
    evidence: &Evidence<'_>,
    at: u32,
    bound: &PressureBound,
    seen: &LaneObservations,
    tally: &mut Tally,
    figures: &mut Vec<(String, String)>,
) {
    let took = |n: &u32| evidence.late(evidence.exchange(*n).t, evidence.exchange(*n).end);
    let (answers, name) = (seen.answered.len() as u64, &bound.name);
    let mut late: Vec<u32> = seen.answered.iter().copied().filter(|n| took(n) > bound.target.0).collect();
    late.sort_unstable_by_key(|n| std::cmp::Reverse(took(n)));
    let share = |part: u64, whole: u64| part.saturating_mul(1_000_000) / whole.max(1);
    let within = share(answers - late.len() as u64, answers);
    let used = share(answers, seen.possible);
    tally.see();
    if within < bound.within.0 {
        let longest = late.first().map(took).unwrap_or_default();
        let what = format!(
            "answers slower than {}: {} of {answers}, the longest {}",
            show(bound.target.0),
            late.len(),
            show(longest)
        );
        tally.broke(|| evidence.witness(at, &late, what));
    }
    tally.see();
    if used < bound.used.0 {
        let what = format!(
            "{answers} answers in {}; the endpoint could give {}",
            show(seen.until - seen.from),
            seen.possible
        );
        tally.broke(|| evidence.witness(at, &seen.answered, what));
    }
    let percent = |millionths: u64| format!("{}.{} %", millionths / 10_000, millionths / 1_000 % 10);
    figures.push((format!("{name} answered within its target"), percent(within)));
    figures.push((format!("{name} used of its capacity"), percent(used.min(1_000_000))));
}
