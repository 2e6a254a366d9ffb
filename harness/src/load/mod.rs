//! Open-loop load on a receiver: signed events on a precomputed schedule, regardless of the receiver.
//!
//! Latencies count from the intended moment, which avoids coordinated omission. Requests that the generator
//! could not send in time count as missed; figures that the generator limits are marked, since they say
//! nothing of the receiver.

mod page;
mod search;
mod trial;

pub use page::page_unjudged;
pub use search::{Bracket, Found, Limits, Slo, SloError, find_max};
pub use trial::{Load, REQUESTS_MAX, Trial, run};
