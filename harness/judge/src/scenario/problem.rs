//! The problems of a scenario.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The name of the file, as given.
    pub file: String,
    /// From 1; none for a missing key, or a value of `--set`.
    pub line: Option<usize>,
    /// From the root: `subscriber[0].limit.rate`. Empty for the file as a whole.
    pub key: String,
    /// The error and the expectation.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.what)
    }
}

impl std::error::Error for Problem {}

/// The nearest known name, if few letters differ.
#[must_use]
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let few = (given.chars().count() / 3).max(2);
    let distances = known.into_iter().map(|name| (distance(given, name), name));
    distances.min_by_key(|(letters, _)| *letters).filter(|(letters, _)| *letters <= few).map(|(_, name)| name)
}

/// The Levenshtein distance.
#[must_use]
pub fn distance(given: &str, known: &str) -> usize {
    let known: Vec<char> = known.chars().collect();
    let mut above: Vec<usize> = (0..=known.len()).collect();
    for (row, letter) in given.chars().enumerate() {
        let mut here = vec![row + 1];
        for (column, other) in known.iter().enumerate() {
            let changed = above[column] + usize::from(letter != *other);
            here.push(changed.min(above[column + 1] + 1).min(here[column] + 1));
        }
        above = here;
    }
    above[known.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_the_key_that_was_meant() {
        let known = ["rate", "burst", "windows", "in_flight"];
        for (given, meant) in [
            ("brust", Some("burst")),
            ("inflight", Some("in_flight")),
            ("window", Some("windows")),
            ("banana", None),
        ] {
            assert_eq!(nearest(given, known), meant, "{given}");
        }
    }

    #[test]
    fn a_problem_names_its_place() {
        let problem = Problem {
            file: "a.toml".to_owned(),
            line: Some(3),
            key: "events.keys".to_owned(),
            what: "expected a whole number".to_owned(),
        };
        assert_eq!(problem.to_string(), "a.toml:3: events.keys: expected a whole number");
        assert_eq!(
            Problem { line: None, ..problem }.to_string(),
            "a.toml: events.keys: expected a whole number"
        );
    }
}
