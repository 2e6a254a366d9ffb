//! `network.timeout`: the sender closes every exchange at most `timeout` after its request arrived, and the time to
//! notice that; a fault after that time excuses nothing. It gives up no request before the deadline, unless its process
//! ended, a fault was near, or the endpoint was gone. A new attempt after an answer that had begun with 2xx counts as
//! giving up. A request may have been sent before it was read, so the last quarter of a second, or of a short deadline,
//! is not judged.
//!
//! `network.deadline`: the deadline began before the request arrived, so an answer that begins more than `timeout` and
//! [`LATE`] after the arrival is certainly too late. The sender accepted such an answer if nothing follows it although
//! there was time for the next attempt, or if the sender reports that nothing waits.

use super::dead_letters::{longest_delay, waiting_at_end};
use super::evidence::{Delivery, Evidence, Exchange, Lane, Outcome};
use super::retry::after::contract_wait;
use super::verdict::{Finding, Tally, show, show_beside};
use crate::check::{Check, Stall};
use crate::entry::Severity;
use crate::scenario::{Answer, Behaviour, SECOND, Subscriber};
use crate::trace::CutKind;

const NOTICE: u64 = SECOND;
const LATE: u64 = SECOND / 4;

fn outlasts(subscriber: &Subscriber) -> bool {
    let timeout = subscriber.timeout;
    subscriber.behaviours.iter().any(|behaviour| {
        matches!(behaviour.answer, Answer::Blackhole | Answer::Drip { .. })
            || behaviour.latency.is_some_and(|latency| latency.most > timeout)
    }) || subscriber.answers.most > timeout
}

/// A run that ended earlier does not count.
fn reached(evidence: &Evidence<'_>, lane: &Lane<'_>, exchange: &Exchange) -> bool {
    let timeout = lane.subscriber.timeout.0;
    let open = exchange.end - exchange.t;
    let unfinished = matches!(exchange.outcome, Outcome::Open | Outcome::Cut(CutKind::RunEnded));
    let noticed = exchange.t.saturating_add(timeout).saturating_add(NOTICE);
    open.saturating_add(LATE) >= timeout
        && (!unfinished || open > timeout)
        && !evidence.is_lane_disturbed(lane, exchange.t, exchange.end.min(noticed))
}

fn is_given_up_early(evidence: &Evidence<'_>, lane: &Lane<'_>, n: u32, is_last: bool) -> bool {
    let exchange = evidence.exchange(n);
    let is_lengthy = |one: &Behaviour| one.answer.is_lengthy() && one.covers(exchange.t);
    let gave_up = match exchange.outcome {
        Outcome::Cut(CutKind::Blackhole | CutKind::PeerGone) => true,
        // A sender may read as much of an answer as it needs.
        Outcome::Answered { status: 200..=299, whole: false } => {
            !is_last && !lane.subscriber.behaviours.iter().any(is_lengthy)
        }
        _ => false,
    };
    let (sent, end) = (evidence.sent_from(n), exchange.end);
    gave_up
        && end < evidence.end
        && evidence.is_in_time(n, end)
        && !evidence.was_killed(sent, end)
        && !evidence.is_lane_disturbed(lane, sent, end)
        && lane.gone.is_none_or(|gone| end < gone)
}

fn finding(evidence: &Evidence<'_>, tally: Tally, good: &str, bad: &str) -> Finding {
    if tally.seen == 0 && !evidence.lanes.iter().any(|lane| outlasts(lane.subscriber)) {
        return Finding::unasked("no request stayed open until its deadline");
    }
    tally.finding("requests open at their deadline", good, bad)
}

pub(super) const TIMEOUT: Check = Check {
    id: "network.timeout",
    severity: Severity::Must,
    source: "Standard Webhooks 1.0",
    requirement: "the sender ends a request at the declared timeout and not before, even if the answer is \
        silent, dripping or half sent",
    why: "if each read has its own deadline, an endpoint that sends a byte now and then holds a \
        connection and an in-flight slot for ever",
    remedy: "set one deadline for connecting, sending and reading together, instead of one per read",
    stall: Stall::Delays,
    find: timeout,
    ..Check::PLAIN
};

pub(super) fn timeout(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    for (at, lane) in (0..).zip(&evidence.lanes) {
        let timeout = lane.subscriber.timeout.0;
        for n in &lane.arrivals {
            let exchange = evidence.exchange(*n);
            if !reached(evidence, lane, exchange) {
                continue;
            }
            tally.see();
            let open = exchange.end - exchange.t;
            if evidence.late(exchange.t.saturating_add(timeout), exchange.end) > NOTICE {
                let what =
                    format!("open for {}; the deadline is {}", show_beside(open, timeout), show(timeout));
                tally.broke(|| evidence.witness(at, &[*n], what));
            }
        }
    }
    for delivery in &evidence.deliveries {
        let lane = &evidence.lanes[delivery.lane as usize];
        let attempts = evidence.attempts(delivery);
        for (place, n) in attempts.iter().enumerate() {
            if is_given_up_early(evidence, lane, *n, place + 1 == attempts.len()) {
                tally.see();
                let (exchange, timeout) = (evidence.exchange(*n), lane.subscriber.timeout.0);
                let open = show_beside(exchange.end - exchange.t, timeout);
                let what = format!("given up after {open}; the deadline is {}", show(timeout));
                tally.broke(|| evidence.witness(delivery.lane, &[*n], what));
            }
        }
    }
    finding(evidence, tally, "each ended in time", "still open after it, or given up before it")
}

pub(super) const DEADLINE: Check = Check {
    id: "network.deadline",
    severity: Severity::Must,
    source: "Standard Webhooks",
    requirement: "an answer after the declared timeout does not count as a success",
    why: "without a deadline an attempt holds an in-flight slot for ever, and late answers count as \
        successes by chance",
    remedy: "give each attempt one deadline for connecting, sending and reading, and close the connection \
        at that deadline",
    stall: Stall::Delays,
    find: deadline,
    ..Check::PLAIN
};

pub(super) fn deadline(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    for delivery in &evidence.deliveries {
        let lane = &evidence.lanes[delivery.lane as usize];
        let timeout = lane.subscriber.timeout.0;
        let attempts = evidence.attempts(delivery);
        for (number, n) in (1..).zip(attempts) {
            let exchange = evidence.exchange(*n);
            if !reached(evidence, lane, exchange) {
                continue;
            }
            tally.see();
            let late = evidence.late(exchange.t.saturating_add(timeout), exchange.begun);
            let says_yes = matches!(exchange.outcome, Outcome::Answered { status: 200..=299, .. });
            if says_yes
                && late > LATE
                && attempts.len() == number as usize
                && is_settled(evidence, lane, (delivery, number), exchange)
            {
                let what = format!(
                    "answered {} after its deadline of {}, and counted as delivered",
                    show(late),
                    show(timeout)
                );
                tally.broke(|| evidence.witness(delivery.lane, &[*n], what));
            }
        }
    }
    finding(evidence, tally, "no late answer counted as a success", "a late answer counted as a success")
}

fn is_settled(
    evidence: &Evidence<'_>,
    lane: &Lane<'_>,
    (delivery, number): (&Delivery, u32),
    last: &Exchange,
) -> bool {
    let next = last.end.saturating_add(longest_delay(lane, number)).saturating_add(contract_wait(lane));
    let had_time = evidence.late(next, evidence.end) > SECOND;
    delivery.dead.is_none() && (had_time || waiting_at_end(evidence) == Some(0))
}
