//! How to open a file.

use std::time::Duration;

use crate::store::Durability;
use crate::store::lane::Limits;

/// How to open a file.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What an acknowledgement survives.
    pub durability: Durability,
    /// How much it may hold.
    pub limits: Limits,
    /// Make the file if there is none.
    pub create: bool,
    /// Something random, which a new file keeps for good.
    pub identity: u64,
    /// The file grows no further than so many pages.
    pub pages_max: Option<u32>,
    /// How long one try to write waits for another process that is writing.
    pub patience: Duration,
    /// No event is taken while the log, which some program keeps from being cut, is this long or longer, in bytes.
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
