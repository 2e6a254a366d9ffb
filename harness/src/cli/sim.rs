//! `sim`: plays scenarios in virtual time.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use hookproof_judge::check::{Judgement, Status, Strictness};
use hookproof_judge::report::{Regressions, Report, Unjudged};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::Trace;
use hookproof_simulator::plan::forecast;
use hookproof_simulator::plan::forecast::Forecast;
use hookproof_simulator::sim::figures::Figures;
use hookproof_simulator::sim::swarm::{self, Failure, Swept};
use hookproof_simulator::sim::{
    Keep, Mutant, Options, SimError, Simulated, judged, judged_disturbed, not_judged_disturbed, simulate,
    skipped, unmodelled, with_silence,
};

use super::forms::Forms;
use super::interrupt::interrupt_flag;
use super::out::{
    self, FAILED, HARNESS, INCONCLUSIVE, INTERRUPTED, USAGE, line, one_line, print_stderr, quoted, worse,
};
use super::progress::{Patience, Watch, about};
use crate::clock::Clock;

/// Runs with more events keep no trace, unless one is requested.
const TRACED_EVENTS_MAX: u64 = 400_000;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sim scenarios/
  hookproof sim scenarios/viral-spike.toml --seed 7 --out reports/sim
  hookproof sim scenarios/viral-spike.toml --seeds 1000

With --seeds every seed also moves, removes and adds faults, and stretches latencies. Rules are judged then, performance figures
are only listed. A failure prints its seed, its witness, and the command that repeats it. Reports (--json, --junit and the others)
need runs that are judged one by one, so not --seeds or --figures.")]
pub(super) struct Sim {
    /// Scenario files, or folders of them
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    /// The seed, in place of the scenario's
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Play this many seeds, from the scenario's on, each with its own troubles
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// Give the one seed its own troubles, as --seeds does
    #[arg(long, requires = "seed")]
    swarm: bool,
    /// Only the swarm's events before this moment
    #[arg(long, value_name = "DURATION", requires = "swarm")]
    until: Option<hookproof_judge::scenario::Duration>,
    /// In a swarm, let every second endpoint stop reading for up to this long, and then read everything at
    /// once
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    stalls: hookproof_judge::scenario::Duration,
    /// Where traces go, each into a folder of its scenario's name; with --seeds, the trace of the failure
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Change a value of the scenario: drain=10s; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Keep no trace and judge nothing: figures alone
    #[arg(long, conflicts_with_all = ["seeds", "out"])]
    figures: bool,
    /// Give the sender one of the bugs that the sweep must find
    #[arg(long, value_name = "NAME", hide = true)]
    mutant: Option<Mutant>,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    forms: Forms,
}

#[derive(Debug, Default)]
struct Found {
    reports: Vec<Report>,
    unjudged: Vec<Unjudged>,
}

impl Sim {
    pub(super) fn run(self) -> ExitCode {
        let (mut worst, mut found) = (0, Found::default());
        let interrupt = interrupt_flag();
        let files = match self.files() {
            Ok(files) => files,
            Err(why) => return out::refuse("sim", why, USAGE),
        };
        for path in &files {
            let Some(file) = path else {
                worst = worse(worst, INCONCLUSIVE);
                continue;
            };
            worst = worse(worst, self.one(file, &interrupt, &mut found));
            if interrupt.load(Ordering::Relaxed) {
                let (subject, why) = ("hookproof sim".to_owned(), "interrupted".to_owned());
                found.unjudged.push(Unjudged { subject, why });
                worst = INTERRUPTED;
                break;
            }
        }
        match self.forms.write(&found.reports, &found.unjudged, &Regressions::new(), &[]) {
            Ok(()) => ExitCode::from(worst),
            Err(error) => out::refuse("sim", error, HARNESS),
        }
    }

    /// The scenario files, with none for a folder without any; an error if the requested reports can't hold
    /// them.
    fn files(&self) -> Result<Vec<Option<PathBuf>>, String> {
        if self.forms.is_asked() && (self.figures || self.seeds.is_some()) {
            return Err(
                "reports need runs that are judged one by one; leave out --figures and --seeds".to_owned()
            );
        }
        if self.forms.is_printed() {
            return Err(
                "--json needs a file here, since stdout has the results of the simulations".to_owned()
            );
        }
        let mut all = Vec::new();
        for path in &self.scenarios {
            let files = files(path)?;
            if files.is_empty() {
                print_stderr(format_args!(
                    "hookproof sim: {}: no scenarios; expected *.toml in it",
                    path.display()
                ));
                all.push(None);
            }
            all.extend(files.into_iter().map(Some));
        }
        self.forms.fit(all.len())?;
        self.forms.can_be_written(self.out.as_deref())?;
        Ok(all)
    }

    fn one(&self, path: &Path, interrupt: &Arc<AtomicBool>, found: &mut Found) -> u8 {
        let unjudged = |why: String| Unjudged { subject: path.display().to_string(), why };
        let scenario = match read(path, &self.set) {
            Ok(scenario) => scenario,
            Err(problems) => {
                problems.iter().for_each(|problem| print_stderr(format_args!("hookproof sim: {problem}")));
                found.unjudged.push(unjudged(problems.join("; ")));
                return USAGE;
            }
        };
        for what in unmodelled(&scenario) {
            line(format_args!("{}: not modelled: {what}", scenario.name));
        }
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        let until = self.until.map(|until| until.0);
        let (mutant, interrupt) = (self.mutant, Arc::clone(interrupt));
        let stalls = self.stalls;
        let options =
            Options { seed: self.seed, folder, mutant, until, stalls, interrupt, ..Options::default() };
        let forecast = match forecast(&scenario, &options) {
            Ok(forecast) => forecast,
            Err(error) => {
                found.unjudged.push(unjudged(error.to_string()));
                return failed(&scenario, &error);
            }
        };
        let steps = match self.announce(&scenario, &forecast) {
            Ok(steps) => steps,
            Err(why) => {
                print_stderr(format_args!("hookproof sim: {}: {why}", scenario.name));
                found.unjudged.push(unjudged(why));
                return USAGE;
            }
        };
        let watch = Watch::begin("sim", steps, Arc::clone(&options.progress));
        if let Some(count) = self.seeds {
            return self.sweep(&scenario, &options, path, count, watch);
        }
        let scenario = match (self.swarm, self.seed) {
            (true, Some(seed)) => swarm::disturbed(&scenario, &options, seed, until),
            _ => scenario,
        };
        let keep = self.keep_mode(&scenario);
        let clock = Clock::begun();
        let began = clock.now();
        let simulated = simulate(&scenario, &Options { keep, ..options });
        drop(watch);
        match simulated {
            Ok(simulated) => {
                let took = Duration::from_nanos(clock.now().saturating_sub(began));
                self.report_run(path, &scenario, &simulated, took, found)
            }
            Err(error) => {
                found.unjudged.push(unjudged(error.to_string()));
                failed(&scenario, &error)
            }
        }
    }

    /// Prints the size of the simulation, and returns its steps. A number of seeds confirms itself.
    ///
    /// # Errors If one simulation takes long and nobody confirmed it.
    fn announce(&self, scenario: &Scenario, forecast: &Forecast) -> Result<u64, String> {
        let (seeds, each) = self.seeds.map_or((1, ""), |seeds| (seeds, " with each seed"));
        let steps = forecast.steps.saturating_mul(seeds);
        print_stderr(format_args!("{}: {}{each}, {}", scenario.name, forecast.size(), about(steps)));
        if let Some(warning) = forecast.warning() {
            print_stderr(format_args!("hookproof sim: {}: {warning}", scenario.name));
        }
        self.patience.allows(forecast.steps, &forecast.remedies())?;
        Ok(steps)
    }

    /// A trace that is requested, or that the sweep judged, is kept at any length.
    fn keep_mode(&self, scenario: &Scenario) -> Keep {
        let wanted = self.out.is_some() || self.swarm || self.forms.is_asked();
        let bare = self.figures || (!wanted && scenario.expected_events() > TRACED_EVENTS_MAX);
        if bare { Keep::Figures } else { Keep::Trace }
    }

    fn report_run(
        &self,
        path: &Path,
        scenario: &Scenario,
        simulated: &Simulated,
        took: Duration,
        found: &mut Found,
    ) -> u8 {
        line(summary(scenario, simulated, took));
        if simulated.trace.is_empty() {
            return self.weigh(scenario, &simulated.figures);
        }
        if !self.save(scenario, &simulated.trace) {
            return HARNESS;
        }
        match Trace::read(simulated.trace.as_slice()) {
            Ok(trace) => {
                let judgement = self.judged(scenario, &trace);
                let judgement = with_silence(judgement, simulated.silence.as_ref(), &trace);
                let code = conclude(scenario, &judgement);
                if self.forms.is_asked() {
                    let swarm = if self.swarm { " --swarm" } else { "" };
                    let repeat = self.command(path, self.seed.unwrap_or(scenario.seed), swarm, self.until);
                    found.reports.push(Report::new(scenario, &trace, judgement, repeat));
                }
                code
            }
            Err(error) => {
                print_stderr(format_args!("hookproof sim: {}: {error}", scenario.name));
                HARNESS
            }
        }
    }

    /// Judges a run without a trace by its figures: the store's counts must balance.
    fn weigh(&self, scenario: &Scenario, figures: &Figures) -> u8 {
        if let Some(missing) = figures.ledger.missing() {
            line(format_args!("{}: deliveries are missing or doubled: {missing}", scenario.name));
            return FAILED;
        }
        if self.figures {
            return 0;
        }
        if figures.ledger.acknowledged == 0 {
            line(format_args!("{}: not judged: no accepted event is owed to a subscriber", scenario.name));
            return INCONCLUSIVE;
        }
        line(format_args!(
            "{}: {} events are too many for a trace without --out; judged by figures alone: all accepted \
             deliveries are accounted for (--out DIR keeps the trace and runs the checks)",
            scenario.name, figures.offered
        ));
        0
    }

    /// Saves a trace if requested; returns whether that worked.
    fn save(&self, scenario: &Scenario, trace: &[u8]) -> bool {
        let Some(out) = &self.out else { return true };
        let folder = out.join(&scenario.name);
        match save(&folder, trace) {
            Ok(()) => true,
            Err(error) => {
                print_stderr(format_args!("hookproof sim: {}: {}: {error}", scenario.name, folder.display()));
                false
            }
        }
    }

    fn judged(&self, scenario: &Scenario, trace: &Trace) -> Judgement {
        if self.swarm {
            judged_disturbed(scenario, trace)
        } else {
            judged(scenario, trace, Strictness::Usual)
        }
    }

    fn sweep(&self, scenario: &Scenario, options: &Options, path: &Path, count: u64, watch: Watch) -> u8 {
        let clock = Clock::begun();
        let began = clock.now();
        let swept = match swarm::sweep(scenario, options, count) {
            Ok(swept) => swept,
            Err(error) => return failed(scenario, &error),
        };
        drop(watch);
        let took = Duration::from_nanos(clock.now().saturating_sub(began));
        let (name, seconds) = (&scenario.name, took.as_secs_f64());
        line(format_args!("{name}: seeds: {}, judged: {}, in {seconds:.1} s", swept.played, swept.judged));
        line(format_args!(
            "{name}: performance figures, listed and not judged: {}",
            not_judged_disturbed().join(", ")
        ));
        if let Some(failure) = swept.failure {
            self.show(scenario, path, &failure);
            return self.save_failure(scenario, options, &failure);
        }
        if options.interrupt.load(Ordering::Relaxed) {
            line(format_args!("{name}: interrupted after {} of {count} seeds", swept.played));
            return INTERRUPTED;
        }
        if swept.is_thin() {
            let least = Swept::JUDGED_MIN;
            line(format_args!("{name}: INCONCLUSIVE: fewer than {least} % of the seeds could be judged"));
            return INCONCLUSIVE;
        }
        0
    }

    fn show(&self, scenario: &Scenario, path: &Path, failure: &Failure) {
        one_line(format_args!("{}: seed {} fails: {}", scenario.name, failure.seed, failure.sentence));
        one_line(format_args!("  {}", failure.witness));
        let until = failure.until.map(hookproof_judge::scenario::Duration);
        line(format_args!("  repeat: {}", self.command(path, failure.seed, " --swarm", until)));
    }

    fn command(
        &self,
        path: &Path,
        seed: u64,
        swarm: &str,
        until: Option<hookproof_judge::scenario::Duration>,
    ) -> String {
        let sets: String = self.set.iter().map(|set| format!(" --set {}", quoted(set))).collect();
        let mutant = self.mutant.map_or(String::new(), |mutant| format!(" --mutant {}", mutant.name()));
        let stalls = if self.stalls.0 == 0 { String::new() } else { format!(" --stalls {}", self.stalls) };
        let until = until.map_or(String::new(), |until| format!(" --until {until}"));
        let path = quoted(&path.display().to_string());
        format!("hookproof sim {path} --seed {seed}{swarm}{until}{stalls}{sets}{mutant}")
    }

    fn save_failure(&self, scenario: &Scenario, options: &Options, failure: &Failure) -> u8 {
        if self.out.is_none() {
            return FAILED;
        }
        match swarm::evidence(scenario, options, failure) {
            Ok(trace) if self.save(scenario, &trace) => FAILED,
            Ok(_) => HARNESS,
            Err(error) => failed(scenario, &error),
        }
    }
}

fn failed(scenario: &Scenario, error: &SimError) -> u8 {
    print_stderr(format_args!("hookproof sim: {}: {error}", scenario.name));
    exit_code(error)
}

pub(super) const fn exit_code(error: &SimError) -> u8 {
    match error {
        SimError::Schedule(_)
        | SimError::Subscriber { .. }
        | SimError::Event { .. }
        | SimError::Argument(_) => USAGE,
        SimError::Interrupted(_) => INTERRUPTED,
        _ => HARNESS,
    }
}

fn save(folder: &Path, trace: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("trace.jsonl"), trace)
}

fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let listed = std::fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut found: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    found.sort();
    Ok(found)
}

pub(super) fn read(path: &Path, changes: &[String]) -> Result<Scenario, Vec<String>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| vec![format!("{} cannot be read: {error}", path.display())])?;
    Scenario::from_text_with(&text, &path.display().to_string(), changes)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

pub(super) fn summary(scenario: &Scenario, simulated: &Simulated, took: Duration) -> String {
    let figures = &simulated.figures;
    let owed: u64 = figures.lanes.iter().map(|lane| lane.owed).sum();
    let arrivals: u64 = figures.lanes.iter().map(|lane| lane.arrivals).sum();
    let happened = u128::from(figures.offered + arrivals) * 1_000_000_000;
    let speed = happened / took.as_nanos().max(1);
    format!(
        "{}: events {}, deliveries owed {owed}, delivered {}, dead {}, waiting {}, attempts {arrivals}; {:.1} s \
         of virtual time in {:.2} s ({speed} events and attempts per second); {} commits, database {} MiB; \
         sha256 {}",
        scenario.name,
        figures.offered,
        figures.delivered(),
        figures.given_up(),
        figures.waiting,
        Duration::from_nanos(figures.end).as_secs_f64(),
        took.as_secs_f64(),
        figures.commits,
        figures.database_bytes >> 20,
        &simulated.sha256[..16],
    )
}

/// Prints the verdicts; returns the exit code.
pub(super) fn conclude(scenario: &Scenario, judgement: &Judgement) -> u8 {
    for verdict in &judgement.verdicts {
        if matches!(verdict.status, Status::Fail | Status::Inconclusive) {
            one_line(format_args!("  {} {}: {}", verdict.status, verdict.id, verdict.sentence));
            verdict
                .witness
                .iter()
                .take(2)
                .for_each(|witness| one_line(format_args!("    {}", swarm::witness_text(witness))));
        }
    }
    for (id, why) in skipped(judgement) {
        line(format_args!("  skipped {id}: {why}"));
    }
    one_line(format_args!("{}: {}: {}", scenario.name, judgement.status, judgement.sentence));
    out::code(judgement.status)
}
