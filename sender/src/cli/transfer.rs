use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::options::database_of;
use super::print::Printer;
use crate::store::transfer::{LOCKED_MAX, MoveError, Moved, transfer};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof-sender move --from sender.db --to postgres://hookproof@db.example/hookproof
  hookproof-sender move --from postgres://hookproof@db.example/hookproof --to sender.db

Others on the machine see arguments: an address with a password belongs in HOOKPROOF_FROM or HOOKPROOF_TO, or the password in a file
of mode 0600 that ?passfile=FILE or PGPASSFILE names.

End every process on either of them first. Where it is broken off nothing has moved: run it again. The source stays as it is: deliver
from one of the two alone afterwards.")]
pub(super) struct Move {
    /// The source: a file, or postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "DATABASE", env = "HOOKPROOF_FROM", hide_env_values = true)]
    from: OsString,
    /// The target: the other of the two, empty
    #[arg(long, value_name = "DATABASE", env = "HOOKPROOF_TO", hide_env_values = true)]
    to: OsString,
}

impl Move {
    pub(super) fn run(self, printer: &mut Printer) -> Result<ExitCode, Failure> {
        let (from, to) = (database_of(&self.from, "--from")?, database_of(&self.to, "--to")?);
        if !from.may_exist() {
            return Err(Failure::usage(format_args!("there is no database {from}; check --from")));
        }
        let mut told = Ok(());
        let mut tell = |Moved { table, rows }| {
            let line = if printer.json {
                printer.object(&json!({ "table": table, "rows": rows }))
            } else {
                printer.line(format_args!("{table}: {rows} rows"))
            };
            told = std::mem::replace(&mut told, Ok(())).and(line);
        };
        transfer(&from, &to, LOCKED_MAX, &mut tell).map_err(failure)?;
        told?;
        if !printer.json {
            printer.line(format_args!("moved to {to}; {from} stays as it was: deliver from it no more"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn failure(error: MoveError) -> Failure {
    match error {
        MoveError::Alike => Failure::usage(error),
        MoveError::InUse { .. }
        | MoveError::Occupied { .. }
        | MoveError::Moved { .. }
        | MoveError::Row { .. } => Failure::refused(error),
        MoveError::Store(error) => error.into(),
        other => Failure::ours(other),
    }
}
