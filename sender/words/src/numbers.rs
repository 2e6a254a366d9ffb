//! Conversions for databases.

/// A signed number for a database; larger values become the largest one.
#[must_use]
pub fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A length in memory.
#[must_use]
pub fn size(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
