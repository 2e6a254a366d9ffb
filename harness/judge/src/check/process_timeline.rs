//! Process faults over time: kills, stops, restarts, and spans in which the sender could not write. A stop lasts until
//! its process continues or ends; a killed process that was stopped is replaced by another.

use std::collections::BTreeMap;

use crate::trace::{Fault, Process, ProcessEvent};

pub(super) struct Strikes {
    /// Sorted.
    pub(super) kills: Vec<u64>,
    /// When processes were killed, asked to stop, stopped or gone; sorted.
    pub(super) upsets: Vec<u64>,
    /// When a process was killed or stopped; sorted.
    struck: Vec<u64>,
    /// When a process was started or continued; sorted.
    back: Vec<u64>,
    /// Spans in which a killed, stopped or disconnected process may have lost state: the beginning, sorted,
    /// and the latest end so far.
    forgetful: Vec<(u64, u64)>,
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
        Self {
            kills: times(&[Killed]),
            upsets: times(&[Killed, Asked, Stopped, Exited]),
            struck: times(&[Killed, Stopped]),
            back: times(&[Started, Continued]),
            forgetful: forgetful(processes, faults, takeover_within, end),
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
        let begun = self.forgetful.partition_point(|(t, _)| *t <= until);
        begun.checked_sub(1).is_some_and(|last| self.forgetful[last].1 >= from)
    }
}

/// The last of the ascending `times` up to `t`.
fn last(times: &[u64], t: u64) -> Option<u64> {
    times.partition_point(|one| *one <= t).checked_sub(1).map(|last| times[last])
}

fn forgetful(processes: &[Process], faults: &[Fault], takeover_within: u64, end: u64) -> Vec<(u64, u64)> {
    use ProcessEvent::{Exited, Killed, Stopped};
    let exits = processes.iter().filter(|one| one.event == Exited);
    let mut exits: Vec<(u32, u64)> = exits.map(|one| (one.worker, one.t)).collect();
    exits.sort_unstable();
    let over = |one: &Process| {
        // A kill command takes effect at some moment before the process is gone; a signal at once.
        if one.event != Killed || one.status.is_none() {
            return one.t;
        }
        let gone = exits.partition_point(|exit| *exit < (one.worker, one.t));
        let gone = exits.get(gone).filter(|(worker, _)| *worker == one.worker);
        gone.map_or(end, |(_, t)| *t).max(one.t)
    };
    let struck = processes.iter().filter(|one| matches!(one.event, Killed | Stopped));
    let cut_off = faults.iter().filter(|fault| fault.may_cut_off(takeover_within));
    let cut_off = cut_off.map(|fault| (fault.t, fault.until.unwrap_or(fault.t)));
    let mut spans: Vec<(u64, u64)> = struck.map(|one| (one.t, over(one))).chain(cut_off).collect();
    spans.sort_unstable();
    let mut latest = 0;
    for (_, until) in &mut spans {
        latest = latest.max(*until);
        *until = latest;
    }
    spans
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

/// A span in which writes fail, or are delayed.
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
