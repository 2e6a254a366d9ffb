use super::secret::Secret;
use crate::engine::time::StoreTime;
use crate::store::command::SECRETS_MAX;

/// A subscriber's keys; few, since each one signs.
#[derive(Clone, Debug)]
pub struct Keys {
    current: Secret,
    /// The most recent first.
    retiring: Vec<Retiring>,
}

/// A former key, which still signs until it retires.
#[derive(Clone, Debug)]
pub struct Retiring {
    secret: Secret,
    until: StoreTime,
}

impl Retiring {
    /// A key that signs until `until`, exclusive.
    #[must_use]
    pub const fn new(secret: Secret, until: StoreTime) -> Self {
        Self { secret, until }
    }

    /// The key.
    #[must_use]
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// When it retires.
    #[must_use]
    pub const fn until(&self) -> StoreTime {
        self.until
    }
}

impl Keys {
    /// The most keys that sign at once. A rotation beyond it is refused.
    pub const COUNT_MAX: usize = SECRETS_MAX;

    /// One key alone, also to drop all others when one was exposed.
    #[must_use]
    pub const fn new(current: Secret) -> Self {
        Self { current, retiring: Vec::new() }
    }

    /// Stored keys. The most recent of `retiring` must be first.
    pub fn from_parts(current: Secret, retiring: Vec<Retiring>) -> Result<Self, KeysError> {
        if retiring.len() >= Self::COUNT_MAX {
            return Err(KeysError::TooMany { count: retiring.len() + 1 });
        }
        Ok(Self { current, retiring })
    }

    /// The former key signs until `until`; keys that have retired by `now` are removed.
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

    /// The current key.
    #[must_use]
    pub const fn current(&self) -> &Secret {
        &self.current
    }

    /// The retiring keys, the most recent first.
    #[must_use]
    pub fn retiring(&self) -> &[Retiring] {
        &self.retiring
    }
}

/// The set of keys is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// More than [`Keys::COUNT_MAX`].
    #[error("{count} keys would sign at once; at most {} may, so wait until one retires", Keys::COUNT_MAX)]
    TooMany {
        /// Their number.
        count: usize,
    },
}
