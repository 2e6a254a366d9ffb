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
    /// Its stable slug, such as `rate.envelope`.
    pub id: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// Where the requirement comes from.
    pub source: &'static str,
    /// The requirement, in one sentence.
    pub requirement: &'static str,
    /// The damage where it does not hold.
    pub why: &'static str,
    /// The remedy, in one sentence.
    pub remedy: &'static str,
    /// The key of `[expect]` that sets its figure: a scenario that writes one makes the check a must.
    pub figure: Option<&'static str>,
    /// Without one of these from the driver, a check that saw nothing is not applicable.
    pub(super) needs: &'static [Lack],
    /// The effect of a stall of the harness on a failure.
    pub(super) stall: Stall,
    /// The effect of a step of the machine's wall clock.
    pub(super) wall_clock: WallClock,
    /// Whether it judges the consequences of a fault; if so, a fault that was not injected explains why it saw nothing.
    pub(super) follows_fault: bool,
    /// Whether it holds requests to the contract of their time, which an unconfirmed change of limits leaves unknown.
    pub(super) by_contract: bool,
    /// Whether a failure stands in a trace that was cut short: nothing later could mend it.
    pub(super) stands_alone: bool,
    /// Whether virtual time can show it.
    pub simulated: Simulated,
    /// The picture of its witness.
    pub(super) picture: Picture,
    /// Judges it.
    pub find: fn(&Evidence<'_>) -> Finding,
}

/// The effect of a stall of the harness on a failed check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stall {
    /// None.
    Ignored,
    /// Requests may have come earlier: judged again with each at its most harmless place.
    Crowds,
    /// Requests may have come earlier by the longest stall: judged again with that much more patience.
    Delays,
    /// Stalls after the last event delay the drain: void if they took a tenth of `drain`.
    Drains,
    /// Void if each witness touches a long stall, or, without witnesses, if stalls took a tenth of the run.
    Slows,
    /// Void if each witness touches a long stall.
    Touches,
    /// Void if each witness touches a stall in which an answer may have missed the sender's deadline.
    MissesDeadlines,
    /// Void if each witness touches a stall as long as a timestamp may be off.
    AgesTimestamps,
    /// Void if each witness touches any stall.
    Reorders,
}

/// The effect of a step of the machine's wall clock on a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WallClock {
    /// None.
    Ignored,
    /// A failure is void where endpoints asked for a pause until a date.
    Dates,
    /// Nothing that goes by the time of day can be judged after the step.
    Always,
}

/// Whether virtual time can show a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulated {
    /// Judged as in a real run.
    Judged,
    /// Judged, but a figure that a fault may honestly break: named and not judged in a disturbed run.
    Figure,
    /// Not shown by virtual time, for this reason.
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

    /// Its entry in the catalogue.
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
