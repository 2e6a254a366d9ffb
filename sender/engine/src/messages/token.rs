//! Tokens of the API. A store keeps the digest, so that it reveals no token.

use std::fmt;
use std::sync::Arc;

pub use hookproof_words::states::Scope;
pub use hookproof_words::subscriber_names::{SubscriberNames, SubscriberNamesError};

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
    /// All if none.
    pub subscribers: Option<SubscriberNames>,
}

impl StoredToken {
    /// A row that cannot be read is a token that has expired: it opens nothing, and one is demanded.
    #[must_use]
    pub fn unreadable(name: Option<Arc<str>>) -> Self {
        Self {
            name: name.unwrap_or_else(|| "unreadable".into()),
            digest: [0; 32],
            scope: Scope::Emit,
            created: StoreTime(0),
            by: "unreadable".into(),
            expires: Some(StoreTime(0)),
            subscribers: vec!["unreadable".to_owned()].try_into().ok(),
        }
    }

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
