//! The transport over real sockets, against endpoints that do what a script says.
//!
//! - `rig`: a transport, and attempts made with it.
//! - `endpoint`: endpoints that are scripted byte by byte.
//! - `secure`: the same over TLS and HTTP/2.
//! - the others: the tests.

#![cfg(feature = "service")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod bounds;
mod endpoint;
mod environment;
mod http2;
mod keeping;
mod laws;
mod lookups;
mod rig;
mod secure;
mod silence;
mod unsent;
