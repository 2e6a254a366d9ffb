//! Expected failures: each with its reason, and none that no longer happens.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::catalogue;

/// Expected failures by id, as a TOML file has them: `["raw.chunked"]` with `why`, and `until` where they end.
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
    /// Reads a file. `today` is a date as `2026-01-31`: what was expected until then no longer is.
    pub fn parse(text: &str, today: &str) -> Result<Self, KnownError> {
        let mut known: Self = toml::from_str(text).map_err(|error| KnownError::Form(error.to_string()))?;
        for (id, expected) in &known.failures {
            if !catalogue::receiver().iter().any(|entry| entry.id == *id) {
                return Err(KnownError::Unknown(id.clone()));
            }
            if expected.why.trim().is_empty() {
                return Err(KnownError::NoReason(id.clone()));
            }
            if expected.until.as_deref().is_some_and(|until| !is_date(until)) {
                return Err(KnownError::Until(id.clone()));
            }
        }
        known.failures.retain(|_, expected| expected.until.as_deref().is_none_or(|until| today <= until));
        Ok(known)
    }

    /// Why a case is expected to fail.
    #[must_use]
    pub fn why(&self, id: &str) -> Option<&str> {
        self.failures.get(id).map(|expected| expected.why.as_str())
    }
}

/// `2026-01-31`.
fn is_date(text: &str) -> bool {
    let form = text.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    form && text.len() == 10
}

/// A file that says nothing, or says it of no case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnownError {
    /// Not TOML, or not of this form.
    #[error("expected failures are tables like [\"raw.chunked\"] with why and, if they end, until: {0}")]
    Form(String),
    /// An id of no case.
    #[error("expected failure {0:?}: there is no such case; `hookproof list` shows them all")]
    Unknown(String),
    /// A failure without a reason.
    #[error("expected failure {0:?}: why is empty; expected a reason")]
    NoReason(String),
    /// An end that is no date.
    #[error("expected failure {0:?}: until is no date; expected one such as \"2027-01-31\"")]
    Until(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expected_failure_has_a_reason_and_may_have_an_end() {
        let text = "['raw.chunked']\nwhy = 'ticket 1'\n['sig.encoding']\nwhy = 'x'\nuntil = '2026-05-01'";
        let known = Known::parse(text, "2026-05-01").unwrap();
        assert_eq!(known.why("raw.chunked"), Some("ticket 1"));
        assert_eq!(known.why("sig.encoding"), Some("x"));
        assert_eq!(Known::parse(text, "2026-05-02").unwrap().why("sig.encoding"), None);
    }

    #[test]
    fn what_is_wrong_with_the_file_is_said() {
        let error = |text: &str| Known::parse(text, "2026-05-01").unwrap_err().to_string();
        assert!(error("['raw.chunkd']\nwhy = 'x'").contains("no such case"));
        assert!(error("['raw.chunked']\nwhy = ' '").contains("expected a reason"));
        assert!(error("['raw.chunked']\nwhy = 'x'\nuntil = 'soon'").contains("no date"));
        assert!(error("['raw.chunked']\nwhi = 'x'").contains("whi"));
    }
}
