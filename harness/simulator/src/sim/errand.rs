//! What operators want done: what waits, and what a process was asked for.

use std::collections::BTreeMap;

use hookproof_judge::scenario::FaultPlan;

/// New secrets, each with the place of its endpoint.
pub(super) type Secrets = Vec<(usize, hookproof_judge::signature::Secret)>;

/// What operators want done.
#[derive(Default)]
pub(super) struct Errands<'a> {
    /// It waits for a process that can be asked, in the order in which it came.
    pub(super) waiting: Vec<&'a FaultPlan>,
    /// A process was asked, and has not answered.
    pub(super) asked: BTreeMap<u64, Asked<'a>>,
    pub(super) count: u64,
}

/// What a process was asked to do.
pub(super) struct Asked<'a> {
    pub(super) plan: &'a FaultPlan,
    pub(super) at: u64,
    /// What the endpoints are to know once it is done.
    pub(super) secrets: Secrets,
}

impl Errands<'_> {
    /// Whether nothing is left to do.
    pub(super) fn are_done(&self) -> bool {
        self.waiting.is_empty() && self.asked.is_empty()
    }
}
