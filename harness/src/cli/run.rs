//! `run`: replay scenarios against a sender.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tokio::sync::watch;

use super::exit::{self, HARNESS, USAGE};
use super::forms::{self, Forms};
use crate::check::{self, Strictness};
use crate::report::{self, Report};
use crate::run::{Interrupt, Options, Played, RunError, play};
use crate::scenario::Scenario;
use crate::trace::{Ended, Trace};

const EXIT_UNREACHABLE: u8 = 4;
const EXIT_INTERRUPTED: u8 = 130;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof run scenarios/viral-spike.toml
  hookproof run scenarios/*.toml --out reports/runs --junit junit.xml
  hookproof run scenarios/*.toml --times 5
  hookproof run scenarios/throughput.toml --set drain=10s --seed 7
  hookproof run scenarios/recovery-storm.toml --driver scenarios/drivers/svix.toml

Ctrl-C ends the run, and what was seen until then is written. A second one ends it at once.")]
pub(super) struct Run {
    /// Scenario files
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    /// Another sender than ours
    #[arg(long, value_name = "FILE")]
    driver: Option<PathBuf>,
    /// In the place of the scenario's seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Play all of them so many times, and stop at the first that doesn't pass
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    times: u32,
    /// Where traces and reports go, each scenario's into a folder of its name
    #[arg(long, value_name = "DIR", default_value = "reports/runs")]
    out: PathBuf,
    /// Change a value of the scenario: drain=10s, subscriber.ingest.limit.rate=50/s; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// A report of before: what got worse since is a regression
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    #[command(flatten)]
    forms: Forms,
}

impl Run {
    pub(super) fn run(self) -> ExitCode {
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                eprintln!("hookproof run: no runtime could be started: {error}");
                return ExitCode::from(HARNESS);
            }
        };
        let code = runtime.block_on(self.all());
        // What still waits for a lock or a lookup has nothing more to say.
        runtime.shutdown_background();
        ExitCode::from(code)
    }

    /// Plays all scenarios, one after another; answers the worst exit code.
    async fn all(&self) -> u8 {
        if let Err(what) = self.forms.fit(self.scenarios.len() * self.times as usize) {
            eprintln!("hookproof run: {what}; each run leaves its page in its folder");
            return USAGE;
        }
        let interrupt = interrupts();
        let (mut worst, mut reports) = (0, Vec::new());
        let rounds = (0..self.times).flat_map(|_| &self.scenarios);
        for path in rounds {
            let code = self.one(path, interrupt.clone(), &mut reports).await;
            worst = exit::worse(worst, code);
            if *interrupt.borrow() {
                worst = EXIT_INTERRUPTED;
                break;
            }
            // What the next round would write over is what shows the trouble.
            if code != 0 && self.times > 1 {
                break;
            }
        }
        if let Err(error) = self.forms.write(&reports) {
            eprintln!("hookproof run: the reports could not be written: {error}");
            return HARNESS;
        }
        worst
    }

    async fn one(&self, path: &Path, interrupt: Interrupt, reports: &mut Vec<Report>) -> u8 {
        let scenario = match read(path, &self.set) {
            Ok(scenario) => scenario,
            Err(problems) => {
                problems.iter().for_each(|problem| eprintln!("hookproof run: {problem}"));
                return USAGE;
            }
        };
        let program = match std::env::current_exe() {
            Ok(program) => program,
            Err(error) => {
                eprintln!("hookproof run: this program does not know where it is: {error}");
                return HARNESS;
            }
        };
        let options = Options {
            seed: self.seed,
            driver: self.driver.clone(),
            out: self.out.join(&scenario.name),
            program,
            folder: path.parent().map(Path::to_owned).unwrap_or_default(),
            show: true,
        };
        match play(&scenario, &options, interrupt).await {
            Ok(played) => {
                let seed = self.seed.unwrap_or(scenario.seed);
                self.judge(&scenario, &played, self.repeat(path, seed), reports)
            }
            Err(error) => {
                eprintln!("hookproof run: {}: {error}", scenario.name);
                exit_code(&error)
            }
        }
    }
}

impl Run {
    /// Judges what was played, and writes the report in every form.
    fn judge(&self, scenario: &Scenario, played: &Played, repeat: String, reports: &mut Vec<Report>) -> u8 {
        match self.report(scenario, played, repeat, reports) {
            Ok(code) => match played.ended {
                Ended::Interrupted => EXIT_INTERRUPTED,
                Ended::SenderGone => exit::worse(code, EXIT_UNREACHABLE),
                Ended::Done => code,
            },
            Err(error) => {
                eprintln!("hookproof run: {}: the report could not be written: {error}", scenario.name);
                HARNESS
            }
        }
    }

    fn report(
        &self,
        scenario: &Scenario,
        played: &Played,
        repeat: String,
        reports: &mut Vec<Report>,
    ) -> std::io::Result<u8> {
        let trace = Trace::open(&played.trace).map_err(std::io::Error::other)?;
        let judgement = check::judge(scenario, &trace, Strictness::Usual);
        let code = exit::code(judgement.status);
        let report = Report::new(scenario, &trace, judgement, repeat);
        self.forms.show(&report)?;
        let folder = played.trace.with_file_name("");
        let page = folder.join("report.html");
        forms::write(&page, &report::html(&report))?;
        forms::write(&folder.join("report.json"), &serde_json::to_string_pretty(&report)?)?;
        let lag = &played.lag;
        eprintln!(
            "generator's lag: p50 {} µs, p99 {} µs\ntrace: {}\npage:  {}",
            lag.quantile(0.5) / 1_000,
            lag.quantile(0.99) / 1_000,
            played.trace.display(),
            page.display()
        );
        let regressed = self.regressed(&report);
        reports.push(report);
        Ok(regressed?.map_or(code, |regression| exit::worse(code, regression)))
    }

    /// The exit code for what got worse since the baseline, if anything did.
    fn regressed(&self, report: &Report) -> std::io::Result<Option<u8>> {
        let Some(path) = &self.baseline else { return Ok(None) };
        let before: Report = serde_json::from_str(&std::fs::read_to_string(path)?)?;
        let difference = report::compare::compare(&before, report);
        difference.regressions.iter().for_each(|line| eprintln!("worse than before: {line}"));
        Ok((!difference.regressions.is_empty()).then_some(exit::REGRESSION))
    }

    /// The command that repeats a run.
    fn repeat(&self, path: &Path, seed: u64) -> String {
        let mut command = format!("hookproof run {} --seed {seed}", path.display());
        if let Some(driver) = &self.driver {
            command.push_str(&format!(" --driver {}", driver.display()));
        }
        self.set.iter().for_each(|change| command.push_str(&format!(" --set '{change}'")));
        command
    }
}

fn read(path: &Path, changes: &[String]) -> Result<Scenario, Vec<String>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| vec![format!("{} cannot be read: {error}", path.display())])?;
    Scenario::from_text_with(&text, &path.display().to_string(), changes)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

const fn exit_code(error: &RunError) -> u8 {
    if error.is_senders() {
        EXIT_UNREACHABLE
    } else if error.is_askers() {
        USAGE
    } else {
        HARNESS
    }
}

/// Turns true at the first Ctrl-C or SIGTERM. The second one ends the program as ever, and its children with it.
fn interrupts() -> Interrupt {
    use tokio::signal::unix::{SignalKind, signal};

    let (tell, told) = watch::channel(false);
    tokio::spawn(async move {
        let mut terminate = signal(SignalKind::terminate()).ok();
        loop {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                Some(()) = async { terminate.as_mut()?.recv().await } => {}
            }
            if tell.send_replace(true) {
                std::process::abort();
            }
            eprintln!("ending the run; once more to end it at once");
        }
    });
    told
}
