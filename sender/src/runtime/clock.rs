//! The only module that reads clocks.
//!
//! The sender counts by a *steady* clock: the wall clock at process start, plus the time since then on
//! [`crate::boot_clock`], suspended time included. A wall clock set back neither delays deliveries nor sends any
//! early. The wall clock gives the times that others compare: timestamps in signatures and bodies, and the expiry of
//! old secrets.

#![expect(clippy::disallowed_methods, reason = "everybody else gets the time from here")]

use std::cell::RefCell;
use std::future::pending;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::timeout;
use tracing::{error, info, warn};

use crate::boot_clock::{self, BootClock, BootTime};
use crate::engine::{Nanos, StoreTime};
use crate::store::clock::{BACK_MAX, Beginning, Fault, MachineMoment, Start};
use crate::store::lane::OwnerId;
use crate::store::liveness::Liveness;
use crate::store::{Reader, Store, StoreError};

/// Tokio's clock does not count suspended time: a longer timer would fire late.
const TIMER_MAX: Duration = Duration::from_secs(1);

pub(crate) async fn rest(length: Nanos) {
    let passed = timeout(Duration::from_nanos(length.0), pending::<()>()).await;
    debug_assert!(passed.is_err(), "a pending future never completes");
}

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    boot: BootClock,
    began: BootTime,
    base: StoreTime,
}

impl Clock {
    #[must_use]
    pub fn at(boot: BootClock, base: StoreTime) -> Self {
        Self { boot, began: boot.now(), base }
    }

    #[must_use]
    pub fn now(&self) -> StoreTime {
        StoreTime(self.base.0.saturating_add(self.boot.now().since(self.began).0))
    }

    #[must_use]
    pub const fn boot(&self) -> BootClock {
        self.boot
    }

    /// `None` below a minute. Else this machine's clock, or an earlier process's, is or was wrong.
    #[must_use]
    pub fn ahead(&self) -> Option<Nanos> {
        Some(self.now().since(wall())).filter(|ahead| *ahead > Nanos::MINUTE)
    }

    /// `None` below a minute. Else the wall clock was set forward.
    #[must_use]
    pub fn behind(&self) -> Option<Nanos> {
        Some(wall().since(self.now())).filter(|behind| *behind > Nanos::MINUTE)
    }

    /// The machine's time at `at`, which is not before this clock began.
    #[must_use]
    pub fn boot_time(&self, at: StoreTime) -> BootTime {
        self.began.after(at.since(self.base))
    }

    /// Waits until the steady time is `at`, never less.
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

#[must_use]
pub fn wall() -> StoreTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    StoreTime(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Unpredictable bytes. The only source of randomness.
///
/// # Panics
/// When the operating system has none.
#[must_use]
pub fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// Not for secrets. Makes one system call for many ids.
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
        bytes.iter_mut().zip(unused.drain(rest..)).for_each(|(to, from)| *to = from);
        bytes
    })
}

// The store decides it ([`crate::store::clock`]).

/// Beyond this difference from the wall clock, an operator must act.
pub const FAR_OFF: Nanos = Nanos::HOUR;

pub(super) fn begin(
    store: &mut dyn Store,
    liveness: &dyn Liveness,
    ourselves: OwnerId,
    boot: BootClock,
) -> Result<Clock, StoreError> {
    let start = begin_within(BACK_MAX, store, liveness, Some(ourselves))?;
    match start.fault {
        None => {}
        Some(Fault::Corrected(ahead)) => warn!(
            %ahead,
            "the database's clock was ahead of the wall clock, because a wall clock had been wrong; it follows \
             the wall clock again, and times written to a file meanwhile are corrected"
        ),
        Some(Fault::Kept(ahead)) => error!(
            %ahead,
            "the database's clock is ahead of the wall clock (of the database server, if there is one) and \
             stays so: other processes use it, or the wall clock is wrong; deliveries expire by the wall clock; \
             see `doctor`, and for a file `doctor --mend`"
        ),
    }
    let clock = Clock::at(boot, start.now);
    if let Some(behind) = clock.behind() {
        info!(%behind, "the wall clock was set forward; the database's clock follows after a restart of the machine");
    }
    Ok(clock)
}

/// Bounds how far the time is set back.
pub(crate) fn begin_within(
    back_max: Nanos,
    store: &mut dyn Store,
    liveness: &dyn Liveness,
    ourselves: Option<OwnerId>,
) -> Result<Start, StoreError> {
    let alone = !liveness.others_may_live(ourselves);
    store.begin_clock(Beginning { wall: wall(), machine: machine().as_ref(), alone, back_max })
}

/// Writes nothing.
pub(crate) fn read_clock(reader: &dyn Reader, liveness: &dyn Liveness) -> Result<Start, StoreError> {
    let alone = !liveness.others_may_live(None);
    reader.read_clock(Beginning { wall: wall(), machine: machine().as_ref(), alone, back_max: BACK_MAX })
}

fn machine() -> Option<MachineMoment> {
    let moment = boot_clock::moment()?;
    let (boot, uptime) = moment.parts();
    Some(MachineMoment { boot: boot.into(), uptime })
}
