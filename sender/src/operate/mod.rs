//! What the HTTP API and the command line both do for operators, once: reading the figures, showing them, and drawing
//! conclusions from them.
//!
//! - [`shown`]: the sender's figures as machines read them, in one form everywhere.
//! - [`dead`]: what dead letters have in common, and what to do about it.
//! - [`audit`]: the most that a contract lets begin in a span of time.
//! - [`sample`]: percentiles of lengths of time, and how exact they are.
//! - [`readiness`]: why a sender is not ready.
//! - [`breakers`]: which endpoints are left alone, and until when.
//! - [`nodes`]: who delivers, and how much of it.
//! - [`trial`]: one test event, and what became of it.
//! - [`backlog`]: how long a backlog takes under a contract.
//! - [`shed`]: how many deliveries giving up would make dead letters of.
//! - [`steps`]: how long work leaves room for all others.

pub(crate) mod audit;
pub(crate) mod backlog;
pub(crate) mod breakers;
pub(crate) mod dead;
pub(crate) mod nodes;
pub(crate) mod readiness;
pub(crate) mod sample;
pub(crate) mod shed;
pub(crate) mod shown;
pub(crate) mod steps;
pub(crate) mod trial;
