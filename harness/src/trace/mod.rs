//! The trace: what was seen in one run, in the order in which the harness saw it, as JSON Lines.

mod record;

pub use record::{
    Accepted, Answer, Arrival, ClockKind, Cut, CutKind, Dead, Depth, Ended, Fault, Header, Offer, Process,
    ProcessEvent, Record, Refused, Signed, Trailer, Verified,
};
