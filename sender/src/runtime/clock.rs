//! The one home of clocks.
//!
//! The sender counts by a *steady* clock: the wall clock as it was when the process began, plus the time that has
//! passed since on the machine's [`crate::boot_clock`]. It never steps, so that a wall clock set back by an hour neither
//! holds deliveries back nor lets any out early, and it counts the time in which the machine was suspended. What others
//! compare with clocks of their own is told by the real wall clock: the timestamps in signatures and in bodies, and until
//! when an old secret signs.
#![expect(clippy::disallowed_methods, reason = "everybody else gets the time from here")]

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use crate::boot_clock::Moment;
use crate::boot_clock::{BootClock, BootTime};
pub use crate::dispatch::{instant, wall_time};
use crate::engine::{Nanos, StoreTime};

/// The longest that a timer of tokio's runs. Its clock stands still while the machine is suspended, so that a longer one
/// would fire late by as much.
const TIMER_MAX: Duration = Duration::from_secs(1);

/// Tells the time. Copies tell the same.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    boot: BootClock,
    began: BootTime,
    base: StoreTime,
}

impl Clock {
    /// A clock that shows this time now, whatever the wall clock shows.
    #[must_use]
    pub fn at(boot: BootClock, base: StoreTime) -> Self {
        Self { boot, began: boot.now(), base }
    }

    /// The steady time, as the store counts it.
    #[must_use]
    pub fn now(&self) -> StoreTime {
        StoreTime(self.base.0.saturating_add(self.boot.now().since(self.began).0))
    }

    /// The machine's clock beneath it.
    #[must_use]
    pub const fn boot(&self) -> BootClock {
        self.boot
    }

    /// How far this clock is ahead of the wall's, if that is worth a word: then some process on this store has had a
    /// clock that was wrong, or this one's is.
    #[must_use]
    pub fn ahead(&self) -> Option<Nanos> {
        Some(self.now().since(wall())).filter(|ahead| *ahead > Nanos::MINUTE)
    }

    /// The same, where this clock is behind: the wall clock was set forward since the machine began to run.
    #[must_use]
    pub fn behind(&self) -> Option<Nanos> {
        Some(wall().since(self.now())).filter(|behind| *behind > Nanos::MINUTE)
    }

    /// The machine's time at a moment of the steady one, which is not before this clock began.
    #[must_use]
    pub fn boot_time(&self, at: StoreTime) -> BootTime {
        self.began.after(at.since(self.base))
    }

    /// Waits until the steady time has come to `at`. Never returns sooner.
    pub async fn reached(&self, at: StoreTime) {
        loop {
            let left = at.since(self.now());
            if left == Nanos::ZERO {
                return;
            }
            tokio::time::sleep(Duration::from_nanos(left.0).min(TIMER_MAX)).await;
        }
    }
}

/// The real wall clock, for those who read it elsewhere.
#[must_use]
pub fn wall() -> StoreTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    StoreTime(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
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
