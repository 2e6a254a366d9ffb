//! States and kinds in a store.

use crate::time::StoreTime;

/// The operations that a subscriber's state allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneState {
    /// Events are recorded and delivered.
    Active,
    /// Events are recorded; an operator stopped their delivery.
    Paused,
    /// The endpoint answered 410, or failed for long: new events are not recorded, and waiting deliveries keep waiting.
    Disabled,
    /// An operator removed it: new events are not recorded, and waiting deliveries become dead letters.
    Removed,
}

impl LaneState {
    /// True if new deliveries are recorded.
    #[must_use]
    pub const fn accepts(self) -> bool {
        matches!(self, Self::Active | Self::Paused)
    }
}

/// The rule of a full lane for a new delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WhenFull {
    /// Makes room: unclaimed deliveries with the oldest due times become dead letters (`overflow`). If there
    /// are none, the new delivery does.
    ShedOldest,
    /// Refuses the event.
    Refuse,
}

/// The state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    Waiting,
    /// Accepted by the endpoint.
    Delivered,
    Dead,
    /// Replaced by a newer one.
    Coalesced,
    /// Its content was erased for a data subject before it was delivered.
    Forgotten,
}

/// The next step of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The endpoint accepted it.
    Delivered,
    /// Try again later.
    Retry { due: StoreTime },
    /// Becomes a dead letter. [`Reason::Gone`] also disables the lane, even if the delivery has left it.
    Dead(Reason),
    /// Unchanged; it waits as before.
    Released,
}

/// The reason to give a delivery up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// All attempts failed.
    Exhausted,
    /// Its time to live ended.
    Expired,
    /// It made room for others, or an operator shed it.
    Overflow,
    /// The endpoint answered 410, or the subscriber was removed.
    Gone,
    /// A part of it is missing in the store, or invalid.
    Unreadable,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttemptOutcome {
    /// Answered with success.
    Delivered,
    /// Answered with a failure.
    Rejected,
    /// No byte of the request left.
    Unsent,
    /// No complete answer.
    Silent,
}

/// A lasting condition of a subscriber that operators are notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// Its circuit breaker is open.
    Failing,
    Disabled,
    Behind,
    DeadLetters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// The duration of an attempt that sent at least a byte.
    Answer,
    /// From the receipt of an event to the first attempt of its delivery.
    FirstAttempt,
    /// From the receipt of an event to the end of the successful attempt.
    Delivery,
}

macro_rules! codes {
    ($($name:ident { $($code:literal = $case:ident),* })*) => { $(
        #[cfg(any(feature = "sqlite", feature = "postgres"))]
        impl $name {
            pub(crate) const fn code(self) -> i16 {
                match self { $(Self::$case => $code,)* }
            }

            pub(crate) const fn of_code(code: i64) -> Option<Self> {
                match code {
                    $($code => Some(Self::$case),)*
                    _ => None,
                }
            }
        }
    )* };
}

// Both stores contain these codes: add, never change.
codes! {
    LaneState { 0 = Active, 1 = Paused, 2 = Disabled, 3 = Removed }
    WhenFull { 0 = ShedOldest, 1 = Refuse }
    Place { 0 = Waiting, 1 = Delivered, 2 = Dead, 3 = Coalesced, 4 = Forgotten }
    Reason { 0 = Exhausted, 1 = Expired, 2 = Overflow, 3 = Gone, 4 = Unreadable }
    AttemptOutcome { 0 = Delivered, 1 = Rejected, 2 = Unsent, 3 = Silent }
    Condition { 0 = Failing, 1 = Disabled, 2 = Behind, 3 = DeadLetters }
    Measure { 0 = Answer, 1 = FirstAttempt, 2 = Delivery }
}
