//! Open-loop load on a receiver: signed events on a schedule that was computed beforehand, whatever the receiver does.
//!
//! A latency counts from the moment that the schedule intended, so that a receiver that stalls can't hide the requests
//! that waited for it. What the generator could not send in time is counted as missed, and said: a figure that the
//! generator limits is none of the receiver's.

mod page;
mod search;
mod trial;

pub use page::page_unjudged;
pub use search::{Bracket, Found, Limits, Slo, SloError, find_max};
pub use trial::{Load, REQUESTS_MAX, Trial, run};
