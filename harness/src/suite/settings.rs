//! The settings of a run of the suite, with its expected failures.

use std::collections::BTreeMap;
use std::time::Duration;

use hookproof_judge::catalogue::{self, Selection};
use hookproof_judge::scenario::quantity::Day;
use hookproof_judge::signature::{Profile, Secret};
use serde::Deserialize;

use super::hooks::Hooks;
use crate::wire::request::Target;

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
    /// The options of `hookproof receiver` that repeat a case, without its selection.
    pub again: String,
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

/// Access to the receiver, without which some cases see nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Need {
    /// A list of processed deliveries (--effects-url)
    Effects,
    /// A restart of the receiver (--restart-command)
    Restart,
    /// A failure of the receiver (--break-command and --mend-command)
    Failure,
    /// A secret that is no longer accepted (--retired-secret-env)
    Retired,
}

/// The need of a case that a command in place of a server cannot meet.
pub const SERVER: &str = "a server";

impl Need {
    /// Each, in the order of the command's help.
    pub const ALL: [Self; 4] = [Self::Effects, Self::Restart, Self::Failure, Self::Retired];

    /// Its name in `--without`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Effects => "effects",
            Self::Restart => "restart",
            Self::Failure => "failure",
            Self::Retired => "retired",
        }
    }

    /// Its options, as the catalogue names them.
    #[must_use]
    pub const fn option(self) -> &'static str {
        match self {
            Self::Effects => "--effects-url",
            Self::Restart => "--restart-command",
            Self::Failure => "--break-command and --mend-command",
            Self::Retired => "--retired-secret-env",
        }
    }
}

/// Expected failures by id, in TOML: `["raw.chunked"]` with `why`, and optionally `until`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Known {
    failures: BTreeMap<String, Expected>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    why: String,
    until: Option<String>,
}

impl Known {
    /// Parses a file. `today` is a date such as `2026-01-31`; expired entries are dropped.
    pub fn parse(text: &str, today: &str) -> Result<Self, KnownError> {
        let mut known: Self = toml::from_str(text).map_err(|error| KnownError::Form(error.to_string()))?;
        for (id, expected) in &known.failures {
            if !catalogue::receiver().iter().any(|entry| entry.id == *id) {
                return Err(KnownError::Unknown(id.clone()));
            }
            if expected.why.trim().is_empty() {
                return Err(KnownError::NoReason(id.clone()));
            }
            if expected.until.as_deref().is_some_and(|until| until.parse::<Day>().is_err()) {
                return Err(KnownError::Until(id.clone()));
            }
        }
        known.failures.retain(|_, expected| expected.until.as_deref().is_none_or(|until| today <= until));
        Ok(known)
    }

    /// The reason of an expected failure.
    #[must_use]
    pub fn skip_reason(&self, id: &str) -> Option<&str> {
        self.failures.get(id).map(|expected| expected.why.as_str())
    }
}

/// An invalid file of expected failures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnownError {
    /// Not TOML, or another form.
    #[error(
        "expected failures are tables such as [\"raw.chunked\"] with `why` and, for a limited time, `until`: {0}"
    )]
    Form(String),
    /// An unknown id.
    #[error("expected failure {0:?}: there is no such case; `hookproof list` lists all")]
    Unknown(String),
    /// A failure without a reason.
    #[error("expected failure {0:?}: `why` is empty; expected a reason")]
    NoReason(String),
    /// An invalid date.
    #[error("expected failure {0:?}: `until` is not a date; expected one such as \"2027-01-31\"")]
    Until(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_need_of_a_case_can_be_left_out() {
        let needs = catalogue::receiver().iter().flat_map(|entry| &entry.needs);
        let needs: std::collections::BTreeSet<_> =
            needs.map(String::as_str).filter(|need| *need != SERVER).collect();
        assert_eq!(needs, Need::ALL.map(Need::option).into());
    }

    #[test]
    fn an_expected_failure_has_a_reason_and_may_have_an_end() {
        let text = "['raw.chunked']\nwhy = 'ticket 1'\n['sig.encoding']\nwhy = 'x'\nuntil = '2026-05-01'";
        let known = Known::parse(text, "2026-05-01").unwrap();
        assert_eq!(known.skip_reason("raw.chunked"), Some("ticket 1"));
        assert_eq!(known.skip_reason("sig.encoding"), Some("x"));
        assert_eq!(Known::parse(text, "2026-05-02").unwrap().skip_reason("sig.encoding"), None);
    }

    #[test]
    fn an_invalid_settings_file_gives_the_reason() {
        let error = |text: &str| Known::parse(text, "2026-05-01").unwrap_err().to_string();
        assert!(error("['raw.chunkd']\nwhy = 'x'").contains("no such case"));
        assert!(error("['raw.chunked']\nwhy = ' '").contains("expected a reason"));
        assert!(error("['raw.chunked']\nwhy = 'x'\nuntil = 'soon'").contains("not a date"));
        assert!(error("['raw.chunked']\nwhi = 'x'").contains("whi"));
        for day in ["2027-13-99", "2027-02-29", "2027-00-10", "2027-01-00", "2027-1-1", "2027-04-31"] {
            assert!(
                error(&format!("['raw.chunked']\nwhy = 'x'\nuntil = '{day}'")).contains("not a date"),
                "{day}"
            );
        }
        for day in ["2028-02-29", "2099-12-31", "2027-01-01"] {
            assert!(
                Known::parse(&format!("['raw.chunked']\nwhy = 'x'\nuntil = '{day}'"), "2026-05-01").is_ok()
            );
        }
    }
}
