//! The messages: every string of three words or more outside of tests and SQL. `just messages` prints them all.

use proc_macro2::{Literal, TokenTree};
use syn::spanned::Spanned;

use crate::circles::is_for_tests;
use crate::documents::{assert_plain, tracked};
use crate::prose;
use crate::source::{self, Source};

/// Fewer mean that this test no longer sees them.
const MESSAGES_MIN: usize = 2_000;
const WORDS_MIN: usize = 3;
const FOLDERS: [&str; 3] = ["sender/", "receiver/", "harness/"];
const OUTSIDE: [&str; 4] = ["/tests/", "/fuzz/", "/tests.rs", "failed-sync"];
const SQL: [&str; 8] = ["SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "WHERE", "FROM", "PRAGMA"];

/// Its text has one word in place of each placeholder.
struct Message {
    place: String,
    text: String,
}

fn messages(path: &str, text: &str) -> Vec<Message> {
    let source = Source::parse(path, text);
    let is_tests =
        |item: &&syn::Item| matches!(item, syn::Item::Mod(item) if item.attrs.iter().any(is_for_tests));
    let tests = source.syntax.items.iter().filter(is_tests).map(|item| item.span());
    let tests: Vec<_> = tests.map(|span| span.start().line..=span.end().line).collect();
    let mut found: Vec<(usize, String)> = Vec::new();
    for list in source.token_lists() {
        // Comments are measured with the documents.
        if matches!(list.first(), Some(TokenTree::Ident(name)) if name == "doc") {
            continue;
        }
        for token in &list {
            if let TokenTree::Literal(literal) = token
                && !tests.iter().any(|lines| lines.contains(&source::line(literal.span())))
                && let Some(text) = string(literal).filter(|text| is_message(text))
            {
                found.push((source::line(literal.span()), text));
            }
        }
    }
    found.sort();
    found.into_iter().map(|(line, text)| Message { place: format!("{path}:{line}"), text }).collect()
}

fn string(literal: &Literal) -> Option<String> {
    let text = syn::parse_str::<syn::LitStr>(&literal.to_string()).ok()?.value();
    let mut pieces = text.split('{');
    let first = pieces.next().unwrap_or_default().to_owned();
    let rest = pieces.map(|piece| format!("X{}", piece.split_once('}').map_or(piece, |(_, after)| after)));
    Some(std::iter::once(first).chain(rest).collect())
}

fn is_message(text: &str) -> bool {
    let mut words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    text.split_whitespace().count() >= WORDS_MIN && !words.any(|word| SQL.contains(&word))
}

/// Indented lines of a help text are commands.
fn without_commands(text: &str) -> String {
    text.lines().map(|line| if line.starts_with("  ") { "" } else { line }).collect::<Vec<_>>().join("\n")
}

#[test]
fn messages_are_plain() {
    let files = tracked();
    let files = files.iter().filter(|path| {
        path.ends_with(".rs")
            && FOLDERS.iter().any(|folder| path.starts_with(folder))
            && !OUTSIDE.iter().any(|part| path.contains(part))
    });
    let found: Vec<Message> =
        files.flat_map(|path| messages(path, &source::read(&source::root().join(path)))).collect();
    if std::env::var("HOOKPROOF_MESSAGES").is_ok_and(|asked| asked == "print") {
        found.iter().for_each(|message| println!("{}: {}", message.place, message.text));
    }
    assert!(found.len() >= MESSAGES_MIN, "found {} messages; expected {MESSAGES_MIN} or more", found.len());
    let sentences = found.iter().flat_map(|message| {
        let sentences = prose::sentences("a.md", &without_commands(&message.text));
        sentences.into_iter().map(|sentence| (message.place.clone(), sentence))
    });
    assert_plain(sentences);
}

#[test]
fn a_message_is_a_string_of_three_words_outside_of_tests_and_sql() {
    let code = r##"
        /// A comment of some words.
        const A: &str = "one two {three} \
            four {what}";
        const B: &[&str] = &["one two", "SELECT a FROM b", r#"a "raw" one"#];
        fn a() { panic!("it {what:?} fails\n  hookproof run a b c\nat {{last}}") }
#[cfg(test)]
mod tests { const C: &str = "not a message at all"; }
        const D: &str = "after the tests too";"##;
    let found: Vec<String> =
        messages("a.rs", code).into_iter().map(|one| format!("{} {}", one.place, one.text)).collect();
    let panics = "a.rs:6 it X fails\n  hookproof run a b c\nat XX}";
    let last = "a.rs:9 after the tests too";
    assert_eq!(found, ["a.rs:3 one two X four X", "a.rs:5 a \"raw\" one", panics, last]);
    assert_eq!(without_commands(panics), "a.rs:6 it X fails\n\nat XX}");
}
