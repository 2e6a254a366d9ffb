use std::process::ExitCode;

use clap::Args;

use super::failure::Failure;
use super::print::Printer;
use crate::subscriber::reference::{markdown, plain, schema};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender settings
  hookproof sender settings --markdown > settings.md
  hookproof sender settings --json-schema > settings.schema.json

Needs no database. docs/settings.md is the output of --markdown.")]
pub(super) struct Settings {
    /// As Markdown
    #[arg(long, conflicts_with = "json_schema")]
    markdown: bool,
    /// As JSON Schema, as --json does on one line
    #[arg(long)]
    json_schema: bool,
}

impl Settings {
    pub(super) fn run(self, printer: &mut Printer) -> Result<ExitCode, Failure> {
        if self.json_schema {
            printer.line(format_args!("{:#}", schema::schema()))?;
        } else if self.markdown {
            printer.line(markdown::page().trim_end())?;
        } else if printer.json {
            printer.object(&schema::schema())?;
        } else {
            printer.line(plain::text().trim_end())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
