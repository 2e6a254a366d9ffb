//! `hookproof check TRACE…`: judges recorded runs again, offline.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::exit::{self, USAGE};
use super::forms::Forms;
use super::gate::Gate;
use super::out::{quoted, say};
use hookproof_judge::catalogue::Selection;
use hookproof_judge::report::{Regressions, Report, Unjudged};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::Trace;

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

/// Judges each trace; the worst verdict decides the exit code.
pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let forms = &arguments.forms;
    if let Err(what) = forms.fit(arguments.traces.len()).and_then(|()| forms.can_be_written(None)) {
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
            Err(Failure { what, code, report }) => {
                reports.extend(report.map(|report| *report));
                let subject = path.display().to_string();
                say(format_args!("hookproof check: {subject}: {what}"));
                unjudged.push(Unjudged { subject, why: what });
                worst = exit::worse(worst, code);
            }
        }
    }
    match arguments.forms.write(&reports, &unjudged, &Regressions::new(), &[]) {
        Ok(()) => ExitCode::from(worst),
        Err(error) => exit::refuse("check", error, exit::HARNESS),
    }
}

/// A trace without a verdict, or with one that could not be printed.
struct Failure {
    what: String,
    code: u8,
    report: Option<Box<Report>>,
}

impl From<String> for Failure {
    fn from(what: String) -> Self {
        Self { what, code: USAGE, report: None }
    }
}

fn one(path: &Path, arguments: &Arguments, selection: &Selection) -> Result<(u8, Report), Failure> {
    let by = arguments.scenario.as_deref();
    let (scenario, trace) = read(path, by)?;
    let judgement = arguments.gate.judge(selection, &scenario, &trace);
    let ended = trace.trailer.as_ref().map(|trailer| trailer.ended);
    let code = exit::of_run(exit::code(judgement.status), ended);
    let report = Report::new(&scenario, &trace, judgement, repeat(path, by, &arguments.gate));
    match arguments.forms.show(&report) {
        Ok(()) => Ok((code, report)),
        Err(error) => {
            let what = format!("writing to stdout: {error}");
            Err(Failure { what, code: exit::HARNESS, report: Some(Box::new(report)) })
        }
    }
}

/// A trace and its scenario: from a file, or from the trace.
pub(super) fn read(path: &Path, by: Option<&Path>) -> Result<(Scenario, Trace), String> {
    let trace = Trace::open(path).map_err(|error| error.to_string())?;
    let (text, name) = match by {
        Some(file) => {
            let text =
                fs::read_to_string(file).map_err(|error| format!("reading {}: {error}", file.display()))?;
            (text, file.display().to_string())
        }
        None => (trace.header.scenario_toml.clone(), format!("the scenario in {}", path.display())),
    };
    let scenario = Scenario::from_text(&text, &name)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    Ok((scenario, trace))
}

pub(super) fn repeat(path: &Path, by: Option<&Path>, gate: &Gate) -> String {
    let shown = |path: &Path| quoted(&path.display().to_string());
    let scenario = by.map_or_else(String::new, |file| format!(" --scenario {}", shown(file)));
    format!("hookproof check {}{scenario}{}", shown(path), gate.written())
}
