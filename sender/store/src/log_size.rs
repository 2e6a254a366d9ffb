//! The state of a store's files: the length of the write-ahead log, and whether the disk is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The length of the log at the last commit or look. Clones share it. 0 without a log of this process.
#[derive(Clone, Debug, Default)]
pub struct LogSize(Arc<Found>);

#[derive(Debug, Default)]
struct Found {
    bytes: AtomicU64,
    is_held: AtomicBool,
}

impl LogSize {
    /// Beyond this length, something keeps the log from being truncated.
    pub const PINNED_BYTES: u64 = 128 << 20;

    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Whether a reader blocked the move or the truncation at the last look.
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

/// Whether the store's disk was full at the last commit. Clones share it. Never full for a server.
#[derive(Clone, Debug)]
pub struct DiskRoom(Arc<AtomicU64>);

impl Default for DiskRoom {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(Self::ENOUGH)))
    }
}

impl DiskRoom {
    const ENOUGH: u64 = u64::MAX;

    /// On a full disk, the bytes left in the reserve for deliveries. Events are then refused. `None`: the disk has
    /// room.
    #[must_use]
    pub fn reserve_left(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|left| *left != Self::ENOUGH)
    }

    pub(super) fn set_reserve_left(&self, bytes: Option<u64>) {
        self.0.store(bytes.unwrap_or(Self::ENOUGH), Ordering::Relaxed);
    }
}

#[must_use]
pub const fn why_long(is_held: bool) -> &'static str {
    if is_held {
        "a program keeps a read transaction open on the database: end it"
    } else {
        "the disk is too slow for the writes: check for other programs that use it"
    }
}
