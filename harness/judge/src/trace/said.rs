//! The reports of the sender under test: its queue and its dead letters.

use serde::{Deserialize, Serialize};

/// The sender's report of its queue, and its measured cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Depth {
    /// When it was asked.
    pub t: u64,
    /// The subscriber; none for the whole sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscriber: Option<String>,
    /// Deliveries waiting, in flight included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Total of dead letters so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<u64>,
    /// Total of deliveries so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<u64>,
    /// Deliveries replaced by newer ones so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coalesced: Option<u64>,
    /// The resident memory of all processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// Processor time of the living processes since their start, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_ns: Option<u64>,
    /// The deliveries that it retains after success, where the harness looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub listed: bool,
    /// When the oldest of them was delivered, on the sender's clock in Unix nanoseconds; none if there are
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_unix_ns: Option<u64>,
    /// The size of its database on disk, if that is on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
}

/// A dead letter that the sender under test lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dead {
    /// When it was asked.
    pub t: u64,
    pub subscriber: String,
    /// The harness's token, found in the listed body; none if the sender doesn't list it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `exhausted`, `expired`, `overflow`, `gone`, or the sender's own word.
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}
