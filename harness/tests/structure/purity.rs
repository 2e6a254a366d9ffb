//! The engine depends only on its arguments, so that a seed repeats a run.

use proc_macro2::{Literal, TokenTree};
use syn::visit::{self, Visit};
use syn::{Lit, PathArguments, PathSegment};

use crate::Violation;
use crate::source::{Source, line};

const TIME: &str = "time comes in as an argument: use engine::time";
const DRIVER: &str = "the driver does that: say it in an Output and take the answer as an Input";
const SETTING: &str = "what the engine needs to know comes in as an Input";
const SEED: &str = "the same seed must give the same run: use the generator that the engine holds";
const HASHER: &str = "its hasher is random: use a BTreeMap or BTreeSet, or a hasher without a seed";

/// The engine's crate keeps the rest out.
const OUTSIDE: [(&str, &str); 15] = [
    ("std::net", DRIVER),
    ("std::fs", DRIVER),
    ("std::thread", DRIVER),
    ("sleep", DRIVER),
    ("std::env", SETTING),
    ("std::time", TIME),
    ("SystemTime", TIME),
    ("Instant::now", TIME),
    ("RandomState", SEED),
    ("HashMap::new", HASHER),
    ("HashMap::from", HASHER),
    ("HashMap::with_capacity", HASHER),
    ("HashSet::new", HASHER),
    ("HashSet::from", HASHER),
    ("HashSet::with_capacity", HASHER),
];

/// The number of type arguments before the hasher.
const HASHED: [(&str, usize); 2] = [("HashMap", 2), ("HashSet", 1)];

const FLOATS: &str = "floating point rounds: count in integers of a smaller unit";

pub(crate) fn engine_knows_nothing_outside(source: &Source) -> Vec<Violation> {
    if is_engine(source) { named(source, &OUTSIDE) } else { Vec::new() }
}

pub(crate) fn engine_computes_in_integers(source: &Source) -> Vec<Violation> {
    if !is_engine(source) {
        return Vec::new();
    }
    let mut found = named(source, &[("f32", FLOATS), ("f64", FLOATS)]);
    let lists = source.token_lists();
    let literals = lists.iter().flat_map(|list| floats(list));
    found.extend(literals.map(|float| forbidden(source, line(float.span()), float.to_string(), FLOATS)));
    found
}

/// The default hasher is random.
pub(crate) fn engine_maps_name_their_hasher(source: &Source) -> Vec<Violation> {
    if !is_engine(source) {
        return Vec::new();
    }
    let mut maps = DefaultMaps::default();
    maps.visit_file(&source.syntax);
    maps.found.into_iter().map(|(line, name)| forbidden(source, line, name, HASHER)).collect()
}

const PURE: [&str; 2] = ["sender/engine/src/", "sender/words/src/"];

pub(crate) fn is_engine(source: &Source) -> bool {
    PURE.iter().any(|folder| source.path.starts_with(folder))
}

fn named(source: &Source, banned: &[(&str, &str)]) -> Vec<Violation> {
    let mut found = Vec::new();
    for name in source.names() {
        let hits = banned.iter().filter(|(path, _)| name.ends_with(path));
        found.extend(hits.map(|(path, remedy)| forbidden(source, name.line, (*path).to_owned(), remedy)));
    }
    found
}

fn forbidden(source: &Source, line: usize, item: String, remedy: &str) -> Violation {
    let problem = "has no place in the engine".to_owned();
    Violation { path: source.path.clone(), line, item, figure: None, problem, remedy: remedy.to_owned() }
}

/// After a single dot, `0.1` is a field of a field.
fn floats(tokens: &[TokenTree]) -> Vec<&Literal> {
    let is_dot = |at: Option<usize>| match at.map(|at| &tokens[at]) {
        Some(TokenTree::Punct(mark)) => mark.as_char() == '.',
        _ => false,
    };
    let numbers = tokens.iter().enumerate().filter_map(|(at, token)| match token {
        TokenTree::Literal(literal) => Some((at, literal)),
        _ => None,
    });
    numbers
        .filter(|(at, _)| !is_dot(at.checked_sub(1)) || is_dot(at.checked_sub(2)))
        .filter(|(_, literal)| match Lit::new((*literal).clone()) {
            Lit::Float(_) => true,
            Lit::Int(number) => ["f32", "f64"].contains(&number.suffix()),
            _ => false,
        })
        .map(|(_, literal)| literal)
        .collect()
}

#[derive(Default)]
struct DefaultMaps {
    found: Vec<(usize, String)>,
}

impl Visit<'_> for DefaultMaps {
    fn visit_path_segment(&mut self, segment: &PathSegment) {
        let hashed = HASHED.iter().find(|(name, _)| segment.ident == name);
        if let (Some((name, at)), PathArguments::AngleBracketed(arguments)) = (hashed, &segment.arguments)
            && arguments.args.len() <= *at
        {
            self.found.push((line(segment.ident.span()), (*name).to_owned()));
        }
        visit::visit_path_segment(self, segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other code must not be bound by these rules.
    #[track_caller]
    fn check(code: &str, expected: &[&str]) {
        let all = |source: &Source| {
            let rules =
                [engine_knows_nothing_outside, engine_computes_in_integers, engine_maps_name_their_hasher];
            rules.iter().flat_map(|rule| rule(source)).collect()
        };
        crate::check(all, "sender/engine/src/dispatch/lanes.rs", code, expected);
        crate::check(all, "sender/words/src/units.rs", code, expected);
        crate::check(all, "sender/src/runtime/turns.rs", code, &[]);
    }

    #[test]
    fn each_banned_name_is_caught_however_it_is_written() {
        for (banned, _) in OUTSIDE {
            check(&format!("use {banned};"), &[banned]);
            check(&format!("fn f() {{ ::{banned}::g(); }}"), &[banned]);
            check(&format!("fn f() {{ assert!(a::{banned}(1)); }}"), &[banned]);
            let (parent, child) = banned.rsplit_once("::").unwrap_or(("a", banned));
            check(&format!("use {parent}::{{b::{{self}}, {child} as c}};"), &[banned]);
        }
    }

    #[test]
    fn the_clock_is_caught_behind_other_names() {
        check("use std::time as t;", &["std::time"]);
        check("use std::time::Instant as Moment;", &["std::time"]);
        check("use std::{fmt, time::{Duration, Instant}};", &["std::time"]);
        check("fn f() { Instant::now(); }", &["Instant::now"]);
    }

    #[test]
    fn comments_docs_and_strings_may_name_anything() {
        check(
            "//! std::fs, std::time\n/// f64, HashMap::new()\nfn f() { /* sleep */ g(\"sleep\") } // 0.5",
            &[],
        );
    }

    #[test]
    fn only_whole_identifiers_count() {
        check(
            "fn asleep(strand: Hyper, now: Instant) { sleep_until(as_secs_f64(now)); my::time::Instant::since(); }",
            &[],
        );
    }

    #[test]
    fn floats_are_caught_as_types_and_as_numbers() {
        check("fn f(a: f64) -> f32 { g() }", &["f64", "f32"]);
        check("fn f() { g(0.5, 1e3, 2f64, 3.) }", &["0.5", "1e3", "2f64", "3."]);
        check("fn f() { assert!(a < 0.5); }", &["0.5"]);
        check("fn f() { a..0.5 }", &["0.5"]);
    }

    #[test]
    fn integers_and_fields_of_fields_are_not_floats() {
        check("fn f() { g(1, 0x1e3, 0x1f32, 1_000u64, a.0.1, a.0.1.2, 0..5) }", &[]);
    }

    #[test]
    fn maps_with_the_default_hasher_are_caught() {
        check("struct A { a: HashMap<u8, u8>, b: HashSet<u8> }", &["HashMap", "HashSet"]);
        check("fn f() { a.collect::<std::collections::HashMap<_, _>>(); }", &["HashMap"]);
        check("fn f() { HashMap::<u8, u8>::default(); }", &["HashMap"]);
    }

    #[test]
    fn maps_with_a_hasher_of_their_own_or_with_an_order_are_fine() {
        check("use std::collections::{BTreeMap, HashMap};", &[]);
        check("struct A { a: HashMap<u8, u8, Plain>, b: HashSet<u8, Plain>, c: BTreeMap<u8, u8> }", &[]);
    }
}
