//! Commands to a store and its replies. Every row in them is ready made; the store decides only what it alone can know.
//!
//! Reading order: [`lane`], [`node`], [`homes`] (which node a lane belongs to), [`command`], [`reply`].

mod body;
pub mod command;
pub mod homes;
pub mod lane;
pub mod node;
mod operate;
pub mod reply;

pub use command::Command;
pub use reply::{Refusal, Reply};
