use std::fmt::{Debug, Display};
use std::ops::RangeInclusive;

/// A setting outside the range of the engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}: allowed is {allowed}")]
pub struct OutOfRange {
    /// The setting's name, as users write it: `limit.burst`.
    pub field: &'static str,
    /// The rejected value.
    pub value: String,
    /// The allowed range.
    pub allowed: String,
}

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
