//! All that one lane goes by.

use super::breaker::BreakerPolicy;
use super::contract::Contract;
use super::lateness::Lateness;
use super::pressure::PressurePolicy;
use super::retry::RetryPolicy;

/// A subscriber's contract, and how its lane behaves inside it. Shared by the lanes that have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    contract: Contract,
    retry: RetryPolicy,
    breaker: BreakerPolicy,
    pressure: PressurePolicy,
    lateness: Lateness,
}

impl Settings {
    /// Everything together. Each part is valid by itself.
    #[must_use]
    pub fn new(
        contract: Contract,
        retry: RetryPolicy,
        breaker: BreakerPolicy,
        pressure: PressurePolicy,
        lateness: Lateness,
    ) -> Self {
        Self { contract, retry, breaker, pressure, lateness }
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

    /// How late a request may still arrive.
    #[must_use]
    pub fn lateness(&self) -> Lateness {
        self.lateness
    }
}
