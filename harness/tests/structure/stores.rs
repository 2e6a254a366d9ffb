//! Only a store's own code knows its database; all other code uses `store::Parts`.

use proc_macro2::TokenTree;

use crate::Violation;
use crate::source::{Name, Source, line};

const SQLITE: &str = "sender/store/src/sqlite/";
const STORES: &str = "sender/store/src/";

const MAY_NAME_IT: [(&str, &str); 5] = [
    ("sender/store/src/lib.rs", "it declares the module"),
    ("sender/store/src/database.rs", "it tells the two kinds of store apart by --db"),
    (
        "sender/store/src/transfer/mod.rs",
        "it moves what is in a file to a server, and back, so it has to know both",
    ),
    ("sender/store/src/transfer/to_file.rs", "as above"),
    ("sender/store/src/transfer/to_server.rs", "as above"),
];

const PART: &str = "ask the store's parts (store::Parts), or add to what they answer";

/// No lock in memory has these names.
const FILE_LOCKS: [&str; 8] = [
    "TryLockError",
    "try_lock",
    "lock_shared",
    "try_lock_shared",
    "flock",
    "fcntl_lock",
    "FlockOperation",
    "lock_exclusive",
];
/// Beside these names, `lock` may be a file's too.
const FILES: [&str; 2] = ["File", "OpenOptions"];

const WORDS: [&str; 4] = ["PRAGMA", "-wal", "-owner-", "sqlite_"];

/// Outside its folder the sender names neither SQLite nor its files and their locks.
pub(crate) fn sqlite_keeps_to_itself(source: &Source) -> Vec<Violation> {
    let is_sender = ["sender/src/", STORES].iter().any(|folder| source.path.starts_with(folder));
    if !is_sender || source.path.starts_with(SQLITE) {
        return Vec::new();
    }
    let may_name_it = MAY_NAME_IT.iter().any(|(path, _)| source.path == *path);
    let names = source.names();
    let has_files = names.iter().any(|name| FILES.iter().any(|file| name.ends_with(file)));
    let mut found = Vec::new();
    for name in &names {
        let last = name.segments.last().map_or("", String::as_str);
        let is_driver = last == "rusqlite" || last == "libsqlite3_sys";
        let is_module = !may_name_it && (last == "sqlite" || last.starts_with("Sqlite"));
        let is_lock = FILE_LOCKS.contains(&last) || (has_files && last == "lock");
        if is_driver || is_module || is_lock || (asks_for_the_kind(name) && !source.path.starts_with(STORES))
        {
            found.push(violation(source, name.line, name.segments.join("::")));
        }
    }
    found.extend(words(source));
    found
}

fn asks_for_the_kind(name: &Name) -> bool {
    ["Database::File", "Database::Postgres"].iter().any(|kind| name.ends_with(kind))
}

fn words(source: &Source) -> Vec<Violation> {
    let is_doc = |list: &[TokenTree]| matches!(list.first(), Some(TokenTree::Ident(ident)) if ident == "doc");
    let lists = source.token_lists();
    let texts = lists.iter().filter(|list| !is_doc(list)).flatten().filter_map(|token| match token {
        TokenTree::Literal(literal) => Some(literal),
        _ => None,
    });
    let said = texts.filter_map(|text| {
        let whole = text.to_string();
        let word = WORDS.iter().find(|word| whole.contains(**word))?;
        Some(violation(source, line(text.span()), (*word).to_owned()))
    });
    said.collect()
}

fn violation(source: &Source, line: usize, item: String) -> Violation {
    let problem = format!("is SQLite's own affair, which is in {SQLITE} alone");
    Violation { path: source.path.clone(), line, item, figure: None, problem, remedy: PART.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNTIME: &str = "sender/src/runtime/owner.rs";

    #[track_caller]
    fn check(path: &str, code: &str, expected: &[&str]) {
        crate::check(sqlite_keeps_to_itself, path, code, expected);
        crate::check(sqlite_keeps_to_itself, "sender/store/src/sqlite/owner.rs", code, &[]);
        crate::check(sqlite_keeps_to_itself, "harness/simulator/src/sim/process.rs", code, &[]);
    }

    #[test]
    fn the_driver_and_the_module_are_caught_however_they_are_written() {
        check(RUNTIME, "use rusqlite::Connection;", &["rusqlite"]);
        check(RUNTIME, "fn f() -> rusqlite::Result<()> { g() }", &["rusqlite"]);
        check(RUNTIME, "use crate::store::sqlite;", &["crate::store::sqlite"]);
        check(RUNTIME, "use crate::store::{Database, sqlite};", &["crate::store::sqlite"]);
        check(
            RUNTIME,
            "use crate::store::sqlite::SqliteStore;",
            &["crate::store::sqlite", "crate::store::sqlite::SqliteStore"],
        );
        check("sender/store/src/thread/queue.rs", "fn f(a: sqlite::LogSize) {}", &["sqlite"]);
        check("sender/store/src/transfer/to_file.rs", "use crate::sqlite::Target;", &[]);
        check("sender/store/src/transfer/to_file.rs", "use rusqlite::Connection;", &["rusqlite"]);
        check("sender/store/src/database.rs", "use super::sqlite::{self, SqliteFile};", &[]);
    }

    #[test]
    fn locks_of_files_are_caught_and_locks_in_memory_are_not() {
        check(RUNTIME, "use std::fs::TryLockError;", &["std::fs::TryLockError"]);
        check(RUNTIME, "use std::fs::File; fn f(file: &File) { file.lock(); }", &["lock"]);
        check(RUNTIME, "fn f() { OpenOptions::new().open(p)?.try_lock(); }", &["try_lock"]);
        check(RUNTIME, "fn f() { rustix::fs::flock(a, b); }", &["rustix::fs::flock"]);
        check(RUNTIME, "fn f(state: &Mutex<u8>) { state.lock(); }", &[]);
    }

    #[test]
    fn nobody_but_the_stores_asks_which_kind_it_is() {
        let code = "fn f() { if let Database::File(path) = database {} }";
        check("sender/src/cli/doctor.rs", code, &["Database::File"]);
        check("sender/store/src/transfer/mod.rs", code, &[]);
    }

    #[test]
    fn its_words_are_caught_in_texts_and_not_in_documentation() {
        check(RUNTIME, "const A: &str = \"PRAGMA wal_checkpoint(TRUNCATE)\";", &["PRAGMA"]);
        check(RUNTIME, "fn f() { log.push(\"-wal\"); }", &["-wal"]);
        check(RUNTIME, "/// SQLite's -wal, by PRAGMA\nfn f() {} // rusqlite", &[]);
    }
}
