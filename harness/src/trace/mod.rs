//! The trace: what was seen in one run, in the order in which the harness saw it, as JSON Lines.
//!
//! - `record`: the lines themselves.
//! - `writer`: [`Writer`] counts what it writes; [`TraceFile`] compresses where asked.
//! - `reader`: [`Trace::read`] trusts nothing.
//!
//! Whoever writes one hands a line over as soon as it is known, from whichever thread: lines may be out of order by as
//! much as threads are, and the reader sorts by the times inside them. The trace holds no secret.

mod machine;
mod reader;
mod record;
mod writer;

pub use machine::{Ceiling, Machine};
pub use reader::{DISORDER, FORMAT, Trace, TraceError};
pub use record::{
    Accepted, Answer, Arrival, ClockKind, Cut, CutKind, Dead, Depth, Ended, Fault, Header, Offer, Process,
    ProcessEvent, Record, Refused, Signed, Trailer, Verified,
};
pub use writer::{End, TraceFile, Writer};
