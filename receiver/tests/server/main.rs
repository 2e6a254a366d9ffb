//! The receiver over real sockets: the binary as a process, and the inbox as a library.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../../verify/tests/signing/mod.rs"]
mod signing;

mod bounds;
mod crash;
mod inbox;
mod relay;
mod repeats;
mod routes;
mod serve;
mod upstream;
mod wire;
mod world;
