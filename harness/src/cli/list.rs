//! `hookproof list`, `explain` and `schema`: the catalogue of checks and cases, one of its entries, and JSON Schemas.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use hookproof_judge::catalogue::{self, Entry};
use hookproof_judge::{report, scenario};
use serde::Serialize;

use super::out::{HARNESS, USAGE, refuse};

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// For machines
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listed<'a> {
    judges: &'a str,
    section: &'a str,
    #[serde(flatten)]
    entry: &'a Entry,
}

pub(super) fn main(asked: &ListArgs) -> ExitCode {
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
        let standards = format!("Standards (--standard)\n{}", super::standard::listed());
        parts.chain([standards]).collect::<Vec<_>>().join("\n")
    };
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

#[derive(Debug, Args)]
pub(super) struct Explain {
    /// A check, case or standard of `hookproof list`
    id: String,
}

pub(super) fn explain(asked: &Explain) -> ExitCode {
    if let Ok(standard) = asked.id.parse() {
        let _closed = io::stdout().lock().write_all(super::standard::explained(standard).as_bytes());
        return ExitCode::SUCCESS;
    }
    let Some(entry) = catalogue::find(&asked.id) else {
        let what = format!("there is no {:?}; `hookproof list` shows every id", asked.id);
        return refuse("explain", what, USAGE);
    };
    let _closed = std::io::stdout().lock().write_all(text(entry).as_bytes());
    ExitCode::SUCCESS
}

fn text(entry: &Entry) -> String {
    let mut text = format!("{} ({})\n\n", entry.id, entry.severity);
    let needs = entry.needs.join(", ");
    let rows = [
        ("requirement", &entry.requirement),
        ("reason", &entry.why),
        ("source", &entry.source),
        ("remedy", &entry.remedy),
        ("needs", &needs),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!("  {name:<11} {value}\n"));
    }
    let Some(example) = catalogue::example(entry) else { return text };
    text.push_str(&format!("  {:<11} {}\n", "example", example.shows));
    for (framework, lines) in &example.lines {
        text.push_str(&format!("\n  {framework}\n"));
        text.extend(lines.trim_end().lines().map(|line| format!("    {line}\n")));
    }
    text
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Schema {
    /// The format
    #[arg(value_enum, default_value = "scenario")]
    of: Form,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// The scenario file
    Scenario,
    /// The report that `--json` writes
    Report,
}

pub(crate) fn schema(arguments: &Schema) -> ExitCode {
    let schema = match arguments.of {
        Form::Scenario => scenario::schema(),
        Form::Report => report::schema(),
    };
    match writeln!(io::stdout(), "{schema:#}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => refuse("schema", error, HARNESS),
        _ => ExitCode::SUCCESS,
    }
}
