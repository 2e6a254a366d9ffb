//! All that one lane goes by.

use super::breaker::BreakerPolicy;
use super::contract::Contract;
use super::pressure::PressurePolicy;
use super::range::{OutOfRange, within};
use super::retry::RetryPolicy;
use super::time::Nanos;

/// The longest quarantine.
pub(super) const QUARANTINE_MAX: Nanos = Nanos::HOUR;

/// A subscriber's contract, and how its lane behaves inside it. Shared by the lanes that have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    contract: Contract,
    retry: RetryPolicy,
    breaker: BreakerPolicy,
    pressure: PressurePolicy,
    quarantine: Nanos,
}

impl Settings {
    /// Settings whose silent attempts count as in flight for a further `quarantine`.
    ///
    /// # Errors
    /// When `quarantine` is over 1 hour.
    pub fn new(
        contract: Contract,
        retry: RetryPolicy,
        breaker: BreakerPolicy,
        pressure: PressurePolicy,
        quarantine: Nanos,
    ) -> Result<Self, OutOfRange> {
        within("limit.quarantine", quarantine, Nanos::ZERO..=QUARANTINE_MAX)?;
        Ok(Self { contract, retry, breaker, pressure, quarantine })
    }

    /// What the subscriber may be sent.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// What follows a failure.
    #[must_use]
    pub fn retry(&self) -> &RetryPolicy {
        &self.retry
    }

    /// When to stop hammering.
    #[must_use]
    pub fn breaker(&self) -> &BreakerPolicy {
        &self.breaker
    }

    /// When to go easy.
    #[must_use]
    pub fn pressure(&self) -> &PressurePolicy {
        &self.pressure
    }

    /// For how long a request without an answer may still arrive.
    #[must_use]
    pub fn quarantine(&self) -> Nanos {
        self.quarantine
    }
}
