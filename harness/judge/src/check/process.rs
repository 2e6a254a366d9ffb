//! A fault asks processes to stop, and so does the end of the run. A process that had to be killed after `stop_within`
//! did not stop; the time counts from when it could record its state.

use std::collections::BTreeMap;

use super::evidence::Evidence;
use super::verdict::{Finding, Tally, Witness, show};
use crate::check::{Check, Stall};
use crate::entry::Severity;
use crate::trace::Lack;
use crate::trace::{Process, ProcessEvent};

pub(super) const CHECK: Check = Check {
    id: "process.exits",
    severity: Severity::Must,
    source: "derived: a process that dies is a defect, even if a supervisor restarts it",
    requirement: "no process of the sender ends by itself; when asked to stop, each exits with 0 and need \
        not be killed",
    why: "a supervisor hides crashes until they are frequent, and a forced stop cuts off attempts in flight",
    remedy: "let no task end the process, and on SIGTERM finish in time and exit with 0",
    needs: &[Lack::Start],
    stall: Stall::Delays,
    find: exits,
    ..Check::PLAIN
};

pub(super) fn exits(evidence: &Evidence<'_>) -> Finding {
    let mut workers: BTreeMap<u32, Vec<&Process>> = BTreeMap::new();
    for process in &evidence.trace.processes {
        workers.entry(process.worker).or_default().push(process);
    }
    if workers.is_empty() {
        return Finding::unasked("the harness started no process of the sender");
    }
    let mut tally = Tally::default();
    for lives in workers.values_mut() {
        lives.sort_by_key(|one| one.t);
        follow(evidence, lives, &mut tally);
    }
    if tally.seen == 0 {
        return Finding::unasked("no process ended");
    }
    tally.finding(
        "process exits",
        "each was requested, with exit 0",
        "not requested, forced, or with an error",
    )
}

fn follow(evidence: &Evidence<'_>, lives: &[&Process], tally: &mut Tally) {
    let within = evidence.scenario.sender.stop_within.0;
    let (mut asked, mut killed) = (None, false);
    for one in lives {
        let could_end = |asked| evidence.could_end_from(one.worker, asked, one.t);
        let at = |what: String| {
            let (from, until) = (asked.unwrap_or(one.t), one.t);
            Witness {
                subscriber: None,
                from,
                until,
                what: format!("worker {} {what}", one.worker),
                arrivals: Vec::new(),
            }
        };
        match one.event {
            ProcessEvent::Started => (asked, killed) = (None, false),
            ProcessEvent::Asked => asked = Some(one.t),
            ProcessEvent::Killed => {
                killed = true;
                // It is killed as soon as its time is over: a stall that took little of it would not have saved it.
                let is_over = |since: &u64| {
                    let since = could_end(*since);
                    one.t.saturating_sub(since) >= within && evidence.late(since, one.t) >= within / 10 * 9
                };
                if let Some(since) = asked.filter(is_over) {
                    tally.see();
                    tally.broke(|| {
                        at(format!("had to be killed {} after it was asked to stop", show(one.t - since)))
                    });
                }
            }
            ProcessEvent::Exited => {
                // A process that the harness did not start ends without a status.
                let status = one.status.as_deref().unwrap_or("exit 0");
                // A process without its store may end, but not in order.
                let is_bereft = asked.is_some_and(|asked| could_end(asked) > one.t);
                if !killed && !is_bereft {
                    tally.see();
                    if asked.is_none() {
                        tally.broke(|| at(format!("ended by itself ({status})")));
                    } else if status != "exit 0" {
                        tally.broke(|| {
                            at(format!(
                                "was asked to stop and ended with {status}; expected \
                            exit 0"
                            ))
                        });
                    }
                }
                (asked, killed) = (None, false);
            }
            ProcessEvent::Ready | ProcessEvent::Stopped | ProcessEvent::Continued => {}
        }
    }
}
