//! The one error for a figure outside its range.

use std::fmt::{Debug, Display};
use std::ops::RangeInclusive;

/// A setting that the engine can't work with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}: allowed is {allowed}")]
pub struct OutOfRange {
    /// Which setting, as users write it: `limit.burst`.
    pub field: &'static str,
    /// What it was.
    pub value: String,
    /// What it may be.
    pub allowed: String,
}

/// Lets `value` through if it lies in `range`.
pub(super) fn within<T>(field: &'static str, value: T, range: RangeInclusive<T>) -> Result<T, OutOfRange>
where
    T: PartialOrd + Display + Debug,
{
    if range.contains(&value) {
        return Ok(value);
    }
    let allowed = format!("{} to {}", range.start(), range.end());
    Err(OutOfRange { field, value: value.to_string(), allowed })
}
