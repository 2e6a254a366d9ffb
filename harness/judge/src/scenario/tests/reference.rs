//! The tables of `docs/scenario.md`. `HOOKPROOF_BLESS=1 cargo test -p hookproof-judge --lib scenario::tests::reference`
//! writes them anew.

use std::fmt::Write;

use crate::scenario::ROOT;
use crate::scenario::reader::{Form, Need, Section};

/// Every key, once.
const EXAMPLE: &str = include_str!("everything.toml");
/// The part of the page between these lines is generated; the rest is written by hand.
const BEGIN: &str = "<!-- keys of ";
const END: &str = "<!-- end -->\n";

/// A section that is used twice comes once.
fn sections(path: &str, section: &'static Section, found: &mut Vec<(String, &'static Section)>) {
    if found.iter().any(|(_, known)| known.about == section.about) {
        return;
    }
    found.push((path.to_owned(), section));
    for field in section.fields {
        let below = if path.is_empty() { field.key.to_owned() } else { format!("{path}.{}", field.key) };
        match &field.form {
            Form::Table(inner) | Form::Tables(inner) => sections(&below, inner, found),
            Form::Map(Form::Table(inner) | Form::Either(Form::Table(inner), _)) => {
                sections(&format!("{below}.NAME"), inner, found);
            }
            _ => {}
        }
    }
}

fn form(form: &Form) -> String {
    match form {
        Form::Text => "text".to_owned(),
        Form::Flag => "`true`, `false`".to_owned(),
        Form::Count => "whole number".to_owned(),
        Form::Decimal => "number".to_owned(),
        Form::Duration => "duration".to_owned(),
        Form::Rate => "rate".to_owned(),
        Form::Size => "size".to_owned(),
        Form::Window => "window cap".to_owned(),
        Form::Day => "day".to_owned(),
        Form::Durations => "duration or range".to_owned(),
        Form::Counts => "whole number or range".to_owned(),
        Form::Word(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Form::List(inner) => format!("list: {}", self::form(inner)),
        Form::Map(inner) => format!("table by name: {}", self::form(inner)),
        Form::Table(_) => "table".to_owned(),
        Form::Tables(_) => "tables".to_owned(),
        Form::Either(one, other) => format!("{}; or {}", self::form(one), self::form(other)),
    }
}

/// The blocks of the example below the header of this path.
fn example(path: &str) -> String {
    let mut block = String::new();
    let mut inside = path.is_empty();
    for line in EXAMPLE.lines() {
        if line.starts_with('[') {
            let header = line.split('#').next().unwrap_or(line).trim();
            inside = header.trim_matches(['[', ']']) == path.trim_end_matches(".NAME");
        }
        if inside {
            block += line;
            block.push('\n');
        }
    }
    block.trim().to_owned()
}

fn table(path: &str, section: &Section) -> String {
    let mut text = format!("{}\n\n| key | value | meaning |\n|---|---|---|\n", section.about);
    for field in section.fields {
        let needed = if field.need == Need::Must { " (required)" } else { "" };
        let about = field.about.replace('*', "\\*");
        let _ = writeln!(text, "| `{}`{needed} | {} | {about} |", field.key, form(&field.form));
    }
    let example = example(path);
    if !example.is_empty() {
        let _ = write!(text, "\n```toml\n{example}\n```\n");
    }
    text
}

/// The page with its generated parts made anew. A section of the form that the page has no place for, and a place that
/// stands for no section, panic.
fn generated(page: &str) -> String {
    let mut wanted = Vec::new();
    sections("", &ROOT, &mut wanted);
    let mut pieces = page.split(BEGIN);
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (path, rest) = piece.split_once(" -->\n").expect("a path");
        let (_, after) = rest.split_once(END).unwrap_or_else(|| panic!("{path} has no end"));
        let at =
            wanted.iter().position(|(known, _)| if known.is_empty() { path == "all" } else { known == path });
        let (known, section) =
            wanted.remove(at.unwrap_or_else(|| panic!("{path} is no section, or comes twice")));
        let _ = write!(text, "{BEGIN}{path} -->\n{}{END}{after}", table(&known, section));
    }
    assert!(
        wanted.is_empty(),
        "the page has no place for {:?}",
        wanted.iter().map(|one| &one.0).collect::<Vec<_>>()
    );
    text
}

#[test]
fn the_page_has_every_key_of_a_scenario() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenario.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let expected = generated(&page);
    if std::env::var_os("HOOKPROOF_BLESS").is_some() {
        std::fs::write(&path, expected).expect("written");
        return;
    }
    assert!(page == expected, "docs/scenario.md is stale; HOOKPROOF_BLESS=1 writes it anew");
}

#[test]
fn the_example_has_every_key() {
    let mut all = Vec::new();
    sections("", &ROOT, &mut all);
    let words: Vec<&str> =
        EXAMPLE.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').collect();
    for (path, section) in all {
        for key in section.fields.iter().map(|field| field.key) {
            assert!(words.contains(&key), "no example has {path}.{key}");
        }
    }
}

#[test]
#[should_panic(expected = "the page has no place for")]
fn a_section_without_a_place_is_noticed() {
    generated("# Scenario\n");
}
