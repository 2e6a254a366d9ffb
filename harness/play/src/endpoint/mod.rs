//! The behaviour of an endpoint, without its sockets.
//!
//! - `choice`: which behaviour a request meets, from the moment, the attempt and the seed.
//! - `answer`: the bytes of an answer. `date`: dates of HTTP.

pub mod answer;
pub mod choice;
mod date;

pub use date::{civil, http_date};
