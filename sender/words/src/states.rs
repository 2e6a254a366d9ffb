//! States and kinds that a store writes down.

/// What may be done for a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneState {
    /// Events are recorded and delivered.
    Active,
    /// Events are recorded; an operator holds their delivery back.
    Paused,
    /// The endpoint said that it is gone: nothing more is recorded; what waits goes on waiting.
    Disabled,
    /// An operator removed it: nothing more is recorded, what waits is given up.
    Removed,
}

impl LaneState {
    /// Whether new deliveries are recorded.
    #[must_use]
    pub const fn accepts(self) -> bool {
        matches!(self, Self::Active | Self::Paused)
    }
}

/// What a full lane does with one delivery more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WhenFull {
    /// Makes room: those longest due that nobody holds become dead letters (`overflow`). The new one itself does, if
    /// there are no others.
    ShedOldest,
    /// Refuses the event.
    Refuse,
}

/// Where a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Still owed.
    Waiting,
    /// Taken by the endpoint.
    Delivered,
    /// Given up.
    Dead,
    /// Replaced by a newer one.
    Coalesced,
}

/// Why a delivery was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// All its attempts failed.
    Exhausted,
    /// It grew older than its time to live.
    Expired,
    /// It made room for others, or an operator dropped it.
    Overflow,
    /// The endpoint or the subscriber wants nothing any more.
    Gone,
    /// Some part of it is missing in the store, or makes no sense.
    Unreadable,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Answered, and the answer means success.
    Delivered,
    /// Answered, and the answer means failure.
    Rejected,
    /// Not one byte of the request left.
    Unsent,
    /// No answer, or half of one.
    Silent,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// How long attempts took of which something was sent.
    Answer,
    /// From when an event was received to the first attempt of its delivery.
    FirstAttempt,
    /// From when an event was received to the end of the attempt that succeeded.
    Delivery,
}
