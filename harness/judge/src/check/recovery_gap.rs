//! `recovery.gap`.
//!
//! The gap of a lane is the time from its first moment with work to its first arrival. That moment is the latest of:
//!
//! - the process is ready again;
//! - a delivery that was never tried is acknowledged;
//! - its endpoint's `Retry-After` is over;
//! - after a kill, with several processes on a server, `takeover_within` is over, as no process knows of the death
//!   before the lease expires.
//!
//! A gap may be `recovery_gap_max` plus the time in which the rate allows one more attempt. Requests of the dead
//! process may still arrive, so a limit that holds at the receiver counts them until they are known. Only lanes with
//! room for that are judged:
//!
//! - the burst is at least twice the cap in flight, and so is each window;
//! - requests that ended in silence before the kill are cleared (an attempt that began later was answered, and
//!   `quarantine` is over), or fit into the burst as well;
//! - the endpoint answered the last attempt that ended before the kill with a success, so neither breaker nor backoff
//!   holds the lane;
//! - no behaviour of the endpoint hides arrivals meanwhile;
//! - the lane neither coalesces nor keeps an order.
//!
//! A restart is judged until the next fault, and only if no other fault lasts at its beginning.

use super::evidence::{Delivery, Evidence, Exchange, Lane, Outcome};
use super::fault_windows::room_from;
use super::retry::pause_until;
use super::verdict::{Finding, Tally, show, show_beside};
use crate::check::{Check, Picture, Simulated, Stall};
use crate::entry::Severity;
use crate::scenario::{FaultAction, FaultKind, Store};
use crate::trace::{Lack, ProcessEvent};

const SHOWN_MAX: usize = 12;

struct Restart {
    down: u64,
    ready: u64,
    /// From then on, its lanes may be known to be free.
    free: u64,
    until: u64,
}

/// `Nothing`: no work was due, or nothing can be said.
enum Recovery<'e> {
    Nothing,
    Excused(String),
    Gap { length: u64, allowed: u64, first: &'e Delivery, arrived: Option<u32> },
}

pub(super) const CHECK: Check = Check {
    id: "recovery.gap",
    severity: Severity::Should,
    source: "derived: only an unnoticed restart can be made at any time",
    requirement: "after a restart each subscriber with due deliveries and room in its contract is served \
        within recovery_gap_max; after a kill of a process that shares a server, takeover_within is added",
    why: "a sender that waits for the worst case after each kill stops all subscribers, though most had \
        no attempt in flight",
    remedy: "count the attempts that the dead process may have started as in flight, and use the rest of \
        the burst at once",
    needs: &[Lack::Start],
    stall: Stall::Delays,
    follows_fault: true,
    simulated: Simulated::Figure,
    picture: Picture::Backlog,
    find: judge,
    ..Check::PLAIN
};

pub(super) fn judge(evidence: &Evidence<'_>) -> Finding {
    let ends = |action: &FaultAction| matches!(action, FaultAction::Kill | FaultAction::Restart);
    if !evidence.scenario.faults.iter().any(|fault| ends(&fault.action)) {
        return Finding::unasked("the scenario kills or restarts no process");
    }
    let mut tally = Tally::default();
    let (mut gaps, mut excused) = (Vec::new(), Vec::new());
    for restart in restarts(evidence) {
        for (at, lane) in (0..).zip(&evidence.lanes) {
            let name = &lane.subscriber.name;
            match measure_gap(evidence, at, lane, &restart) {
                Recovery::Nothing => {}
                Recovery::Excused(why) => excused.push(format!("{name}: {why}")),
                Recovery::Gap { length, allowed, first, arrived } => {
                    tally.see();
                    gaps.push((length, name.clone()));
                    if length > allowed {
                        let what = match arrived {
                            Some(_) => {
                                format!(
                                    "no request for {}; at most {} is allowed",
                                    show_beside(length, allowed),
                                    show(allowed)
                                )
                            }
                            None => format!("no further request in the last {} of the run", show(length)),
                        };
                        tally.broke(|| super::verdict::Witness {
                            from: restart.ready,
                            until: restart.ready.saturating_add(length),
                            arrivals: arrived.into_iter().map(u64::from).collect(),
                            ..evidence.absent(first, what)
                        });
                    }
                }
            }
        }
    }
    let finding = tally.finding(
        "subscribers with due deliveries after a restart",
        "each was served in time",
        "served too late",
    );
    with_figures(finding, gaps, excused)
}

fn with_figures(finding: Finding, mut gaps: Vec<(u64, String)>, mut excused: Vec<String>) -> Finding {
    gaps.sort_by(|one, other| other.cmp(one));
    excused.sort();
    excused.dedup();
    let shown = gaps.into_iter().take(SHOWN_MAX);
    let finding = shown.fold(finding, |finding, (gap, name)| finding.with(format!("{name} gap"), show(gap)));
    let told = excused.into_iter().take(SHOWN_MAX);
    told.fold(finding, |finding, why| finding.with("not judged", why))
}

fn restarts(evidence: &Evidence<'_>) -> Vec<Restart> {
    let processes = &evidence.trace.processes;
    let ready = processes.iter().filter(|one| one.event == ProcessEvent::Ready);
    let again = ready.filter_map(|ready| {
        let before = |one: &&crate::trace::Process| one.worker == ready.worker && one.t <= ready.t;
        let ends = |one: &&crate::trace::Process| {
            matches!(one.event, ProcessEvent::Killed | ProcessEvent::Asked | ProcessEvent::Exited)
        };
        let gone = processes.iter().filter(before).filter(ends).map(|one| one.t).max()?;
        let down = processes.iter().filter(before).filter(ends).map(|one| one.t);
        // The trace has several lines of one end: the first one after the process was last ready counts.
        let last_ready =
            processes.iter().filter(before).filter(|one| one.event == ProcessEvent::Ready && one.t < gone);
        let since = last_ready.map(|one| one.t).max().unwrap_or(0);
        let down = down.filter(|t| *t >= since).min().unwrap_or(gone);
        let own = processes.iter().filter(before).filter(|one| one.t >= since);
        let was_killed = { own }.any(|one| one.event == ProcessEvent::Killed);
        let free = if was_killed { known_to_be_free(evidence, down) } else { ready.t };
        let next = evidence.strikes.upsets.partition_point(|t| *t <= ready.t);
        let upset = evidence.strikes.upsets.get(next).copied().unwrap_or(evidence.end);
        let fault = evidence.trace.faults.iter().map(|fault| fault.t).filter(|t| *t > ready.t).min();
        Some(Restart { down, ready: ready.t, free, until: upset.min(fault.unwrap_or(evidence.end)) })
    });
    again.filter(|restart| is_clear(evidence, restart)).collect()
}

fn known_to_be_free(evidence: &Evidence<'_>, killed: u64) -> u64 {
    let sender = &evidence.scenario.sender;
    match sender.store {
        Store::Sqlite => killed,
        Store::Postgres => killed.saturating_add(sender.takeover_within.0),
    }
}

fn is_clear(evidence: &Evidence<'_>, restart: &Restart) -> bool {
    let at = restart.ready;
    let lasts = |fault: &crate::trace::Fault| fault.t <= at && fault.until.is_some_and(|until| until > at);
    // The process lines hold the end of these faults.
    let own = |fault: &crate::trace::Fault| {
        use FaultKind::{Kill, Restart, Rotate, Stop};
        matches!(fault.kind, Kill | Stop | Restart | Rotate)
    };
    if evidence.trace.faults.iter().any(|fault| lasts(fault) && !own(fault)) {
        return false;
    }
    (0..evidence.scenario.sender.workers).all(|worker| {
        let own = evidence.trace.processes.iter().filter(|one| one.worker == worker && one.t <= at);
        // Of two lines at one moment, the later one.
        let last = own.max_by_key(|one| one.t).map(|one| one.event);
        matches!(last, None | Some(ProcessEvent::Ready | ProcessEvent::Continued))
    })
}

fn measure_gap<'e>(evidence: &'e Evidence<'_>, at: u32, lane: &Lane<'_>, restart: &Restart) -> Recovery<'e> {
    if !lane.subscriber.handling.coalesce.is_empty() || lane.subscriber.handling.ordered {
        return Recovery::Nothing;
    }
    let fresh = evidence.deliveries_of(at).iter().filter(|one| one.owed && one.dead.is_none());
    let due = fresh.filter_map(|one| {
        let accepted = evidence.accepted(one)?;
        let first = evidence.attempts(one).first().map(|n| evidence.exchange(*n).t);
        first.is_none_or(|t| t > restart.ready).then_some((accepted.max(restart.ready), one))
    });
    let Some((due, first)) = due.min_by_key(|(due, _)| *due) else { return Recovery::Nothing };
    let next = lane.arrivals.partition_point(|n| evidence.exchange(*n).t <= restart.ready);
    let arrived = lane.arrivals.get(next).copied().filter(|n| evidence.exchange(*n).t <= restart.until);
    let until = arrived.map_or(restart.until, |n| evidence.exchange(n).t);
    if let Some(why) = excuse(evidence, lane, restart, until) {
        return Recovery::Excused(why);
    }
    let paused = pause_until(evidence, lane, until);
    let since = due.max(restart.free).max(paused).max(room_from(evidence, lane, due));
    let (length, allowed) = (evidence.late(since, until), allowed(evidence, lane));
    // It might have come in time without the next fault.
    if arrived.is_none() && length <= allowed {
        return Recovery::Nothing;
    }
    Recovery::Gap { length, allowed, first, arrived }
}

fn allowed(evidence: &Evidence<'_>, lane: &Lane<'_>) -> u64 {
    let buckets = lane.epochs.iter().filter_map(|epoch| epoch.limit.bucket);
    let wait = buckets.map(|bucket| bucket.rate.per.0.div_ceil(bucket.rate.count)).max().unwrap_or(0);
    evidence.scenario.expect.recovery_gap_max.0.saturating_add(wait)
}

fn excuse(evidence: &Evidence<'_>, lane: &Lane<'_>, restart: &Restart, until: u64) -> Option<String> {
    let hidden = lane.subscriber.behaviours.iter().any(|one| {
        one.answer.hides_attempts() && one.at.0 <= until && one.until().is_none_or(|end| end >= restart.down)
    });
    if hidden {
        return Some("its endpoint accepts no requests".to_owned());
    }
    let before: Vec<&Exchange> = lane.arrivals.iter().map(|n| evidence.exchange(*n)).collect();
    let before: Vec<&Exchange> = before.into_iter().filter(|one| one.t < restart.down).collect();
    let ended = before.iter().filter(|one| one.end < restart.down && one.outcome != Outcome::Open);
    if ended.max_by_key(|one| one.end).is_some_and(|last| !last.is_delivered()) {
        return Some("its last request before the restart failed".to_owned());
    }
    let silent = in_doubt(&before, lane, restart);
    lane.epochs.iter().find_map(|epoch| {
        let Some(cap) = epoch.limit.in_flight else {
            return Some("it has no in-flight cap, so its whole limit may be in doubt".to_owned());
        };
        let taken = u64::from(cap).saturating_mul(2).saturating_add(silent);
        let (what, room) = epoch.limit.lacks_room_for(taken)?;
        let doubt = if silent == 0 { String::new() } else { format!(" plus {silent} in doubt") };
        Some(format!("its {what} of {room} is less than twice its in-flight cap of {cap}{doubt}"))
    })
}

/// Exchanges that ended in silence before the process did and may still count against the contract. Exchanges
/// that were open at its end are part of the cap in flight.
fn in_doubt(before: &[&Exchange], lane: &Lane<'_>, restart: &Restart) -> u64 {
    let quarantine = lane.subscriber.limit.quarantine.0;
    let answered = before.iter().filter(|one| one.status().is_some());
    let clears = answered.filter(|one| one.end.saturating_add(quarantine) < restart.ready);
    let cleared = clears.map(|one| one.t).max().unwrap_or(0);
    let silent = before.iter().filter(|one| one.status().is_none() && one.end < restart.down);
    silent.filter(|one| one.end >= cleared).count() as u64
}
