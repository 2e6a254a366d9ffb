//! The settings of a run of the suite, with its expected failures.

use std::collections::BTreeMap;
use std::time::Duration;

use hookproof_judge::catalogue::{self, Selection};
use hookproof_judge::scenario::quantity::Day;
use hookproof_judge::signature::{Profile, Secret, in_query, redacted};
use serde::{Deserialize, Serialize};

use super::hooks::Hooks;
use super::library::Library;
use crate::wire::request::Target;

#[derive(Clone, Debug)]
pub struct Settings {
    pub target: Target,
    pub profile: Profile,
    pub secret: Secret,
    /// A retired secret, which the receiver must refuse.
    pub retired: Option<Secret>,
    /// The token that proves the profile's handshake, where one does.
    pub verify_token: Option<String>,
    /// The largest accepted distance of a timestamp from now, in seconds.
    pub tolerance_seconds: i64,
    pub bodies: Bodies,
    /// The longest wait for an answer or an effect.
    pub timeout: Duration,
    /// The longest time of a connection that sends a byte a second.
    pub slow_limit: Duration,
    pub hooks: Hooks,
    pub selection: Selection,
    pub known: Known,
    /// Whether `should` counts as `must`.
    pub strict: bool,
    /// The options of `hookproof receiver` that repeat a case, without its selection.
    pub again: String,
}

impl Settings {
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
        let bytes = self.secrets().fold(bytes.to_vec(), |bytes, secret| secret.redact_bytes(&bytes));
        let tokens = self.verify_token.clone().into_iter().chain(self.token_cut_short());
        let forms = tokens.flat_map(|token| [in_query(&token), token]);
        forms.fold(bytes, |bytes, form| redacted(bytes, form.as_bytes()))
    }

    /// None of a short token: a report would hide words that look like it.
    pub(super) fn token_cut_short(&self) -> Option<String> {
        let mut token = self.verify_token.clone().filter(|token| token.len() >= 8)?;
        token.pop();
        Some(token)
    }

    pub(super) fn redact_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.redact(text.as_bytes())).into_owned()
    }
}

/// The bodies that the receiver takes, of a profile that signs forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Bodies {
    /// Those of the profile
    #[default]
    All,
    /// Forms alone
    Forms,
    /// JSON alone
    Json,
}

impl Bodies {
    /// A line of the report.
    pub(super) const fn left_out(self) -> Option<&'static str> {
        match self {
            Self::All => None,
            Self::Forms => Some("each delivery was a form, by --bodies forms: nothing is known of JSON"),
            Self::Json => Some("each delivery was JSON, by --bodies json: nothing is known of forms"),
        }
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
    /// An answer to the provider's handshake
    Handshake,
}

/// The need of a case that a command in place of a server cannot meet.
pub const SERVER: &str = "a server";

impl Need {
    pub const ALL: [Self; 5] = [Self::Effects, Self::Restart, Self::Failure, Self::Retired, Self::Handshake];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Effects => "effects",
            Self::Restart => "restart",
            Self::Failure => "failure",
            Self::Retired => "retired",
            Self::Handshake => "handshake",
        }
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Handshake => "a handshake",
            other => other.option(),
        }
    }

    #[must_use]
    pub const fn option(self) -> &'static str {
        match self {
            Self::Effects => "--effects-url",
            Self::Restart => "--restart-command",
            Self::Failure => "--break-command and --mend-command",
            Self::Retired => "--retired-secret-env",
            Self::Handshake => "--verify-token-env",
        }
    }
}

/// Expected failures by id, in TOML: `["raw.chunked"]` with `why`, and optionally `until`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Known {
    failures: BTreeMap<String, Expected>,
    /// That the receiver verifies with.
    #[serde(skip)]
    pub library: Option<&'static Library>,
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

    #[must_use]
    pub fn skip_reason(&self, id: &str) -> Option<&str> {
        self.failures.get(id).map(|expected| expected.why.as_str())
    }
}

/// An invalid file of expected failures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnownError {
    #[error(
        "expected failures are tables such as [\"raw.chunked\"] with `why` and, for a limited time, `until`: {0}"
    )]
    Form(String),
    #[error("expected failure {0:?}: there is no such case; `hookproof list` lists all")]
    Unknown(String),
    #[error("expected failure {0:?}: `why` is empty; expected a reason")]
    NoReason(String),
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
        assert_eq!(needs, Need::ALL.map(Need::name).into());
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
