//! The right to send a request, checked before the first byte and when the lane's lease ends.
//!
//! Over HTTP/2, a request that waits when its lane withdraws consent is taken back. If it is just being written, only
//! ending the connection stops it: the lane's other requests on it are then in doubt, and do not count against the
//! endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use crate::boot_clock::BootTime;

#[derive(Clone, Debug)]
pub struct SendPermit {
    /// Counted from the decision to make the attempt, as the next owner of the lane does.
    pub deadline: BootTime,
    /// After its end another process may send, and relies on this one having nothing open.
    pub lease: Lease,
    /// Cancelled when the lane is paused, changed, lost or released.
    pub cancelled: CancellationToken,
}

impl SendPermit {
    /// [`Failure::Withdrawn`] if the first byte may not be written now.
    pub fn check(&self, now: BootTime) -> Result<(), Failure> {
        if self.is_revoked(now) || self.deadline <= now { Err(Failure::Withdrawn) } else { Ok(()) }
    }

    /// Whether the lane may send nothing more. Does not check the attempt's own deadline.
    pub(super) fn is_revoked(&self, now: BootTime) -> bool {
        self.lease.is_over(now) || self.cancelled.is_cancelled()
    }

    /// Later bytes need no consent: a pause does not cut requests under way.
    pub(super) fn check_rest(&self, now: BootTime) -> Result<(), Failure> {
        if self.lease.is_over(now) || self.deadline <= now { Err(Failure::Withdrawn) } else { Ok(()) }
    }

    pub(super) const fn remaining(&self, now: BootTime) -> Duration {
        Duration::from_nanos(self.deadline.since(now).0)
    }
}

/// Clones share it, so a renewal reaches attempts under way.
#[derive(Clone, Debug)]
pub struct Lease(Arc<AtomicU64>);

impl Lease {
    /// A lease that ends at `end`, exclusive.
    #[must_use]
    pub fn until(end: BootTime) -> Self {
        Self(Arc::new(AtomicU64::new(end.0)))
    }

    /// Renews the lease. It never becomes shorter.
    pub fn extend(&self, end: BootTime) {
        self.0.fetch_max(end.0, Ordering::AcqRel);
    }

    #[must_use]
    pub fn is_over(&self, now: BootTime) -> bool {
        self.end() <= now
    }

    #[must_use]
    pub fn end(&self) -> BootTime {
        BootTime(self.0.load(Ordering::Acquire))
    }

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
