//! Which cases are sent: ids, whole sections, or patterns with a star at the end.

use crate::catalogue::{self, Entry};

/// Which cases are sent.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    only: Vec<String>,
    skip: Vec<String>,
}

impl Selection {
    /// Those that match one of `only`, or all if there is none, without those that match one of `skip`.
    pub fn new(only: Vec<String>, skip: Vec<String>) -> Result<Self, SelectError> {
        for pattern in only.iter().chain(&skip) {
            if !catalogue::receiver().iter().any(|entry| matches(pattern, entry)) {
                return Err(SelectError { given: pattern.clone(), nearest: nearest(pattern) });
            }
        }
        Ok(Self { only, skip })
    }

    /// Whether a case is sent.
    #[must_use]
    pub fn has(&self, entry: &Entry) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, entry));
        (self.only.is_empty() || any(&self.only)) && !any(&self.skip)
    }
}

/// `sig.valid`, `sig` and `sig.*`, and `re*`.
fn matches(pattern: &str, entry: &Entry) -> bool {
    let section = pattern.strip_suffix(".*").unwrap_or(pattern);
    let starts = pattern.strip_suffix('*').is_some_and(|start| entry.id.starts_with(start));
    pattern == entry.id || section == entry.section() || starts
}

fn nearest(pattern: &str) -> String {
    let shared = |id: &str| id.chars().zip(pattern.chars()).take_while(|(a, b)| a == b).count();
    let best = catalogue::receiver().iter().max_by_key(|entry| shared(&entry.id));
    best.map_or_else(String::new, |entry| entry.id.clone())
}

/// A pattern that no case matches.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no case matches {given:?}; the nearest id is {nearest}, and `hookproof list` shows them all")]
pub struct SelectError {
    given: String,
    nearest: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(only: &[&str], skip: &[&str]) -> Vec<&'static str> {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let selection = Selection::new(texts(only), texts(skip)).unwrap();
        let ids = catalogue::receiver().iter().filter(|entry| selection.has(entry));
        ids.map(|entry| entry.id.as_str()).collect()
    }

    #[test]
    fn cases_are_named_by_id_by_section_and_by_a_star() {
        assert_eq!(selected(&["sig.valid", "order"], &[]), ["sig.valid", "order.swapped"]);
        assert_eq!(
            selected(&["method.*"], &["method.p*", "method.get"]),
            ["method.delete", "method.options"]
        );
        assert_eq!(selected(&[], &[]).len(), catalogue::receiver().len());
    }

    #[test]
    fn a_pattern_that_matches_nothing_names_the_nearest_id() {
        let error = Selection::new(vec!["rotation.secnd".to_owned()], Vec::new()).unwrap_err().to_string();
        assert!(error.contains("rotation.second-valid"), "{error}");
    }
}
