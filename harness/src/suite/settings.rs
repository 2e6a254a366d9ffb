//! The settings of a run of the suite.

use std::time::Duration;

use super::hooks::Hooks;
use super::known::Known;
use crate::wire::target::Target;
use hookproof_judge::catalogue::Selection;
use hookproof_judge::signature::{Profile, Secret};

/// The settings of a run of the suite.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The receiver.
    pub target: Target,
    /// The signing profile.
    pub profile: Profile,
    /// The shared secret.
    pub secret: Secret,
    /// A retired secret, which the receiver must refuse.
    pub retired: Option<Secret>,
    /// The largest accepted distance of a timestamp from now, in seconds.
    pub tolerance_seconds: i64,
    /// The longest wait for an answer or an effect.
    pub timeout: Duration,
    /// The longest time of a connection that sends a byte a second.
    pub slow_limit: Duration,
    /// The URL that lists processed ids.
    pub effects: Option<Target>,
    /// The commands that act on the receiver.
    pub hooks: Hooks,
    /// The selected cases.
    pub selection: Selection,
    /// The expected failures.
    pub known: Known,
    /// Whether `should` counts as `must`.
    pub strict: bool,
}

impl Settings {
    /// The default of `tolerance_seconds`.
    pub const TOLERANCE_SECONDS: i64 = 300;
    /// The default of `timeout`. Senders give up after 5 to 30 seconds.
    pub const TIMEOUT: Duration = Duration::from_secs(15);
    /// The default of `slow_limit`, which patient servers allow a whole request.
    pub const SLOW_LIMIT: Duration = Duration::from_secs(60);

    /// The secrets that no report may contain.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        std::iter::once(&self.secret).chain(&self.retired)
    }

    pub(super) fn redact(&self, bytes: &[u8]) -> Vec<u8> {
        self.secrets().fold(bytes.to_vec(), |bytes, secret| secret.redact_bytes(&bytes))
    }

    pub(super) fn redact_text(&self, text: &str) -> String {
        self.secrets().fold(text.to_owned(), |text, secret| secret.redact(&text))
    }
}
