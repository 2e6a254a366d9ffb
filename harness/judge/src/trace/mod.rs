//! The trace: the history of one run in the order in which the harness saw it, as JSON Lines.
//!
//! Each thread hands over a line as soon as it knows it, so lines may be slightly out of order; the reader sorts by
//! their times. The trace holds no secret.

mod fault;
mod harness;
pub mod ledger;
mod reader;
mod record;
mod recorder;
mod writer;

pub use fault::{Fault, Process, ProcessEvent, Undone};
pub use harness::{
    Asked, Ceiling, ClockSet, Dead, Declared, Depth, ENDPOINTS, GENERATOR, Handshake, Host, Lack, Machine,
    OTHERS, OURS, Offset, Public, Reached, Retained, SLEEPER, ShownCertificate, Signs, Stall, Stray,
    StrayKind, Substitution, Unoffered,
};
pub use reader::{DISORDER, FORMAT, Growing, Trace, TraceError};
pub use record::{
    Accepted, Answer, Arrival, ClockKind, Cut, CutKind, Ended, Head, Header, Offer, Payload, Record, Refused,
    Shared, SharedSecret, Signed, Text, Trailer, Verified,
};
pub use recorder::{Lately, QUEUE_MAX, Recorder, Records, Tally};
pub use writer::{End, TraceFile, Writer};
