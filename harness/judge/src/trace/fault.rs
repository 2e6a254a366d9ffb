//! Faults injected into the sender under test, and the history of its processes.

use serde::{Deserialize, Serialize};

use crate::scenario::{FaultKind, FaultPlan, SECOND};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    pub t: u64,
    #[serde(rename = "do")]
    pub kind: FaultKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Added to each message between a process and its store, in each direction, in nanoseconds; none unless the fault
    /// delays messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<u64>,
    /// Index in the scenario's list of faults; traces of older versions lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// No process reaches the store, or is seen there.
    CutsOff,
    KeepsFromWriting,
    /// Messages arrive later.
    Delays,
    StepsClock,
    Other,
}

impl Fault {
    /// The most round trips between a process and its store until a write is committed. A new connection
    /// repeats all of its setup.
    const EXCHANGES: u64 = 16;

    const fn effect(&self) -> Effect {
        use FaultKind::{
            ClockSkew, ClockStep, DatabaseRestart, DiskFull, Kill, Limit, LockDatabase, Partition, Redrive,
            Restart, Rotate, Start, Stop,
        };
        match self.kind {
            Partition if self.delay.is_some() => Effect::Delays,
            Partition => Effect::CutsOff,
            LockDatabase | DatabaseRestart | DiskFull => Effect::KeepsFromWriting,
            ClockStep => Effect::StepsClock,
            Kill | Stop | Restart | Start | ClockSkew | Limit | Rotate | Redrive => Effect::Other,
        }
    }

    /// It stops the sender's work, or slows that by a second or more.
    pub(crate) fn hinders(&self) -> bool {
        match self.effect() {
            Effect::CutsOff | Effect::KeepsFromWriting | Effect::StepsClock => true,
            Effect::Delays => self.slows_writing() >= SECOND,
            Effect::Other => false,
        }
    }

    /// A stop may end before `until`: the process record says when.
    pub(crate) fn keeps_from_writing(&self) -> bool {
        matches!(self.effect(), Effect::CutsOff | Effect::KeepsFromWriting)
    }

    /// The longest extra time that a commit takes meanwhile. Messages under way at its end arrive at once.
    pub(crate) fn slows_writing(&self) -> u64 {
        self.delay.unwrap_or(0).saturating_mul(2 * Self::EXCHANGES)
    }

    /// No other process then sees its state.
    pub(crate) fn cuts_off(&self) -> bool {
        self.effect() == Effect::CutsOff
    }

    /// It cannot renew its leases in time.
    pub(crate) fn may_cut_off(&self, takeover_within: u64) -> bool {
        self.cuts_off() || (self.delay.is_some() && self.slows_writing() >= takeover_within)
    }

    pub fn place(plans: &[FaultPlan], plan: &FaultPlan) -> Option<u32> {
        // By address: two faults of a scenario may be equal.
        (0..).zip(plans).find(|(_, one)| std::ptr::eq(*one, plan)).map(|(at, _)| at)
    }
}

/// A planned fault that was not injected. It withdraws the earlier records of this fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    pub t: u64,
    #[serde(rename = "do")]
    pub kind: FaultKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<u32>,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    pub t: u64,
    /// From 0.
    pub worker: u32,
    pub event: ProcessEvent,
    /// An exit: `exit 0`, `signal 9`. A strike: its means where that was no signal; such a strike ends when
    /// the process is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessEvent {
    Started,
    Ready,
    Killed,
    Asked,
    Stopped,
    Continued,
    Exited,
}

impl Undone {
    /// Keeps a fault that struck another process as well.
    pub(super) fn take_back(&self, faults: &mut Vec<Fault>, processes: &mut Vec<Process>) {
        use ProcessEvent::{Asked, Exited, Killed};

        let is_strike = |one: &Process| matches!(one.event, Killed | Asked);
        let own = processes.iter().rposition(|one| is_strike(one) && Some(one.worker) == self.worker);
        if let Some(from) = own.map(|at| processes[at].t) {
            let is_of_it = |one: &Process| {
                let is_end = is_strike(one) || one.event == Exited;
                is_end && Some(one.worker) == self.worker && one.t >= from
            };
            processes.retain(|one| !is_of_it(one));
        }
        let fault = faults.iter().rposition(|fault| self.plan.is_some() && fault.plan == self.plan);
        if let Some(at) =
            fault.filter(|at| !processes.iter().any(|one| is_strike(one) && one.t >= faults[*at].t))
        {
            faults.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uninjected_fault_is_removed_and_faults_of_other_targets_stay() {
        use ProcessEvent::{Exited, Killed, Started};

        let process = |t, worker, event| Process { t, worker, event, status: None };
        let fault = |t, plan| Fault {
            t,
            kind: FaultKind::Kill,
            until: None,
            detail: None,
            delay: None,
            plan: Some(plan),
        };
        let undone = |worker| Undone {
            t: 40,
            kind: FaultKind::Kill,
            worker: Some(worker),
            plan: Some(1),
            why: "it still answers".to_owned(),
        };
        let mut faults = vec![fault(10, 0), fault(30, 1)];
        let mut processes = vec![
            process(0, 0, Started),
            process(0, 1, Started),
            process(11, 0, Killed),
            process(12, 0, Exited),
            process(31, 0, Killed),
            process(31, 1, Killed),
            process(32, 0, Exited),
        ];
        undone(0).take_back(&mut faults, &mut processes);
        assert_eq!((faults.len(), processes.len()), (2, 5), "the other process was killed");
        undone(1).take_back(&mut faults, &mut processes);
        assert_eq!(faults, [fault(10, 0)]);
        assert_eq!(processes[2..], [process(11, 0, Killed), process(12, 0, Exited)]);
    }
}
