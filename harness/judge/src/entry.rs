//! The types that checks and cases share, and the selection of entries.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::scenario::distance;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Stable slug; its section is the part before the dot.
    pub id: String,
    pub severity: Severity,
    pub source: String,
    pub requirement: String,
    /// The damage without it.
    pub why: String,
    pub remedy: String,
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
    #[must_use]
    pub fn section(&self) -> &str {
        self.id.split('.').next().unwrap_or(&self.id)
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Example {
    pub shows: String,
    /// A few lines each, by the framework's name.
    #[serde(flatten)]
    pub lines: BTreeMap<String, String>,
}

/// In the words of RFC 2119.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Must,
    /// A failure is `warn`, or `fail` with `--strict`.
    Should,
    May,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Pass,
    Fail,
    Warn,
    Inconclusive,
    NotApplicable,
    HarnessError,
}

impl Verdict {
    #[must_use]
    pub const fn lower(self) -> &'static str {
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
        f.pad(match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Warn => "WARN",
            Self::Inconclusive => "INCONCLUSIVE",
            Self::NotApplicable => "NOT APPLICABLE",
            Self::HarnessError => "HARNESS ERROR",
        })
    }
}

#[derive(Clone, Debug, Default)]
pub struct Selection {
    only: Option<BTreeSet<String>>,
    skip: BTreeSet<String>,
    /// Each with its missing option.
    without: BTreeMap<String, String>,
}

impl Selection {
    /// The entries that match one of `only` (all if it is empty), without those that match one of `skip`.
    ///
    /// # Errors
    ///
    /// When nothing in `entries` matches one of the patterns.
    pub fn new(entries: &[Entry], only: &[String], skip: &[String]) -> Result<Self, SelectError> {
        let all = |patterns: &[String]| -> Result<BTreeSet<String>, SelectError> {
            let found = patterns.iter().map(|pattern| matching(entries, pattern));
            Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
        };
        let only = if only.is_empty() { None } else { Some(all(only)?) };
        Ok(Self { only, skip: all(skip)?, without: BTreeMap::new() })
    }

    #[must_use]
    pub fn without(mut self, entries: &[Entry], options: &[&str]) -> Self {
        for entry in entries {
            let needed = entry.needs.iter().find(|option| options.contains(&option.as_str()));
            if let Some(option) = needed.filter(|_| self.has(&entry.id)) {
                self.without.insert(entry.id.clone(), option.clone());
            }
        }
        self
    }

    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        let is_named = self.only.as_ref().is_none_or(|only| only.contains(id));
        is_named && !self.skips(id) && self.lacks(id).is_none()
    }

    #[must_use]
    pub fn lacks(&self, id: &str) -> Option<&str> {
        self.without.get(id).map(String::as_str)
    }

    #[must_use]
    pub fn skips(&self, id: &str) -> bool {
        self.skip.contains(id)
    }
}

/// The entry with this id, or the entries whose ids begin with it.
fn matching(entries: &[Entry], pattern: &str) -> Result<Vec<String>, SelectError> {
    let ids = || entries.iter().map(|entry| entry.id.as_str());
    if let Some(id) = ids().find(|id| *id == pattern) {
        return Ok(vec![id.to_owned()]);
    }
    let start = pattern.trim_end_matches('*');
    let found: Vec<String> =
        ids().filter(|id| !start.is_empty() && id.starts_with(start)).map(str::to_owned).collect();
    if found.is_empty() {
        return Err(SelectError { given: pattern.to_owned(), nearest: nearest(ids(), pattern) });
    }
    Ok(found)
}

/// By edit distance, in whole or by its beginning: a pattern may be a prefix.
fn nearest<'a>(ids: impl Iterator<Item = &'a str>, pattern: &str) -> String {
    let length = pattern.chars().count() + 1;
    let changes = |id: &str| {
        let (begun, whole) = (id.chars().take(length).collect::<String>(), distance(pattern, id));
        (distance(pattern, &begun).min(whole), whole)
    };
    ids.min_by_key(|id| changes(id)).unwrap_or_default().to_owned()
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no check or case matches {given:?}; the nearest id is {nearest}, and `hookproof list` shows all ids"
)]
pub struct SelectError {
    given: String,
    nearest: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{receiver, sender};

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    fn selected(entries: &'static [Entry], only: &[&str], skip: &[&str]) -> Vec<&'static str> {
        let selection = Selection::new(entries, &texts(only), &texts(skip)).unwrap();
        entries.iter().map(|entry| entry.id.as_str()).filter(|id| selection.has(id)).collect()
    }

    #[test]
    fn entries_are_named_by_id_by_section_by_prefix_and_by_a_star() {
        assert_eq!(selected(receiver(), &["sig.valid", "order"], &[]), ["sig.valid", "order.swapped"]);
        assert_eq!(
            selected(receiver(), &["method.*"], &["method.p*", "method.get"]),
            ["method.delete", "method.options"]
        );
        assert_eq!(selected(sender(), &["retry.after-h"], &[]), ["retry.after-hostile"]);
        assert_eq!(selected(receiver(), &[], &[]).len(), receiver().len());
        assert_eq!(selected(sender(), &["crash.stop"], &["crash"]), [""; 0]);
    }

    #[test]
    fn entries_that_need_a_missing_option_are_left_out() {
        let selection =
            Selection::new(receiver(), &texts(&["replay", "sig.valid"]), &texts(&["replay.poison"]));
        let selection = selection.unwrap().without(receiver(), &["--restart-command", "--effects-url"]);
        assert!(selection.has("sig.valid") && selection.has("replay.cached"));
        for (id, lacks) in [
            ("replay.exact", Some("--effects-url")),
            ("replay.after-restart", Some("--effects-url")),
            ("replay.poison", None),
            ("rotation.retired-key", None),
        ] {
            assert_eq!((selection.has(id), selection.lacks(id)), (false, lacks), "{id}");
        }
    }

    #[test]
    fn a_pattern_that_matches_nothing_names_the_nearest_id() {
        let rows = [
            (receiver(), "rotation.secnd", "rotation.second-valid"),
            (sender(), "rate.envelop ", "rate.envelope"),
            (sender(), "ate.window", "rate.window"),
        ];
        for (entries, pattern, near) in rows {
            let error = Selection::new(entries, &texts(&[pattern]), &[]).unwrap_err().to_string();
            assert!(error.contains(&format!("the nearest id is {near},")), "{error}");
        }
        assert!(Selection::new(sender(), &texts(&[""]), &[]).is_err(), "nothing is no prefix");
        let skipped = Selection::new(sender(), &[], &texts(&["*"]));
        assert!(skipped.is_err(), "a star alone says nothing");
    }
}
