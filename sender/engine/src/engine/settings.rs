use super::breaker::BreakerPolicy;
use super::contract::Contract;
use super::lateness::Lateness;
use super::pressure::PressurePolicy;
use super::retry::RetryPolicy;

/// A subscriber's contract and policies. Lanes with equal settings share one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    contract: Contract,
    retry: RetryPolicy,
    breaker: BreakerPolicy,
    pressure: PressurePolicy,
    lateness: Lateness,
}

impl Settings {
    /// Each part is valid by itself.
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

    /// The contract.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// The retry policy.
    #[must_use]
    pub fn retry(&self) -> &RetryPolicy {
        &self.retry
    }

    /// The breaker policy.
    #[must_use]
    pub fn breaker(&self) -> &BreakerPolicy {
        &self.breaker
    }

    /// The throttle below the contract.
    #[must_use]
    pub fn pressure(&self) -> &PressurePolicy {
        &self.pressure
    }

    /// The bounds of a request's late arrival.
    #[must_use]
    pub fn lateness(&self) -> Lateness {
        self.lateness
    }
}
