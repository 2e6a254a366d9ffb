//! Long work in small steps.

use std::time::Duration;

use tokio::time::timeout;

use crate::engine::Nanos;

/// The longest rest between two steps: after a step that was itself held up.
const REST_MAX: Nanos = Nanos::from_secs(1);

/// How long to rest after a step. Whoever else writes to the database has as long as the step took: work that can wait
/// never takes more than half of what the disk can do.
pub(crate) fn rest_after(step: Nanos) -> Nanos {
    step.min(REST_MAX)
}

/// Rests for a while.
pub(crate) async fn rest(length: Nanos) {
    let passed = timeout(Duration::from_nanos(length.0), std::future::pending::<()>()).await;
    debug_assert!(passed.is_err(), "what never happens takes longer");
}
