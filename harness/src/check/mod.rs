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
pub(crate) mod declared;
mod delivery;
mod disturbed;
mod duplicate;
mod emit;
mod epochs;
pub(crate) mod evidence;
mod exchange;
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
mod undone;
mod unsettled;
mod unwritable;
pub mod verdict;
mod wall_clock;
mod word;

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

/// One thing that must hold.
pub struct Check {
    /// Its name for good: `rate.envelope`.
    pub id: &'static str,
    /// Judges it.
    pub find: fn(&Evidence<'_>) -> Finding,
}

const fn check(id: &'static str, find: fn(&Evidence<'_>) -> Finding) -> Check {
    Check { id, find }
}

/// Every check, in the catalogue's order, where its text and its weight are.
pub const CHECKS: [Check; 72] = [
    check("format.post-json", format::post_json),
    check("format.signature", format::signature),
    check("format.timestamp", format::fresh),
    check("format.id", format::id),
    check("path.own", path::own),
    check("identity.body", identity::body),
    check("identity.headers", identity::headers),
    check("identity.secret", identity::secret),
    check("rate.envelope", rate::envelope::judge),
    check("rate.window", rate::window::judge),
    check("rate.in-flight", rate::in_flight::judge),
    check("rate.after-idle", rate::after_idle::judge),
    check("rate.across-restart", rate::restart::judge),
    check("rate.across-workers", rate::workers::judge),
    check("rate.retries-count", rate::retries_count::judge),
    check("rate.live-change", rate::live_change::judge),
    check("rate.utilisation", rate::utilisation::judge),
    check("retry.after-429", retry::after::judge_429),
    check("retry.after-503", retry::after::judge_503),
    check("retry.after-date", retry::after::judge_date),
    check("retry.after-endpoint", retry::after_endpoint::judge),
    check("retry.after-hostile", retry::after_hostile::judge),
    check("retry.after-zero", retry::after_zero::judge),
    check("retry.backoff-bounds", retry::backoff_bounds::judge),
    check("retry.backoff-jitter", retry::backoff_jitter::judge),
    check("retry.attempts", retry::attempts::judge),
    check("retry.status", retry::status::judge),
    check("retry.gone", retry::gone::judge),
    check("retry.hidden", retry::hidden::judge),
    check("pressure.holds", pressure::holds),
    check("recovery.no-storm", recovery::no_storm),
    check("recovery.drains", recovery::drains),
    check("recovery.gap", recovery_gap::judge),
    check("breaker.opens", breaker::opens),
    check("breaker.one-probe", breaker::one_probe),
    check("breaker.cooldown", breaker::cooldown),
    check("network.timeout", deadline::timeout),
    check("network.deadline", deadline::deadline),
    check("network.reset", network::reset),
    check("network.refused", network::refused),
    check("network.stale", network::stale),
    check("network.huge-answer", network::huge_answer),
    check("isolation.latency", isolation::latency),
    check("isolation.gap", isolation::gap),
    check("queue.bounded", queue::bounded),
    check("queue.visible", queue::visible),
    check("queue.memory", queue::memory),
    check("queue.expires", queue::expires),
    check("queue.truth", truth::truth),
    check("queue.retention", retention::judge),
    check("emit.accepted", emit::accepted),
    check("loss.none", loss::none),
    check("loss.unexpected", loss::unexpected),
    check("duplicate.bounded", duplicate::bounded),
    check("duplicate.dedupe", duplicate::dedupe),
    check("coalesce.window", coalesce::judge),
    check("order.per-key", order::judge),
    check("crash.ack-then-kill", crash::ack_then_kill),
    check("crash.stop", crash::stop),
    check("crash.takeover", crash::takeover),
    check("process.exits", process::exits),
    check("fault.disk-full", fault::disk_full),
    check("fault.locked", fault::locked),
    check("fault.database-restart", fault::database_restart),
    check("fault.partition", fault::partition),
    check("fault.clock-step", fault::clock_step),
    check("fault.clock-skew", fault::clock_skew),
    check("latency.first-attempt", figures::first_attempt),
    check("efficiency", figures::efficiency),
    check("harness.schedule", figures::schedule),
    check(stall::ID, stall::judge),
    check("harness.strays", strays::judge),
];

#[cfg(test)]
mod tests {
    use super::CHECKS;
    use crate::catalogue;

    #[test]
    fn the_catalogue_and_the_checks_name_each_other_in_one_order() {
        let named: Vec<&str> = catalogue::sender().iter().map(|entry| entry.id.as_str()).collect();
        let judged: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
        assert_eq!(named, judged);
    }
}
