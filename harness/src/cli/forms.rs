//! Where a report goes: the terminal, and the files that were asked for.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::out::written;
use crate::report::{self, Colours, Regressions, Report, Unjudged};

/// The forms that a report is asked for in.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Forms {
    /// Write the report as JSON, of several runs a list; - prints it on stdout, one line a run, instead of the table
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
}

impl Forms {
    /// Refuses what can't hold so many runs.
    pub(crate) fn fit(&self, runs: usize) -> Result<(), String> {
        if self.html.is_some() && runs > 1 {
            return Err(format!("--html is one page of one run, and there are {runs}"));
        }
        Ok(())
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
    ) -> io::Result<()> {
        if let Some(path) = self.json.as_ref().filter(|_| !self.is_printed()) {
            let text = match reports {
                [one] => serde_json::to_string_pretty(one)?,
                several => serde_json::to_string_pretty(several)?,
            };
            write(path, &text)?;
        }
        if let Some(path) = &self.junit {
            let junit = report::junit_with(reports, unjudged, regressions);
            write(path, &junit.map_err(io::Error::other)?)?;
        }
        if let Some(path) = &self.markdown {
            write(path, &report::markdown_with(reports, unjudged, regressions))?;
        }
        if let Some((path, report)) = self.html.as_ref().zip(reports.first()) {
            write(path, &report::html(report))?;
        }
        Ok(())
    }

    fn is_printed(&self) -> bool {
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
