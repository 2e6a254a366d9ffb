//! The outputs of a report: the terminal and files.

use std::fs;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use hookproof_judge::report::{self, Colours, Regressions, Report, Unjudged};
use serde::Serialize;

use super::out::{print_stderr, written};

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Reports")]
pub(crate) struct Forms {
    /// Write the report as JSON, of several runs a list; - prints it on stdout, one line a run, instead of the table
    /// (not in `sim`)
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
    /// Write a picture of the first failure, SVG; without one the file is removed
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

impl Forms {
    /// Refuses forms that can't hold this many runs.
    pub(crate) fn fit(&self, runs: usize) -> Result<(), String> {
        for (option, is_given) in [("html", self.html.is_some()), ("picture", self.picture.is_some())] {
            if is_given && runs > 1 {
                return Err(format!("--{option} is for one run; found {runs} runs"));
            }
        }
        Ok(())
    }

    /// Creates and changes no file. Files in missing folders below `made` pass: those folders are created later.
    pub(crate) fn can_be_written(&self, made: Option<&Path>) -> Result<(), String> {
        let made = made.and_then(|made| std::path::absolute(made).ok());
        let is_made_later = |path: &Path| {
            let path = std::path::absolute(path).ok();
            let folder = path.as_deref().and_then(Path::parent).filter(|folder| !folder.exists());
            folder.zip(made.as_deref()).is_some_and(|(folder, made)| folder.starts_with(made))
        };
        let asked = self.files().into_iter().filter_map(|(option, path)| Some((option, path?)));
        for (option, path) in asked.filter(|(_, path)| !is_made_later(path)) {
            try_to_open(path)
                .map_err(|error| format!("--{option} {} cannot be written: {error}", path.display()))?;
        }
        Ok(())
    }

    fn files(&self) -> [(&'static str, Option<&Path>); 5] {
        [
            ("json", self.json.as_deref().filter(|_| !self.is_printed())),
            ("junit", self.junit.as_deref()),
            ("markdown", self.markdown.as_deref()),
            ("html", self.html.as_deref()),
            ("picture", self.picture.as_deref()),
        ]
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.is_printed() || self.files().iter().any(|(_, path)| path.is_some())
    }

    pub(crate) fn show(&self, report: &Report) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.is_printed() {
            let mut out = BufWriter::new(out);
            let printed = serde_json::to_writer(&mut out, report).map_err(io::Error::from);
            return written(printed.and_then(|()| writeln!(out)).and_then(|()| out.flush()));
        }
        let colours = Colours::of(out.is_terminal());
        written(out.write_all(report::terminal(report, colours).as_bytes()))
    }

    /// Writes all reports in every requested form. A subject without a report is an error in the JUnit file, where an
    /// empty suite would pass; a regression is a failure there. Returns the first error, after every form was tried.
    pub(crate) fn write(
        &self,
        reports: &[Report],
        unjudged: &[Unjudged],
        regressions: &Regressions,
        baseline: &[Report],
    ) -> io::Result<()> {
        let files = self.files().map(|(_, path)| path);
        let folders: Vec<_> = files.iter().flatten().map(|path| make_folder(path)).collect();
        let [json, junit, markdown, html, picture] = files;
        let all = [
            json.map_or(Ok(()), |path| match reports {
                [one] => write_json(path, one),
                several => write_json(path, several),
            }),
            junit.map_or(Ok(()), |path| {
                let junit = report::junit(reports, unjudged, regressions);
                write(path, &junit.map_err(io::Error::other)?)
            }),
            markdown.map_or(Ok(()), |path| write(path, &report::markdown(reports, unjudged, regressions))),
            // An older run's page must not stand for a run that could not be judged.
            html.map_or(Ok(()), |path| match (reports.first(), unjudged.first()) {
                (Some(report), _) => write(path, &report::html(report, baseline)),
                (None, Some(unjudged)) => write(path, &report::html_unjudged(unjudged)),
                (None, None) => Ok(()),
            }),
            picture.map_or(Ok(()), |path| match reports.first().and_then(report::picture) {
                Some(picture) => write(path, &picture),
                None => undrawn(path),
            }),
        ];
        folders.into_iter().chain(all).collect()
    }

    pub(crate) fn is_printed(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }
}

/// The file holds one report, or a list.
pub(super) fn read(path: &Path) -> Result<Vec<Report>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
    let reports = if text.trim_start().starts_with('[') {
        serde_json::from_str(&text)
    } else {
        serde_json::from_str(&text).map(|report| vec![report])
    };
    reports.map_err(|error| format!("{} is not a report: {error}", path.display()))
}

fn make_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(|error| named("writing", path, &error))
}

pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|error| named("writing", path, &error))
}

pub(super) fn write_json<T: Serialize + ?Sized>(path: &Path, value: &T) -> io::Result<()> {
    let written = fs::File::create(path).and_then(|file| {
        let mut file = BufWriter::new(file);
        serde_json::to_writer_pretty(&mut file, value)?;
        file.flush()
    });
    written.map_err(|error| named("writing", path, &error))
}

/// A missing file is created and removed again. Devices and pipes are not touched: a pipe's reader would take the
/// close for the end of the report.
pub(super) fn try_to_open(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(older) if !older.is_file() && !older.is_dir() => Ok(()),
        Ok(_) => fs::OpenOptions::new().write(true).open(path).map(drop),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::File::create(path)?;
            // A dangling link stays.
            fs::canonicalize(path).and_then(fs::remove_file)
        }
        Err(error) => Err(error),
    }
}

fn named(what: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {}: {error}", path.display()))
}

/// Removes an older run's picture, which must not stand for this run. Anything but a regular file stays.
fn undrawn(path: &Path) -> io::Result<()> {
    print_stderr(format_args!(
        "hookproof: {} was not written: the run has no failure with a chart",
        path.display()
    ));
    let removed = match fs::canonicalize(path) {
        Ok(older) if older.is_file() => fs::remove_file(&older),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    removed.map_err(|error| named("removing", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn junit(path: PathBuf) -> Forms {
        Forms { junit: Some(path), ..Forms::default() }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_found_out_and_none_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let ask = |name: &str, made: Option<&str>| junit(at(name)).can_be_written(made.map(at).as_deref());
        fs::write(at("older.xml"), "older").unwrap();
        std::os::unix::fs::symlink(at("nowhere.xml"), at("link.xml")).unwrap();
        for (name, made) in
            [("new.xml", None), ("older.xml", None), ("link.xml", None), ("out/a/new.xml", Some("out"))]
        {
            assert_eq!(ask(name, made), Ok(()), "{name}");
        }
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert!(left.len() == 2 && fs::read_to_string(at("older.xml")).unwrap() == "older", "{left:?}");
        for name in ["none/new.xml", "older.xml/new.xml", ""] {
            let said = ask(name, Some("out")).unwrap_err();
            let path = at(name).display().to_string();
            assert!(said.starts_with(&format!("--junit {path} cannot be written: ")), "{said}");
        }
        assert_eq!(junit("/dev/null".into()).can_be_written(None), Ok(()));
        assert_eq!(Forms { json: Some("-".into()), ..Forms::default() }.can_be_written(None), Ok(()));
    }

    #[test]
    fn a_form_that_cannot_be_written_takes_no_other_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Some(folder.path().join(name));
        fs::write(folder.path().join("file"), "").unwrap();
        let (json, junit) = (at("file/r.json"), at("junit.xml"));
        let (markdown, html) = (at("file/r.md"), at("page.html"));
        let forms = Forms { json, junit, markdown, html, picture: None };
        let unjudged = Unjudged { subject: "x".to_owned(), why: "y".to_owned() };
        let error = forms.write(&[], &[unjudged], &Regressions::new(), &[]).unwrap_err();
        assert!(error.to_string().contains("file/r.json"), "{error}");
        assert!(folder.path().join("junit.xml").exists() && folder.path().join("page.html").exists());
    }
}
