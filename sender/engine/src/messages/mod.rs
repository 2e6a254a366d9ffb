//! Commands to a store, and its replies. Reading order: [`lane`], [`node`], [`command`], [`job`], [`token`], [`change`],
//! [`reply`].

pub mod change;
pub mod command;
pub mod job;
pub mod lane;
pub mod node;
pub mod reply;
pub mod token;

pub use command::Command;
pub use reply::{Refusal, Reply};
