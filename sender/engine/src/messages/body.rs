//! A body as a store keeps it.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

/// The exact bytes that every attempt of a delivery sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The bytes.
    pub bytes: Arc<[u8]>,
}

impl Body {
    /// The first eight bytes of their SHA-256, big-endian: enough to tell that attempts sent the same.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let digest: [u8; 32] = Sha256::digest(&self.bytes).into();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}
