//! `hookproof compare BASE NEW`: a report against an older one.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::exit::{REGRESSION, USAGE, refuse};
use super::forms;
use super::out::{line, say};
use crate::report::{Report, compare};

/// What to compare.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// The older report, as `--json` wrote it, or a list of them
    base: PathBuf,
    /// The newer one
    new: PathBuf,
}

/// Says what differs; exits with 3 where something got worse.
pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let read = forms::read(&arguments.base).and_then(|base| Ok((base, forms::read(&arguments.new)?)));
    let (base, new) = match read {
        Ok(read) => read,
        Err(what) => return refuse("compare", what, USAGE),
    };
    let (both, alone): (Vec<_>, Vec<_>) = new
        .iter()
        .map(|new| (base.iter().find(|base| base.scenario == new.scenario), new))
        .partition(|(base, _)| base.is_some());
    if both.is_empty() {
        let names = |reports: &[Report]| {
            reports.iter().map(|report| report.scenario.as_str()).collect::<Vec<_>>().join(", ")
        };
        let (of, other) = (names(&base), names(&new));
        let what = format!("{} is of {of}, {} of {other}", arguments.base.display(), arguments.new.display());
        return refuse("compare", what, USAGE);
    }
    for (_, new) in alone {
        say(format_args!("{} has no run of {}: not compared", arguments.base.display(), new.scenario));
    }
    let worse = both.into_iter().filter_map(|(base, new)| Some(tell(base?, new))).sum::<usize>();
    ExitCode::from(if worse > 0 { REGRESSION } else { 0 })
}

/// Says how a run differs from an older one; answers how much of it is worse.
fn tell(base: &Report, new: &Report) -> usize {
    let difference = compare::compare(base, new);
    for what in &difference.regressions {
        line(format_args!("worse   {what}"));
    }
    for what in &difference.improvements {
        line(format_args!("better  {what}"));
    }
    let (worse, better) = (difference.regressions.len(), difference.improvements.len());
    line(format_args!("{}: {worse} worse, {better} better", new.scenario));
    worse
}
