//! Operator actions that wait, or that a process was asked for.

use std::collections::BTreeMap;

use hookproof_judge::scenario::FaultPlan;

/// New secrets, each with the index of its endpoint.
pub(super) type Secrets = Vec<(usize, hookproof_judge::signature::Secret)>;

#[derive(Default)]
pub(super) struct Errands<'a> {
    /// Actions that wait for a process that can be asked, oldest first.
    pub(super) waiting: Vec<&'a FaultPlan>,
    /// Actions that a process was asked for and has not answered.
    pub(super) asked: BTreeMap<u64, Asked<'a>>,
    pub(super) count: u64,
}

pub(super) struct Asked<'a> {
    pub(super) plan: &'a FaultPlan,
    pub(super) at: u64,
    /// The endpoints accept these once the action is done.
    pub(super) secrets: Secrets,
}

impl Errands<'_> {
    pub(super) fn are_done(&self) -> bool {
        self.waiting.is_empty() && self.asked.is_empty()
    }
}
