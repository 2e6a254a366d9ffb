//! A stop lasts until its process continues or ends; a killed process that was stopped is replaced by another.

use std::collections::BTreeMap;

use crate::trace::{Fault, Process, ProcessEvent};

/// An endpoint notices within this time that the peer closed the connection.
pub(super) const NOTICE: u64 = 250_000_000;

pub(super) struct Strikes {
    /// Sorted.
    pub(super) kills: Vec<u64>,
    /// For each kill, when all processes killed by then were gone.
    gone: Vec<u64>,
    /// A command may end a whole machine, which closes no connection.
    by_command: bool,
    /// When processes were killed, asked to stop, stopped or gone; sorted.
    pub(super) upsets: Vec<u64>,
    /// When a process was killed or stopped; sorted.
    struck: Vec<u64>,
    /// When a process was started or continued; sorted.
    back: Vec<u64>,
    /// [`spans`] in which a killed process may have lost state.
    killed: Vec<(u64, u64)>,
    /// The same for stopped and disconnected ones.
    parted: Vec<(u64, u64)>,
    /// Spans in which nothing could be recorded (a locked or full store, a stopped process); sorted.
    pub(super) unwritable: Vec<Unwritable>,
    pub(super) stops: Vec<Stop>,
}

impl Strikes {
    pub(super) fn of(processes: &[Process], faults: &[Fault], takeover_within: u64, end: u64) -> Self {
        use ProcessEvent::{Asked, Continued, Exited, Killed, Started, Stopped};
        let times = |wanted: &[ProcessEvent]| {
            let found = processes.iter().filter(|one| wanted.contains(&one.event));
            let mut times: Vec<u64> = found.map(|one| one.t).collect();
            times.sort_unstable();
            times
        };
        let stops = stops(processes, end);
        let exits = exits(processes);
        let mut killed: Vec<&Process> = processes.iter().filter(|one| one.event == Killed).collect();
        killed.sort_by_key(|one| one.t);
        let is_gone = |one: &Process| gone(&exits, one).unwrap_or(end).max(one.t);
        // A kill command takes effect at some moment before the process is gone; a signal at once.
        let over = |one: &Process| if one.status.is_some() { is_gone(one) } else { one.t };
        let stopped = processes.iter().filter(|one| one.event == Stopped).map(|one| (one.t, one.t));
        let cut_off = faults.iter().filter(|fault| fault.may_cut_off(takeover_within));
        let cut_off = cut_off.map(|fault| (fault.t, fault.until.unwrap_or(fault.t)));
        Self {
            kills: times(&[Killed]),
            gone: spans(killed.iter().map(|one| (one.t, is_gone(one))))
                .iter()
                .map(|(_, gone)| *gone)
                .collect(),
            by_command: killed.iter().any(|one| one.status.is_some()),
            upsets: times(&[Killed, Asked, Stopped, Exited]),
            struck: times(&[Killed, Stopped]),
            back: times(&[Started, Continued]),
            killed: spans(killed.iter().map(|one| (one.t, over(one)))),
            parted: spans(stopped.chain(cut_off)),
            unwritable: unwritable(faults.iter(), stops.iter()),
            stops,
        }
    }

    /// The last kill or stop before `t`, if no process came back since, and it is at most `within` ago.
    pub(super) fn shortly_before(&self, t: u64, within: u64) -> Option<u64> {
        let strike = last(&self.struck, t)?;
        let is_back = last(&self.back, t).is_some_and(|back| strike <= back);
        (!is_back && t - strike <= within).then_some(strike)
    }

    /// Whether a process may have lost state from `from` to `until`.
    pub(super) fn touch(&self, from: u64, until: u64) -> bool {
        touches(&self.parted, from, until) || touches(&self.killed, from, until)
    }

    /// The process surely lived at `alive`.
    pub(super) fn touch_one(&self, from: u64, until: u64, alive: u64) -> bool {
        let by_then = self.kills.partition_point(|t| *t <= until);
        let gone = by_then.checked_sub(1).map_or(0, |last| self.gone[last]);
        touches(&self.parted, from, until)
            || (touches(&self.killed, from, until) && alive <= gone.saturating_add(NOTICE))
    }

    /// The first kill from `from` on that may have ended a request, with or without a whole answer.
    pub(super) fn kill_that_ended(&self, from: u64, answered: Option<u64>) -> Option<u64> {
        let outlived = answered.filter(|_| !self.by_command).map_or(0, |t| t.saturating_sub(NOTICE));
        let next =
            self.kills.partition_point(|t| *t < from).max(self.gone.partition_point(|t| *t < outlived));
        self.kills.get(next).copied()
    }
}

fn last(times: &[u64], t: u64) -> Option<u64> {
    times.partition_point(|one| *one <= t).checked_sub(1).map(|last| times[last])
}

/// Sorted by worker and time.
fn exits(processes: &[Process]) -> Vec<(u32, u64)> {
    let exits = processes.iter().filter(|one| one.event == ProcessEvent::Exited);
    let mut exits: Vec<(u32, u64)> = exits.map(|one| (one.worker, one.t)).collect();
    exits.sort_unstable();
    exits
}

fn gone(exits: &[(u32, u64)], killed: &Process) -> Option<u64> {
    let next = exits.get(exits.partition_point(|exit| *exit < (killed.worker, killed.t)));
    next.filter(|(worker, _)| *worker == killed.worker).map(|(_, t)| *t)
}

/// Sorted by the beginning, each with the latest end so far.
fn spans(spans: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut spans: Vec<(u64, u64)> = spans.collect();
    spans.sort_unstable();
    let mut latest = 0;
    for (_, until) in &mut spans {
        latest = latest.max(*until);
        *until = latest;
    }
    spans
}

fn touches(spans: &[(u64, u64)], from: u64, until: u64) -> bool {
    let begun = spans.partition_point(|(t, _)| *t <= until);
    begun.checked_sub(1).is_some_and(|last| spans[last].1 >= from)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) worker: u32,
    pub(super) from: u64,
    pub(super) until: u64,
}

/// Each stop lasts until its process continues or ends, or until the run's `end`.
pub(super) fn stops(processes: &[Process], end: u64) -> Vec<Stop> {
    use ProcessEvent::{Continued, Exited, Stopped};
    let (mut over, mut found) = (BTreeMap::new(), Vec::new());
    for one in processes.iter().rev() {
        match one.event {
            Continued | Exited => drop(over.insert(one.worker, one.t)),
            Stopped => {
                let until = over.get(&one.worker).copied().unwrap_or(end);
                found.push(Stop { worker: one.worker, from: one.t, until });
            }
            _ => {}
        }
    }
    found
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Unwritable {
    pub(super) from: u64,
    pub(super) until: u64,
    later_by: u64,
}

impl Unwritable {
    /// From when on it no longer delays the record of a fact known at `t`.
    pub(super) fn over_for(self, t: u64) -> u64 {
        t.max(self.until.min(t.saturating_add(self.later_by)))
    }
}

pub(super) fn unwritable<'a>(
    faults: impl Iterator<Item = &'a Fault>,
    stops: impl Iterator<Item = &'a Stop>,
) -> Vec<Unwritable> {
    let hinders = |fault: &Fault| {
        let later_by = if fault.keeps_from_writing() { u64::MAX } else { fault.slows_writing() };
        (later_by > 0).then_some(Unwritable { from: fault.t, until: fault.until?, later_by })
    };
    let stops = stops.map(|stop| Unwritable { from: stop.from, until: stop.until, later_by: u64::MAX });
    let mut found: Vec<Unwritable> = faults.filter_map(hinders).chain(stops).collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scenario::FaultKind;

    const WITHIN: u64 = 4;
    const TAKEOVER: u64 = 10;
    const END: u64 = 40;

    /// The definition: inspects all processes.
    fn shortly_before(processes: &[Process], t: u64) -> Option<u64> {
        use ProcessEvent::{Continued, Killed, Started, Stopped};
        let before = || processes.iter().filter(|one| one.t <= t);
        let strike = before().filter(|one| matches!(one.event, Killed | Stopped)).map(|one| one.t).max()?;
        let is_back = before().any(|one| matches!(one.event, Started | Continued) && strike <= one.t);
        (!is_back && t - strike <= WITHIN).then_some(strike)
    }

    /// The definition: inspects all processes and faults.
    fn touch(processes: &[Process], faults: &[Fault], from: u64, until: u64) -> bool {
        use ProcessEvent::{Exited, Killed, Stopped};
        let inside = |t: u64| from <= t && t <= until;
        let gone = |kill: &Process| {
            let exits = processes.iter().filter(|one| one.event == Exited && one.worker == kill.worker);
            exits.map(|one| one.t).filter(|t| *t >= kill.t).min().unwrap_or(END)
        };
        let is_slow = |one: &Process| one.event == Killed && one.status.is_some();
        processes.iter().any(|one| matches!(one.event, Killed | Stopped) && inside(one.t))
            || processes.iter().any(|one| is_slow(one) && one.t <= until && from <= gone(one))
            || faults
                .iter()
                .any(|one| one.may_cut_off(TAKEOVER) && one.t <= until && from <= one.until.unwrap_or(one.t))
    }

    fn process() -> impl Strategy<Value = Process> {
        use ProcessEvent::{Asked, Continued, Exited, Killed, Started, Stopped};
        let event = prop::sample::select(vec![Asked, Continued, Exited, Killed, Started, Stopped]);
        (0..50_u64, 0..3_u32, event, any::<bool>()).prop_map(|(t, worker, event, told)| {
            let status = told.then(|| "kill it".to_owned());
            Process { t, worker, event, status }
        })
    }

    fn fault() -> impl Strategy<Value = Fault> {
        let kind = prop::sample::select(vec![FaultKind::Partition, FaultKind::LockDatabase]);
        (0..50_u64, kind, prop::option::of(0..60_u64), any::<bool>()).prop_map(|(t, kind, until, late)| {
            let delay = late.then_some(TAKEOVER);
            Fault { t, kind, until, detail: None, delay, plan: None }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn binary_search_agrees_with_a_linear_search(
            processes in prop::collection::vec(process(), 0..12),
            faults in prop::collection::vec(fault(), 0..3),
        ) {
            let strikes = Strikes::of(&processes, &faults, TAKEOVER, END);
            for t in 0..60 {
                prop_assert_eq!(strikes.shortly_before(t, WITHIN), shortly_before(&processes, t));
                for until in t..60 {
                    prop_assert_eq!(strikes.touch(t, until), touch(&processes, &faults, t, until), "{} {}", t, until);
                }
            }
        }
    }
}
