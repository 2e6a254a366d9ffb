//! `emit.accepted`.
//!
//! Offers while the sender was unreachable ([`super::fault_windows`]), and events that the harness did not offer, do
//! not count. `accepted_min` is 0.99 by default, unless the scenario explains refusals: a queue that refuses, a bound
//! on the whole, or arguments of the sender. Nothing explains an offer without an answer. A call that the harness cut
//! off sooner, as the run was over, says nothing.

use super::evidence::Evidence;
use super::fault_windows::Outages;
use super::queue::may_refuse;
use super::verdict::{Finding, Tally, Witness, show, show_beside};
use crate::check::{Check, Stall};
use crate::entry::Severity;
use crate::scenario::Millionths;
use crate::trace::Refused;

const ACCEPTED_MIN: Millionths = Millionths(990_000);

pub(super) const CHECK: Check = Check {
    id: "emit.accepted",
    severity: Severity::Must,
    source: "derived: an event that the sender refuses is lost to the emitter",
    requirement: "the sender answers every emit within ack_max (default 10 s) and accepts at least accepted_min \
        of them (default 0.99, unless a declared bound explains less)",
    why: "the emitter loses an event that the sender refuses without need or never answers",
    remedy: "accept into a durable queue in every state of the endpoints, and refuse only beyond a \
        declared bound",
    stall: Stall::Delays,
    find: accepted,
    ..Check::PLAIN
};

pub(super) fn accepted(evidence: &Evidence<'_>) -> Finding {
    let outages = Outages::of(evidence);
    let offered =
        |token: u64| evidence.event_of(token).map(|event| evidence.trace.offers[event.offer as usize].t);
    let counts = |token: u64, t: u64| offered(token).is_some_and(|from| !outages.overlap(from, t));
    let accepted = evidence.trace.accepted.iter().filter(|one| counts(one.token, one.t)).count() as u64;
    let refused = evidence.trace.refused.iter().filter(|one| counts(one.token, one.t));
    let mut tally = Tally::default();
    (0..accepted).for_each(|_| tally.see());
    let took = |token: u64, t: u64| evidence.late(offered(token).unwrap_or(t), t);
    let most = evidence.scenario.expect.ack_max.0;
    let (mut late, mut longest) = (0_u64, 0_u64);
    let answered = evidence.trace.refused.iter().filter(|one| one.status.is_some());
    let answered = answered.map(|one| (one.token, one.t));
    let answered = answered.chain(evidence.trace.accepted.iter().map(|one| (one.token, one.t)));
    for (token, t) in answered.filter(|(token, t)| counts(*token, *t) && is_single(evidence, *token)) {
        let took = took(token, t);
        longest = longest.max(took);
        if took > most {
            late += 1;
            tally.broke(|| answered_late(token, t, took, most));
        }
    }
    let (mut turned_away, mut unanswered, mut cut_off) = (0_u64, 0_u64, 0_u64);
    for refusal in refused {
        // Of an event that was offered again, the time counts from its first offer.
        let is_soon = !is_single(evidence, refusal.token) || took(refusal.token, refusal.t) <= most;
        let is_held_up =
            refusal.t.saturating_sub(offered(refusal.token).unwrap_or(refusal.t)) > most && refusal.unknown;
        if is_soon && (refusal.cut_off || is_held_up && is_single(evidence, refusal.token)) {
            cut_off += 1;
            continue;
        }
        tally.see();
        if refusal.status.is_some() {
            turned_away += 1;
        } else {
            unanswered += 1;
            tally.broke(|| silent(refusal));
        }
    }
    if tally.seen == 0 && cut_off == 0 {
        return Finding::unseen("no event was offered while the sender was reachable");
    }
    // A call that was cut off may have been accepted.
    let (perhaps, all) = (accepted + cut_off, tally.seen + cut_off);
    let share = u64::try_from(u128::from(perhaps) * 1_000_000 / u128::from(all)).unwrap_or(0);
    let least =
        evidence.scenario.expect.accepted_min.or_else(|| (!is_bounded(evidence)).then_some(ACCEPTED_MIN));
    let few = least.filter(|least| share < least.0);
    let seen = tally.seen;
    let finding = match few {
        Some(least) if tally.broken == 0 => Finding::broken(
            format!("accepted {accepted} of {seen} events; expected a share of at least {least}"),
            Vec::new(),
        ),
        _ if cut_off > 0 && tally.broken == 0 => Finding::unseen(format!(
            "emits without an answer when the run ended: {cut_off}; answered: {seen}"
        )),
        _ => tally.finding(
            "events",
            "each was answered, and enough were accepted",
            if late == 0 { "not answered" } else { "not answered, or too late" },
        ),
    };
    let finding = finding.with("accepted", accepted).with("turned away", turned_away);
    finding.with("unanswered", unanswered).with("slowest answer", show(longest))
}

/// Its answer then belongs to that offer.
fn is_single(evidence: &Evidence<'_>, token: u64) -> bool {
    evidence.event_of(token).is_some_and(|event| event.offers == 1)
}

fn answered_late(token: u64, t: u64, took: u64, most: u64) -> Witness {
    let what =
        format!("event {token} was answered after {}; ack_max is {}", show_beside(took, most), show(most));
    Witness { subscriber: None, from: t.saturating_sub(took), until: t, what, arrivals: Vec::new() }
}

fn is_bounded(evidence: &Evidence<'_>) -> bool {
    let scenario = evidence.scenario;
    may_refuse(evidence) || scenario.expect.queue_rows.max.is_some() || !scenario.sender.arguments.is_empty()
}

fn silent(refusal: &Refused) -> Witness {
    let what = format!("event {} was not answered: {}", refusal.token, refusal.why);
    Witness { subscriber: None, from: refusal.t, until: refusal.t, what, arrivals: Vec::new() }
}
