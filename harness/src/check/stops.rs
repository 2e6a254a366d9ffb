//! When processes stood still, by what became of them: a fault only says how long that was to last, and one that is killed
//! meanwhile leaves its place to another one, which runs.

use std::collections::BTreeMap;

use crate::trace::{Process, ProcessEvent};

/// A time in which a process stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) worker: u32,
    pub(super) from: u64,
    pub(super) until: u64,
}

/// Those of a run that ended then: each lasts until its process goes on or is gone.
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
