//! Names for the things that the engine and its driver talk about, beside those of [`hookproof_words::ids`].

pub use hookproof_words::ids::{DeliveryId, LaneId, Term};

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
