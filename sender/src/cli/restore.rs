use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::options::Common;
use super::print::{Printer, moment};
use super::transfer::{backup_failure, mebibytes, with_progress};
use crate::engine::Nanos;
use crate::runtime::clock::wall;
use crate::store::lane::Pause;
use crate::store::vacuum::{RestoreError, Restored};

const REASON: &str = "restored from a backup of";

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender restore copy.db --db sender.db
  hookproof sender restore copy.db --db sender.db --replace

End every process on both files first, the applications that write into the outbox too. An application without a transaction in
progress may be overlooked.

The copy is checked as `doctor` does it. The database gets its name once all of it is on the disk. Its active subscribers are
paused, since the original may have made some of the deliveries that wait. A pause that was there keeps its reason and its end.
Without --replace
nothing may be in the way: neither the database nor a log of it. Run a restore that was killed again; with --replace, the files
that it had moved are in a folder of their own.

A PostgreSQL server is restored with its own tools, such as pg_restore.")]
pub(super) struct Restore {
    /// A copy by `backup`, or one made after an orderly stop
    #[arg(value_name = "COPY")]
    copy: PathBuf,
    /// Move the files that are in the way into a folder beside them
    #[arg(long)]
    replace: bool,
}

impl Restore {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        let database = common.database()?;
        let copy = self.copy.display();
        if !self.copy.exists() {
            return Err(Failure::usage(format_args!(
                "there is no copy {copy}; expected a file made by `backup`"
            )));
        }
        let wall = wall();
        let replaces = self.replace.then_some(wall.0 / Nanos::SECOND.0);
        let pause = |at| Pause { reason: Some(format!("{REASON} {}", moment(at)).into()), until: None };
        let restored = with_progress(|goes_on| database.restore(&self.copy, replaces, wall, pause, goes_on))?;
        let Restored { bytes, at, paused, waiting, aside, findings } = restored.map_err(failure)?;
        for finding in findings {
            eprintln!("{}: {}", finding.check, finding.detail);
        }
        let (at, aside) = (moment(at), aside.map(|aside| aside.display().to_string()));
        let reason = format!("{REASON} {at}");
        if printer.json {
            printer.object(&json!({
                "bytes": bytes, "as_of": at, "paused": paused, "reason": reason, "waiting": waiting, "replaced": aside,
            }))?;
            return Ok(ExitCode::SUCCESS);
        }
        printer.line(format_args!("{database} is restored from {copy}: {}, as of {at}", mebibytes(bytes)))?;
        if let Some(aside) = aside {
            printer.line(format_args!("the files that had its place are in {aside}"))?;
        }
        printer.line(format_args!(
            "subscribers paused: {paused}; deliveries that wait: {waiting}

After that time the original may have:
  delivered    some of these deliveries: they are made again, with the same ids
  recorded     events, which are lost here: emit them again with the same ids
  attempted    as much as its limits allowed, which counts against no limit here: wait 30 s after its end
  changed      subscribers, secrets, limits and pauses, which is undone here
  revoked      tokens, which are valid here: see `token list`, and revoke them again
  forgotten    persons, whose events are back here: repeat each `forget`

To resume the paused ones:
  hookproof sender subscriber resume --db {database} --reason '{reason}'"
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn failure(error: RestoreError) -> Failure {
    match error {
        RestoreError::OnAServer(_) | RestoreError::Alike(_) => Failure::usage(error),
        RestoreError::InUse(_) | RestoreError::Occupied(_) => Failure::refused(error),
        RestoreError::Damaged { .. } => Failure::Damaged(error.to_string()),
        RestoreError::Copy(error) => backup_failure(error),
        RestoreError::Store(error) => error.into(),
    }
}
