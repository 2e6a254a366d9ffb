//! What PostgreSQL takes, beside how it writes the store's words.

pub(super) use hookproof_words::numbers::{int, size};
pub(super) use hookproof_words::postgres::{Bits, Count};

use crate::store::lane::Counts;

/// A text that PostgreSQL takes: its texts have no character zero.
pub(super) fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Whether PostgreSQL takes a text: what it does not take is known to nobody there, and not to be asked for.
pub(super) fn is_storable(text: &str) -> bool {
    !text.contains('\0')
}

/// Counts in the order of their columns.
pub(super) const fn listed(counts: &Counts) -> [u64; 10] {
    [
        counts.accepted,
        counts.delivered,
        counts.dead,
        counts.coalesced,
        counts.waiting,
        counts.waiting_bytes,
        counts.retrying,
        counts.dead_kept,
        counts.failed_attempts,
        counts.latency_us,
    ]
}
