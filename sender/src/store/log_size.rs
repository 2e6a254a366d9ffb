//! How long the log is, of a store that writes to one first and moves its content later.

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

/// Why the log is long.
pub(crate) const fn why_long(is_held: bool) -> &'static str {
    if is_held {
        "some program has been reading the database for long: end its transaction"
    } else {
        "the disk can't keep up with what is written: look for what else uses it"
    }
}
