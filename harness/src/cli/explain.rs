//! `hookproof explain ID`: an id's requirement, reason, source and remedy.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Args;

use super::exit::{USAGE, refuse};
use hookproof_judge::catalogue::{self, Entry};

#[derive(Debug, Args)]
pub(super) struct Asked {
    /// An id of `hookproof list`
    id: String,
}

pub(super) fn main(asked: &Asked) -> ExitCode {
    let Some(entry) = catalogue::find(&asked.id) else {
        let what = format!("there is no {:?}; `hookproof list` shows every id", asked.id);
        return refuse("explain", what, USAGE);
    };
    // A closed pipe (`head`) is no failure.
    let _closed = std::io::stdout().lock().write_all(text(entry).as_bytes());
    ExitCode::SUCCESS
}

fn text(entry: &Entry) -> String {
    let mut text = format!("{} ({})\n\n", entry.id, entry.severity);
    let needs = entry.needs.join(", ");
    let rows = [
        ("must hold", &entry.requirement),
        ("why", &entry.why),
        ("source", &entry.source),
        ("remedy", &entry.remedy),
        ("needs", &needs),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!("  {name:<10} {value}\n"));
    }
    for (framework, lines) in catalogue::example(entry).into_iter().flatten() {
        text.push_str(&format!("\n  {framework}\n"));
        text.extend(lines.trim_end().lines().map(|line| format!("    {line}\n")));
    }
    text
}
