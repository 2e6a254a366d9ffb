//! `crash.ack-then-kill`: becoming a dead letter counts as delivered.
//!
//! `crash.stop`: a process finishes its open exchanges and exits with 0 within `stop_within`.
//!
//! `crash.takeover`: after a kill, every lane with due work is served again in time ([`super::fault_windows`]), and no
//! delivery is open twice at once, except in exchanges of a killed process. A kill that took no lane
//! ([`super::fault_windows`]) proves nothing.

use super::evidence::{Evidence, Lane, Outcome};
use super::fault_windows::{Again, served_again};
use super::outcomes::{Fate, fates, missing, not_settled_in_time, unless_late};
use super::verdict::{Finding, Tally, Witness, show, show_beside};
use crate::check::{Check, Picture, Stall};
use crate::entry::Severity;
use crate::scenario::FaultAction;
use crate::trace::{CutKind, Lack, ProcessEvent};

fn plans(evidence: &Evidence<'_>, wanted: fn(&FaultAction) -> bool) -> bool {
    evidence.scenario.faults.iter().any(|fault| wanted(&fault.action))
}

pub(super) const ACK_THEN_KILL: Check = Check {
    id: "crash.ack-then-kill",
    severity: Severity::Must,
    source: "derived: the meaning of an acknowledgement",
    requirement: "every event that was acknowledged before a kill -9 is delivered",
    why: "the emitter forgets an acknowledged event, so a crash must not undo an acknowledgement",
    remedy: "acknowledge only after the commit is on disk",
    needs: &[Lack::Start],
    follows_fault: true,
    find: ack_then_kill,
    ..Check::PLAIN
};

fn ack_then_kill(evidence: &Evidence<'_>) -> Finding {
    if !plans(evidence, |action| *action == FaultAction::Kill) {
        return Finding::unasked("the scenario kills no process");
    }
    let mut tally = Tally::default();
    let mut unsettled = Vec::new();
    for (delivery, fate) in fates(evidence) {
        let Some(accepted) = evidence.accepted(delivery) else { continue };
        let next = evidence.strikes.kills.partition_point(|t| *t < accepted);
        let Some(kill) = evidence.strikes.kills.get(next) else { continue };
        let before = |n: &u32| evidence.exchange(*n).is_delivered() && evidence.exchange(*n).end < *kill;
        if evidence.attempts(delivery).iter().any(before) {
            continue;
        }
        tally.see();
        if fate == Fate::Unsettled {
            unsettled.push(delivery);
        }
    }
    for delivery in missing(evidence, &unsettled) {
        tally.broke(|| {
            evidence.absent(delivery, "acknowledged before a kill, but never delivered".to_owned())
        });
    }
    let finding = tally.finding(
        "deliveries outstanding at a kill",
        "each was delivered or became a dead letter",
        "lost",
    );
    unless_late(finding, not_settled_in_time(evidence, &unsettled))
}

pub(super) const STOP: Check = Check {
    id: "crash.stop",
    severity: Severity::Must,
    source: "existing senders",
    requirement: "on SIGTERM the sender finishes its attempts in flight, sends nothing twice and exits \
        with 0 within its deadline",
    why: "every deployment stops the sender; a delivery that the stop cuts off arrives twice or never",
    remedy: "stop taking work, wait for the attempts in flight, store their outcomes, exit",
    needs: &[Lack::Start],
    stall: Stall::Delays,
    follows_fault: true,
    find: stop,
    ..Check::PLAIN
};

pub(super) fn stop(evidence: &Evidence<'_>) -> Finding {
    if !plans(evidence, |action| *action == FaultAction::Restart) {
        return Finding::unasked("the scenario restarts no process");
    }
    let within = evidence.scenario.sender.stop_within.0;
    let mut tally = Tally::default();
    let asked = evidence
        .trace
        .processes
        .iter()
        .filter(|one| one.event == ProcessEvent::Asked && one.t < evidence.end);
    for asked in asked {
        let exits = evidence.trace.processes.iter().filter(|one| one.event == ProcessEvent::Exited);
        let exit = exits.filter(|one| one.worker == asked.worker && one.t >= asked.t).min_by_key(|one| one.t);
        let at = |what: String| {
            let until = exit.map_or(evidence.end, |exit| exit.t);
            Witness { subscriber: None, from: asked.t, until, what, arrivals: Vec::new() }
        };
        let until = exit.map_or(evidence.end, |exit| exit.t);
        let could_end = evidence.could_end_from(asked.worker, asked.t, until);
        tally.see();
        match exit {
            None if evidence.late(could_end, evidence.end) > within => {
                tally.broke(|| at(format!("the process did not exit within {}", show(within))));
            }
            None => {}
            // Without its store it may end out of order.
            Some(exit) if could_end > exit.t => {}
            Some(exit) if evidence.late(could_end, exit.t) > within => {
                tally.broke(|| {
                    at(format!(
                        "the process took {} to exit; `stop_within` is {}",
                        show_beside(exit.t - could_end, within),
                        show(within)
                    ))
                });
            }
            Some(exit) if exit.status.as_deref().is_some_and(|status| status != "exit 0") => {
                tally.broke(|| {
                    at(format!(
                        "the process ended with {}; expected exit 0",
                        exit.status.clone().unwrap_or_default()
                    ))
                });
            }
            Some(exit) => abandoned(evidence, asked.t, exit.t, &mut tally),
        }
    }
    tally.finding(
        "processes asked to stop",
        "each finished its attempts in flight and exited",
        "late, with an \
        error, or with attempts cut off",
    )
}

/// Exchanges that were open at the request to stop, and that the sender dropped before their deadline.
fn abandoned(evidence: &Evidence<'_>, asked: u64, exit: u64, tally: &mut Tally) {
    let gone = evidence.exchanges.iter().zip(0_u32..).filter(|(exchange, n)| {
        let open =
            exchange.t < asked && asked < exchange.end && exchange.end <= exit.saturating_add(1_000_000_000);
        open && evidence.is_in_time(*n, exchange.end) && exchange.outcome == Outcome::Cut(CutKind::PeerGone)
    });
    for (exchange, n) in gone {
        let lane = exchange.lane.unwrap_or_default();
        tally.broke(|| evidence.witness(lane, &[n], "the sender abandoned an attempt in flight".to_owned()));
    }
}

pub(super) const TAKEOVER: Check = Check {
    id: "crash.takeover",
    severity: Severity::Must,
    source: "existing senders",
    requirement: "after a kill another process serves the subscriber soon after the lease ends, and two \
        processes never serve it at once",
    why: "deliveries that wait for a dead process wait for ever, and two processes send twice the limit",
    remedy: "renew leases while working, stop sending before a lease ends, and fence writes with the \
        lease's fencing token",
    needs: &[Lack::Start],
    stall: Stall::Delays,
    follows_fault: true,
    picture: Picture::Backlog,
    find: takeover,
    ..Check::PLAIN
};

pub(super) fn takeover(evidence: &Evidence<'_>) -> Finding {
    if !plans(evidence, |action| *action == FaultAction::Kill) {
        return Finding::unasked("the scenario kills no process");
    }
    let mut tally = Tally::default();
    for kill in evidence.strikes.kills.iter().filter(|kill| evidence.took_something(**kill)) {
        served(evidence, *kill, &mut tally);
    }
    for (delivery, _, before, after) in evidence.retries() {
        let (first, second) = (evidence.exchange(before), evidence.exchange(after));
        let overlap = second.t < first.begun && !first.ended_by_peer();
        let in_time = evidence.is_in_time(before, first.begun);
        if overlap && in_time && !evidence.was_killed(evidence.sent_from(before), second.t) {
            let what = "two attempts of one delivery were in flight at once".to_owned();
            tally.broke(|| evidence.witness(delivery.lane, &[before, after], what));
        }
    }
    tally.finding(
        "subscribers with due deliveries at a kill",
        "each was served again in time, by one process",
        "served late, or by two processes at once",
    )
}

fn served(evidence: &Evidence<'_>, kill: u64, tally: &mut Tally) {
    for (at, lane) in (0..).zip(&evidence.lanes) {
        match served_again(evidence, at, kill) {
            Again::Nothing => {}
            Again::InTime => tally.see(),
            Again::Late { first, after } => {
                tally.see();
                let after = after.map_or("never".to_owned(), show);
                tally.broke(|| {
                    evidence.absent(
                        first,
                        format!(
                            "due at a kill; time until the subscriber was served again: {after}{}",
                            in_doubt(evidence, lane, kill)
                        ),
                    )
                });
            }
        }
    }
}

fn in_doubt(evidence: &Evidence<'_>, lane: &Lane<'_>, kill: u64) -> String {
    let exchanges = lane.begun.iter().map(|n| evidence.exchange(*n));
    let open = exchanges.filter(|one| one.t < kill && kill <= one.end).count();
    let limit = &lane.subscriber.limit;
    let lacks_room = limit.lacks_room_for_a_takeover().filter(|_| open > 0);
    let Some((what, room)) = lacks_room else { return String::new() };
    format!(
        "; requests in flight at the kill: {open}; they may count as in doubt for {}, in a {what} of {room}: one of \
        twice the cap in flight leaves room",
        show(limit.doubt.0)
    )
}
