//! The keys of one subscriber: the current one, and those that retire.

use super::secret::Secret;
use crate::engine::time::StoreTime;

/// A subscriber's keys. There are never many, since each signs.
#[derive(Clone, Debug)]
pub struct Keys {
    current: Secret,
    /// In the order in which they were current, the latest first.
    retiring: Vec<Retiring>,
}

/// A key that was current once, and signs beside the current one until it retires.
#[derive(Clone, Debug)]
pub struct Retiring {
    secret: Secret,
    until: StoreTime,
}

impl Retiring {
    /// A key that signs until then, and no more from then on.
    #[must_use]
    pub const fn new(secret: Secret, until: StoreTime) -> Self {
        Self { secret, until }
    }

    /// The key.
    #[must_use]
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// From then on it signs no more.
    #[must_use]
    pub const fn until(&self) -> StoreTime {
        self.until
    }
}

impl Keys {
    /// The most keys that sign at once. A rotation that would make more of them is refused.
    pub const COUNT_MAX: usize = 4;

    /// One key alone. Also the way to drop every other at once, when one became known.
    #[must_use]
    pub const fn new(current: Secret) -> Self {
        Self { current, retiring: Vec::new() }
    }

    /// Keys as they were stored: those that retire in the order in which they were current, the latest first.
    pub fn from_parts(current: Secret, retiring: Vec<Retiring>) -> Result<Self, KeysError> {
        if retiring.len() >= Self::COUNT_MAX {
            return Err(KeysError::TooMany { count: retiring.len() + 1 });
        }
        Ok(Self { current, retiring })
    }

    /// Makes a new key the current one. The one before signs on beside it until then; keys that have retired by now
    /// are forgotten.
    pub fn rotate(&mut self, now: StoreTime, new: Secret, until: StoreTime) -> Result<(), KeysError> {
        let staying = self.retiring.iter().filter(|key| now < key.until).count();
        if staying + 2 > Self::COUNT_MAX && now < until {
            return Err(KeysError::TooMany { count: staying + 2 });
        }
        self.retiring.retain(|key| now < key.until);
        let before = std::mem::replace(&mut self.current, new);
        if now < until {
            self.retiring.insert(0, Retiring { secret: before, until });
        }
        Ok(())
    }

    /// The key that all others make way for.
    #[must_use]
    pub const fn current(&self) -> &Secret {
        &self.current
    }

    /// Those that retire, the latest first.
    #[must_use]
    pub fn retiring(&self) -> &[Retiring] {
        &self.retiring
    }
}

/// Keys that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// More than [`Keys::COUNT_MAX`].
    #[error("{count} keys would sign at once; at most {} may, so wait until one retires", Keys::COUNT_MAX)]
    TooMany {
        /// How many there would be.
        count: usize,
    },
}
