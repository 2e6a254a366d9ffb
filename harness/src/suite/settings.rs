//! What a run of the suite is asked for.

use std::time::Duration;

use super::hooks::Hooks;
use super::known::Known;
use crate::wire::target::Target;
use hookproof_judge::catalogue::Selection;
use hookproof_judge::signature::{Profile, Secret};

/// What a run of the suite is asked for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The receiver.
    pub target: Target,
    /// How it verifies.
    pub profile: Profile,
    /// The secret that it shares with us.
    pub secret: Secret,
    /// A secret that it shared once, and no longer accepts.
    pub retired: Option<Secret>,
    /// How far a timestamp may be from now, in seconds.
    pub tolerance_seconds: i64,
    /// The longest wait for an answer, and for an effect to show.
    pub timeout: Duration,
    /// The longest that a receiver may keep a connection that sends a byte a second.
    pub slow_limit: Duration,
    /// Lists the ids of deliveries that were processed.
    pub effects: Option<Target>,
    /// What can be done to the receiver.
    pub hooks: Hooks,
    /// Which cases are sent.
    pub selection: Selection,
    /// Failures that are expected.
    pub known: Known,
    /// Whether what should hold must hold.
    pub strict: bool,
}

impl Settings {
    /// How far a timestamp may be from now where nobody says otherwise.
    pub const TOLERANCE_SECONDS: i64 = 300;
    /// The longest wait where nobody says otherwise. Senders give up between 5 and 30 seconds.
    pub const TIMEOUT: Duration = Duration::from_secs(15);
    /// As long as patient servers wait for a whole request.
    pub const SLOW_LIMIT: Duration = Duration::from_secs(60);

    /// The secrets that no report may hold.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        std::iter::once(&self.secret).chain(&self.retired)
    }

    /// Bytes without the secrets.
    pub(super) fn redact(&self, bytes: &[u8]) -> Vec<u8> {
        self.secrets().fold(bytes.to_vec(), |bytes, secret| secret.redact_bytes(&bytes))
    }

    /// A text without the secrets.
    pub(super) fn redact_text(&self, text: &str) -> String {
        self.secrets().fold(text.to_owned(), |text, secret| secret.redact(&text))
    }
}
