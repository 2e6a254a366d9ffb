//! The types that checks and cases share: catalogue entry, severity, verdict.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One check of a sender, or one case for a receiver.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Stable slug; its section is the part before the dot.
    pub id: String,
    pub severity: Severity,
    pub source: String,
    /// In one sentence.
    pub requirement: String,
    /// The damage without it.
    pub why: String,
    /// In one sentence.
    pub remedy: String,
    /// The name of the [`Example`] that shows the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// The key of `[expect]` that sets its figure; a scenario that writes the key makes the check a must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<String>,
    /// Options without which the case sees nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

impl Entry {
    /// The part of the id before the dot.
    #[must_use]
    pub fn section(&self) -> &str {
        self.id.split('.').next().unwrap_or(&self.id)
    }
}

/// A few lines for each common framework, by the framework's name.
pub type Example = BTreeMap<String, String>;

/// In the words of RFC 2119.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A failure is `fail`.
    Must,
    /// A failure is `warn`, or `fail` with `--strict`.
    Should,
    /// As `Should`, for a property that only some senders promise.
    May,
    /// It is reported and can't fail.
    Info,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Must => "must",
            Self::Should => "should",
            Self::May => "may",
            Self::Info => "info",
        })
    }
}

/// The result of a check or a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Pass,
    Fail,
    /// A `should` check failed.
    Warn,
    /// Too little was seen.
    Inconclusive,
    /// The run does not concern it.
    NotApplicable,
    /// The harness failed.
    HarnessError,
}

impl Verdict {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Warn => "warn",
            Self::Inconclusive => "inconclusive",
            Self::NotApplicable => "not applicable",
            Self::HarnessError => "harness error",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
