//! `run`: replay scenarios against a sender.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tokio::sync::watch;

use crate::check::{self, Status, Strictness};
use crate::run::{Interrupt, Options, Played, RunError, play};
use crate::scenario::Scenario;
use crate::trace::{Ended, Trace};

const EXIT_FAILED: u8 = 1;
const EXIT_INCONCLUSIVE: u8 = 2;
const EXIT_UNREACHABLE: u8 = 4;
const EXIT_USAGE: u8 = 64;
const EXIT_HARNESS: u8 = 70;
const EXIT_INTERRUPTED: u8 = 130;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof run scenarios/viral-spike.toml
  hookproof run scenarios/*.toml --out reports/runs
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
    /// Where traces and reports go, each scenario's into a folder of its name
    #[arg(long, value_name = "DIR", default_value = "reports/runs")]
    out: PathBuf,
    /// Change a value of the scenario: drain=10s, subscriber.ingest.limit.rate=50/s; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Run {
    pub(super) fn run(self) -> ExitCode {
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                eprintln!("hookproof run: no runtime could be started: {error}");
                return ExitCode::from(EXIT_HARNESS);
            }
        };
        let code = runtime.block_on(self.all());
        // What still waits for a lock or a lookup has nothing more to say.
        runtime.shutdown_background();
        ExitCode::from(code)
    }

    /// Plays all scenarios, one after another; answers the worst exit code.
    async fn all(&self) -> u8 {
        let interrupt = interrupts();
        let mut worst = 0;
        for path in &self.scenarios {
            worst = worse(worst, self.one(path, interrupt.clone()).await);
            if *interrupt.borrow() {
                return EXIT_INTERRUPTED;
            }
        }
        worst
    }

    async fn one(&self, path: &Path, interrupt: Interrupt) -> u8 {
        let scenario = match read(path, &self.set) {
            Ok(scenario) => scenario,
            Err(problems) => {
                problems.iter().for_each(|problem| eprintln!("hookproof run: {problem}"));
                return EXIT_USAGE;
            }
        };
        let program = match std::env::current_exe() {
            Ok(program) => program,
            Err(error) => {
                eprintln!("hookproof run: this program does not know where it is: {error}");
                return EXIT_HARNESS;
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
            Ok(played) => judge(&scenario, &played),
            Err(error) => {
                eprintln!("hookproof run: {}: {error}", scenario.name);
                exit_code(&error)
            }
        }
    }
}

/// What a run that was played amounts to.
fn judge(scenario: &Scenario, played: &Played) -> u8 {
    let lag = &played.lag;
    eprintln!(
        "{}: generator lag p50 {} µs, p99 {} µs, {} late of {}; trace {}",
        scenario.name,
        lag.quantile(0.5) / 1_000,
        lag.quantile(0.99) / 1_000,
        lag.late,
        lag.released(),
        played.trace.display()
    );
    let trace = match Trace::open(&played.trace) {
        Ok(trace) => trace,
        Err(error) => {
            eprintln!("hookproof run: {}: {error}", scenario.name);
            return EXIT_HARNESS;
        }
    };
    let judgement = check::judge(scenario, &trace, Strictness::Usual);
    for verdict in &judgement.verdicts {
        if !matches!(verdict.status, Status::Pass | Status::NotApplicable) {
            eprintln!("{:?} {}: {}", verdict.status, verdict.id, verdict.sentence);
            for witness in verdict.witness.iter().take(3) {
                eprintln!("    {witness:?}");
            }
        }
    }
    eprintln!("{}: {:?}: {}", scenario.name, judgement.status, judgement.sentence);
    match (played.ended, judgement.status) {
        (Ended::Interrupted, _) => EXIT_INTERRUPTED,
        (Ended::SenderGone, _) => EXIT_UNREACHABLE,
        (Ended::Done, Status::Pass | Status::Warn | Status::NotApplicable) => 0,
        (Ended::Done, Status::Fail) => EXIT_FAILED,
        (Ended::Done, Status::Inconclusive) => EXIT_INCONCLUSIVE,
        #[allow(unreachable_patterns, reason = "the judge may learn more words")]
        (Ended::Done, _) => EXIT_HARNESS,
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
        EXIT_USAGE
    } else {
        EXIT_HARNESS
    }
}

/// The one of two exit codes that says more: what failed before what could not be told, and both before success.
fn worse(one: u8, other: u8) -> u8 {
    const ORDER: [u8; 8] =
        [0, EXIT_INCONCLUSIVE, 3, 1, EXIT_UNREACHABLE, EXIT_USAGE, EXIT_HARNESS, EXIT_INTERRUPTED];
    let rank = |code: u8| ORDER.iter().position(|known| *known == code).unwrap_or(ORDER.len());
    if rank(other) > rank(one) { other } else { one }
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
