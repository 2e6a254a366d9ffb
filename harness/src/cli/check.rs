//! `hookproof check TRACE…`: judges recorded runs again, offline.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::exit::{self, USAGE};
use super::forms::Forms;
use super::gate::Gate;
use super::out::say;
use crate::catalogue::Selection;
use crate::report::{Regressions, Report, Unjudged};
use crate::scenario::Scenario;
use crate::trace::Trace;

/// What to judge.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// Trace files (.jsonl, .jsonl.zst)
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Judge by this scenario instead of the one inside the trace
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    gate: Gate,
    #[command(flatten)]
    forms: Forms,
}

/// Judges each trace; the worst of them decides the exit code.
pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    if let Err(what) = arguments.forms.fit(arguments.traces.len()) {
        return exit::refuse("check", what, USAGE);
    }
    let selection = match arguments.gate.selection() {
        Ok(selection) => selection,
        Err(what) => return exit::refuse("check", what, USAGE),
    };
    let (mut worst, mut reports, mut unjudged) = (0, Vec::new(), Vec::new());
    for path in &arguments.traces {
        match one(path, arguments, &selection) {
            Ok((code, report)) => {
                worst = exit::worse(worst, code);
                reports.push(report);
            }
            Err(what) => {
                let subject = path.display().to_string();
                say(format_args!("hookproof check: {subject}: {what}"));
                unjudged.push(Unjudged { subject, why: what });
                worst = exit::worse(worst, USAGE);
            }
        }
    }
    match arguments.forms.write(&reports, &unjudged, &Regressions::new()) {
        Ok(()) => ExitCode::from(worst),
        Err(error) => exit::refuse("check", error, exit::HARNESS),
    }
}

fn one(path: &Path, arguments: &Arguments, selection: &Selection) -> Result<(u8, Report), String> {
    let trace = Trace::open(path).map_err(|error| error.to_string())?;
    let (text, name) = match &arguments.scenario {
        Some(file) => {
            let text =
                fs::read_to_string(file).map_err(|error| format!("reading {}: {error}", file.display()))?;
            (text, file.display().to_string())
        }
        None => (trace.header.scenario_toml.clone(), format!("the scenario in {}", path.display())),
    };
    let scenario = Scenario::from_text(&text, &name)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    let judgement = arguments.gate.judge(selection, &scenario, &trace);
    let code = exit::code(judgement.status);
    let repeat = format!("hookproof check {}{}", path.display(), arguments.gate.written());
    let report = Report::new(&scenario, &trace, judgement, repeat);
    arguments.forms.show(&report).map_err(|error| error.to_string())?;
    Ok((code, report))
}
