//! `hookproof schema`: the forms of the scenario file and of the report, as JSON Schema.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::{report, scenario};

/// Which form.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// Whose form
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

/// Prints it.
#[expect(clippy::print_stdout, reason = "the schema is this command's data")]
pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let schema = match arguments.of {
        Form::Scenario => scenario::schema::schema(),
        Form::Report => report::schema(),
    };
    println!("{schema:#}");
    ExitCode::SUCCESS
}
