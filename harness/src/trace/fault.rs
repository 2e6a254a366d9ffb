//! What was done to the sender under test, and what happened to its processes.

use serde::{Deserialize, Serialize};

use crate::scenario::{FaultKind, FaultPlan, SECOND};

/// Something was done to the sender under test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// When it was done.
    pub t: u64,
    /// Its kind.
    #[serde(rename = "do")]
    pub kind: FaultKind,
    /// When it was over, for what lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// Whom or what it concerned: a worker, a subscriber, a new limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// By how many nanoseconds whatever a process and its store say to each other comes later, each way, where it comes at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<u64>,
    /// Which of the scenario's faults it was, from 0; traces of older versions don't say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<u32>,
}

impl Fault {
    /// As often a process and its store may answer each other until something is written down. On a connection that is new,
    /// everything is said for the first time.
    const EXCHANGES: u64 = 16;

    /// Whether it keeps the sender from its work for as long as it lasts, or makes that slow enough to be seen from outside.
    pub(crate) fn hinders(&self) -> bool {
        self.keeps_from_writing() || self.kind == FaultKind::ClockStep || self.slows_writing() >= SECOND
    }

    /// Whether the sender can write nothing down for as long as it lasts. A stop may be over before: its process knows.
    pub(crate) fn keeps_from_writing(&self) -> bool {
        use FaultKind::{
            ClockSkew, ClockStep, DatabaseRestart, DiskFull, Kill, Limit, LockDatabase, Partition, Redrive,
            Restart, Rotate, Start, Stop,
        };
        match self.kind {
            LockDatabase | DatabaseRestart | DiskFull | Partition => self.delay.is_none(),
            Kill | Stop | Restart | Start | ClockStep | ClockSkew | Limit | Rotate | Redrive => false,
        }
    }

    /// By how much later, at most, what the sender writes down is written meanwhile. What is under way at its end comes at once.
    pub(crate) fn slows_writing(&self) -> u64 {
        self.delay.unwrap_or(0).saturating_mul(2 * Self::EXCHANGES)
    }

    /// Whether it takes from a process what it knows, for others or for good: that is not written down where they look.
    pub(crate) fn cuts_off(&self) -> bool {
        self.kind == FaultKind::Partition && self.delay.is_none()
    }

    /// Whether a process may lose its lanes to another one by it, as it can't say in time that it lives.
    pub(crate) fn may_cut_off(&self, takeover_within: u64) -> bool {
        self.cuts_off() || (self.delay.is_some() && self.slows_writing() >= takeover_within)
    }

    /// Which of a scenario's faults one of them is.
    pub(crate) fn place(plans: &[FaultPlan], plan: &FaultPlan) -> Option<u32> {
        // The same may be planned twice for one moment.
        (0..).zip(plans).find(|(_, one)| std::ptr::eq(*one, plan)).map(|(at, _)| at)
    }
}

/// Something that was to be done to the sender under test, and was not. What a trace says before of its being done is taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    /// When that was known.
    pub t: u64,
    /// Its kind.
    #[serde(rename = "do")]
    pub kind: FaultKind,
    /// To which of its processes; none for the whole sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u32>,
    /// Which of the scenario's faults it was, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<u32>,
    /// Why not.
    pub why: String,
}

/// Something happened to a process of the sender under test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// When.
    pub t: u64,
    /// Which of several, from 0.
    pub worker: u32,
    /// What.
    pub event: ProcessEvent,
    /// How it exited: `exit 0`, `signal 9`. Of what was done to it: how, where that was not by a signal; then it is over when it is
    /// gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// What happened to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessEvent {
    /// It was started.
    Started,
    /// It said that it is ready.
    Ready,
    /// It was sent SIGKILL.
    Killed,
    /// It was asked to stop.
    Asked,
    /// It was stopped with SIGSTOP.
    Stopped,
    /// It was continued with SIGCONT.
    Continued,
    /// It is gone.
    Exited,
}

impl Undone {
    /// Takes back what was said of it. A fault that struck another process as well stays.
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
    fn what_was_not_done_is_taken_back_and_what_was_done_to_others_stays() {
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
