//! The contract: rate and burst, window caps, requests in flight.

pub(super) mod after_idle;
pub(super) mod envelope;
pub(super) mod in_flight;
pub(super) mod level;
pub(super) mod live_change;
pub(super) mod restart;
pub(super) mod retries_count;
pub(super) mod utilisation;
pub(super) mod window;
pub(super) mod workers;
