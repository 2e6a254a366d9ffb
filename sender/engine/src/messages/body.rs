//! A body in the store.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

/// The exact bytes of every attempt of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The bytes.
    pub bytes: Arc<[u8]>,
}

impl Body {
    /// The first eight bytes of the SHA-256, big-endian: enough to compare the bodies of attempts.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let digest: [u8; 32] = Sha256::digest(&self.bytes).into();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}
