//! What outlives the process: one line for each thing that happened.

use std::fs::{File, OpenOptions};
use std::io::Write;

use serde_json::Value;

/// A file of lines, and those that are not in it yet.
pub(crate) struct Journal {
    file: File,
    pending: String,
}

impl Journal {
    /// Opens it, and reads what is in it.
    pub(crate) fn open(dir: &str) -> (Self, Vec<Value>) {
        let path = format!("{dir}/journal.jsonl");
        let past = std::fs::read_to_string(&path).unwrap_or_default();
        let past = past.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        (Self { file, pending: String::new() }, past)
    }

    /// Keeps a line for the next commit.
    pub(crate) fn keep(&mut self, line: &Value) {
        self.pending.push_str(&line.to_string());
        self.pending.push('\n');
    }

    /// Writes what was kept. The kernel has it then, which is enough for the end of a process.
    pub(crate) fn commit(&mut self) {
        if !self.pending.is_empty() {
            self.file.write_all(self.pending.as_bytes()).unwrap();
            self.pending.clear();
        }
    }
}
