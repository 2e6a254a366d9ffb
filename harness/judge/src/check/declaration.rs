//! A check's declaration: its entry in the catalogue, and how other evidence bears on its finding.
//!
//! The declaration stands beside the function that judges, so adding a check takes one file and a line in
//! [`CHECKS`](super::CHECKS).

use super::evidence::Evidence;
use super::verdict::Finding;
use crate::entry::{Entry, Severity};
use crate::trace::Lack;

/// One requirement of a sender, and the function that judges it.
pub struct Check {
    /// Stable slug, such as `rate.envelope`.
    pub id: &'static str,
    pub severity: Severity,
    pub source: &'static str,
    /// In one sentence.
    pub requirement: &'static str,
    /// The damage without it.
    pub why: &'static str,
    /// In one sentence.
    pub remedy: &'static str,
    /// The key of `[expect]` that sets its figure; a scenario that writes the key makes the check a must.
    pub figure: Option<&'static str>,
    /// A check that saw nothing is not applicable if the driver lacks one of these.
    pub(super) needs: &'static [Lack],
    /// The effect of a stall of the harness on a failure.
    pub(super) stall: Stall,
    /// The effect of a step of the machine's wall clock.
    pub(super) wall_clock: WallClock,
    /// Whether it judges the consequences of a fault; a fault that was not injected then explains why it saw
    /// nothing.
    pub(super) follows_fault: bool,
    /// Whether it judges by the contract of each moment, which an unconfirmed change of limits leaves
    /// unknown.
    pub(super) by_contract: bool,
    /// Whether a failure stands in a truncated trace, as nothing later can repair it.
    pub(super) stands_alone: bool,
    pub simulated: Simulated,
    pub(super) picture: Picture,
    pub find: fn(&Evidence<'_>) -> Finding,
}

/// The effect of a stall of the harness on a failed check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stall {
    Ignored,
    /// Requests may have come earlier: the check judges again with each request at its most harmless place.
    Crowds,
    /// Requests may have come earlier by the longest stall: the check judges again with that much more
    /// patience.
    Delays,
    /// Stalls after the last event delay the drain: the failure is void if they took a tenth of `drain`.
    Drains,
    /// The failure is void if each witness touches a long stall, or, without witnesses, if stalls took a
    /// tenth of the run.
    Slows,
    /// The failure is void if each witness touches a long stall.
    Touches,
    /// The failure is void if each witness touches a stall in which an answer may have missed the sender's
    /// deadline.
    MissesDeadlines,
    /// The failure is void if each witness touches a stall as long as the tolerance of timestamps.
    AgesTimestamps,
    /// The failure is void if each witness touches any stall.
    Reorders,
}

/// The effect of a step of the machine's wall clock on a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WallClock {
    Ignored,
    /// A failure is void where endpoints asked for a pause until a date.
    Dates,
    /// Nothing after the step can be judged.
    Always,
}

/// Whether virtual time can show a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulated {
    /// As in a real run.
    Judged,
    /// Judged, except in a disturbed run: there a fault may honestly break the figure.
    Figure,
    /// Virtual time cannot show it, for this reason.
    Beyond(&'static str),
}

/// The picture of a witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Picture {
    /// The course of one delivery.
    Delivery,
    /// The lane's backlog.
    Backlog,
    /// The level of the lane's token bucket.
    Level,
    /// The requests that were open at once.
    Open,
    /// The count in the window that was passed.
    Window,
}

impl Check {
    /// The defaults of a declaration; every check states its entry and its function.
    pub(super) const PLAIN: Self = Self {
        id: "",
        severity: Severity::Must,
        source: "",
        requirement: "",
        why: "",
        remedy: "",
        figure: None,
        needs: &[],
        stall: Stall::Ignored,
        wall_clock: WallClock::Ignored,
        follows_fault: false,
        by_contract: false,
        stands_alone: false,
        simulated: Simulated::Judged,
        picture: Picture::Delivery,
        find: |_| Finding::unasked(""),
    };

    pub(crate) fn entry(&self) -> Entry {
        Entry {
            id: self.id.to_owned(),
            severity: self.severity,
            source: self.source.to_owned(),
            requirement: self.requirement.to_owned(),
            why: self.why.to_owned(),
            remedy: self.remedy.to_owned(),
            example: None,
            figure: self.figure.map(str::to_owned),
            needs: Vec::new(),
        }
    }
}
