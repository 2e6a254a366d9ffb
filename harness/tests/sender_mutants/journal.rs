//! What outlives the process: one line for each thing that happened.

use std::fs::{File, OpenOptions};
use std::io::Write;

use rusqlite::Connection;
use serde_json::Value;

/// What keeps a sender from writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// There is no room on the disk.
    Full,
    /// Somebody else holds the database.
    Locked,
}

/// A file of lines, and those that are not in it yet.
pub(crate) struct Journal {
    file: File,
    pending: String,
    /// A database that others may hold: as long as they do, nothing is written.
    database: Connection,
}

impl Journal {
    /// Opens it, and reads what is in it.
    pub(crate) fn open(dir: &str) -> (Self, Vec<Value>) {
        let path = format!("{dir}/journal.jsonl");
        let past = std::fs::read_to_string(&path).unwrap_or_default();
        let past = past.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        let database = Connection::open(format!("{dir}/sender.db")).unwrap();
        database.execute_batch("PRAGMA busy_timeout = 0; CREATE TABLE IF NOT EXISTS held (nobody)").unwrap();
        (Self { file, pending: String::new(), database }, past)
    }

    /// Keeps a line for the next commit.
    pub(crate) fn keep(&mut self, line: &Value) {
        self.pending.push_str(&line.to_string());
        self.pending.push('\n');
    }

    /// Why nothing can be written now, if that is so. An empty line says nothing to whoever reads them.
    pub(crate) fn trouble(&mut self) -> Option<Trouble> {
        if self.database.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err() {
            return Some(Trouble::Locked);
        }
        self.file.write_all(b"\n").is_err().then_some(Trouble::Full)
    }

    /// Writes what was kept, or keeps it for the next time. The kernel has it then, which is enough for the end of a process.
    pub(crate) fn commit(&mut self) {
        if !self.pending.is_empty() && self.trouble().is_none() {
            self.file.write_all(self.pending.as_bytes()).unwrap();
            self.pending.clear();
        }
    }

    /// Whether all that was kept is written.
    pub(crate) fn is_written(&self) -> bool {
        self.pending.is_empty()
    }
}
