//! What the sender under test says of itself: its queue, and the deliveries that it gave up.

use serde::{Deserialize, Serialize};

/// What the sender under test said of its queue, and what it cost.
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
    /// Bytes waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Dead letters so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<u64>,
    /// Deliveries done so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<u64>,
    /// Deliveries replaced by newer ones so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coalesced: Option<u64>,
    /// Resident memory of all its processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// Processor time that the processes which live have used since they began, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_ns: Option<u64>,
    /// What it keeps of deliveries that were made, where that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
}

/// What a sender keeps of deliveries that were made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Whether the sender listed what it keeps.
    pub listed: bool,
    /// When the oldest of that was delivered, by the sender's own clock in Unix nanoseconds; none if it keeps nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_unix_ns: Option<u64>,
    /// How large its database is on the disk, where it has one here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
}

/// A delivery that the sender under test lists as given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dead {
    /// When it was asked.
    pub t: u64,
    /// Whose delivery.
    pub subscriber: String,
    /// The harness's token, found in the listed body; none where the sender doesn't show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// The delivery's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `exhausted`, `expired`, `overflow`, `gone`, or the sender's own word.
    pub reason: String,
    /// Attempts made, where the sender says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}
