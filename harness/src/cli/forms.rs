//! Where a report goes: the terminal, and the files that were asked for.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::report::{self, Colours, Report};

/// The forms that a report is asked for in.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Forms {
    /// Write the report as JSON; - prints it on stdout, one line a run, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as JUnit XML, one test case for each check
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write the report as Markdown, for a job's summary
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write the report as one page of HTML
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Forms {
    /// Prints and writes a report in every form that was asked for.
    pub(crate) fn show(&self, report: &Report) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let printed = self.json.as_deref() == Some(Path::new("-"));
        if printed {
            serde_json::to_writer(&mut out, report)?;
            writeln!(out)?;
        } else {
            let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let colours = if out.is_terminal() && !plain { Colours::Yes } else { Colours::No };
            out.write_all(report::terminal(report, colours).as_bytes())?;
        }
        if let Some(path) = self.json.as_ref().filter(|_| !printed) {
            write(path, &serde_json::to_string_pretty(report)?)?;
        }
        if let Some(path) = &self.junit {
            write(path, &report::junit(report).map_err(io::Error::other)?)?;
        }
        if let Some(path) = &self.markdown {
            write(path, &report::markdown(report))?;
        }
        if let Some(path) = &self.html {
            write(path, &report::html(report))?;
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)
        .map_err(|error| io::Error::new(error.kind(), format!("writing {}: {error}", path.display())))
}
