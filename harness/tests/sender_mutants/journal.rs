//! A line for each event survives the process.

use std::fs::{File, OpenOptions};
use std::io::Write;

use rusqlite::Connection;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    Full,
    Locked,
}

pub(crate) struct Journal {
    file: File,
    pending: String,
    /// A database that others may lock: meanwhile no line is written.
    database: Connection,
}

impl Journal {
    pub(crate) fn open(dir: &str) -> (Self, Vec<Value>) {
        let path = format!("{dir}/journal.jsonl");
        let past = std::fs::read_to_string(&path).unwrap_or_default();
        let past = past.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        let database = Connection::open(format!("{dir}/sender.db")).unwrap();
        database.execute_batch("PRAGMA busy_timeout = 0; CREATE TABLE IF NOT EXISTS held (nobody)").unwrap();
        (Self { file, pending: String::new(), database }, past)
    }

    pub(crate) fn append(&mut self, line: &Value) {
        self.pending.push_str(&line.to_string());
        self.pending.push('\n');
    }

    /// The current obstacle to writes. Readers skip the empty line that this writes.
    pub(crate) fn trouble(&mut self) -> Option<Trouble> {
        if self.database.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err() {
            return Some(Trouble::Locked);
        }
        self.file.write_all(b"\n").is_err().then_some(Trouble::Full)
    }

    /// The kernel's copy survives the process.
    pub(crate) fn commit(&mut self) {
        if !self.pending.is_empty() && self.trouble().is_none() {
            self.file.write_all(self.pending.as_bytes()).unwrap();
            self.pending.clear();
        }
    }

    pub(crate) fn is_written(&self) -> bool {
        self.pending.is_empty()
    }
}
