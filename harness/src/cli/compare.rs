//! `hookproof compare BASE NEW`: a report against an older one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::exit::{REGRESSION, USAGE, refuse};
use super::out::line;
use crate::report::{Report, compare};

/// What to compare.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// The older report, as `--json` wrote it
    base: PathBuf,
    /// The newer one
    new: PathBuf,
}

/// Says what differs; exits with 3 where something got worse.
pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let read = |path: &Path| -> Result<Report, String> {
        let text =
            fs::read_to_string(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{} is no report: {error}", path.display()))
    };
    let reports = read(&arguments.base).and_then(|base| Ok((base, read(&arguments.new)?)));
    let (base, new) = match reports {
        Ok(reports) => reports,
        Err(what) => return refuse("compare", what, USAGE),
    };
    if base.scenario != new.scenario {
        let what = format!(
            "{} is of {}, {} of {}",
            arguments.base.display(),
            base.scenario,
            arguments.new.display(),
            new.scenario
        );
        return refuse("compare", what, USAGE);
    }
    let difference = compare::compare(&base, &new);
    for what in &difference.regressions {
        line(format_args!("worse   {what}"));
    }
    for what in &difference.improvements {
        line(format_args!("better  {what}"));
    }
    let (worse, better) = (difference.regressions.len(), difference.improvements.len());
    line(format_args!("{}: {worse} worse, {better} better", new.scenario));
    ExitCode::from(if worse > 0 { REGRESSION } else { 0 })
}
