use std::time::Duration;

use crate::Durability;
use crate::lane::Limits;

/// How to open a file.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The failures that an acknowledgement survives.
    pub durability: Durability,
    /// Limits of the store.
    pub limits: Limits,
    /// Whether to make a missing file.
    pub create: bool,
    /// A random number that a new file keeps for good.
    pub identity: u64,
    /// Limit of the file in pages.
    pub pages_max: Option<u32>,
    /// How long a write waits for another writing process.
    pub patience: Duration,
    /// Events are refused while the log has this length or more, in bytes.
    pub log_bytes_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            limits: Limits::default(),
            create: false,
            identity: 0,
            pages_max: None,
            patience: Duration::from_secs(5),
            log_bytes_max: 1 << 30,
        }
    }
}
