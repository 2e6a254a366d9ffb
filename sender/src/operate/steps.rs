//! Pauses between the steps of long work.

use std::time::Duration;

use tokio::time::timeout;

use crate::engine::Nanos;

/// The longest pause, after a step that was itself delayed.
const REST_MAX: Nanos = Nanos::from_secs(1);

/// The pause after a step: as long as the step itself, so that such work takes at most half of the disk's
/// capacity.
pub(crate) fn rest_after(step: Nanos) -> Nanos {
    step.min(REST_MAX)
}

pub(crate) async fn rest(length: Nanos) {
    let passed = timeout(Duration::from_nanos(length.0), std::future::pending::<()>()).await;
    debug_assert!(passed.is_err(), "what never happens takes longer");
}
