//! Functions for operators, shared by the HTTP API and the command line.
//!
//! - [`shown`]: the JSON forms.
//! - [`dead`]: analysis of dead letters.
//! - [`audit`]: the most attempts that a contract allows in a span.
//! - [`sample`]: percentiles of durations.
//! - [`readiness`]: why a sender is not ready.
//! - [`breakers`]: open circuit breakers.
//! - [`nodes`]: the nodes and their lanes.
//! - [`trial`]: a test event and its result.
//! - [`backlog`]: how long a backlog takes.
//! - [`shed`]: a preview of shedding.
//! - [`steps`]: pauses between the steps of long work.

pub(crate) mod backlog;
pub(crate) mod dead;
pub(crate) mod nodes;
pub(crate) mod readiness;
pub(crate) mod sample;
pub(crate) mod shed;
pub(crate) mod shown;
pub(crate) mod trial;
