//! The dispatcher owns the engine, which decides when a lane sends, and decides the rest without performing any of it:
//! leases, claims, records, settlements, retries after failures of the store, and stopping. It has no clock, disk,
//! socket or task:
//!
//! ```text
//!           handle(now, Event)                            poll() -> Option<Effect>
//!   shell ─────────────────────►  Dispatcher { Engine }  ──────────────────────────►  shell
//!                                        │
//!                                        └── next_wake(): call handle(…, Event::Tick) then, at the latest
//! ```
//!
//! Handle the events at hand, then poll until `None`, and carry the effects out in order. Two shells do so: the runtime
//! over sockets and disks, and the simulator in virtual time. Neither decides anything.
//!
//! | effect               | action of the shell                                    | answer                 |
//! |----------------------|--------------------------------------------------------|------------------------|
//! | [`Effect::Send`]     | makes one attempt, if its [`SendLimits`] allow it      | [`Event::Ended`]       |
//! | [`Effect::Withdraw`] | withholds the lane's attempts without a written byte   | [`Event::Ended`], each |
//! | [`Effect::Forget`]   | the same, and lets the lane's lease end                | [`Event::Ended`], each |
//! | [`Effect::Extend`]   | lets attempts under way continue until the new end     | nothing                |
//! | [`Effect::Submit`]   | submits a command to the store                         | [`Event::Answered`]    |
//! | [`Effect::Persist`]  | encodes a lane's record and submits it to the store    | [`Event::Answered`]    |
//! | [`Effect::Report`]   | logs it                                                | nothing                |
//!
//! The dispatcher retries a failed command, with pauses that double up to [`PAUSE_LONGEST`], while the process owns the
//! lane. It halves a failed batch of settlements until the unwritable rows are alone; their lanes claim nothing
//! meanwhile. [`Dispatcher::stuck`] lists the blocked lanes with the reason.
//!
//! Reading order: `event`, `effect`; `dispatcher`, `ownership`, `answers`, `membership`; the other files.

mod answers;
mod budget;
mod dispatcher;
mod effect;
mod event;
pub mod handover;
mod lanes;
mod membership;
mod obstacles;
mod ownership;
mod tenure;
mod unsettled;

pub use budget::{BODY_BYTES_MAX, CLAIM_BYTES_MAX, Portion};
pub use dispatcher::{Dispatcher, Settings};
pub use effect::{Effect, NewAttempt, News, SendLimits, Subscriber, SubscriberSet};
pub use event::{Answered, AttemptEnd, Event, Failure, Moment, Order};
pub use membership::{MOVES_MAX, SETTLED_AFTER};
pub use obstacles::{PAUSE_LONGEST, STUCK_MAX, Stuck};
pub use tenure::{LEASE_DEFAULT, LEASES};
pub use unsettled::WorkDone;
