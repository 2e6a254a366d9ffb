//! The log of changes: who changed what. A [`Command::Attributed`] is recorded.
//!
//! [`Command::Attributed`]: super::command::Command::Attributed

use std::sync::Arc;

use crate::engine::StoreTime;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedChange {
    pub number: u64,
    pub at: StoreTime,
    pub by: Arc<str>,
    /// The operation in the API's document.
    pub operation: Arc<str>,
    /// A subscriber's id, and its name at that time.
    pub subscriber: Option<(Arc<str>, Arc<str>)>,
    /// A delivery, a job, a node, a token or the way to a data subject.
    pub subject: Option<Arc<str>>,
    /// JSON: each changed field with `[before, after]`; a secret with `"changed"`.
    pub changed: Arc<str>,
}
