//! `hookproof list`: the catalogue of checks and cases.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::exit::{HARNESS, refuse};
use hookproof_judge::catalogue::{self, Entry};

#[derive(Debug, Args)]
pub(super) struct Asked {
    /// For machines
    #[arg(long)]
    json: bool,
}

/// An entry, with the side that it judges.
#[derive(Serialize)]
struct Listed<'a> {
    judges: &'a str,
    section: &'a str,
    #[serde(flatten)]
    entry: &'a Entry,
}

pub(super) fn main(asked: &Asked) -> ExitCode {
    let sides = [("sender", catalogue::sender()), ("receiver", catalogue::receiver())];
    let text = if asked.json {
        let listed = sides.iter().flat_map(|(judges, entries)| {
            entries.iter().map(|entry| Listed { judges, section: entry.section(), entry })
        });
        match serde_json::to_string_pretty(&listed.collect::<Vec<_>>()) {
            Ok(text) => text + "\n",
            Err(error) => return refuse("list", error, HARNESS),
        }
    } else {
        let title = |side: &str| match side {
            "sender" => "Checks of a sender (hookproof run)",
            _ => "Cases for a receiver (hookproof receiver)",
        };
        let parts = sides.iter().map(|(side, entries)| format!("{}\n{}", title(side), table(entries)));
        parts.collect::<Vec<_>>().join("\n")
    };
    // A closed pipe (`head`) is no failure.
    let _closed = std::io::stdout().lock().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn table(entries: &[Entry]) -> String {
    let width = entries.iter().map(|entry| entry.id.len()).max().unwrap_or(0);
    let line = |entry: &Entry| {
        format!("  {:<width$}  {:<6}  {}\n", entry.id, entry.severity.to_string(), entry.requirement)
    };
    entries.iter().map(line).collect()
}
