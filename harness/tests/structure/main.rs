//! A rule maps one source file to its violations; [`RULES`] lists them all. A rule sees a file's syntax and tokens, so
//! it judges code, never comments or string literals.

mod circles;
mod dependencies;
mod documents;
mod exceptions;
mod messages;
mod names;
mod prose;
mod purity;
mod sizes;
mod source;
mod stores;
mod walls;

use std::fmt;

use exceptions::Exception;
use source::Source;

const RULES: [Rule; 8] = [
    sizes::functions_are_short,
    sizes::files_are_short,
    sizes::structs_are_small,
    names::modules_say_what_they_hold,
    purity::engine_knows_nothing_outside,
    purity::engine_computes_in_integers,
    purity::engine_maps_name_their_hasher,
    stores::sqlite_keeps_to_itself,
];

/// The list only shrinks: the test fails if a line is unnecessary, or if its figure is wrong.
const EXCEPTIONS: [Exception; 5] = [
    Exception {
        path: "harness/judge/src/check/mod.rs",
        item: "struct Check",
        figure: 16,
        reason: "it is one declaration, of which a check writes the fields that differ from the usual",
    },
    Exception {
        path: "harness/judge/src/scenario/expect.rs",
        item: "struct Expect",
        figure: 17,
        reason: "its fields are the keys of [expect], which users write",
    },
    Exception {
        path: "harness/src/driver/file.rs",
        item: "struct DriverFile",
        figure: 21,
        reason: "its fields are the top-level keys of a driver file, which its users write",
    },
    Exception {
        path: "harness/judge/src/signature/definition.rs",
        item: "struct Written",
        figure: 28,
        reason: "its fields are the keys of [sign] and of profiles, which users write",
    },
    Exception {
        path: "harness/judge/src/trace/reader.rs",
        item: "struct Trace",
        figure: 20,
        reason: "it has a field for each kind of line that a trace holds",
    },
];

type Rule = fn(&Source) -> Vec<Violation>;

#[derive(Debug)]
struct Violation {
    path: String,
    line: usize,
    item: String,
    /// Only a violation with a size can be an exception.
    figure: Option<usize>,
    problem: String,
    remedy: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, item, problem, remedy, .. } = self;
        write!(f, "{path}:{line}: {item}: {problem}; {remedy}")
    }
}

#[test]
fn the_workspace_keeps_every_rule() {
    let sources = source::workspace();
    assert!(
        sources.iter().any(purity::is_engine),
        "no file of the engine was seen: the rules on it hold nothing"
    );
    let violations = sources.iter().flat_map(|source| RULES.iter().flat_map(|rule| rule(source)));
    let complaints = exceptions::weigh(&violations.collect::<Vec<_>>(), &EXCEPTIONS);
    assert!(
        complaints.is_empty(),
        "the structure does not hold ({}):\n\n{}\n",
        complaints.len(),
        complaints.join("\n")
    );
}

#[track_caller]
fn check(rule: Rule, path: &str, code: &str, expected: &[&str]) {
    let violations = rule(&Source::parse(path, code));
    let items: Vec<&str> = violations.iter().map(|violation| violation.item.as_str()).collect();
    assert_eq!(items, expected, "in {path}:\n{code}");
}
