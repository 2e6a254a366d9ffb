//! The time since the machine's start, suspensions included. It never steps, so a lease that another process took
//! over is over by this clock too.

use std::sync::LazyLock;

use hookproof_engine::dispatch::Moment;

use crate::engine::Nanos;

/// Unlike Linux's monotonic clock, it counts suspended time.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
/// The nearest clock.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

/// Nanoseconds. Not comparable across machines or restarts: see [`Moment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(pub u64);

impl BootTime {
    #[must_use]
    pub const fn after(self, length: Nanos) -> Self {
        Self(self.0.saturating_add(length.0))
    }

    #[must_use]
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct BootClock(fn() -> BootTime);

impl BootClock {
    /// A clock that calls `read`, for tests that simulate a suspension.
    #[must_use]
    pub const fn new(read: fn() -> BootTime) -> Self {
        Self(read)
    }

    #[must_use]
    pub fn now(self) -> BootTime {
        (self.0)()
    }
}

impl Default for BootClock {
    fn default() -> Self {
        Self(machine_time)
    }
}

fn machine_time() -> BootTime {
    let time = rustix::time::clock_gettime(CLOCK);
    let whole = u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(Nanos::SECOND.0);
    BootTime(whole.saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0)))
}

/// Now; `None` if the system has no boot id.
#[must_use]
pub fn moment() -> Option<Moment> {
    /// Each lane's checkpoint needs it.
    static BOOT: LazyLock<Option<String>> =
        LazyLock::new(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok());
    let boot = BOOT.as_deref()?;
    Some(Moment::at(boot.trim(), Nanos(machine_time().0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_tells_its_moment_in_nanoseconds() {
        let earlier = moment().expect("Linux names its runs");
        let passed = moment().expect("Linux names its runs").since(&earlier);
        assert!(Nanos::ZERO < passed && passed < Nanos::HOUR, "{passed}");
    }
}
