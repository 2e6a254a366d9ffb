//! The one home of clocks.
//!
//! The sender counts by a *steady* clock: the wall clock as it was when the process began, plus the time that has
//! passed since on the monotonic one. It never steps, so that a wall clock set back by an hour neither holds deliveries
//! back nor lets any out early. Only what others read is told by the real wall clock: the timestamps in signatures and
//! in bodies.
#![expect(clippy::disallowed_methods, reason = "everybody else gets the time from here")]

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::engine::{Instant, Nanos, WallTime};

/// Tells the time. Copies tell the same.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: std::time::Instant,
    base: WallTime,
}

impl Clock {
    /// A clock that is nowhere behind `latest`, the latest time that the store has seen: a process that begins after
    /// the wall clock was set back must not wait for what is due already.
    #[must_use]
    pub fn new(latest: WallTime) -> Self {
        Self { began: std::time::Instant::now(), base: wall().max(latest) }
    }

    /// The steady time, as the store counts it.
    #[must_use]
    pub fn now(&self) -> WallTime {
        let passed = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        WallTime(self.base.0.saturating_add(passed))
    }

    /// How far this clock is ahead of the wall's, if that is worth a word: then some process on this store has had a
    /// clock that was wrong, or this one's is.
    #[must_use]
    pub fn ahead(&self) -> Option<Nanos> {
        Some(self.now().since(wall())).filter(|ahead| *ahead > Nanos::MINUTE)
    }

    /// When the tokio timer has to fire for a moment of the steady time. Never sooner.
    #[must_use]
    pub fn deadline(&self, at: WallTime) -> tokio::time::Instant {
        let after = Duration::from_nanos(at.since(self.base).0);
        let far = Duration::from_secs(86_400 * 365);
        tokio::time::Instant::from_std(self.began + after.min(self.began.elapsed() + far))
    }
}

/// What tokio's timers compare with.
#[must_use]
pub fn tokio_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// The real wall clock, for those who read it elsewhere.
#[must_use]
pub fn wall() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Bytes that nobody can guess. The one home of chance, as this is of time.
///
/// # Panics
/// When the operating system has no randomness to give, which it says at its start or never.
#[must_use]
pub fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// Bytes that make an id unlike any other. Unlike [`random`] it does not ask the system each time: a system call is a
/// notable part of what an event costs. Not for secrets.
///
/// # Panics
/// As [`random`] does.
#[must_use]
pub fn unique<const BYTES: usize>() -> [u8; BYTES] {
    const AT_ONCE: usize = 1_024;
    const { assert!(BYTES <= AT_ONCE) };
    thread_local! {
        static UNUSED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    UNUSED.with_borrow_mut(|unused| {
        if unused.len() < BYTES {
            unused.clear();
            unused.extend(random::<AT_ONCE>());
        }
        let rest = unused.len().saturating_sub(BYTES);
        let mut bytes = [0; BYTES];
        // Each byte is used once, at most.
        bytes.iter_mut().zip(unused.drain(rest..)).for_each(|(to, from)| *to = from);
        bytes
    })
}

/// The engine's scale is the store's: nanoseconds since 1970 by the steady clock.
#[must_use]
pub const fn instant(at: WallTime) -> Instant {
    Instant(at.0)
}

/// The store's scale is the engine's.
#[must_use]
pub const fn wall_time(at: Instant) -> WallTime {
    WallTime(at.0)
}

/// A moment that another process on the same machine can compare with its own, whatever the wall clock did meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Which run of the machine.
    boot: String,
    /// How long that had run.
    uptime: u64,
}

impl Moment {
    /// The moment when a run of the machine, named `boot`, had lasted for `uptime`.
    #[must_use]
    pub fn at(boot: &str, uptime: Nanos) -> Self {
        Self { boot: boot.to_owned(), uptime: uptime.0 }
    }

    /// Now. Nothing where the machine does not tell.
    #[must_use]
    pub fn now() -> Option<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
        let (seconds, hundredths) = uptime.split_ascii_whitespace().next()?.split_once('.')?;
        let hundredths: u64 = hundredths.parse::<u64>().ok()?.checked_mul(10_000_000)?;
        let seconds = seconds.parse::<u64>().ok()?.checked_mul(Nanos::SECOND.0)?;
        Some(Self { boot: boot.trim().to_owned(), uptime: seconds.checked_add(hundredths)? })
    }

    /// How much time has surely passed since `earlier`: nothing, if the machine was started anew between.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Nanos {
        // The uptime counts in hundredths: one less has surely passed.
        const TICK: u64 = 10_000_000;
        let passed = self.uptime.saturating_sub(earlier.uptime).saturating_sub(TICK);
        Nanos(if self.boot == earlier.boot { passed } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_never_behind_what_the_store_has_seen() {
        let ahead = WallTime(wall().0 + Nanos::HOUR.0);
        assert!(Clock::new(ahead).now() >= ahead);
        assert!(Clock::new(WallTime(0)).now() >= WallTime(1_700_000_000 * Nanos::SECOND.0));
    }

    #[test]
    fn only_time_of_the_same_boot_counts() {
        let moment = |boot: &str, uptime| Moment { boot: boot.to_owned(), uptime };
        let second = Nanos::SECOND.0;
        assert_eq!(moment("a", 5 * second).since(&moment("a", second)), Nanos::from_millis(3_990));
        assert_eq!(moment("a", 5 * second).since(&moment("b", second)), Nanos::ZERO);
        assert_eq!(moment("a", second).since(&moment("a", 5 * second)), Nanos::ZERO);
    }

    #[test]
    fn this_machine_tells_its_moment() {
        let earlier = Moment::now().expect("Linux tells");
        assert!(Moment::now().expect("Linux tells").since(&earlier) < Nanos::HOUR);
    }
}
