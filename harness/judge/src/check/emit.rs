//! `emit.accepted`: the sender accepts at least `accepted_min` of the offered events, and answers every
//! offer.
//!
//! Offers while the sender was unreachable ([`super::fault_windows`]), and events that the harness did not
//! offer, do not count. `accepted_min` is 0.99 by default, unless the scenario explains refusals: a queue
//! that refuses, a bound on the whole, or arguments of the sender. Nothing explains an offer without an
//! answer.

use super::evidence::Evidence;
use super::fault_windows::Outages;
use super::queue::may_refuse;
use super::verdict::{Finding, Tally, Witness};
use crate::check::Check;
use crate::entry::Severity;
use crate::scenario::Millionths;
use crate::trace::Refused;

/// Default of `accepted_min`.
const ACCEPTED_MIN: Millionths = Millionths(990_000);

pub(super) const CHECK: Check = Check {
    id: "emit.accepted",
    severity: Severity::Must,
    source: "derived: an event that the sender refuses is lost to the emitter",
    requirement: "the sender answers every emit and accepts at least accepted_min of them (default 0.99, \
        unless a declared bound explains less)",
    why: "the emitter loses an event that the sender refuses without need or never answers",
    remedy: "accept into a durable queue in every state of the endpoints, and refuse only beyond a \
        declared bound",
    find: accepted,
    ..Check::PLAIN
};

pub(super) fn accepted(evidence: &Evidence<'_>) -> Finding {
    let outages = Outages::of(evidence);
    let offered = |token: u64| {
        let at = evidence.events.binary_search_by_key(&token, |event| event.token).ok()?;
        Some(evidence.trace.offers[evidence.events[at].offer as usize].t)
    };
    let counts = |token: u64, t: u64| offered(token).is_some_and(|from| !outages.overlap(from, t));
    let accepted = evidence.trace.accepted.iter().filter(|one| counts(one.token, one.t)).count() as u64;
    let refused = evidence.trace.refused.iter().filter(|one| counts(one.token, one.t));
    let mut tally = Tally::default();
    (0..accepted).for_each(|_| tally.see());
    let (mut turned_away, mut unanswered) = (0_u64, 0_u64);
    for refusal in refused {
        tally.see();
        if refusal.status.is_some() {
            turned_away += 1;
        } else {
            unanswered += 1;
            tally.broke(|| silent(refusal));
        }
    }
    if tally.seen == 0 {
        return Finding::unseen("no event was offered while the sender was reachable");
    }
    let share = u64::try_from(u128::from(accepted) * 1_000_000 / u128::from(tally.seen)).unwrap_or(0);
    let least =
        evidence.scenario.expect.accepted_min.or_else(|| (!is_bounded(evidence)).then_some(ACCEPTED_MIN));
    let few = least.filter(|least| share < least.0);
    let seen = tally.seen;
    let finding = match few {
        Some(least) if unanswered == 0 => Finding::broken(
            format!("{accepted} of {seen} events were accepted; expected a share of at least {least}"),
            Vec::new(),
        ),
        _ => tally.finding("events", "each was answered, and enough were accepted", "not answered"),
    };
    finding.with("accepted", accepted).with("turned away", turned_away).with("unanswered", unanswered)
}

/// Whether the scenario explains refusals.
fn is_bounded(evidence: &Evidence<'_>) -> bool {
    let scenario = evidence.scenario;
    may_refuse(evidence) || scenario.expect.queue_rows.max.is_some() || !scenario.sender.arguments.is_empty()
}

fn silent(refusal: &Refused) -> Witness {
    let what = format!("event {} was not answered: {}", refusal.token, refusal.why);
    Witness { subscriber: None, from: refusal.t, until: refusal.t, what, arrivals: Vec::new() }
}
