//! The catalogue: every check of a sender and every case for a receiver, with severity, source and remedy.
//!
//! Ids are stable slugs: never renumbered, never reused.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::check::{CHECKS, Check};
pub use crate::entry::{Entry, Example, SelectError, Selection, Severity, Verdict};

#[must_use]
pub fn sender() -> &'static [Entry] {
    &SENDER
}

#[must_use]
pub fn receiver() -> &'static [Entry] {
    &RECEIVER
}

#[must_use]
pub fn find(id: &str) -> Option<&'static Entry> {
    sender().iter().chain(receiver()).find(|entry| entry.id == id)
}

#[must_use]
pub fn example(entry: &Entry) -> Option<&'static Example> {
    EXAMPLES.get(entry.example.as_deref()?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    entry: Vec<Entry>,
}

static SENDER: LazyLock<Vec<Entry>> = LazyLock::new(|| CHECKS.iter().map(Check::entry).collect());
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
    use crate::signature::Profile;

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

    /// Cases that only report need no remedy.
    #[test]
    fn every_case_for_a_receiver_shows_how_to_mend_it_with_common_frameworks() {
        for entry in receiver().iter().filter(|entry| entry.severity != Severity::Info) {
            let example = example(entry).unwrap_or_else(|| panic!("{} shows nothing", entry.id));
            for framework in ["express", "flask", "go", "laravel"] {
                assert!(example.lines.contains_key(framework), "{}: nothing for {framework}", entry.id);
            }
        }
    }

    #[test]
    fn entries_and_examples_of_the_receiver_name_no_header_of_a_profile() {
        let names = |profile: Profile| {
            let profile = profile.definition();
            // In RFC 9421 it is a plain word.
            let signature = Some(profile.signature_header()).filter(|_| !profile.is_message());
            [signature, profile.id_header(), profile.timestamp_header(), Some(profile.signature_prefix())]
        };
        let names: BTreeSet<&str> = Profile::ALL.into_iter().flat_map(names).flatten().collect();
        for entry in receiver() {
            let lines = example(entry).into_iter().flat_map(|example| example.lines.values());
            for text in [&entry.requirement, &entry.why, &entry.remedy].into_iter().chain(lines) {
                let text = text.to_lowercase();
                let named: Vec<_> =
                    names.iter().filter(|name| !name.is_empty() && text.contains(**name)).collect();
                assert!(named.is_empty(), "{}: {named:?}: {text}", entry.id);
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
