//! Tokens of the API. A store keeps the digest, so that it reveals no token.

use std::fmt;
use std::sync::Arc;

pub use hookproof_words::states::Scope;

use crate::engine::StoreTime;

/// Expired ones count too.
pub const TOKENS_MAX: u64 = 1_000;

#[derive(Clone, PartialEq, Eq)]
pub struct StoredToken {
    pub name: Arc<str>,
    /// The SHA-256 of the token.
    pub digest: [u8; 32],
    pub scope: Scope,
    /// This and `expires` are real times.
    pub created: StoreTime,
    pub by: Arc<str>,
    pub expires: Option<StoreTime>,
}

impl StoredToken {
    #[must_use]
    pub fn is_expired(&self, now: StoreTime) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

impl fmt::Debug for StoredToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, scope, .. } = self;
        f.debug_struct("StoredToken").field("name", name).field("scope", scope).finish_non_exhaustive()
    }
}
