//! Modules must not import each other in circles.
//!
//! The rule compares the files and folders of one folder. One imports another if a top-level `use` in any file inside
//! it names an item inside the other. Not counted: a parent that uses, declares or re-exports its children; a child
//! that uses items of its parent's own file; paths without `use`; code only for tests.

use std::collections::{BTreeMap, BTreeSet};

use syn::ext::IdentExt;
use syn::{Item, UseTree};

use crate::source::{self, Source};

const CRATES: [&str; 10] = [
    "sender/store/src",
    "sender/words/src",
    "sender/engine/src",
    "sender/src",
    "receiver/src",
    "receiver/verify/src",
    "harness/src",
    "harness/judge/src",
    "harness/play/src",
    "harness/simulator/src",
];
/// The longest chain of re-exports; a longer one is itself a circle.
const PASSED_ON_MAX: usize = 16;

struct Known {
    folder: &'static str,
    members: &'static [&'static str],
    reason: &'static str,
}

/// The test fails if a circle's members differ from its line, or if the circle is gone.
const KNOWN: &[Known] = &[Known {
    folder: "harness/judge/src/check",
    members: &["rate", "retry"],
    reason: "the level of a bucket is of use to both, and so is whether retries are to be expected",
}];

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let sources = source::workspace();
    let circles: Vec<Circle> = CRATES.iter().flat_map(|root| circles(root, &sources)).collect();
    let complaints = weigh(&circles, KNOWN);
    assert!(complaints.is_empty(), "imports go in circles:\n\n{}\n", complaints.join("\n"));
}

#[derive(Debug, PartialEq, Eq)]
struct Circle {
    folder: String,
    members: Vec<String>,
    imports: Vec<String>,
}

type Place = Vec<String>;

struct Crate {
    modules: BTreeMap<Place, Module>,
}

struct Module {
    path: String,
    scope: BTreeMap<String, Vec<String>>,
    imports: Vec<Vec<String>>,
}

impl Crate {
    fn read(root: &str, sources: &[Source]) -> Self {
        let own = sources.iter().filter_map(|source| Some((place(root, &source.path)?, source)));
        Self { modules: own.map(|(place, source)| (place, Module::read(source))).collect() }
    }

    /// `None` if it lies outside the crate.
    fn find(&self, from: &Place, name: &[String], depth: usize) -> Option<Place> {
        let (mut at, mut rest) = (from.clone(), name);
        match rest.first()?.as_str() {
            "crate" => (at, rest) = (Vec::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            first if self.child(from, first).is_none() && !self.brings(from, first) => return None,
            _ => {}
        }
        while let Some((part, after)) = rest.split_first() {
            if let Some(child) = self.child(&at, part) {
                (at, rest) = (child, after);
                continue;
            }
            let passed_on = self.modules.get(&at).and_then(|module| module.scope.get(part));
            let passed_on = passed_on.filter(|full| depth < PASSED_ON_MAX && full.as_slice() != name);
            return match passed_on {
                Some(full) => {
                    let further: Vec<String> = full.iter().chain(after).cloned().collect();
                    self.find(&at, &further, depth + 1)
                }
                None => Some(at),
            };
        }
        Some(at)
    }

    fn child(&self, place: &Place, name: &str) -> Option<Place> {
        let child: Place = place.iter().cloned().chain([name.to_owned()]).collect();
        self.modules.contains_key(&child).then_some(child)
    }

    fn brings(&self, place: &Place, name: &str) -> bool {
        self.modules.get(place).is_some_and(|module| module.scope.contains_key(name))
    }

    fn edges(&self) -> BTreeMap<Place, BTreeMap<(String, String), Vec<String>>> {
        let mut edges: BTreeMap<Place, BTreeMap<(String, String), Vec<String>>> = BTreeMap::new();
        for (from, module) in &self.modules {
            for import in &module.imports {
                let Some(to) = self.find(from, import, 0) else { continue };
                let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
                let (Some(one), Some(other)) = (from.get(shared), to.get(shared)) else { continue };
                let between = edges.entry(from[..shared].to_vec()).or_default();
                let told = format!("{}: use {}", module.path, import.join("::"));
                between.entry((one.clone(), other.clone())).or_default().push(told);
            }
        }
        edges
    }
}

impl Module {
    fn read(source: &Source) -> Self {
        let mut module = Self { path: source.path.clone(), scope: BTreeMap::new(), imports: Vec::new() };
        for item in &source.syntax.items {
            let Item::Use(import) = item else { continue };
            if import.leading_colon.is_none() && !import.attrs.iter().any(is_for_tests) {
                module.take(&import.tree, &mut Vec::new());
            }
        }
        module
    }

    fn take(&mut self, tree: &UseTree, before: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.unraw().to_string());
                self.take(&path.tree, before);
                before.pop();
            }
            UseTree::Name(name) => self.bring(name.ident.unraw().to_string(), None, before),
            UseTree::Rename(name) => {
                self.bring(name.ident.unraw().to_string(), Some(name.rename.unraw().to_string()), before);
            }
            UseTree::Glob(_) => self.imports.push(before.clone()),
            UseTree::Group(group) => group.items.iter().for_each(|one| self.take(one, before)),
        }
    }

    fn bring(&mut self, name: String, renamed: Option<String>, before: &[String]) {
        let mut full = before.to_vec();
        if name != "self" || before.is_empty() {
            full.push(name);
        }
        if let Some(last) = full.last().cloned() {
            self.scope.insert(renamed.unwrap_or(last), full.clone());
        }
        self.imports.push(full);
    }
}

pub(crate) fn is_for_tests(attribute: &syn::Attribute) -> bool {
    let mut tests = false;
    if attribute.path().is_ident("cfg") {
        let _ = attribute.parse_nested_meta(|meta| {
            tests |= meta.path.is_ident("test");
            Ok(())
        });
    }
    tests
}

/// `None` if the file is not part of this crate, or is a binary's root.
fn place(root: &str, path: &str) -> Option<Place> {
    let inside = path.strip_prefix(root)?.strip_prefix('/')?.strip_suffix(".rs")?;
    let mut parts: Place = inside.split('/').map(str::to_owned).collect();
    match parts.last().map(String::as_str) {
        Some("main") if parts.len() == 1 => return None,
        Some("lib") if parts.len() == 1 => parts.clear(),
        Some("mod") => drop(parts.pop()),
        Some("tests") => return None,
        _ => {}
    }
    Some(parts)
}

fn circles(root: &str, sources: &[Source]) -> Vec<Circle> {
    let read = Crate::read(root, sources);
    let mut circles = Vec::new();
    for (folder, edges) in read.edges() {
        let folder = folder.iter().fold(root.to_owned(), |folder, part| format!("{folder}/{part}"));
        for members in knots(edges.keys()) {
            let inside = |one: &String| members.contains(one);
            let between = edges.iter().filter(|((one, other), _)| inside(one) && inside(other));
            let imports = between.flat_map(|(_, told)| told.clone()).collect();
            circles.push(Circle { folder: folder.clone(), members: members.into_iter().collect(), imports });
        }
    }
    circles
}

fn knots<'a>(edges: impl Iterator<Item = &'a (String, String)> + Clone) -> Vec<BTreeSet<String>> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in edges {
        next.entry(from).or_default().insert(to);
    }
    let reached = |from: &'a str| {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut waiting: Vec<&str> = next.get(from).into_iter().flatten().copied().collect();
        while let Some(one) = waiting.pop() {
            if seen.insert(one) {
                waiting.extend(next.get(one).into_iter().flatten());
            }
        }
        seen
    };
    let all: BTreeMap<&str, BTreeSet<&str>> = next.keys().map(|from| (*from, reached(from))).collect();
    let mut knots: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    for (from, seen) in all.iter().filter(|(from, seen)| seen.contains(*from)) {
        let back = |other: &&&str| all.get(**other).is_some_and(|seen| seen.contains(from));
        knots.insert(seen.iter().filter(back).map(|one| (*one).to_owned()).collect());
    }
    knots.into_iter().collect()
}

fn weigh(circles: &[Circle], known: &[Known]) -> Vec<String> {
    let covers = |known: &Known, circle: &Circle| {
        known.folder == circle.folder && known.members.iter().eq(circle.members.iter())
    };
    let unexcused = circles
        .iter()
        .filter(|circle| !known.iter().any(|known| covers(known, circle) && !known.reason.trim().is_empty()));
    let told = unexcused.map(|Circle { folder, members, imports }| {
        let (members, imports) = (members.join(", "), imports.join("\n  "));
        format!("{folder}: {members}: cut one direction, or move what both need to a third:\n  {imports}")
    });
    let idle = known.iter().filter(|known| !circles.iter().any(|circle| covers(known, circle)));
    let unneeded = idle.map(|Known { folder, members, .. }| {
        format!("{folder}: {}: no such circle any more; delete its line from KNOWN", members.join(", "))
    });
    told.chain(unneeded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Vec<String> {
        let parse = |(path, code): &(&str, &str)| Source::parse(&format!("a/src/{path}"), code);
        let sources: Vec<Source> = files.iter().map(parse).collect();
        let told = |circle: Circle| format!("{}: {}", circle.folder, circle.members.join(" "));
        circles("a/src", &sources).into_iter().map(told).collect()
    }

    const ROOT: (&str, &str) = ("lib.rs", "mod a; mod b; mod c;");

    #[test]
    fn two_that_import_each_other_are_a_circle_however_it_is_written() {
        let ways =
            ["use crate::b::B;", "use super::b::{self, C};", "use crate::{b as other};", "use super::b::*;"];
        for way in ways {
            assert_eq!(of(&[ROOT, ("a.rs", way), ("b.rs", "use crate::a::A;")]), ["a/src: a b"], "{way}");
            assert!(
                of(&[ROOT, ("a.rs", way), ("b.rs", "use crate::c::A;"), ("c.rs", "")]).is_empty(),
                "{way}"
            );
        }
    }

    #[test]
    fn a_long_circle_is_one_and_what_only_leads_to_it_is_not_in_it() {
        let files =
            [ROOT, ("a.rs", "use crate::b::B;"), ("b.rs", "use crate::c::C;"), ("c.rs", "use crate::a::A;")];
        assert_eq!(of(&files), ["a/src: a b c"]);
        let files =
            [ROOT, ("a.rs", "use crate::b::B;"), ("b.rs", "use super::c::C;"), ("c.rs", "use super::b::B;")];
        assert_eq!(of(&files), ["a/src: b c"]);
    }

    #[test]
    fn folders_are_compared_by_all_that_is_in_them() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod deep;"),
            ("a/deep.rs", "use crate::b::B;"),
            ("b.rs", "use crate::a::A;"),
        ];
        assert_eq!(of(&files), ["a/src: a b"]);
        let inside = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod x; mod y;"),
            ("a/x.rs", "use super::y::Y;"),
            ("a/y.rs", "use super::x::X;"),
        ];
        assert_eq!(of(&inside), ["a/src/a: x y"]);
    }

    #[test]
    fn parents_and_children_may_name_each_other() {
        let files = [
            ("lib.rs", "pub mod a; pub use a::A;"),
            ("a.rs", "mod x; pub use x::X; use crate::Root;"),
            ("a/x.rs", "use super::Own; use crate::a::Own as Too;"),
        ];
        assert!(of(&files).is_empty());
    }

    #[test]
    fn a_name_that_a_parent_passes_on_lies_where_it_is_defined() {
        let passed = ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B as C;");
        assert_eq!(of(&[passed, ("a.rs", "use super::C;"), ("b.rs", "use crate::A;")]), ["a/src: a b"]);
        let twice = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub use crate::b::B;"),
            ("b.rs", ""),
            ("c.rs", "use crate::a::B;"),
        ];
        assert!(of(&twice).is_empty());
    }

    #[test]
    fn other_crates_tests_and_chains_without_end_are_no_imports() {
        let files = [
            ROOT,
            ("a.rs", "use std::b::B; use ::b::B; #[cfg(test)] use crate::b::B; use crate::c::D;"),
            ("b.rs", "use crate::a::A; #[cfg(test)] mod tests { use crate::a::A; }"),
            ("c.rs", "pub use self::D as E; pub use self::E as D;"),
        ];
        assert!(of(&files).is_empty());
    }

    #[test]
    fn a_known_circle_is_excused_while_it_is_as_it_was_written_down() {
        let circle = |members: &[&str]| Circle {
            folder: "a/src".to_owned(),
            members: members.iter().map(|one| (*one).to_owned()).collect(),
            imports: vec!["a.rs: use b".to_owned()],
        };
        let known = |reason| [Known { folder: "a/src", members: &["a", "b"], reason }];
        assert!(weigh(&[circle(&["a", "b"])], &known("being cut")).is_empty());
        assert_eq!(weigh(&[circle(&["a", "b"])], &known(" ")).len(), 1);
        assert_eq!(weigh(&[circle(&["a", "b", "c"])], &known("being cut")).len(), 2);
        assert_eq!(weigh(&[], &known("being cut")).len(), 1);
    }
}
