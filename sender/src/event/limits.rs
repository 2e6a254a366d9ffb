//! How large and how deep an event may be.

use std::fmt;

/// The bounds on what an emitter may offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest event, as offered, in bytes. The body that is sent is at most some 300 bytes longer. Only pseudonyms make it
    /// longer than that: its data has at most [`Limits::EVENT_BYTES`], or what was offered if that is more, and
    /// [`Shaping::GROWTH_BYTES_MAX`](super::Shaping::GROWTH_BYTES_MAX) more.
    pub event_bytes_max: usize,
    /// The longest batch, in bytes.
    pub batch_bytes_max: usize,
    /// The most events in a batch.
    pub batch_events_max: usize,
    /// The most levels of arrays and objects in an event, the event itself being the first.
    pub depth_max: Depth,
}

impl Limits {
    /// Receivers must take 20 kB and should take 1 MB, so that is where an event ends.
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

/// How many levels deep JSON may be nested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Depth(usize);

impl Depth {
    /// Many parsers give up at 128 levels. The body puts no level of its own around an event's, since data stays
    /// where it was; a few are left for whoever wraps the body again.
    pub const MAX: Self = Self(120);
    /// Deeper than any event that a person wrote.
    pub const DEFAULT: Self = Self(64);

    /// So many levels, from 1 to [`Depth::MAX`].
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

/// A number of levels that cannot be promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit on JSON's depth is {levels}; expected 1 to {}", Depth::MAX)]
pub struct DepthError {
    levels: usize,
}
