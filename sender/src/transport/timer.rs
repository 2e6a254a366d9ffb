//! Tokio's clock stands still while the machine is suspended. So [`crate::boot_clock`] judges deadlines and leases,
//! and no timer for them runs longer than [`TIMER_MAX`].

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Stands for "never" if a duration exceeds the clock's range.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// After a suspension, a longer timer would fire late.
pub(super) const TIMER_MAX: Duration = Duration::from_secs(1);

/// A proxy or a token endpoint has until so long before the attempt's end, so that the reason names it. Timers fire
/// within a millisecond on an idle machine.
pub(super) const SOONER: Duration = Duration::from_millis(5);

#[expect(
    clippy::disallowed_methods,
    reason = "deadlines and idle connections are the transport's own affair; the engine never sees these moments"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

pub(super) fn after(length: Duration) -> Instant {
    later(now(), length)
}

pub(super) fn later(moment: Instant, length: Duration) -> Instant {
    moment.checked_add(length).unwrap_or_else(|| moment + FAR)
}

pub(super) async fn reached(moment: Instant) {
    #[expect(clippy::disallowed_methods, reason = "the transport's own deadlines")]
    tokio::time::sleep_until(moment).await;
}

/// Holders leave the data consistent, even if they panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
