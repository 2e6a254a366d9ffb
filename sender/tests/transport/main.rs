#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
#[path = "../binary/mod.rs"]
mod binary;
mod bounds;
mod endpoint;
mod environment;
mod floods;
mod http2;
mod keeping;
mod laws;
mod lookups;
mod mutual;
mod name_server;
mod permits;
mod processes;
mod rig;
mod secure;
mod silence;
mod stuck;
mod unsent;
