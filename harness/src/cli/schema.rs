//! `hookproof schema`: the JSON Schema of the scenario file or the report.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::exit::{HARNESS, refuse};
use hookproof_judge::{report, scenario};

#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
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

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let schema = match arguments.of {
        Form::Scenario => scenario::schema::schema(),
        Form::Report => report::schema(),
    };
    match writeln!(io::stdout(), "{schema:#}") {
        // A closed pipe is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => refuse("schema", error, HARNESS),
        _ => ExitCode::SUCCESS,
    }
}
