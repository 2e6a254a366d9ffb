//! Numbers with a type of their own, so that a delivery can't be mistaken for a lane.

use std::fmt;

/// One subscriber's lane: the store's own number for the subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u64);

/// One delivery: the store's own number for its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub u64);

/// One ownership of a lane, as the store counts them. It grows with every takeover, so that the store can refuse
/// what an owner says after it lost the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

/// Who owns lanes: one process's run. Drawn at random at its start, so that no two are alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub u64);

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "owner {:x}", self.0)
    }
}

/// A row of the outbox: any program may give it any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutboxId(pub i64);

impl OutboxId {
    /// Numbers from there on are refused: after the highest that there is, SQLite has none left for anybody.
    pub const END: Self = Self(1 << 62);

    /// Whether it is a number as the outbox gives them out itself.
    #[must_use]
    pub const fn is_ordinary(self) -> bool {
        1 <= self.0 && self.0 < Self::END.0
    }
}
