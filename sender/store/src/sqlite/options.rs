use std::time::Duration;

use crate::Durability;
use crate::lane::Limits;
use crate::seal::Keyring;

#[derive(Clone, Debug)]
pub struct Options {
    pub durability: Durability,
    pub limits: Limits,
    pub create: bool,
    /// A random number that a new file keeps for good.
    pub identity: u64,
    pub pages_max: Option<u32>,
    /// How long a write waits for another writing process.
    pub patience: Duration,
    /// Events are refused while the log has this length or more, in bytes.
    pub log_bytes_max: u64,
    /// Those of the file. A new file is encrypted with the first.
    pub keys: Keyring,
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
            keys: Keyring::default(),
        }
    }
}
