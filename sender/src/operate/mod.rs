//! Functions for operators, shared by the HTTP API and the command line.

pub(crate) mod backlog;
pub(crate) mod changes;
pub(crate) mod dead;
pub(crate) mod deliveries;
pub(crate) mod flow;
pub(crate) mod flow_watch;
pub(crate) mod forget;
pub(crate) mod health;
pub(crate) mod jobs;
pub(crate) mod json_forms;
pub(crate) mod nodes;
pub(crate) mod notifier;
pub(crate) mod pause;
pub(crate) mod readiness;
pub(crate) mod retry;
pub(crate) mod sample;
pub(crate) mod shed;
pub(crate) mod tokens;
pub(crate) mod trial;
