//! The words that checks and cases share: an entry of the catalogue, its severity, its verdict.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One check of a sender, or one case for a receiver.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its stable slug; what stands before the dot is its section.
    pub id: String,
    /// How much it matters.
    pub severity: Severity,
    /// Where the requirement comes from.
    pub source: String,
    /// What must hold, in one sentence.
    pub requirement: String,
    /// What goes wrong where it doesn't hold.
    pub why: String,
    /// What to do where it doesn't hold, in one sentence.
    pub remedy: String,
    /// The name of the [`Example`] that shows the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// The key of `[expect]` that sets its figure: a scenario that writes one makes the check a must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<String>,
    /// What has to be given for the case to see anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

impl Entry {
    /// What stands before the dot.
    #[must_use]
    pub fn section(&self) -> &str {
        self.id.split('.').next().unwrap_or(&self.id)
    }
}

/// A few lines for each of the common frameworks, by the framework's name.
pub type Example = BTreeMap<String, String>;

/// How much an entry matters, in the words of RFC 2119.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Where it doesn't hold, the verdict is `fail`.
    Must,
    /// Where it doesn't hold, the verdict is `warn`, or with `--strict` `fail`.
    Should,
    /// As `Should`, for what only some promise.
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

/// What a check or a case came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It was seen to hold.
    Pass,
    /// It was seen not to hold.
    Fail,
    /// It was seen not to hold, and should.
    Warn,
    /// Too little was seen.
    Inconclusive,
    /// There is nothing here that it could concern.
    NotApplicable,
    /// The harness failed at looking.
    HarnessError,
}

impl Verdict {
    /// The word for it.
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
