//! The trace: the history of one run in the order in which the harness saw it, as JSON Lines.
//!
//! - `record`: the lines; `harness`, `machine`, `fault`, `said`: those about the harness, the machine,
//!   faults, and the sender's reports; `shared`: repeated values, kept once.
//!
//! - `recorder`: takes records from every thread, within bounds; `lines`: the waiting lines; `frequent`:
//!   writes most of them.
//!
//! - `ledger`: the open deliveries, by the records so far.
//! - `writer`: `Writer` counts its lines; `TraceFile` compresses on request.
//! - `reader`: `Trace::read` trusts nothing; `reading`: line by line; `growing`: a trace still being written;
//!   `holes`: a trace with lost records.
//!
//! Each thread hands over a line as soon as it knows it, so lines may be slightly out of order; the reader
//! sorts by their times. The trace holds no secret.

mod fault;
mod frequent;
mod growing;
mod harness;
mod holes;
pub mod ledger;
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
pub use growing::Growing;
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
pub use recorder::Lately;
pub use recorder::{QUEUE_MAX, Recorder, Records, Tally};
pub use said::{Dead, Depth, Kept};
pub use shared::{Shared, Text};
pub use writer::{End, TraceFile, Writer};
