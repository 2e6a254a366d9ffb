//! Moments in the future by tokio's clock, which its timers count. Whether a request may still be sent or answered is judged by
//! the [`crate::boot_clock`] instead, because tokio's clock stands still while the machine is suspended. So no timer on which
//! that depends runs for longer than [`TIMER_MAX`].

use std::time::Duration;

use tokio::time::Instant;

/// Stands for "never" where a length of time is too long for the clock.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The longest that a timer runs before the boot clock is looked at. A longer one would fire late by as much after the machine
/// was suspended.
pub(super) const TIMER_MAX: Duration = Duration::from_secs(1);

#[expect(
    clippy::disallowed_methods,
    reason = "deadlines and idle connections are the transport's own affair; the engine never sees these moments"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The moment that is `length` from now.
pub(super) fn after(length: Duration) -> Instant {
    later(now(), length)
}

/// The moment that is `length` later.
pub(super) fn later(moment: Instant, length: Duration) -> Instant {
    moment.checked_add(length).unwrap_or_else(|| moment + FAR)
}

/// Waits until then.
pub(super) async fn reached(moment: Instant) {
    #[expect(clippy::disallowed_methods, reason = "the transport's own deadlines")]
    tokio::time::sleep_until(moment).await;
}
