//! What the harness asserts: every check of a sender and every case for a receiver, with its severity, its source and
//! its remedy. The texts are data, in the three `.toml` files beside this one; a test holds them to their form.
//!
//! Ids are stable slugs: never renumbered, never used again.

mod select;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

pub use select::{SelectError, Selection};
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

/// The checks of a sender, in the order in which they are reported.
#[must_use]
pub fn sender() -> &'static [Entry] {
    &SENDER
}

/// The cases for a receiver, in the order in which they are sent.
#[must_use]
pub fn receiver() -> &'static [Entry] {
    &RECEIVER
}

/// The entry with an id, whichever side it judges.
#[must_use]
pub fn find(id: &str) -> Option<&'static Entry> {
    sender().iter().chain(receiver()).find(|entry| entry.id == id)
}

/// The lines that show an entry's remedy.
#[must_use]
pub fn example(entry: &Entry) -> Option<&'static Example> {
    EXAMPLES.get(entry.example.as_deref()?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    entry: Vec<Entry>,
}

static SENDER: LazyLock<Vec<Entry>> = LazyLock::new(|| entries(include_str!("sender.toml")));
static RECEIVER: LazyLock<Vec<Entry>> = LazyLock::new(|| entries(include_str!("receiver.toml")));
static EXAMPLES: LazyLock<BTreeMap<String, Example>> = LazyLock::new(|| {
    toml::from_str(include_str!("examples.toml")).expect("examples.toml is part of this program, and tested")
});

fn entries(text: &str) -> Vec<Entry> {
    toml::from_str::<File>(text).expect("the catalogue is part of this program, and tested").entry
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all() -> impl Iterator<Item = &'static Entry> {
        sender().iter().chain(receiver())
    }

    #[test]
    fn ids_are_slugs_and_no_id_is_there_twice() {
        let mut seen = BTreeSet::new();
        for entry in all() {
            let slug = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
            assert!(entry.id.chars().all(slug), "{}", entry.id);
            assert!(seen.insert(&entry.id), "{} is there twice", entry.id);
        }
    }

    #[test]
    fn every_entry_says_what_must_hold_where_that_is_from_and_what_to_do() {
        for Entry { id, source, requirement, remedy, .. } in all() {
            for (what, text) in [("source", source), ("requirement", requirement), ("remedy", remedy)] {
                assert!(!text.trim().is_empty() && !text.ends_with('.'), "{id}: {what}: {text:?}");
            }
        }
    }

    #[test]
    fn every_entry_says_why_it_matters() {
        for Entry { id, why, .. } in all() {
            assert!(!why.trim().is_empty() && !why.ends_with('.'), "{id}: why: {why:?}");
        }
    }

    /// But for those that only report something, which nobody has to mend.
    #[test]
    fn every_case_for_a_receiver_shows_how_to_mend_it_with_common_frameworks() {
        for entry in receiver().iter().filter(|entry| entry.severity != Severity::Info) {
            let example = example(entry).unwrap_or_else(|| panic!("{} shows nothing", entry.id));
            for framework in ["express", "flask", "go", "laravel"] {
                assert!(example.contains_key(framework), "{}: nothing for {framework}", entry.id);
            }
        }
    }

    #[test]
    fn every_example_is_shown_and_every_one_that_is_named_exists() {
        let named: BTreeSet<_> = all().filter_map(|entry| entry.example.as_deref()).collect();
        let known: BTreeSet<_> = EXAMPLES.keys().map(String::as_str).collect();
        assert_eq!(named, known);
    }
}
