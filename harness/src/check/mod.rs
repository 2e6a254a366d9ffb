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
//! - `evidence`: the trace, laid out for judging. - `settled`: what became of what is owed.
//! - [`rate`](mod@rate): the contract. - `retry`: what follows a failure. - `recovery`, `breaker`, `network`, `isolation`,
//!   `queue`, `loss`, `duplicate`, `order`, `crash`, `fault`, `format`, `identity`: as the catalogue's sections.
//! - `figures`: latency, efficiency, and the generator's own schedule.
//! - [`verdict`]: what a check says. - [`judge()`]: all of them on one trace.

mod breaker;
mod crash;
mod duplicate;
pub(crate) mod evidence;
mod fault;
pub(crate) mod figures;
mod format;
mod identity;
mod isolation;
mod judge;
mod loss;
mod network;
mod order;
mod queue;
mod rate;
mod recovery;
mod retry;
mod settled;
pub mod verdict;

pub use evidence::Evidence;
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

use Severity::{May, Must, Should};

/// One thing that must hold.
pub struct Check {
    /// Its name for good: `rate.envelope`.
    pub id: &'static str,
    /// How much it weighs.
    pub severity: Severity,
    /// Judges it.
    pub find: fn(&Evidence<'_>) -> Finding,
}

const fn check(id: &'static str, severity: Severity, find: fn(&Evidence<'_>) -> Finding) -> Check {
    Check { id, severity, find }
}

/// Every check, in the catalogue's order.
pub const CHECKS: [Check; 58] = [
    check("format.post-json", Must, format::post_json),
    check("format.signature", Must, format::signature),
    check("format.timestamp", Must, format::fresh),
    check("format.id", Must, format::id),
    check("identity.body", Must, identity::body),
    check("identity.headers", Must, identity::headers),
    check("identity.secret", Must, identity::secret),
    check("rate.envelope", Must, rate::envelope::judge),
    check("rate.window", Must, rate::window::judge),
    check("rate.in-flight", Must, rate::in_flight::judge),
    check("rate.after-idle", Must, rate::after_idle::judge),
    check("rate.across-restart", Must, rate::restart::judge),
    check("rate.across-workers", Must, rate::workers::judge),
    check("rate.retries-count", Must, rate::retries_count::judge),
    check("rate.live-change", Should, rate::live_change::judge),
    check("rate.utilisation", Should, rate::utilisation::judge),
    check("retry.after-429", Must, retry::after::judge_429),
    check("retry.after-503", Must, retry::after::judge_503),
    check("retry.after-date", Must, retry::after::judge_date),
    check("retry.after-endpoint", Should, retry::after_endpoint::judge),
    check("retry.after-hostile", Must, retry::after_hostile::judge),
    check("retry.after-zero", Must, retry::after_zero::judge),
    check("retry.backoff-bounds", Must, retry::backoff_bounds::judge),
    check("retry.backoff-jitter", Should, retry::backoff_jitter::judge),
    check("retry.attempts", Must, retry::attempts::judge),
    check("retry.status", Must, retry::status::judge),
    check("retry.gone", Should, retry::gone::judge),
    check("retry.hidden", Must, retry::hidden::judge),
    check("recovery.no-storm", Must, recovery::no_storm),
    check("recovery.drains", Must, recovery::drains),
    check("breaker.opens", Should, breaker::opens),
    check("breaker.one-probe", Should, breaker::one_probe),
    check("breaker.cooldown", Should, breaker::cooldown),
    check("network.timeout", Must, network::timeout),
    check("network.reset", Must, network::reset),
    check("network.refused", Must, network::refused),
    check("network.stale", Must, network::stale),
    check("network.huge-answer", Must, network::huge_answer),
    check("isolation.latency", Must, isolation::latency),
    check("isolation.gap", Must, isolation::gap),
    check("queue.bounded", Must, queue::bounded),
    check("queue.visible", Must, queue::visible),
    check("queue.memory", Must, queue::memory),
    check("queue.expires", Must, queue::expires),
    check("loss.none", Must, loss::none),
    check("loss.unexpected", Must, loss::unexpected),
    check("duplicate.bounded", Must, duplicate::bounded),
    check("duplicate.dedupe", Should, duplicate::dedupe),
    check("order.per-key", May, order::judge),
    check("crash.ack-then-kill", Must, crash::ack_then_kill),
    check("crash.stop", Must, crash::stop),
    check("crash.takeover", Must, crash::takeover),
    check("fault.disk-full", Must, fault::disk_full),
    check("fault.locked", Must, fault::locked),
    check("fault.clock-step", Must, fault::clock_step),
    check("latency.first-attempt", Should, figures::first_attempt),
    check("efficiency", Should, figures::efficiency),
    check("harness.schedule", Must, figures::schedule),
];
