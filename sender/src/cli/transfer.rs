use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _, stderr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use serde_json::json;
use tokio::runtime::Runtime;

use super::failure::Failure;
use super::options::{Common, database_of};
use super::print::Printer;
use super::session::runtime;
use super::signals::Signals;
use crate::boot_clock::BootClock;
use crate::engine::Nanos;
use crate::store::transfer::{LOCKED_MAX, MoveError, Moved, transfer};
use crate::store::vacuum::{BackupError, Space, VacuumError};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender move --from sender.db --to postgres://hookproof@db.example/hookproof
  hookproof sender move --from postgres://hookproof@db.example/hookproof --to sender.db

Other users of the machine can read arguments. Put an address with a password into HOOKPROOF_FROM or HOOKPROOF_TO, or the password
into a file of mode 0600 named by ?passfile=FILE or PGPASSFILE.

End all processes on both databases first. An interrupted move has moved nothing: run it again. The source stays unchanged. Deliver
from only one of the two afterwards.")]
pub(super) struct Move {
    /// The source: a file, or postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "DATABASE", env = "HOOKPROOF_FROM", hide_env_values = true)]
    from: OsString,
    /// The target: the other of the two, empty
    #[arg(long, value_name = "DATABASE", env = "HOOKPROOF_TO", hide_env_values = true)]
    to: OsString,
}

impl Move {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        let keys = common.keys()?;
        let (from, to) = (database_of(&self.from, "--from")?, database_of(&self.to, "--to")?);
        let (from, to) = (from.with_keys(keys.clone()), to.with_keys(keys));
        if !from.may_exist() {
            return Err(Failure::usage(format_args!("there is no database {from}; check --from")));
        }
        let mut told = Ok(());
        let mut tell = |Moved { table, rows }| {
            let line = if printer.json {
                printer.object(&json!({ "table": table, "rows": rows }))
            } else {
                printer.line(format_args!("rows of {table}: {rows}"))
            };
            told = std::mem::replace(&mut told, Ok(())).and(line);
        };
        transfer(&from, &to, LOCKED_MAX, &mut tell).map_err(failure)?;
        told?;
        if !printer.json {
            printer
                .line(format_args!("moved to {to}; {from} is unchanged: do not deliver from it any more"))?;
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

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender vacuum --db sender.db
  hookproof sender vacuum --db sender.db --json

Deleted deliveries leave free space in the file for later ones, so the file keeps its greatest size. Run this after an unusual
backlog; `doctor` reports a file with much free space.

End all delivering processes first. Meanwhile other commands wait, or fail because the database is locked. It needs temporary disk
space, twice the size of the remaining data. An interrupted vacuum loses nothing: run it again.

On a PostgreSQL server autovacuum makes deleted space usable again. To shrink its files, end all nodes and run VACUUM FULL as the
owner of the tables.")]
pub(super) struct Vacuum {}

impl Vacuum {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        let database = common.existing_database()?;
        // A file size limit then fails the write instead of ending the process.
        let _runtime = runtime()?;
        let (Space { bytes, free_bytes }, bytes_after) = database.vacuum().map_err(vacuum_failure)?;
        if printer.json {
            printer.object(&json!({
                "bytes_before": bytes, "free_bytes": free_bytes, "bytes_after": bytes_after,
            }))?;
        } else {
            let [had, free, has] = [bytes, free_bytes, bytes_after].map(mebibytes);
            printer
                .line(format_args!("{database} had {had}, of which {free} were free; it has {has} now"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn vacuum_failure(error: VacuumError) -> Failure {
    match error {
        VacuumError::Store(error) => error.into(),
        VacuumError::OnAServer(_) => Failure::usage(error),
        other => Failure::refused(other),
    }
}

const TELL_EVERY: Nanos = Nanos::SECOND;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender backup copy.db --db sender.db
  hookproof sender backup copy.db --db sender.db --json

Writes a consistent copy of the database into a new file. Only its owner can read it, since it holds the secrets of all subscribers.
Other processes keep working. An existing file is never replaced. The log cannot be truncated until the copy is done.

Deliver from only one of the two: both would make the same deliveries. `restore` puts a copy into its place.

On a PostgreSQL server use pg_dump.")]
pub(super) struct Backup {
    /// The new file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Backup {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        let database = common.existing_database()?;
        let clock = BootClock::default();
        let began = clock.now();
        let bytes = with_progress(|goes_on| database.backup(&self.file, goes_on))?.map_err(backup_failure)?;
        let took = clock.now().since(began);
        if printer.json {
            printer.object(&json!({ "bytes": bytes, "took_ms": took.0 / 1_000_000 }))?;
        } else {
            let file = self.file.display();
            printer.line(format_args!(
                "{file} is a copy of {database}: {}, in {}",
                mebibytes(bytes),
                Nanos::from_millis(took.0 / 1_000_000)
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// `copy` is given the last argument of `Database::backup`.
pub(super) fn with_progress<T>(
    copy: impl FnOnce(Box<dyn FnMut(u64, u64) -> bool + Send>) -> T,
) -> Result<T, Failure> {
    // A file size limit then fails the write instead of ending the process.
    let runtime = runtime()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    listen(&runtime, Arc::clone(&interrupted))?;
    let (clock, shows) = (BootClock::default(), stderr().is_terminal());
    let began = clock.now();
    let mut told = began;
    let goes_on = move |copied, all| {
        if shows && clock.now().since(told) >= TELL_EVERY {
            told = clock.now();
            // A lost line does not fail the copy.
            let _ = write!(stderr(), "\r{} of {}", mebibytes(copied), mebibytes(all));
        }
        !interrupted.load(Ordering::Relaxed)
    };
    let copied = copy(Box::new(goes_on));
    if shows && clock.now().since(began) >= TELL_EVERY {
        let _ = writeln!(stderr());
    }
    Ok(copied)
}

/// A signal sets the flag, so that what is made is removed.
fn listen(runtime: &Runtime, interrupted: Arc<AtomicBool>) -> Result<(), Failure> {
    let mut signals = {
        let _within = runtime.enter();
        Signals::new()?
    };
    runtime.spawn(async move {
        signals.next().await;
        interrupted.store(true, Ordering::Relaxed);
    });
    Ok(())
}

pub(super) fn backup_failure(error: BackupError) -> Failure {
    match error {
        BackupError::Store(error) => error.into(),
        BackupError::OnAServer(_) | BackupError::NoText(_) => Failure::usage(error),
        BackupError::Taken(_) | BackupError::Interrupted => Failure::refused(error),
    }
}

pub(super) fn mebibytes(bytes: u64) -> String {
    let tenths = (bytes >> 10).saturating_mul(10) >> 10;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_to_the_tenth() {
        let told = [0, 65_536, 1 << 20, 3 << 19, u64::MAX >> 8].map(mebibytes);
        assert_eq!(told, ["0.0 MiB", "0.0 MiB", "1.0 MiB", "1.5 MiB", "68719476735.9 MiB"]);
    }
}
