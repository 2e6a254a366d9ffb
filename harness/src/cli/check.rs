//! Judges and shows recorded runs, offline: `hookproof check TRACE…`, `open TRACE`, and `compare BASE NEW`.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use hookproof_judge::catalogue::{self, SelectError, Selection};
use hookproof_judge::check::{self, Judgement, Strictness};
use hookproof_judge::report::compare::{Allowed, Difference, compare_all, missing};
use hookproof_judge::report::{self, Regressions, Report, Unjudged, in_one_line};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::Trace;

use super::forms::{self, Forms};
use super::out::{self, HARNESS, REGRESSION, USAGE, line, one_line, print_stderr, quoted, refuse, worse};

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
        return out::refuse("check", what, USAGE);
    }
    let selection = match arguments.gate.selection() {
        Ok(selection) => selection,
        Err(what) => return out::refuse("check", what, USAGE),
    };
    let (mut worst, mut reports, mut unjudged) = (0, Vec::new(), Vec::new());
    for path in &arguments.traces {
        match one(path, arguments, &selection) {
            Ok((code, report)) => {
                worst = out::worse(worst, code);
                reports.push(report);
            }
            Err(Failure { what, code, report }) => {
                reports.extend(report.map(|report| *report));
                let subject = path.display().to_string();
                print_stderr(format_args!("hookproof check: {subject}: {what}"));
                unjudged.push(Unjudged { subject, why: what });
                worst = out::worse(worst, code);
            }
        }
    }
    match arguments.forms.write(&reports, &unjudged, &Regressions::new(), &[]) {
        Ok(()) => ExitCode::from(worst),
        Err(error) => out::refuse("check", error, out::HARNESS),
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
    let code = out::of_run(out::code(judgement.status), ended);
    let report = Report::new(&scenario, &trace, judgement, repeat(path, by, &arguments.gate));
    match arguments.forms.show(&report) {
        Ok(()) => Ok((code, report)),
        Err(error) => {
            let what = format!("writing to stdout: {error}");
            Err(Failure { what, code: out::HARNESS, report: Some(Box::new(report)) })
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

#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Several runs show the noise of figures; only larger differences count:
  hookproof run scenarios/viral-spike.toml --times 5 --json base.json")]
pub(crate) struct Compare {
    /// The older report, as `--json` wrote it, or a list of them
    base: PathBuf,
    /// The newer one
    new: PathBuf,
    #[command(flatten)]
    allowances: Allowances,
}

#[derive(Args, Clone, Debug, Default)]
pub(super) struct Allowances {
    /// Differences that are no regression: missing-scenario, missing-check, not-applicable, scenario, driver, seed,
    /// figure
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(super) allow: Vec<Allowed>,
}

/// Prints the differences; exits with 3 after a regression.
pub(crate) fn compare(arguments: &Compare) -> ExitCode {
    let read = forms::read(&arguments.base).and_then(|base| Ok((base, forms::read(&arguments.new)?)));
    let (base, new) = match read {
        Ok(read) => read,
        Err(what) => return refuse("compare", what, USAGE),
    };
    if base.is_empty() || new.is_empty() {
        return refuse(
            "compare",
            "one of the two files has no report; expected files of `hookproof run --json`",
            USAGE,
        );
    }
    let allowed = &arguments.allowances.allow;
    let gone = missing(&base, &new, allowed);
    print_difference(&gone);
    let comparison = compare_all(&base, &new, allowed);
    for scenario in &comparison.unknown {
        let scenario = in_one_line(scenario);
        print_stderr(format_args!("{} has no run of {scenario}: not compared", arguments.base.display()));
    }
    for (scenario, difference) in &comparison.compared {
        print_difference(difference);
        let (bad, good) = (difference.regressions.len(), difference.improvements.len());
        let inconclusive = difference.inconclusive.len();
        one_line(format_args!("{scenario}: {bad} worse, {good} better, {inconclusive} inconclusive"));
    }
    let gone = if gone.regressions.is_empty() { 0 } else { REGRESSION };
    ExitCode::from(worse(comparison.code(), gone))
}

fn print_difference(difference: &Difference) {
    let rows = [
        ("worse  ", &difference.regressions),
        ("better ", &difference.improvements),
        ("inconclusive", &difference.inconclusive),
        ("allowed", &difference.allowed),
    ];
    for (word, whats) in rows {
        whats.iter().for_each(|what| one_line(format_args!("{word} {what}")));
    }
}

const RUNS: &str = "reports/runs";
const TRACES: [&str; 2] = ["trace.jsonl", "trace.jsonl.zst"];

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof open scenarios/traces/over-rate.jsonl
  hookproof open viral-spike                       # the latest run, in reports/runs/viral-spike
  hookproof open reports/runs/viral-spike --html page.html

The page is one file that needs no network. Its path is printed; on a terminal of a desktop a browser opens it too. The run is
judged by all its checks. The exit code does not show the verdict: use `hookproof check` for that.")]
pub(super) struct Open {
    /// A trace, the folder of a run, or the name of a scenario that was run
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Where the page goes, in place of a temporary file that stays
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Writes the page, prints its path, and opens it on a desktop.
pub(super) fn open(arguments: &Open) -> ExitCode {
    let (page, code) = match found(&arguments.trace).and_then(|trace| judged(&trace)) {
        Ok(report) => (report::html(&report, &[]), 0),
        Err(why) => {
            print_stderr(format_args!("hookproof open: {why}"));
            let subject = arguments.trace.display().to_string();
            (report::html_unjudged(&Unjudged { subject, why }), USAGE)
        }
    };
    let path = match write_page(arguments.html.as_deref(), &page) {
        Ok(path) => path,
        Err(error) => return out::refuse("open", format!("the page cannot be written: {error}"), HARNESS),
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
        format!("found no trace at {asked}, in it, or in {RUNS}/{asked}; expected a trace, the folder of a run, or its name")
    })
}

fn judged(path: &Path) -> Result<Report, String> {
    let gate = Gate::default();
    let selection = gate.selection().map_err(|error| error.to_string())?;
    let (scenario, trace) = read(path, None).map_err(|why| format!("{}: {why}", path.display()))?;
    let judgement = gate.judge(&selection, &scenario, &trace);
    Ok(Report::new(&scenario, &trace, judgement, repeat(path, None, &gate)))
}

/// Without a requested file, writes a temporary file that stays.
fn write_page(asked: Option<&Path>, page: &str) -> io::Result<PathBuf> {
    if let Some(path) = asked {
        forms::write(path, page)?;
        return Ok(path.to_owned());
    }
    let mut file = tempfile::Builder::new().prefix("hookproof-").suffix(".html").tempfile()?;
    io::Write::write_all(&mut file, page.as_bytes())?;
    let (_, path) = file.keep().map_err(|error| error.error)?;
    Ok(path)
}

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
            print_stderr(format_args!("hookproof open: no browser opened it: {program} ended with {status}"));
        }
        Err(error) => print_stderr(format_args!("hookproof open: no browser opened it: {program}: {error}")),
    }
}

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Verdict")]
pub(crate) struct Gate {
    /// Checks that decide, no others: ids or their beginnings, such as rate.envelope, retry, or breaker.*
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// Checks to leave out, likewise
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    skip: Vec<String>,
    /// Treat `should` as `must`
    #[arg(long)]
    strict: bool,
}

impl Gate {
    /// # Errors When no check matches.
    pub(super) fn selection(&self) -> Result<Selection, SelectError> {
        Selection::new(catalogue::sender(), &self.only, &self.skip)
    }

    pub(super) fn judge(&self, selection: &Selection, scenario: &Scenario, trace: &Trace) -> Judgement {
        let strictness = if self.strict { Strictness::Strict } else { Strictness::Usual };
        check::judge(scenario, trace, strictness).of(selection, trace)
    }

    pub(super) fn written(&self) -> String {
        let list = |name: &str, ids: &[String]| {
            if ids.is_empty() { String::new() } else { format!(" --{name} {}", quoted(&ids.join(","))) }
        };
        let strict = if self.strict { " --strict" } else { "" };
        format!("{}{}{strict}", list("only", &self.only), list("skip", &self.skip))
    }
}
