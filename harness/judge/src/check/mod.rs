//! The checks: pure functions from a scenario and a trace to a finding with its witness.
//!
//! ```text
//!  Scenario + Trace ──► Evidence (laid out once) ──► every check ──► Finding ──► severity, expected failures ──► Verdict
//! ```
//!
//! Every check computes in integers, sees the whole run, and needs O(n log n) at most. A check that saw nothing is
//! `inconclusive`, never `pass`; a check whose subject the scenario doesn't arrange is `not applicable`.
//!
//! - `evidence`: the trace, laid out for judging.
//! - `outcomes`, `dead_letters`: how each delivery ended, by the trace and by the sender's report.
//! - `process_timeline`, `fault_windows`: faults, the lateness that they excuse, and service after them.
//! - `epochs`: the contract in force at each moment, and the sender's clock.
//! - `stall`, `starvation`: lateness that the harness or the machine may have caused.
//! - `witness_context`: the picture around a witness; nothing is judged there.
//! - Each other module holds the checks of a section; `deadline` and `tls` belong to `network`, `truth` and `retention`
//!   to `queue`, `strays` to `harness`.

mod breaker;
pub(crate) mod by_standards;
mod coalesce;
mod crash;
mod dead_letters;
mod deadline;
mod duplicate;
mod emit;
mod epochs;
pub(crate) mod evidence;
mod fault;
mod fault_windows;
pub mod figures;
mod format;
mod identity;
mod isolation;
pub(crate) mod judge;
mod liveness;
mod loss;
mod network;
mod order;
pub(crate) mod outcomes;
mod path;
mod permission;
mod pressure;
mod process;
mod process_timeline;
mod queue;
mod rate;
mod recovery;
mod recovery_gap;
mod retention;
mod retry;
mod stall;
mod starvation;
mod strays;
mod tls;
mod truth;
pub mod verdict;
pub(crate) mod witness_context;

pub use evidence::Evidence;
pub use judge::{Judgement, Strictness, Verdict, conclude, decides, judge};
pub use starvation::Starvation;
pub use verdict::{Figure, Finding, Found, Severity, Status, Witness};

use crate::entry::Entry;
use crate::trace::Lack;

/// For tests against brute force and for other users of the figures.
pub mod exact {
    pub use super::figures::percentile;
    pub use super::isolation::earliest;
    pub use super::order::inversion;
    pub use super::rate::in_flight::most_open;
    pub use super::rate::restart::peak_across;
    pub use super::rate::window::{first_excess, fullest};
    pub use super::rate::{Peak, fits, least_burst, peak};
    pub use super::retry::RequestedPause;
}

/// In the order of the report.
pub const CHECKS: [Check; 77] = [
    format::HTTP,
    format::POST_JSON,
    format::SIGNATURE,
    format::TIMESTAMP,
    format::ID,
    path::CHECK,
    permission::CHECK,
    identity::PAYLOAD,
    identity::BODY,
    identity::HEADERS,
    identity::SECRET,
    rate::envelope::CHECK,
    rate::window::CHECK,
    rate::in_flight::CHECK,
    rate::after_idle::CHECK,
    rate::restart::CHECK,
    rate::workers::CHECK,
    rate::retries_count::CHECK,
    rate::live_change::CHECK,
    rate::utilisation::CHECK,
    retry::after::AFTER_429,
    retry::after::AFTER_503,
    retry::after::AFTER_DATE,
    retry::after_endpoint::CHECK,
    retry::after_hostile::CHECK,
    retry::after_zero::CHECK,
    retry::backoff_bounds::CHECK,
    retry::backoff_jitter::CHECK,
    retry::attempts::CHECK,
    retry::status::CHECK,
    retry::gone::CHECK,
    retry::hidden::CHECK,
    pressure::CHECK,
    recovery::NO_STORM,
    recovery::DRAINS,
    recovery_gap::CHECK,
    breaker::OPENS,
    breaker::ONE_PROBE,
    breaker::COOLDOWN,
    deadline::TIMEOUT,
    deadline::DEADLINE,
    network::RESET,
    network::REFUSED,
    network::STALE,
    network::HUGE_ANSWER,
    tls::CHECK,
    isolation::LATENCY,
    isolation::GAP,
    liveness::CHECK,
    queue::BOUNDED,
    queue::VISIBLE,
    queue::MEMORY,
    queue::EXPIRES,
    truth::CHECK,
    retention::CHECK,
    emit::CHECK,
    loss::NONE,
    loss::UNEXPECTED,
    duplicate::BOUNDED,
    duplicate::DEDUPE,
    coalesce::CHECK,
    order::CHECK,
    crash::ACK_THEN_KILL,
    crash::STOP,
    crash::TAKEOVER,
    process::CHECK,
    fault::DISK_FULL,
    fault::LOCKED,
    fault::DATABASE_RESTART,
    fault::PARTITION,
    fault::CLOCK_STEP,
    fault::CLOCK_SKEW,
    figures::FIRST_ATTEMPT,
    figures::EFFICIENCY,
    figures::SCHEDULE,
    stall::CHECK,
    strays::CHECK,
];

pub struct Check {
    /// Stable slug, such as `rate.envelope`.
    pub id: &'static str,
    pub severity: Severity,
    pub source: &'static str,
    pub requirement: &'static str,
    pub why: &'static str,
    pub remedy: &'static str,
    /// As [`Entry::figure`](crate::entry::Entry::figure).
    pub figure: Option<&'static str>,
    /// A check that saw nothing is not applicable if the driver lacks one of these.
    needs: &'static [Lack],
    stall: Stall,
    wall_clock: WallClock,
    /// Whether it judges the consequences of a fault; a fault that was not injected then explains why it saw
    /// nothing.
    follows_fault: bool,
    /// Whether it judges by the contract of each moment, which an unconfirmed change of limits leaves
    /// unknown.
    by_contract: bool,
    /// A failure stands in a truncated trace, as nothing later can repair it.
    stands_alone: bool,
    pub simulated: Simulated,
    picture: Picture,
    pub find: fn(&Evidence<'_>) -> Finding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stall {
    Ignored,
    /// Requests may have come earlier: the check judges again with each request at its most harmless place.
    Crowds,
    /// Judges again without the machine's part.
    Delays,
    /// Void if the stalls after the last event took a tenth of `drain`.
    Drains,
    /// Void if each witness touches any stall.
    Reorders,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WallClock {
    Ignored,
    /// Void where endpoints asked for a pause until a date.
    Dates,
    /// Nothing after the step can be judged.
    Always,
}

/// Whether virtual time can show a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulated {
    Judged,
    /// Judged, except in a disturbed run: there a fault may honestly break the figure.
    Figure,
    /// Virtual time cannot show it, for this reason.
    Beyond(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Picture {
    Delivery,
    Backlog,
    Level,
    Open,
    Window,
}

impl Check {
    const PLAIN: Self = Self {
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
