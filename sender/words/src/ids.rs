//! Typed ids, so that the compiler tells a delivery from a lane; and numbers for databases.

use std::fmt;

/// A lane: the store's number of its subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u64);

/// A delivery: the store's number of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub u64);

/// One ownership of a lane, used as a fencing token. It grows with every takeover, so the store can refuse
/// writes of an older owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

/// A job, numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// An owner of lanes: one run of a process. Drawn at random at its start, so it is unique.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub u64);

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "owner {:x}", self.0)
    }
}

/// A row of the outbox. Any program may choose its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutboxId(pub i64);

impl OutboxId {
    /// Numbers from here on are refused: after the highest number, SQLite cannot assign another.
    pub const END: Self = Self(1 << 62);

    /// True for a number as the outbox itself assigns them.
    #[must_use]
    pub const fn is_ordinary(self) -> bool {
        1 <= self.0 && self.0 < Self::END.0
    }
}

/// A signed number for a database; larger values become the largest one.
#[must_use]
pub fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A length in memory, as a number for a database.
#[must_use]
pub fn size(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
