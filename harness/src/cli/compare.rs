//! `hookproof compare BASE NEW`: compares reports with older ones.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::exit::{REGRESSION, USAGE, refuse, worse};
use super::forms;
use super::out::{one_line, say};
use hookproof_judge::report::compare::{Allowed, Difference, compare_all, missing};
use hookproof_judge::report::in_one_line;

#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Figures are compared beyond their noise, which several runs show:
  hookproof run scenarios/viral-spike.toml --times 5 --json base.json")]
pub(crate) struct Arguments {
    /// The older report, as `--json` wrote it, or a list of them
    base: PathBuf,
    /// The newer one
    new: PathBuf,
    #[command(flatten)]
    allowances: Allowances,
}

#[derive(Args, Clone, Debug, Default)]
pub(super) struct Allowances {
    /// Differences that are no regression: missing-scenario, missing-check, not-applicable, scenario, driver, seed, figure
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(super) allow: Vec<Allowed>,
}

/// Prints the differences; exits with 3 after a regression.
pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let read = forms::read(&arguments.base).and_then(|base| Ok((base, forms::read(&arguments.new)?)));
    let (base, new) = match read {
        Ok(read) => read,
        Err(what) => return refuse("compare", what, USAGE),
    };
    if base.is_empty() || new.is_empty() {
        return refuse("compare", "one of the two files has no report in it", USAGE);
    }
    let allowed = &arguments.allowances.allow;
    let gone = missing(&base, &new, allowed);
    tell(&gone);
    let comparison = compare_all(&base, &new, allowed);
    for scenario in &comparison.unknown {
        let scenario = in_one_line(scenario);
        say(format_args!("{} has no run of {scenario}: not compared", arguments.base.display()));
    }
    for (scenario, difference) in &comparison.compared {
        tell(difference);
        let (bad, good) = (difference.regressions.len(), difference.improvements.len());
        one_line(format_args!("{scenario}: {bad} worse, {good} better"));
    }
    let gone = if gone.regressions.is_empty() { 0 } else { REGRESSION };
    ExitCode::from(worse(comparison.code(), gone))
}

fn tell(difference: &Difference) {
    let rows = [
        ("worse  ", &difference.regressions),
        ("better ", &difference.improvements),
        ("allowed", &difference.allowed),
    ];
    for (word, whats) in rows {
        whats.iter().for_each(|what| one_line(format_args!("{word} {what}")));
    }
}
