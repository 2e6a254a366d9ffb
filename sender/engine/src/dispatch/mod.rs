//! The dispatcher: everything that the sender decides around its engine, and nothing that it does.
//!
//! The [`crate::engine`] decides when a lane sends. The dispatcher decides the rest: which lanes this process asks for,
//! keeps and gives back, what it claims, what it has written down, what it does when the store fails and when it is to
//! stop. It owns the engine. Like the engine it has no clock, disk, socket or task:
//!
//! ```text
//!           handle(now, Event)                            poll() -> Option<Effect>
//!   shell ─────────────────────►  Dispatcher { Engine }  ──────────────────────────►  shell
//!                                        │
//!                                        └── next_wake(): call handle(…, Event::Tick) then, at the latest
//! ```
//!
//! Two shells carry its effects out: the runtime over sockets and disks, and the simulator in virtual time. Neither
//! decides anything, so what is simulated is what ships.
//!
//! Handle the events at hand, then poll until `None`, and carry the effects out in the order in which they come:
//!
//! | effect                | the shell does                                                   | and answers with       |
//! |-----------------------|------------------------------------------------------------------|------------------------|
//! | [`Effect::Send`]      | makes one attempt, if its [`SendLimits`] still allows it         | [`Event::Ended`]       |
//! | [`Effect::Withdraw`]  | holds back attempts of the lane that have not been written yet   | [`Event::Ended`], each |
//! | [`Effect::Forget`]    | the same, and lets its lease end                                 | [`Event::Ended`], each |
//! | [`Effect::Extend`]    | lets attempts under way go on for as long as the new lease       | nothing                |
//! | [`Effect::Ask`]       | has the store carry out a command                                | [`Event::Answered`]    |
//! | [`Effect::Persist`]   | encodes a lane's record, and has the store keep it               | [`Event::Answered`]    |
//! | [`Effect::Tell`]      | logs it                                                          | nothing                |
//!
//! What the store could not do is tried again, with pauses that double up to [`PAUSE_LONGEST`], for as long as the process
//! owns the lane. A batch of settlements that fails is halved until the rows that cannot be written are alone; their lane
//! claims nothing meanwhile. [`Dispatcher::stuck`] lists the lanes that cannot move, and why.
//!
//! Reading order: `event` and `effect` (what goes in and out), `subscribers` (what is asked of them), `dispatcher`, `ownership` (lanes come and go), `answers`
//! (what the store said), `membership` (which nodes there are, and what belongs to whom), then the bookkeeping: `tenure`,
//! `lanes`, `budget` (bytes of bodies in memory), `records`, `unsettled`, `obstacles`, `work`; and what a lane's record looks
//! like on its way to the next owner: `handover`.

mod answers;
mod budget;
mod dispatcher;
mod effect;
mod event;
pub mod handover;
mod lanes;
mod membership;
mod moment;
mod obstacles;
mod ownership;
mod records;
mod subscribers;
mod tenure;
mod unsettled;
mod work;

pub use budget::{BODY_BYTES_MAX, CLAIM_BYTES_MAX, Portion};
pub use dispatcher::{Dispatcher, Settings};
pub use effect::{Effect, NewAttempt, News, SendLimits};
pub use event::{Answered, AttemptEnd, Event, Failure, Order};
pub use membership::{MOVES_MAX, SETTLED_AFTER};
pub use moment::Moment;
pub use obstacles::{PAUSE_LONGEST, STUCK_MAX, Stuck};
pub use subscribers::{Subscriber, SubscriberSet};
pub use tenure::{LEASE_DEFAULT, LEASES};
pub use work::WorkDone;

use crate::engine::{Instant, StoreTime};

/// The engine's scale is the store's: nanoseconds since 1970 by the steady clock.
#[must_use]
pub const fn instant(at: StoreTime) -> Instant {
    Instant(at.0)
}

/// The store's scale is the engine's.
#[must_use]
pub const fn wall_time(at: Instant) -> StoreTime {
    StoreTime(at.0)
}
