//! Commands to a store, and its replies. The sender of a command prepares each row; the store decides only what
//! it alone can know.
//!
//! Reading order: [`lane`], [`node`], [`homes`], [`command`], [`reply`].

mod body;
pub mod command;
pub mod homes;
pub mod lane;
pub mod node;
mod operate;
pub mod reply;

pub use command::Command;
pub use reply::{Refusal, Reply};
