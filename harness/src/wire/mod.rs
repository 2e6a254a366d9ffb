//! Raw HTTP against a receiver: a client that attacks sends requests that no client library would.
//!
//! Nothing here reads a clock but `clock`, and nothing but `exchange` opens a socket.

pub mod answer;
pub mod clock;
pub mod exchange;
pub mod request;
pub mod target;
