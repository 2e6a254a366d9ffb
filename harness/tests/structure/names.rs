use syn::visit::{self, Visit};

use crate::Violation;
use crate::source::{Source, line};

/// Names without meaning attract unrelated code.
const EMPTY: [&str; 9] =
    ["utils", "util", "common", "helpers", "helper", "manager", "managers", "misc", "miscellaneous"];

pub(crate) fn modules_say_what_they_hold(source: &Source) -> Vec<Violation> {
    let parts = source.path.split('/').map(|part| part.trim_end_matches(".rs"));
    let mut names: Vec<(usize, String)> = parts.map(|part| (1, part.to_owned())).collect();
    let mut modules = Modules(Vec::new());
    modules.visit_file(&source.syntax);
    names.append(&mut modules.0);
    names.retain(|(_, name)| EMPTY.contains(&name.as_str()));
    let violations = names.into_iter().map(|(line, name)| Violation {
        path: source.path.clone(),
        line,
        item: format!("mod {name}"),
        figure: None,
        problem: "says nothing about what it holds".to_owned(),
        remedy: "name it after the one thing that it does, and move the rest to where it is used".to_owned(),
    });
    violations.collect()
}

struct Modules(Vec<(usize, String)>);

impl Visit<'_> for Modules {
    fn visit_item_mod(&mut self, module: &syn::ItemMod) {
        self.0.push((line(module.ident.span()), module.ident.to_string()));
        visit::visit_item_mod(self, module);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, code: &str, expected: &[&str]) {
        crate::check(modules_say_what_they_hold, path, code, expected);
    }

    #[test]
    fn empty_names_are_caught_as_file_folder_and_module() {
        check("sender/src/utils.rs", "", &["mod utils"]);
        check("sender/tests/common/mod.rs", "", &["mod common"]);
        check("sender/src/a.rs", "mod helpers;", &["mod helpers"]);
        check("sender/src/a.rs", "mod a { mod misc {} }", &["mod misc"]);
        check("harness/src/manager.rs", "pub mod common;", &["mod manager", "mod common"]);
    }

    #[test]
    fn names_that_only_contain_one_are_fine() {
        check("sender/src/commons.rs", "mod manager_of_lanes { fn misc() {} }", &[]);
    }
}
