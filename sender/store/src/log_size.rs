//! How a store's files are: how long the log is, where a store writes to one first and moves its content later, and whether the
//! disk is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How long the log is, as the last commit or the last look found it. Copies are of the same; always nothing, where there is
/// no log that this process looks after.
#[derive(Clone, Debug, Default)]
pub struct LogSize(Arc<Found>);

#[derive(Debug, Default)]
struct Found {
    bytes: AtomicU64,
    is_held: AtomicBool,
}

impl LogSize {
    /// Beyond this length something keeps the log from being cut.
    pub const PINNED_BYTES: u64 = 128 << 20;

    /// In bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Whether some program that reads kept its content from being moved, or the log from being cut, at the last look.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.is_held.load(Ordering::Relaxed)
    }

    pub(super) fn set_bytes(&self, bytes: u64) {
        self.0.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn set_held(&self, is_held: bool) {
        self.0.is_held.store(is_held, Ordering::Relaxed);
    }
}

/// Whether the disk of a store is full, as the last commit found it. Copies are of the same; never, where the store is not on a disk
/// of ours.
#[derive(Clone, Debug)]
pub struct DiskRoom(Arc<AtomicU64>);

impl Default for DiskRoom {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(Self::ENOUGH)))
    }
}

impl DiskRoom {
    const ENOUGH: u64 = u64::MAX;

    /// Nothing while there is room. On a full disk, the bytes that are left of the room set aside for deliveries: no event is taken.
    #[must_use]
    pub fn reserve_left(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|left| *left != Self::ENOUGH)
    }

    pub(super) fn set_reserve_left(&self, bytes: Option<u64>) {
        self.0.store(bytes.unwrap_or(Self::ENOUGH), Ordering::Relaxed);
    }
}

/// Why the log is long.
#[must_use]
pub const fn why_long(is_held: bool) -> &'static str {
    if is_held {
        "some program has been reading the database for long: end its transaction"
    } else {
        "the disk can't keep up with what is written: look for what else uses it"
    }
}
