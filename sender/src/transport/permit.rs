//! The right to send a request. It is looked at before the first byte is written, because that is the last moment at which
//! the request can still be held back; and once the lane's lease is over, which ends what is under way.
//!
//! Over HTTP/2 many requests share a connection. One that waits to be written when its lane withdraws its consent is taken back
//! from the connection. If the connection is about to write it in that very moment, nothing but ending the connection holds
//! it back, and that also cuts off the others on it: they are in doubt, and nothing is held against the endpoint. All of them are
//! of one lane.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use crate::boot_clock::BootTime;

/// What has to hold when the first byte of a request is written, whatever the request waited for until then.
#[derive(Clone, Debug)]
pub struct SendPermit {
    /// When the attempt is over. It counts from when the attempt was decided on, because the next owner of the lane counts
    /// from there too.
    pub deadline: BootTime,
    /// The lane's lease. Once it is over, another process may be sending, and takes it that nothing of this one is open.
    pub lease: Lease,
    /// Cancelled when the lane is paused, changed, lost or given back.
    pub cancelled: CancellationToken,
}

impl SendPermit {
    /// Whether the first byte may be written now.
    ///
    /// # Errors
    /// [`Failure::Withdrawn`] if it may not.
    pub fn check(&self, now: BootTime) -> Result<(), Failure> {
        if self.is_revoked(now) || self.deadline <= now { Err(Failure::Withdrawn) } else { Ok(()) }
    }

    /// Whether the lane may send nothing at all any more, apart from the attempt's own deadline.
    pub(super) fn is_revoked(&self, now: BootTime) -> bool {
        self.lease.is_over(now) || self.cancelled.is_cancelled()
    }

    /// Whether later bytes of a request that has begun may be written. Consent is not asked for again: a pause does not cut
    /// what is under way.
    pub(super) fn check_rest(&self, now: BootTime) -> Result<(), Failure> {
        if self.lease.is_over(now) || self.deadline <= now { Err(Failure::Withdrawn) } else { Ok(()) }
    }

    /// How long until the deadline.
    pub(super) const fn remaining(&self, now: BootTime) -> Duration {
        Duration::from_nanos(self.deadline.since(now).0)
    }
}

/// Until when a lane is this process's. Clones are of the same lease, so a renewal reaches attempts under way.
#[derive(Clone, Debug)]
pub struct Lease(Arc<AtomicU64>);

impl Lease {
    /// A lease that holds until then, that moment excluded.
    #[must_use]
    pub fn until(end: BootTime) -> Self {
        Self(Arc::new(AtomicU64::new(end.0)))
    }

    /// The lease was renewed. It never becomes shorter.
    pub fn extend(&self, end: BootTime) {
        self.0.fetch_max(end.0, Ordering::AcqRel);
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_over(&self, now: BootTime) -> bool {
        self.end() <= now
    }

    /// Until when it holds, as far as is known now.
    #[must_use]
    pub fn end(&self) -> BootTime {
        BootTime(self.0.load(Ordering::Acquire))
    }

    /// For how much longer it holds, unless it is renewed.
    pub(super) fn remaining(&self, now: BootTime) -> Duration {
        Duration::from_nanos(self.end().since(now).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permit() -> SendPermit {
        SendPermit {
            deadline: BootTime(100),
            lease: Lease::until(BootTime(50)),
            cancelled: CancellationToken::new(),
        }
    }

    #[test]
    fn each_of_deadline_lease_and_consent_holds_a_request_back() {
        let held_back = |permit: &SendPermit, now| permit.check(BootTime(now)).is_err();
        let permit = permit();
        assert!(!held_back(&permit, 49) && held_back(&permit, 50), "the lease");
        permit.lease.extend(BootTime(200));
        permit.lease.extend(BootTime(1));
        assert!(!held_back(&permit, 99) && held_back(&permit, 100), "the deadline");
        permit.cancelled.cancel();
        assert!(held_back(&permit, 0), "the consent");
    }

    #[test]
    fn a_request_that_has_begun_is_cut_by_time_and_not_by_a_pause() {
        let permit = permit();
        permit.cancelled.cancel();
        assert!(permit.check_rest(BootTime(49)).is_ok());
        assert!(permit.check_rest(BootTime(50)).is_err());
    }
}
