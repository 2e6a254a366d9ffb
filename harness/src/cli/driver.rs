//! `hookproof driver check FILE`: tests a driver file before a run.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::exit::{HARNESS, INTERRUPTED, USAGE, refuse};
use super::interrupt::interrupts;
use super::out::line;
use super::reach::ReachArgs;
use crate::driver::DriverFile;
use crate::rehearsal::{Options, Rehearsal, rehearse};
use hookproof_judge::report::visible;

#[derive(Debug, Subcommand)]
pub(super) enum Asked {
    /// Start its sender, subscribe, offer three events, verify the deliveries, and take all back: a minute at
    /// most
    Check(Check),
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof driver check scenarios/drivers/python/driver.toml
  ACME_TOKEN=… hookproof driver check acme.toml --json

Exit codes: 0 it works, 1 deliveries or signatures are not right, 4 the sender could not be started or refused a call,
64 the file has mistakes or needs a variable that is not set, 70 the harness itself failed, 130 somebody ended it.")]
pub(super) struct Check {
    /// The driver file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    reach: ReachArgs,
    /// For machines
    #[arg(long)]
    json: bool,
}

pub(super) fn main(asked: &Asked) -> ExitCode {
    let Asked::Check(check) = asked;
    let file = match DriverFile::open(&check.file) {
        Ok(file) => file,
        Err(error) => return refuse("driver check", error, USAGE),
    };
    let rehearsal = match played(check, &file) {
        Ok(rehearsal) => rehearsal,
        Err((code, why)) => return refuse("driver check", why, code),
    };
    if check.json {
        match serde_json::to_string_pretty(&rehearsal) {
            Ok(text) => line(text),
            Err(error) => return refuse("driver check", error, HARNESS),
        }
    } else {
        line(visible(rehearsal.text().trim_end()));
    }
    ExitCode::from(rehearsal.code)
}

/// The result; or an exit code and the reason why there is none.
fn played(check: &Check, file: &DriverFile) -> Result<Rehearsal, (u8, String)> {
    let text = |error: &dyn std::fmt::Display| (HARNESS, error.to_string());
    let reach = check.reach.reach();
    let program = std::env::current_exe().map_err(|error| text(&error))?;
    let folder = tempfile::tempdir().map_err(|error| text(&error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| text(&error))?;
    let options = Options { driver: &check.file, program: &program, folder: folder.path(), reach: &reach };
    let rehearsal = runtime.block_on(async {
        let interrupts = interrupts().map_err(|error| text(&error))?;
        tokio::select! {
            rehearsal = rehearse(file, options, interrupts.first) => rehearsal.map_err(|error| {
                (error.code(), error.to_string())
            }),
            _ = interrupts.second => Err((INTERRUPTED, "interrupted".to_owned())),
        }
    });
    runtime.shutdown_background();
    rehearsal
}
