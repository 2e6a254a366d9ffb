//! Limits on events.

use std::fmt;

/// The limits on offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// As offered, in bytes. The body is about 300 bytes longer at most. Pseudonyms may lengthen the data to
    /// [`Limits::EVENT_BYTES`], or the offered length if more, plus
    /// [`Shaping::GROWTH_BYTES_MAX`](super::Shaping::GROWTH_BYTES_MAX).
    pub event_bytes_max: usize,
    /// The longest batch in bytes.
    pub batch_bytes_max: usize,
    /// The most events in a batch.
    pub batch_events_max: usize,
    /// The event itself is the first level.
    pub depth_max: Depth,
}

impl Limits {
    /// Receivers must accept 20 kB and should accept 1 MB.
    pub const EVENT_BYTES: usize = 1 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            event_bytes_max: Self::EVENT_BYTES,
            batch_bytes_max: 16 << 20,
            batch_events_max: 10_000,
            depth_max: Depth::DEFAULT,
        }
    }
}

/// A number of JSON levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Depth(usize);

impl Depth {
    /// Many parsers stop at 128 levels; applications may wrap the body.
    pub const MAX: Self = Self(120);
    /// Deeper than handwritten events.
    pub const DEFAULT: Self = Self(64);

    /// From 1 to [`Depth::MAX`] levels.
    pub const fn new(levels: usize) -> Result<Self, DepthError> {
        if levels >= 1 && levels <= Self::MAX.0 { Ok(Self(levels)) } else { Err(DepthError { levels }) }
    }

    /// The number of levels.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of levels is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit on JSON's depth is {levels}; expected 1 to {}", Depth::MAX)]
pub struct DepthError {
    levels: usize,
}
