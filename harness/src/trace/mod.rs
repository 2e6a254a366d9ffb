//! The trace: what was seen in one run, in the order in which the harness saw it, as JSON Lines.
//!
//! - `record`: the lines themselves; `harness`: those about the harness and the sender's driver file; `machine`: those about
//!   the machine; `said`: what the sender says of itself; `shared`: what many of them repeat, kept once.
//! - `recorder`: where everybody who sees something says so, within bounds; `lines`: what lies there;
//!   `frequent`: how most of it is written.
//! - `ledger`: what is still owed, by what was recorded.
//! - `writer`: `Writer` counts what it writes; `TraceFile` compresses where asked.
//! - `reader`: `Trace::read` trusts nothing; `reading`: line by line; `growing`: while it is written; `holes`: where lines
//!   could not be kept.
//!
//! Whoever writes one hands a line over as soon as it is known, from whichever thread: lines may be out of order by as
//! much as threads are, and the reader sorts by the times inside them. The trace holds no secret.

mod fault;
mod frequent;
mod growing;
mod harness;
mod holes;
pub(crate) mod ledger;
mod lines;
mod machine;
mod reader;
mod reading;
mod record;
mod recorder;
mod said;
mod shared;
mod shares;
mod writer;

pub use fault::{Fault, Process, ProcessEvent, Undone};
pub(crate) use growing::Growing;
pub use harness::{
    Declared, ENDPOINTS, GENERATOR, Handshake, Lack, OURS, Offset, Public, Reached, Signs, Stall, Stray,
    StrayKind, Told, Unoffered,
};
pub use machine::{Ceiling, ClockSet, Host, Machine};
pub use reader::{DISORDER, FORMAT, Trace, TraceError};
pub use record::{
    Accepted, Answer, Arrival, ClockKind, Cut, CutKind, Ended, Head, Header, Offer, Record, Refused,
    SharedSecret, Signed, Trailer, Verified,
};
pub(crate) use recorder::Lately;
pub use recorder::{QUEUE_MAX, Recorder, Records, Tally};
pub use said::{Dead, Depth, Kept};
pub use shared::{Shared, Text};
pub use writer::{End, TraceFile, Writer};
