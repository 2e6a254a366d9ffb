//! What was done to the sender under test, and what happened to its processes.

use serde::{Deserialize, Serialize};

use crate::scenario::FaultPlan;

/// Something was done to the sender under test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// When it was done.
    pub t: u64,
    /// What, in the scenario's word.
    #[serde(rename = "do")]
    pub action: String,
    /// When it was over, for what lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// Whom or what it concerned: a worker, a subscriber, a new limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Which of the scenario's faults it was, from 0; traces of older versions don't say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<u32>,
}

impl Fault {
    /// Whether it keeps the sender from its work for as long as it lasts.
    pub(crate) fn hinders(&self) -> bool {
        self.keeps_from_writing() || self.action == "clock-step"
    }

    /// Whether the sender can write nothing down for as long as it lasts.
    pub(crate) fn keeps_from_writing(&self) -> bool {
        matches!(self.action.as_str(), "lock-database" | "database-restart" | "disk-full" | "stop")
    }

    /// Which of a scenario's faults one of them is.
    pub(crate) fn place(plans: &[FaultPlan], plan: &FaultPlan) -> Option<u32> {
        // The same may be planned twice for one moment.
        (0..).zip(plans).find(|(_, one)| std::ptr::eq(*one, plan)).map(|(at, _)| at)
    }
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
    /// How it exited: `exit 0`, `signal 9`.
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
