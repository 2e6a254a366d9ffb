use proc_macro2::{Delimiter, Group, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Fields, Ident, Item};

use crate::source::{Source, line};
use crate::{Rule, Violation};

const FUNCTION_LINES: usize = 70;
const FILE_LINES: usize = 700;
const STRUCT_FIELDS: usize = 15;

/// Tests and macros count too.
pub(crate) fn functions_are_short(source: &Source) -> Vec<Violation> {
    let lists = source.token_lists();
    let functions = lists.iter().flat_map(|list| functions(list));
    let sizes = functions.map(|(name, body)| {
        let lines = body.span_close().end().line + 1 - line(name.span());
        (line(name.span()), format!("fn {name}"), lines)
    });
    too_large(source, sizes, FUNCTION_LINES, "lines", "make its steps functions of their own")
}

/// Blank lines, comments and the file's own tests do not count. Files of tests may be longer.
pub(crate) fn files_are_short(source: &Source) -> Vec<Violation> {
    if source.path.split('/').any(|part| part == "tests" || part == "tests.rs") {
        return Vec::new();
    }
    let end = match source.syntax.items.last() {
        Some(Item::Mod(module)) if module.ident == "tests" && module.attrs.iter().any(is_cfg_test) => {
            line(module.attrs[0].pound_token.span)
        }
        _ => usize::MAX,
    };
    let lines = source.code_lines.partition_point(|line| *line < end);
    let advice = "give one of the things that it does a file of its own";
    too_large(source, [(1, "file".to_owned(), lines)], FILE_LINES, "lines of code before its tests", advice)
}

/// A variant of an enum counts as a struct.
pub(crate) fn structs_are_small(source: &Source) -> Vec<Violation> {
    let mut structs = Structs::default();
    structs.visit_file(&source.syntax);
    too_large(source, structs.sizes, STRUCT_FIELDS, "fields", "group the fields that belong together")
}

fn too_large(
    source: &Source,
    sizes: impl IntoIterator<Item = (usize, String, usize)>,
    limit: usize,
    unit: &str,
    advice: &str,
) -> Vec<Violation> {
    let beyond = sizes.into_iter().filter(|(_, _, size)| *size >= limit);
    let violations = beyond.map(|(line, item, size)| Violation {
        path: source.path.clone(),
        line,
        item,
        figure: Some(size),
        problem: format!("has {size} {unit}, and must have fewer than {limit}"),
        remedy: format!(
            "{advice}, or add it to EXCEPTIONS in harness/tests/structure/main.rs with the reason"
        ),
    });
    violations.collect()
}

/// `fn`, a name, and the first braces before any `;`. Braces before `>` or `,` are a type's argument (`Ring<{ SIZE
/// }>`), not a body.
fn functions(tokens: &[TokenTree]) -> Vec<(&Ident, &Group)> {
    let named = tokens.windows(2).enumerate().filter_map(|(at, pair)| match pair {
        [TokenTree::Ident(keyword), TokenTree::Ident(name)] if keyword == "fn" => {
            Some((name, &tokens[at + 2..]))
        }
        _ => None,
    });
    named.filter_map(|(name, rest)| Some((name, body(rest)?))).collect()
}

fn body(rest: &[TokenTree]) -> Option<&Group> {
    let mark = |at: usize| match rest.get(at) {
        Some(TokenTree::Punct(mark)) => Some(mark.as_char()),
        _ => None,
    };
    let end = (0..rest.len()).find(|at| mark(*at) == Some(';')).unwrap_or(rest.len());
    rest[..end].iter().enumerate().find_map(|(at, token)| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            (!matches!(mark(at + 1), Some('>' | ','))).then_some(group)
        }
        _ => None,
    })
}

fn is_cfg_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<Ident>().is_ok_and(|argument| argument == "test")
}

#[derive(Default)]
struct Structs {
    sizes: Vec<(usize, String, usize)>,
}

impl Structs {
    fn measure(&mut self, kind: &str, name: &Ident, fields: &Fields) {
        self.sizes.push((line(name.span()), format!("{kind} {name}"), fields.len()));
    }
}

impl Visit<'_> for Structs {
    fn visit_item_struct(&mut self, item: &syn::ItemStruct) {
        self.measure("struct", &item.ident, &item.fields);
        visit::visit_item_struct(self, item);
    }

    fn visit_variant(&mut self, variant: &syn::Variant) {
        self.measure("variant", &variant.ident, &variant.fields);
        visit::visit_variant(self, variant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTIONS: Rule = functions_are_short;
    const FILES: Rule = files_are_short;
    const STRUCTS: Rule = structs_are_small;

    #[track_caller]
    fn check(rule: Rule, code: &str, expected: &[&str]) {
        crate::check(rule, "sender/src/a.rs", code, expected);
    }

    fn function(head: &str, lines: usize) -> String {
        format!("{head} {{{}}}", "\n".repeat(lines - 1))
    }

    #[test]
    fn a_function_of_69_lines_is_short_and_one_of_70_is_not() {
        check(FUNCTIONS, &function("fn f()", 69), &[]);
        check(FUNCTIONS, &function("fn f()", 70), &["fn f"]);
    }

    #[test]
    fn a_signature_counts_and_docs_and_attributes_do_not() {
        check(FUNCTIONS, &function("fn f(\n)", 69), &["fn f"]);
        check(FUNCTIONS, &function("/// Docs.\n\n#[inline]\nfn f()", 69), &[]);
    }

    #[test]
    fn functions_are_found_wherever_they_stand() {
        let long = function("fn f()", 70);
        check(FUNCTIONS, &format!("impl A {{ {long} }}"), &["fn f"]);
        check(FUNCTIONS, &format!("trait A {{ fn g(); {long} }}"), &["fn f"]);
        check(FUNCTIONS, &format!("#[cfg(test)] mod tests {{ {long} }}"), &["fn f"]);
        check(FUNCTIONS, &format!("proptest! {{ {long} }}"), &["fn f"]);
        check(FUNCTIONS, &format!("fn g() {{ {long} }}"), &["fn g", "fn f"]);
    }

    #[test]
    fn braces_in_a_signature_are_no_body() {
        check(FUNCTIONS, &function("fn f(a: A<{ N }>) -> B<{ N }, { M }>", 70), &["fn f"]);
        check(FUNCTIONS, &function("fn f<A>() where A: B,", 70), &["fn f"]);
    }

    #[test]
    fn a_type_of_function_is_no_function() {
        check(FUNCTIONS, &format!("type A = fn(u8) -> u8; {}", function("mod a", 70)), &[]);
    }

    #[test]
    fn a_file_of_699_lines_of_code_is_short_and_one_of_700_is_not() {
        check(FILES, &"const A: u8 = 0;\n".repeat(699), &[]);
        check(FILES, &"const A: u8 = 0;\n".repeat(700), &["file"]);
    }

    #[test]
    fn blank_lines_and_comments_are_no_code() {
        let code = "const A: u8 = 0; // Code.\n".repeat(699);
        check(FILES, &format!("//! Docs.\n\n/// Docs.\n{code}\n  // Comment.\n"), &[]);
        check(FILES, &format!("//! Docs.\n\n/// Docs.\n{code}\n  // Comment.\nfn f() {{}}"), &["file"]);
    }

    #[test]
    fn tests_at_the_end_of_a_file_are_not_counted() {
        let code = |lines: usize| "const A: u8 = 0;\n".repeat(lines);
        let (head, tests) = (code(699), format!("mod tests {{\n{}}}", code(700)));
        check(FILES, &format!("{head}#[cfg(test)]\n{tests}"), &[]);
        check(FILES, &format!("{head}{tests}"), &["file"]);
        check(FILES, &format!("{head}#[cfg(test)]\n{tests}\nfn f() {{}}"), &["file"]);
        check(FILES, &format!("{}#[cfg(test)]\n{tests}", code(700)), &["file"]);
    }

    #[test]
    fn files_of_tests_may_be_longer() {
        let long = "const A: u8 = 0;\n".repeat(1_000);
        crate::check(FILES, "sender/tests/recovery.rs", &long, &[]);
        crate::check(FILES, "sender/engine/tests/lanes.rs", &long, &[]);
        crate::check(FILES, "sender/engine/src/tests.rs", &long, &[]);
        crate::check(FILES, "sender/src/contests.rs", &long, &["file"]);
    }

    #[test]
    fn a_struct_of_14_fields_is_small_and_one_of_15_is_not() {
        let named = |count: usize| (0..count).map(|at| format!("f{at}: u8,")).collect::<String>();
        check(STRUCTS, &format!("struct A {{ {} }}", named(14)), &[]);
        check(STRUCTS, &format!("struct A {{ {} }}", named(15)), &["struct A"]);
        check(STRUCTS, &format!("struct A({});", "u8,".repeat(15)), &["struct A"]);
        check(STRUCTS, &format!("enum A {{ B {{ {} }}, C }}", named(15)), &["variant B"]);
        check(STRUCTS, &format!("mod a {{ struct A {{ {} }} }}", named(15)), &["struct A"]);
    }

    #[test]
    fn a_violation_says_what_is_where_by_how_much_and_what_to_do() {
        let found = &functions_are_short(&Source::parse("a.rs", &format!("\n{}", function("fn f()", 71))))[0];
        assert_eq!(
            found.to_string(),
            "a.rs:2: fn f: has 71 lines, and must have fewer than 70; make its steps functions of their own, or add \
             it to EXCEPTIONS in harness/tests/structure/main.rs with the reason"
        );
    }
}
