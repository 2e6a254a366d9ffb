//! Ids that the engine and its driver use, beside those of [`hookproof_words::ids`].

pub use hookproof_words::ids::{DeliveryId, LaneId, Term};

/// An attempt under way. An engine never reuses an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// A version of a lane's record. It grows within one ownership, so confirming one record confirms all earlier
/// ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A batch of settlements that the store has not confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);
