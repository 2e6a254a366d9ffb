//! The retries after a failed attempt.

pub(super) mod after;
pub(super) mod after_endpoint;
pub(super) mod after_hostile;
pub(super) mod after_zero;
pub(super) mod asked;
pub(super) mod attempts;
pub(super) mod backoff_bounds;
pub(super) mod backoff_jitter;
pub(super) mod gone;
pub(super) mod hidden;
pub(super) mod status;
