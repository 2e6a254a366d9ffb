//! The checks: pure functions from a scenario and a trace to a finding with its witness.
//!
//! ```text
//!  Scenario + Trace ──► Evidence (laid out once) ──► every check ──► Finding ──► severity, expected failures ──► Verdict
//! ```
//!
//! Each file states its requirement, the reason for it, and its witness. Every check computes in integers, sees the whole
//! run, and needs O(n log n) at most. A check that saw nothing is `inconclusive`, never `pass`; a check whose subject the
//! scenario doesn't arrange is `not applicable`.
//!
//! - `declaration`: the declaration of a check. `evidence`, `deliveries`: the trace, laid out for judging.
//! - `outcomes`, `dead_letters`, `sender_report`: how each delivery ended, by the trace and by the sender's report.
//! - `process_timeline`, `fault_windows`, `resumption`: faults over time, the lateness they excuse, and service after them.
//! - `clock_offset`, `epochs`, `rotation`: the sender's clock, the contract and the secrets in force at each moment.
//! - The checks: `rate` and `retry`, and one module for each other section of the catalogue; `deadline` belongs to
//!   `network`, `truth` and `retention` to `queue`, `strays` to `harness`.
//! - `stall`, `excuses`: the effect of the harness's stalls, of missing calls, faults and clock steps on a finding.
//! - `witness_context`, `starvation`: the picture around a witness, and endpoints that received nothing; not judged.
//! - `verdict`: the result of a check. `judge()`: all checks on one trace.

mod breaker;
mod clock_offset;
mod coalesce;
mod crash;
mod dead_letters;
mod deadline;
mod declaration;
mod deliveries;
mod duplicate;
mod emit;
mod epochs;
pub(crate) mod evidence;
pub(crate) mod excuses;
mod fault;
mod fault_windows;
pub mod figures;
mod format;
mod identity;
mod isolation;
mod judge;
mod liveness;
mod loss;
mod network;
mod order;
pub(crate) mod outcomes;
mod path;
mod pressure;
mod process;
mod process_timeline;
mod queue;
mod rate;
mod recovery;
mod recovery_gap;
mod resumption;
mod retention;
mod retry;
mod rotation;
mod sender_report;
mod stall;
pub(crate) mod starvation;
mod strays;
mod truth;
pub mod verdict;
pub(crate) mod witness_context;

pub use declaration::Check;
pub use declaration::Simulated;
use declaration::{Picture, Stall, WallClock};
pub use evidence::Evidence;
pub use judge::conclude;
pub use judge::decides;
pub use judge::{Judgement, Strictness, Verdict, judge};
pub use verdict::{Figure, Finding, Found, Severity, Status, Witness};

/// The arithmetic of the exact checks, for tests against brute force and for other users of the figures.
pub mod exact {
    pub use super::figures::percentile;
    pub use super::isolation::earliest;
    pub use super::order::inversion;
    pub use super::rate::in_flight::most_open;
    pub use super::rate::level::{Peak, fits, least_burst, peak};
    pub use super::rate::restart::peak_across;
    pub use super::rate::window::{first_excess, fullest};
    pub use super::retry::asked::Asked;
}

/// Every check, in the order of the report.
pub const CHECKS: [Check; 73] = [
    format::POST_JSON,
    format::SIGNATURE,
    format::TIMESTAMP,
    format::ID,
    path::CHECK,
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
