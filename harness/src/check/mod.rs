//! The checks: pure functions from what was seen, and what was agreed, to a finding with its witness.
//!
//! ```text
//!  Scenario + Trace ──► Evidence (laid out once) ──► every check ──► Finding ──► weight, what is known ──► Verdict
//! ```
//!
//! Each file says what it checks, why that is right, and what its witness is. All of them count in integers, see the whole
//! run, and need O(n log n) at most. A check that saw nothing is `inconclusive`, never `pass`; one whose matter the
//! scenario doesn't arrange is `not applicable`.
//!
//! - `evidence`, `exchange`, `delivery`: the trace, laid out for judging. - `settled`, `unsettled`, `given_up`, `redriven`, `word`: what
//!   became of what is owed. - `offset`: the sender's clock. - `rotation`: which
//!   secrets sign when.
//! - `rate`: the contract. - `retry`: what follows a failure. - `recovery`, `recovery_gap`, `breaker`, `network`, `isolation`,
//!   `queue`, `loss`, `duplicate`, `coalesce`, `order`, `crash`, `fault`, `format`, `identity`, `path`, `emit`, `process`,
//!   `pressure`: as the catalogue's sections; `deadline` is of `network`, `truth` and `retention` of `queue`.
//! - `again`, `disturbed`, `kills`, `outage`, `stops`, `strikes`, `late`, `given_up`: what a fault took, explains, or doesn't. - `speed`: which lanes are judged by theirs.
//! - `stall`: where the harness stood still, and what that leaves of a finding. - `declared`: what a driver can't give; `undone`: what was not
//!   done to a sender.
//! - `wall_clock`: where the machine's was set, and what that leaves. - `strays`: what came to no endpoint. - `closeup`, `silence`: what is drawn around a witness, and who heard nothing: told, and not judged.
//! - `figures`: latency, efficiency, and the generator's own schedule.
//! - `verdict`: what a check says. - `judge()`: all of them on one trace.

mod again;
mod ahead;
mod breaker;
pub(crate) mod closeup;
mod coalesce;
mod crash;
mod deadline;
mod declaration;
mod delivery;
mod disturbed;
mod duplicate;
mod emit;
mod epochs;
pub(crate) mod evidence;
mod exchange;
pub(crate) mod excuses;
mod fault;
pub(crate) mod figures;
mod format;
mod given_up;
mod identity;
mod isolation;
mod judge;
mod kills;
mod late;
mod loss;
mod network;
mod offset;
mod order;
mod outage;
mod path;
mod pressure;
mod process;
mod queue;
mod rate;
mod recovery;
mod recovery_gap;
mod redriven;
mod retention;
mod retry;
mod rotation;
pub(crate) mod settled;
pub(crate) mod silence;
mod speed;
mod stall;
mod stops;
mod strays;
mod strikes;
mod truth;
mod unsettled;
mod unwritable;
pub mod verdict;
mod word;

pub use declaration::Check;
pub(crate) use declaration::Simulated;
use declaration::{Picture, Stall, WallClock};
pub use evidence::Evidence;
pub(crate) use judge::conclude;
pub(crate) use judge::decides;
pub use judge::{Judgement, Strictness, Verdict, judge};
pub use verdict::{Figure, Finding, Found, Severity, Status, Witness};

/// What the exact checks compute, for tests against brute force and for whoever wants the figures alone.
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
pub const CHECKS: [Check; 72] = [
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
