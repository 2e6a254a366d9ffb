//! `hookproof open TRACE`: shows a recorded run.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;

use super::check::{read, repeat};
use super::exit::{self, HARNESS, USAGE};
use super::forms;
use super::gate::Gate;
use super::out::{line, say};
use hookproof_judge::report::{self, Report, Unjudged};

/// The folder of `run`'s output.
const RUNS: &str = "reports/runs";
/// The traces of a run's folder.
const TRACES: [&str; 2] = ["trace.jsonl", "trace.jsonl.zst"];

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof open scenarios/traces/over-rate.jsonl
  hookproof open viral-spike                       # the latest run, in reports/runs/viral-spike
  hookproof open reports/runs/viral-spike --html page.html

The page is one file that needs no network. Its path is printed; on a terminal of a desktop a browser opens it too. The run is
judged by all its checks, whatever they come to: `hookproof check` has the verdict in its exit code.")]
pub(super) struct Arguments {
    /// A trace, the folder of a run, or the name of a scenario that was run
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Where the page goes, in place of a temporary file that stays
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Writes the page, prints its path, and opens it on a desktop.
pub(super) fn main(arguments: &Arguments) -> ExitCode {
    let (page, code) = match found(&arguments.trace).and_then(|trace| judged(&trace)) {
        Ok(report) => (report::html(&report, &[]), 0),
        Err(why) => {
            say(format_args!("hookproof open: {why}"));
            let subject = arguments.trace.display().to_string();
            (report::html_unjudged(&Unjudged { subject, why }), USAGE)
        }
    };
    let path = match kept(arguments.html.as_deref(), &page) {
        Ok(path) => path,
        Err(error) => return exit::refuse("open", format!("the page can't be written: {error}"), HARNESS),
    };
    line(path.display());
    if io::stdout().is_terminal() {
        show(&path);
    }
    ExitCode::from(code)
}

fn found(asked: &Path) -> Result<PathBuf, String> {
    if asked.is_file() {
        return Ok(asked.to_owned());
    }
    let folders = [asked.to_owned(), Path::new(RUNS).join(asked)];
    let mut traces = folders.iter().flat_map(|folder| TRACES.map(|name| folder.join(name)));
    traces.find(|trace| trace.is_file()).ok_or_else(|| {
        let asked = asked.display();
        format!("{asked} is no trace, and there is none in it nor in {RUNS}/{asked}; expected a file, a run's folder or its name")
    })
}

fn judged(path: &Path) -> Result<Report, String> {
    let gate = Gate::default();
    let selection = gate.selection().map_err(|error| error.to_string())?;
    let (scenario, trace) = read(path, None).map_err(|why| format!("{}: {why}", path.display()))?;
    let judgement = gate.judge(&selection, &scenario, &trace);
    Ok(Report::new(&scenario, &trace, judgement, repeat(path, None, &gate)))
}

/// Writes the page to the requested file, or to a temporary file that stays.
fn kept(asked: Option<&Path>, page: &str) -> io::Result<PathBuf> {
    if let Some(path) = asked {
        forms::write(path, page)?;
        return Ok(path.to_owned());
    }
    let mut file = tempfile::Builder::new().prefix("hookproof-").suffix(".html").tempfile()?;
    io::Write::write_all(&mut file, page.as_bytes())?;
    let (_, path) = file.keep().map_err(|error| error.error)?;
    Ok(path)
}

/// Opens the page in the desktop's browser, if there is a desktop.
fn show(path: &Path) {
    let is_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    if !is_desktop && !cfg!(target_os = "macos") {
        return;
    }
    let mut command = Command::new(program);
    command.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => {
            say(format_args!("hookproof open: no browser opened it: {program} ended with {status}"));
        }
        Err(error) => say(format_args!("hookproof open: no browser opened it: {program}: {error}")),
    }
}
