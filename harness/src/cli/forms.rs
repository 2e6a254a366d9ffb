//! Where a report goes: the terminal, and the files that were asked for.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::out::{say, written};
use crate::report::{self, Colours, Regressions, Report, Unjudged};

/// The forms that a report is asked for in.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Forms {
    /// Write the report as JSON, of several runs a list; - prints it on stdout, one line a run, instead of the table (not in `sim`)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as JUnit XML, one suite a run, one test case for each check
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write the report as Markdown, for a job's summary
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write the report of one run as one page of HTML
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write what shows the first failure as a picture, SVG; without one the file is removed
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

impl Forms {
    /// Refuses what can't hold so many runs.
    pub(crate) fn fit(&self, runs: usize) -> Result<(), String> {
        for (option, is_given) in [("html", self.html.is_some()), ("picture", self.picture.is_some())] {
            if is_given && runs > 1 {
                return Err(format!("--{option} is of one run, and there are {runs}"));
            }
        }
        Ok(())
    }

    /// Whether any file was asked for.
    pub(crate) fn is_asked(&self) -> bool {
        [&self.json, &self.junit, &self.markdown, &self.html, &self.picture].into_iter().any(Option::is_some)
    }

    /// Prints a report.
    pub(crate) fn show(&self, report: &Report) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.is_printed() {
            let line = serde_json::to_string(report)?;
            return written(writeln!(out, "{line}"));
        }
        let colours = Colours::of(out.is_terminal());
        written(out.write_all(report::terminal(report, colours).as_bytes()))
    }

    /// Writes all reports in every form that was asked for: several as one list, one suite each, one section each. What left
    /// no report is an error in the JUnit file, where an empty suite would pass; what got worse is a failure there. Markdown
    /// begins with what could not be judged.
    pub(crate) fn write(
        &self,
        reports: &[Report],
        unjudged: &[Unjudged],
        regressions: &Regressions,
        baseline: &[Report],
    ) -> io::Result<()> {
        if let Some(path) = self.json.as_ref().filter(|_| !self.is_printed()) {
            let text = match reports {
                [one] => serde_json::to_string_pretty(one)?,
                several => serde_json::to_string_pretty(several)?,
            };
            write(path, &text)?;
        }
        if let Some(path) = &self.junit {
            let junit = report::junit(reports, unjudged, regressions);
            write(path, &junit.map_err(io::Error::other)?)?;
        }
        if let Some(path) = &self.markdown {
            write(path, &report::markdown(reports, unjudged, regressions))?;
        }
        if let Some(path) = &self.html {
            // A page of an earlier run must not stand for one that could not be judged.
            match (reports.first(), unjudged.first()) {
                (Some(report), _) => write(path, &report::html(report, baseline))?,
                (None, Some(unjudged)) => write(path, &report::html_unjudged(unjudged))?,
                (None, None) => {}
            }
        }
        if let Some(path) = &self.picture {
            match reports.first().and_then(report::picture) {
                Some(picture) => write(path, &picture)?,
                None => undrawn(path)?,
            }
        }
        Ok(())
    }

    /// Whether the JSON is what stdout is for.
    pub(crate) fn is_printed(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }
}

/// The reports in a file that `--json` wrote: one, or the list of a command with several runs.
pub(super) fn read(path: &Path) -> Result<Vec<Report>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
    let reports = if text.trim_start().starts_with('[') {
        serde_json::from_str(&text)
    } else {
        serde_json::from_str(&text).map(|report| vec![report])
    };
    reports.map_err(|error| format!("{} is no report: {error}", path.display()))
}

/// Writes a file, and names it where that fails.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)
        .map_err(|error| io::Error::new(error.kind(), format!("writing {}: {error}", path.display())))
}

/// Says that there is no picture, and removes that of an earlier run, which must not stand for this one. What is no file of
/// its own, such as a device, stays.
fn undrawn(path: &Path) -> io::Result<()> {
    say(format_args!("hookproof: no picture in {}: nothing failed that could be drawn", path.display()));
    let removed = match fs::canonicalize(path) {
        Ok(older) if older.is_file() => fs::remove_file(&older),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    removed.map_err(|error| io::Error::new(error.kind(), format!("removing {}: {error}", path.display())))
}
