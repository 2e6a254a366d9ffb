use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;

const MEMBERS: [&str; 13] = [
    "sender",
    "sender/words",
    "sender/engine",
    "sender/store",
    "receiver",
    "receiver/verify",
    "harness",
    "harness/judge",
    "harness/play",
    "harness/simulator",
    "sender/failed-sync",
    "sender/power-loss",
    "benches",
];

pub(crate) struct Source {
    pub(crate) path: String,
    /// They hold more than a comment; from 1.
    pub(crate) code_lines: Vec<usize>,
    pub(crate) syntax: syn::File,
    tokens: TokenStream,
}

/// With `use` expanded: `use std::{fs, time::Instant}` names `std`, `std::fs`, `std::time` and `std::time::Instant`.
pub(crate) struct Name {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
}

impl Source {
    pub(crate) fn parse(path: &str, text: &str) -> Self {
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{path} is not Rust: {error}"));
        let syntax =
            syn::parse2(tokens.clone()).unwrap_or_else(|error| panic!("{path} is not Rust: {error}"));
        let lines = text.lines().map(str::trim_start).zip(1..);
        let code = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with("//"));
        Self { path: path.to_owned(), code_lines: code.map(|(_, line)| line).collect(), syntax, tokens }
    }

    /// One for each pair of brackets, and one for the rest. Arguments of macros are included.
    pub(crate) fn token_lists(&self) -> Vec<Vec<TokenTree>> {
        let mut lists: Vec<Vec<TokenTree>> = vec![self.tokens.clone().into_iter().collect()];
        let mut read = 0;
        while let Some(list) = lists.get(read) {
            let inside = list.iter().filter_map(|token| match token {
                TokenTree::Group(group) => Some(group.stream().into_iter().collect()),
                _ => None,
            });
            let inside: Vec<Vec<TokenTree>> = inside.collect();
            lists.extend(inside);
            read += 1;
        }
        lists
    }

    pub(crate) fn names(&self) -> Vec<Name> {
        let mut names = Vec::new();
        collect_names(self.tokens.clone(), &[], &mut names);
        names
    }
}

impl Name {
    /// Whether the name ends in `path` (such as `std::time`), in whole identifiers.
    pub(crate) fn ends_with(&self, path: &str) -> bool {
        let wanted: Vec<&str> = path.split("::").collect();
        self.segments.len() >= wanted.len() && self.segments[self.segments.len() - wanted.len()..] == wanted
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(crate) fn workspace() -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    // A nested member is read with the outer one.
    let mut unread: Vec<PathBuf> =
        MEMBERS.iter().filter(|member| !member.contains('/')).map(|member| root.join(member)).collect();
    let built: Vec<PathBuf> = MEMBERS.map(|member| root.join(member).join("target")).to_vec();
    while let Some(path) = unread.pop() {
        if path.is_dir() && !built.contains(&path) {
            unread.extend(entries(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found.iter().map(|path| Source::parse(&relative(path, &root), &read(path))).collect()
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("reading {}: {error}", path.display()))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(folder).unwrap_or_else(|error| panic!("listing {}: {error}", folder.display()));
    listed.map(|entry| entry.expect("an entry of a folder just opened").path()).collect()
}

fn relative(path: &Path, root: &Path) -> String {
    let path = path.strip_prefix(root).expect("found below the root");
    path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// Identifiers joined by `::` form a path, and so does each branch of the braces after a `::`.
fn collect_names(tokens: TokenStream, prefix: &[String], names: &mut Vec<Name>) {
    let mut path: Vec<String> = Vec::new();
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                if colons != 2 {
                    path = prefix.to_vec();
                }
                path.push(ident.unraw().to_string());
                names.push(Name { segments: path.clone(), line: line(ident.span()) });
                colons = 0;
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' => {
                colons = if mark.spacing() == Spacing::Joint { 1 } else { colons + 1 };
            }
            TokenTree::Group(group) => {
                let branches = colons == 2 && group.delimiter() == Delimiter::Brace;
                collect_names(group.stream(), if branches { &path } else { &[] }, names);
                colons = 0;
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {
                path.clear();
                colons = 0;
            }
        }
    }
}

/// From 1.
pub(crate) fn line(span: Span) -> usize {
    span.start().line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &str, expected: &str) {
        let names: Vec<String> =
            Source::parse("a.rs", code).names().into_iter().map(|name| name.segments.join("::")).collect();
        assert_eq!(names.join(" "), expected, "in {code}");
    }

    #[test]
    fn every_member_of_the_workspace_is_read() {
        let manifest = read(&root().join("Cargo.toml"));
        assert!(
            manifest.contains(&format!("members = {MEMBERS:?}\n")),
            "Cargo.toml has other members: name them here"
        );
    }

    #[test]
    fn a_use_is_spelled_out() {
        check("use std::{fs, a::{B, C}};", "use std std::fs std::a std::a::B std::a::C");
        check("use {a::B, c};", "use a a::B c");
    }

    #[test]
    fn a_path_begins_and_ends_where_it_should() {
        check("type A = B<c::D>;", "type A B c c::D");
        check("type A = ::b::C;", "type A b b::C");
        check("struct A { b: c::D }", "struct A b c c::D");
        check("const A: u8 = B::<u8>::c();", "const A u8 B u8 c");
    }

    #[test]
    fn macros_count_and_docs_comments_and_strings_do_not() {
        check("/// a::b\n// c::d\nm! { e::f, \"g::h\" }", "doc m e e::f");
    }

    #[test]
    fn a_name_ends_in_whole_identifiers() {
        let name = Name { segments: ["a", "std", "time"].map(str::to_owned).to_vec(), line: 1 };
        assert!(name.ends_with("std::time") && name.ends_with("time"));
        assert!(!name.ends_with("td::time") && !name.ends_with("std") && !name.ends_with("b::a::std::time"));
    }
}
