//! The clock of the machine since its start. It never steps, and it goes on while the machine is suspended or the process
//! is stopped: a lease that another process may have taken over meanwhile is over by this clock too.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::engine::Nanos;

/// Linux's monotonic clock leaves out the time in which the machine was suspended; this one counts it.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
/// Elsewhere the monotonic clock is the nearest that there is.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

/// Nanoseconds since the machine was started. Meaningless on another machine and after a restart: see [`Moment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(pub u64);

impl BootTime {
    /// The moment that is `length` later. A sum too large for the clock is its end.
    #[must_use]
    pub const fn after(self, length: Nanos) -> Self {
        Self(self.0.saturating_add(length.0))
    }

    /// How much time has passed since `earlier`; zero if that is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Tells the time since the machine's start. Copies tell the same.
#[derive(Clone, Copy, Debug)]
pub struct BootClock(fn() -> BootTime);

impl BootClock {
    /// A clock that `read` stands for: in a test, the machine's with a suspension added to it.
    #[must_use]
    pub const fn new(read: fn() -> BootTime) -> Self {
        Self(read)
    }

    /// The time now.
    #[must_use]
    pub fn now(self) -> BootTime {
        (self.0)()
    }
}

impl Default for BootClock {
    /// The machine's own clock.
    fn default() -> Self {
        Self(machine_time)
    }
}

fn machine_time() -> BootTime {
    let time = rustix::time::clock_gettime(CLOCK);
    let whole = u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(Nanos::SECOND.0);
    BootTime(whole.saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0)))
}

/// A moment that another process on the same machine can compare with its own, whatever the wall clock did meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Which run of the machine.
    boot: String,
    /// How long that had run, in nanoseconds.
    uptime: u64,
}

impl Moment {
    /// The moment when a run of the machine, named `boot`, had lasted for `uptime`.
    #[must_use]
    pub fn at(boot: &str, uptime: Nanos) -> Self {
        Self { boot: boot.to_owned(), uptime: uptime.0 }
    }

    /// Now, by the machine's own clock. Nothing where the machine does not name its runs.
    #[must_use]
    pub fn now() -> Option<Self> {
        /// It is the same for as long as this process lives, and each lane's record wants it.
        static BOOT: LazyLock<Option<String>> =
            LazyLock::new(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok());
        let boot = BOOT.as_deref()?;
        Some(Self::at(boot.trim(), Nanos(machine_time().0)))
    }

    /// Which run of the machine, and how long that had run.
    #[must_use]
    pub fn parts(&self) -> (&str, Nanos) {
        (&self.boot, Nanos(self.uptime))
    }

    /// How much time has surely passed since `earlier`: nothing, if the machine was started anew between.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Nanos {
        Nanos(if self.boot == earlier.boot { self.uptime.saturating_sub(earlier.uptime) } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_of_the_same_boot_counts() {
        let (early, late) = (Nanos::from_secs(1), Nanos(5_000_000_001));
        assert_eq!(Moment::at("a", late).since(&Moment::at("a", early)), Nanos(4_000_000_001));
        assert_eq!(Moment::at("a", late).since(&Moment::at("b", early)), Nanos::ZERO);
        assert_eq!(Moment::at("a", early).since(&Moment::at("a", late)), Nanos::ZERO);
    }

    #[test]
    fn this_machine_tells_its_moment_in_nanoseconds() {
        let earlier = Moment::now().expect("Linux names its runs");
        let passed = Moment::now().expect("Linux names its runs").since(&earlier);
        assert!(Nanos::ZERO < passed && passed < Nanos::HOUR, "{passed}");
    }
}
