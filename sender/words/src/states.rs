use crate::time::StoreTime;

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
    /// Records new deliveries.
    #[must_use]
    pub const fn accepts(self) -> bool {
        matches!(self, Self::Active | Self::Paused)
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Disabled => "disabled",
            Self::Removed => "removed",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WhenFull {
    /// Makes room: unclaimed deliveries with the oldest due times become dead letters (`overflow`). If there
    /// are none, the new delivery does.
    ShedOldest,
    Refuse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    Waiting,
    Delivered,
    Dead,
    /// Replaced by a newer one.
    Coalesced,
    /// Its content was erased for a data subject before it was delivered.
    Forgotten,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The endpoint accepted it.
    Delivered,
    /// Tried again.
    Retry { due: StoreTime },
    /// Becomes a dead letter. [`Reason::Gone`] also disables the lane, even if the delivery has left it.
    Dead(Reason),
    /// Unchanged; it waits as before.
    Released,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    Exhausted,
    Expired,
    /// It made room for others.
    Overflow,
    /// The endpoint answered 410, or the subscriber was removed.
    Gone,
    /// A part of it is missing in the store, or invalid.
    Unreadable,
    /// An operator gave it up.
    Shed,
}

impl Reason {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Expired => "expired",
            Self::Overflow => "overflow",
            Self::Gone => "gone",
            Self::Unreadable => "unreadable",
            Self::Shed => "shed",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttemptOutcome {
    Delivered,
    Rejected,
    /// No byte of the request left.
    Unsent,
    /// No complete answer.
    Silent,
}

/// A lasting condition of a subscriber that operators are notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
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

/// What a job does to each of its deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobKind {
    /// Dead letters wait again.
    Redrive,
    /// Dead letters are deleted.
    Purge,
    /// Waiting deliveries become dead letters.
    Shed,
    /// Delivered ones are sent again.
    Replay,
}

impl JobKind {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::Purge => "purge",
            Self::Shed => "shed",
            Self::Replay => "replay",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    Running,
    Paused,
    Done,
    Cancelled,
    Failed,
}

impl JobState {
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled | Self::Failed)
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// The requests that a token of the API allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Everything.
    Admin,
    /// As [`Scope::Read`], and every act but to add, change, remove or rotate a subscriber, to emit, to forget, or to
    /// make or revoke a token.
    Operate,
    /// Every `GET` but the list of tokens.
    Read,
    /// `POST /v1/events` alone.
    Emit,
}

impl Scope {
    pub const ALL: [Self; 4] = [Self::Admin, Self::Operate, Self::Read, Self::Emit];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Operate => "operate",
            Self::Read => "read",
            Self::Emit => "emit",
        }
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    #[must_use]
    pub const fn includes(self, needed: Self) -> bool {
        match self {
            Self::Admin => true,
            Self::Operate => matches!(needed, Self::Operate | Self::Read),
            Self::Read => matches!(needed, Self::Read),
            Self::Emit => matches!(needed, Self::Emit),
        }
    }
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
    Reason { 0 = Exhausted, 1 = Expired, 2 = Overflow, 3 = Gone, 4 = Unreadable, 5 = Shed }
    AttemptOutcome { 0 = Delivered, 1 = Rejected, 2 = Unsent, 3 = Silent }
    Condition { 0 = Failing, 1 = Disabled, 2 = Behind, 3 = DeadLetters }
    Measure { 0 = Answer, 1 = FirstAttempt, 2 = Delivery }
    JobKind { 0 = Redrive, 1 = Purge, 2 = Shed, 3 = Replay }
    JobState { 0 = Running, 1 = Paused, 2 = Done, 3 = Cancelled, 4 = Failed }
    Scope { 0 = Admin, 1 = Operate, 2 = Read, 3 = Emit }
}
