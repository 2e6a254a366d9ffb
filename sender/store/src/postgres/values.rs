//! Values that PostgreSQL accepts.

pub(super) use hookproof_words::ids::{int, size};
pub(super) use hookproof_words::postgres::{Bits, Count};

use crate::lane::Counts;

/// Replaces NUL, which PostgreSQL's texts cannot hold.
pub(super) fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Whether PostgreSQL accepts the text. No stored text can equal one that it does not accept.
pub(super) fn is_storable(text: &str) -> bool {
    !text.contains('\0')
}

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
