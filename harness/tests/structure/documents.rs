//! The documents' length, plainness and links.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::prose::{self, Figures, Sentence};
use crate::source;

const WORDS_MAX: [(&str, usize); 3] =
    [("README.md", 1_300), ("ARCHITECTURE.md", 3_000), ("docs/internals/", 1_200)];
/// In a Rust file only comments count.
const MEASURED: [&str; 2] = [".md", ".rs"];
const FREE_PER_THOUSAND_MAX: usize = 3;
const LONG_PERCENT_MAX: usize = 6;
/// Folders that runs and builds make, which no commit has.
const MADE: [&str; 3] = ["reports/runs", "reports/plan", "reports/sim"];
/// Reports about the code of others name its files.
const OTHERS: &str = "reports/peers/";
/// A name in backticks that ends so is a file, also where it begins in the middle of a path.
const FILES: [&str; 4] = [".rs", ".md", ".sql", ".sh"];

pub(crate) fn tracked() -> BTreeSet<String> {
    let listed =
        Command::new("git").args(["ls-files", "-z"]).current_dir(source::root()).output().expect("git");
    let listed = String::from_utf8(listed.stdout).expect("paths in UTF-8");
    let there = listed.split('\0').filter(|path| !path.is_empty() && source::root().join(path).is_file());
    let files: BTreeSet<String> = there.map(str::to_owned).collect();
    assert!(files.contains("README.md"), "git lists no files");
    files
}

fn documents(tracked: &BTreeSet<String>) -> Vec<(&str, String)> {
    let documents = tracked.iter().filter(|path| path.ends_with(".md"));
    documents.map(|path| (path.as_str(), source::read(&source::root().join(path)))).collect()
}

#[track_caller]
fn holds(complaints: &[String], what: &str) {
    assert!(complaints.is_empty(), "{what} ({}):\n\n{}\n", complaints.len(), complaints.join("\n"));
}

#[test]
fn no_document_is_too_long() {
    let tracked = tracked();
    let texts = documents(&tracked);
    for (path, max) in WORDS_MAX {
        let meant = |name: &str| if path.ends_with('/') { name.starts_with(path) } else { name == path };
        let found: Vec<_> = texts.iter().filter(|(name, _)| meant(name)).collect();
        assert!(!found.is_empty(), "there is no {path}");
        for (name, text) in found {
            let words = text.split_whitespace().count();
            assert!(words <= max, "{name} has {words} words; {max} are the most");
        }
    }
}

#[test]
fn the_english_is_plain() {
    let tracked = tracked();
    let measured = tracked.iter().filter(|path| MEASURED.iter().any(|kind| path.ends_with(kind)));
    assert_plain(measured.flat_map(|path| {
        let sentences = prose::sentences(path, &source::read(&source::root().join(path)));
        sentences.into_iter().map(|sentence| (path.clone(), sentence))
    }));
}

/// Each sentence with its place.
#[track_caller]
pub(crate) fn assert_plain(sentences: impl Iterator<Item = (String, Sentence)>) {
    let mut all = Figures::default();
    let mut worst = Vec::new();
    for (place, Sentence { text, figures }) in sentences {
        all += figures;
        if figures.free + figures.long > 0 {
            worst.push((figures.free * 10 + figures.words / 4, format!("{place}: {text}")));
        }
    }
    worst.sort_unstable_by(|one, other| other.cmp(one));
    let worst: Vec<String> = worst.into_iter().take(20).map(|(_, line)| line).collect();
    let is_plain = all.free * 1_000 <= FREE_PER_THOUSAND_MAX * all.words
        && all.long * 100 <= LONG_PERCENT_MAX * all.sentences;
    assert!(
        is_plain,
        "{all:?}: expected at most {FREE_PER_THOUSAND_MAX} free relatives (what …, who …, whoever …) in 1,000 words, and at most \
         {LONG_PERCENT_MAX} % of sentences over 35 words; mend these first:\n\n{}\n",
        worst.join("\n")
    );
}

#[test]
fn every_link_leads_somewhere() {
    let tracked = tracked();
    let texts = documents(&tracked);
    let complaints = texts.iter().flat_map(|(path, text)| dead_links(path, text, &texts));
    holds(&complaints.collect::<Vec<_>>(), "links that lead nowhere");
}

#[test]
fn every_path_in_backticks_exists() {
    let tracked = tracked();
    let texts = documents(&tracked);
    let ours = texts.iter().filter(|(path, _)| !path.starts_with(OTHERS));
    let missing = ours.flat_map(|(path, text)| {
        let gone = paths(text, &tracked).into_iter().filter(|named| !exists(named, &tracked));
        gone.map(move |named| format!("{path}: {named}"))
    });
    holds(&missing.collect::<Vec<_>>(), "paths that do not exist");
}

/// Each row ends with the tests that hold it.
#[test]
fn every_invariant_names_tests_that_exist() {
    let text = source::read(&source::root().join("ARCHITECTURE.md"));
    let (_, section) = text.split_once("\n## Invariants\n").expect("ARCHITECTURE.md lists the invariants");
    let section = section.split("\n## ").next().unwrap_or_default();
    let sources = tracked().into_iter().filter(|path| path.ends_with(".rs"));
    let sources: Vec<String> = sources.map(|path| source::read(&source::root().join(path))).collect();
    let tests: BTreeSet<&str> = sources.iter().flat_map(|text| functions(text)).collect();
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 10, "the table has {} rows", rows.len());
    for row in rows {
        let cell = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap_or_default();
        let named: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test holds this invariant: {row}");
        for name in named {
            assert!(tests.contains(name), "there is no test `{name}`: {row}");
        }
    }
}

fn functions(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.split("fn ").skip(1).filter_map(move |rest| rest.split(|letter| !is_name(letter)).next())
}

fn prose_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

fn dead_links(path: &str, text: &str, documents: &[(&str, String)]) -> Vec<String> {
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let mut dead = Vec::new();
    for line in prose_lines(text) {
        for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let whole = if file.is_empty() { path.to_owned() } else { joined(folder, file) };
            let known = documents.iter().find(|(name, _)| *name == whole);
            let has_anchor = anchor.is_empty() || known.is_some_and(|(_, text)| has_heading(text, anchor));
            if !has_anchor || known.is_none() && !source::root().join(&whole).exists() {
                dead.push(format!("{path}: {target}"));
            }
        }
    }
    dead
}

fn joined(folder: &Path, file: &str) -> String {
    let mut parts: Vec<&str> =
        folder.to_str().unwrap_or_default().split('/').filter(|part| !part.is_empty()).collect();
    for part in file.split('/') {
        match part {
            ".." => _ = parts.pop(),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Whether a document has a heading with this anchor, by GitHub's rule.
fn has_heading(text: &str, anchor: &str) -> bool {
    prose_lines(text).filter_map(|line| line.strip_prefix('#')).any(|heading| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        kept.collect::<String>().replace(' ', "-") == anchor
    })
}

/// They begin with a folder of the repository, or end as a file of it does.
fn paths<'a>(text: &'a str, tracked: &BTreeSet<String>) -> Vec<&'a str> {
    let folders: BTreeSet<&str> =
        tracked.iter().filter_map(|path| path.split_once('/')).map(|(folder, _)| folder).collect();
    let is_path = |word: &&str| {
        let plain = word.chars().all(|letter| letter.is_ascii_alphanumeric() || "_./-".contains(letter));
        let begins = word.split_once('/').is_some_and(|(folder, _)| folders.contains(folder));
        plain
            && word.contains('/')
            && !word.starts_with('/')
            && (begins || FILES.iter().any(|end| word.ends_with(end)))
    };
    prose_lines(text).flat_map(|line| line.split('`').skip(1).step_by(2)).filter(is_path).collect()
}

fn exists(named: &str, tracked: &BTreeSet<String>) -> bool {
    let named = named.trim_end_matches('/');
    MADE.iter().any(|made| named.starts_with(made))
        || source::root().join(named).exists()
        || tracked.iter().any(|path| path.ends_with(&format!("/{named}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_link_is_found() {
        let documents = [("docs/a.md", "## On  CI: now\n".to_owned())];
        let text = "[a](../README.md) [b](b.md) [c](a.md#on--ci-now) [d](a.md#off) [e](https://x.example)\n```\n[f](g.md)\n```\n";
        assert_eq!(dead_links("docs/a.md", text, &documents), ["docs/a.md: b.md", "docs/a.md: a.md#off"]);
    }

    #[test]
    fn a_path_that_is_gone_is_found() {
        let tracked = BTreeSet::from(["sender/src/lib.rs".to_owned(), "sender/src/store/gate.rs".to_owned()]);
        let text =
            "`sender/src/` `store/gate.rs` `sender/gone.rs` `gone/gate.rs` `a/b` `/v1/x.rs` `sender/<x>.rs`";
        let named = paths(text, &tracked);
        assert_eq!(named, ["sender/src/", "store/gate.rs", "sender/gone.rs", "gone/gate.rs"]);
        let gone: Vec<&str> = named.into_iter().filter(|named| !exists(named, &tracked)).collect();
        assert_eq!(gone, ["sender/gone.rs", "gone/gate.rs"]);
    }
}
