//! Numbers between memory and databases.

/// A number for a database, which has signed ones: what is larger than the largest of those counts as that.
#[must_use]
pub fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A length in memory.
#[must_use]
pub fn size(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
