//! Names for the things that the engine and its driver talk about. Each is a number with a type of its own, so
//! that a delivery can't be mistaken for a lane.

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

/// One attempt under way. The engine makes these; they are never used twice within one engine's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// One state of a lane's record. It grows with every record of one ownership, so that the answer to one tells of those
/// before it as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// One batch of settlements handed to the store and not yet answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);
