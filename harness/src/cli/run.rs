//! `run`: plays scenarios against a sender.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use hookproof_judge::catalogue::Selection;
use hookproof_judge::report::compare::compare_all;
use hookproof_judge::report::{self, Regressions, Report, Unjudged};
use hookproof_judge::scenario::{Duration, Scenario};
use hookproof_judge::standard::Side;
use hookproof_judge::trace::{Ended, Trace};
use hookproof_play::traffic::Schedule;

use super::check::{Allowances, Gate};
use super::driver::ReachArgs;
use super::forms::{self, Forms};
use super::interrupt::{Interrupts, interrupts};
use super::out::{self, HARNESS, INTERRUPTED, USAGE, print_stderr, quoted};
use super::standard::{self, Standards, Subject};
use crate::clock::Clock;
use crate::run::{Interrupt, Judging, Live, Options, PageServer, Played, play};

const PAGE: &str = "report.html";
/// How long a run may take to end its processes after a second interrupt.
const AT_ONCE_NS: u64 = 2_000_000_000;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof run scenarios/viral-spike.toml
  hookproof run scenarios/viral-spike.toml --out reports/runs --junit junit.xml
  hookproof run scenarios/viral-spike.toml --only rate,loss --strict
  hookproof run scenarios/viral-spike.toml --times 5 --json base.json
  hookproof run scenarios/throughput.toml --set drain=10s --seed 7
  hookproof run scenarios/viral-spike.toml --live
  hookproof run scenarios/recovery-storm.toml --driver scenarios/drivers/svix.toml
  hookproof run scenarios/viral-spike.toml --driver theirs.toml --bind 0.0.0.0:8080 \
    --public-url 'https://hooks.example.org/{endpoint}'

Ctrl-C ends the run and writes its trace and report until then. A second Ctrl-C stops at once.")]
pub(super) struct Run {
    /// Scenario files
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    /// The driver file of another sender than ours
    #[arg(long, value_name = "FILE")]
    driver: Option<PathBuf>,
    /// The seed, in place of the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Play all of them this many times, and stop at the first that does not pass
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    times: u32,
    /// The folder of traces and reports; each scenario has a folder of its name in it
    #[arg(long, value_name = "DIR", default_value = "reports/runs")]
    out: PathBuf,
    /// Change a value of the scenario: drain=10s, subscriber.ingest.limit.rate=50/s; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Older reports, as --json wrote them: a result that got worse is a regression
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    #[command(flatten)]
    allowances: Allowances,
    /// Serve the report's page during a run, on loopback only: on a port that is printed, or at this address
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:0",
        value_parser = loopback)]
    live: Option<SocketAddr>,
    /// I know that it takes this long: needed for traffic of more than an hour
    #[arg(long, value_name = "TIME")]
    yes_it_takes: Option<Duration>,
    #[command(flatten)]
    reach: ReachArgs,
    #[command(flatten)]
    gate: Gate,
    #[command(flatten)]
    standards: Standards,
    #[command(flatten)]
    forms: Forms,
}

#[derive(Debug, Default)]
struct Found {
    reports: Vec<Report>,
    unjudged: Vec<Unjudged>,
    regressions: Regressions,
}

struct Shared {
    selection: Selection,
    interrupt: Interrupt,
    server: Option<PageServer>,
}

struct Failure {
    code: u8,
    why: String,
}

impl Run {
    pub(super) fn run(self) -> ExitCode {
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                return out::refuse("run", format!("no runtime could be started: {error}"), HARNESS);
            }
        };
        let code = runtime.block_on(self.until_ended());
        // Tasks that block on a lock or a lookup are abandoned.
        runtime.shutdown_background();
        ExitCode::from(code)
    }

    async fn until_ended(self) -> u8 {
        let Interrupts { first, second } = match interrupts() {
            Ok(interrupts) => interrupts,
            Err(error) => {
                print_stderr(format_args!("hookproof run: signals cannot be listened for: {error}"));
                return HARNESS;
            }
        };
        let mut playing = tokio::spawn(self.all(first));
        tokio::select! {
            code = &mut playing => code.unwrap_or(HARNESS),
            _ = second => {
                // Dropping the task kills the sender's processes. While it judges there are none.
                playing.abort();
                let clock = Clock::begun();
                tokio::select! {
                    _ = playing => {}
                    () = clock.pass(AT_ONCE_NS) => {}
                }
                INTERRUPTED
            }
        }
    }

    async fn all(self, interrupt: Interrupt) -> u8 {
        let (baseline, shared) = match self.begin(interrupt) {
            Ok(begun) => begun,
            Err(what) => {
                print_stderr(format_args!("hookproof run: {what}"));
                return USAGE;
            }
        };
        if let Some(server) = &shared.server {
            print_stderr(format_args!("live:  http://{}/", server.address()));
        }
        let (mut worst, mut found) = (0, Found::default());
        let rounds = (0..self.times).flat_map(|_| &self.scenarios);
        for path in rounds {
            let code = self.one(path, &shared, &mut found).await;
            worst = out::worse(worst, code);
            if *shared.interrupt.borrow() {
                let (subject, why) = ("hookproof run".to_owned(), "interrupted".to_owned());
                found.unjudged.push(Unjudged { subject, why });
                worst = INTERRUPTED;
                break;
            }
            // The next round would overwrite the evidence.
            if code != 0 && self.times > 1 {
                break;
            }
        }
        if let Some(baseline) = &baseline
            && worst != INTERRUPTED
        {
            worst = out::worse(worst, self.against(baseline, &mut found));
        }
        worst = out::worse(worst, self.grade(&found));
        let baseline = baseline.unwrap_or_default();
        if let Err(error) = self.forms.write(&found.reports, &found.unjudged, &found.regressions, &baseline) {
            print_stderr(format_args!("hookproof run: the reports could not be written: {error}"));
            return HARNESS;
        }
        worst
    }

    fn grade(&self, Found { reports, unjudged, .. }: &Found) -> u8 {
        let run = |report: &Report| {
            format!("{} (scenario file sha256 {:.16})", report.repeat, report.course.scenario_sha256)
        };
        let runs: Vec<String> = reports.iter().map(run).collect();
        let name = reports.first().map_or("no sender", |report| &report.driver);
        let unsound = standard::unsound(reports, unjudged);
        let subject = Subject { side: Side::Sender, name, runs: &runs, profile_sha256: None, unsound };
        self.standards.grade(&subject, &hookproof_judge::standard::seen(reports), self.forms.is_printed())
    }

    fn begin(&self, interrupt: Interrupt) -> Result<(Option<Vec<Report>>, Shared), String> {
        self.standards.begin(Side::Sender, None)?;
        let fit = self.forms.fit(self.scenarios.len() * self.times as usize);
        fit.map_err(|what| format!("{what}; each run leaves its page in its folder"))?;
        let baseline = self.baseline.as_deref().map(forms::read).transpose();
        let baseline = baseline.map_err(|what| format!("the baseline: {what}"))?;
        let selection = self.gate.selection().map_err(|error| error.to_string())?;
        self.allow_lengths()?;
        self.forms.can_be_written(Some(&self.out))?;
        let server = self.live.map(PageServer::open).transpose();
        let server = server.map_err(|error| format!("the page cannot be served: {error}"))?;
        Ok((baseline, Shared { selection, interrupt, server }))
    }

    async fn one(&self, path: &Path, shared: &Shared, found: &mut Found) -> u8 {
        let (mut subject, shown) = (path.display().to_string(), found.reports.len());
        let result = match read(path, &self.set) {
            Ok(scenario) => {
                subject.clone_from(&scenario.name);
                self.play(path, &scenario, shared, &mut found.reports).await
            }
            Err(why) => Err(Failure { code: USAGE, why }),
        };
        result.unwrap_or_else(|Failure { code, why }| {
            print_stderr(format_args!("hookproof run: {subject}: {why}"));
            if found.reports.len() == shown {
                found.unjudged.push(Unjudged { subject, why });
            }
            code
        })
    }

    async fn play(
        &self,
        path: &Path,
        scenario: &Scenario,
        shared: &Shared,
        reports: &mut Vec<Report>,
    ) -> Result<u8, Failure> {
        let ours = |what: &str, error: io::Error| Failure { code: HARNESS, why: format!("{what}: {error}") };
        let out = self.out.join(&scenario.name);
        let repeat = self.repeat(path, self.seed.unwrap_or(scenario.seed));
        let options = Options {
            seed: self.seed,
            driver: self.driver.clone(),
            live: shared.server.clone().map(|server| self.live(server, shared, &out, &repeat)),
            out,
            program: std::env::current_exe()
                .map_err(|error| ours("the path of this program is unknown", error))?,
            folder: path.parent().map(Path::to_owned).unwrap_or_default(),
            show: true,
            reach: self.reach.reach(),
        };
        let played = play(scenario, &options, shared.interrupt.clone()).await;
        let played = played.map_err(|error| Failure { code: error.code(), why: error.to_string() })?;
        let trace = Trace::open(&played.trace);
        let trace = trace.map_err(|error| ours("the run cannot be judged", io::Error::other(error)))?;
        let judgement = self.gate.judge(&shared.selection, scenario, &trace);
        let code = out::code(judgement.status);
        let report = Report::new(scenario, &trace, judgement, repeat);
        let kept = self.write_report(&report, &played, shared);
        // The command's own reports have the result even after an error.
        reports.push(report);
        kept.map_err(|error| ours("the report could not be written", error))?;
        if let Some(error) = played.failure {
            return Err(Failure { code: HARNESS, why: format!("the run broke off: {error}") });
        }
        Ok(match played.ended {
            Ended::Interrupted => INTERRUPTED,
            ended => out::of_run(code, Some(ended)),
        })
    }

    /// Writes the folder first, then the terminal. Returns the first error, after all was tried.
    fn write_report(&self, report: &Report, played: &Played, shared: &Shared) -> io::Result<()> {
        let page = played.trace.with_file_name(PAGE);
        if let Some(server) = &shared.server {
            server.show(report::html_live(report, &in_full(page.clone()), false));
        }
        let all = [
            forms::write(&page, &report::html(report, &[])),
            forms::write_json(&page.with_file_name("report.json"), report),
            self.forms.show(report),
        ];
        print_stderr(format_args!("trace: {}\npage:  {}", played.trace.display(), page.display()));
        all.into_iter().collect()
    }

    fn live(&self, server: PageServer, shared: &Shared, out: &Path, repeat: &str) -> Live {
        let (gate, selection, repeat) = (self.gate.clone(), shared.selection.clone(), repeat.to_owned());
        let judging: Judging = Arc::new(move |scenario, trace| {
            let judgement = gate.judge(&selection, scenario, trace);
            Report::new(scenario, trace, judgement, repeat.clone())
        });
        Live { server, judging, kept: in_full(out.join(PAGE)) }
    }

    /// Refuses traffic that is longer than confirmed. Unreadable scenarios are reported when they are due.
    fn allow_lengths(&self) -> Result<(), String> {
        for path in &self.scenarios {
            if let Ok(scenario) = read(path, &self.set) {
                allow(path, &scenario, self.yes_it_takes)?;
            }
        }
        Ok(())
    }

    fn against(&self, baseline: &[Report], found: &mut Found) -> u8 {
        let comparison = compare_all(baseline, &found.reports, &self.allowances.allow);
        let mut code = comparison.code();
        for report in &found.reports {
            let page = self.out.join(&report.scenario).join(PAGE);
            if let Err(error) = forms::write(&page, &report::html(report, baseline)) {
                print_stderr(format_args!("hookproof run: {error}"));
                code = out::worse(code, HARNESS);
            }
        }
        for scenario in &comparison.unknown {
            print_stderr(format_args!("the baseline has no run of {scenario}: not compared"));
        }
        if comparison.compared.is_empty() {
            let why = "no run was compared: the baseline has none of these scenarios".to_owned();
            print_stderr(format_args!("hookproof run: {why}"));
            found.unjudged.push(Unjudged { subject: "baseline".to_owned(), why });
        }
        for (scenario, difference) in comparison.compared {
            let lines = difference.regressions.iter();
            lines.for_each(|line| {
                print_stderr(format_args!("{scenario}: worse than before: {}", report::in_one_line(line)));
            });
            found.regressions.insert(scenario, difference.regressions);
        }
        code
    }

    fn repeat(&self, path: &Path, seed: u64) -> String {
        let mut command = format!("hookproof run {} --seed {seed}", quoted(&path.display().to_string()));
        if let Some(driver) = &self.driver {
            command.push_str(&format!(" --driver {}", quoted(&driver.display().to_string())));
        }
        self.set.iter().for_each(|change| command.push_str(&format!(" --set {}", quoted(change))));
        command.push_str(&self.reach.written());
        if let Some(known) = self.yes_it_takes {
            command.push_str(&format!(" --yes-it-takes {known}"));
        }
        command + &self.gate.written()
    }
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|error| format!("{error}; expected an address such as 127.0.0.1:7000"))?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("expected a loopback address, since the page has no access control".to_owned())
    }
}

fn read(path: &Path, changes: &[String]) -> Result<Scenario, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    Scenario::from_text_with(&text, &path.display().to_string(), changes)
        .map_err(|problems| problems.iter().map(|problem| format!("\n  {problem}")).collect())
}

/// The longest traffic without confirmation.
const UNASKED_MAX: Duration = Duration::from_secs(3_600);

/// Refuses traffic of more than an hour, or than the confirmed time.
pub(super) fn allow(path: &Path, scenario: &Scenario, known: Option<Duration>) -> Result<(), String> {
    let lasts = lasts(path, scenario)?;
    if lasts <= known.unwrap_or(UNASKED_MAX).max(UNASKED_MAX) {
        return Ok(());
    }
    Err(format!(
        "{} takes {lasts} of real time; play it in virtual time (hookproof sim {}), leave it out, or add \
         --yes-it-takes {lasts}",
        scenario.name,
        path.display()
    ))
}

/// A recording without a length has that of its events.
fn lasts(path: &Path, scenario: &Scenario) -> Result<Duration, String> {
    let known: Option<u64> = scenario
        .traffic
        .iter()
        .map(|phase| phase.lasts.map(|lasts| lasts.0))
        .try_fold(0_u64, |sum, lasts| Some(sum.saturating_add(lasts?)));
    if let Some(nanos) = known {
        return Ok(Duration(nanos));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let schedule = Schedule::compute(&scenario.traffic, &scenario.events, scenario.seed, folder);
    schedule.map(|schedule| Duration(schedule.lasts())).map_err(|error| error.to_string())
}

/// A path that a browser finds, too.
fn in_full(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(lasts: &str) -> Scenario {
        let text = format!(
            "name = \"long\"\ndrain = \"2h\"\n[[traffic]]\nshape = \"steady\"\nrate = \"1/s\"\nlasts = \"{lasts}\"\n\
             [[traffic]]\nshape = \"pause\"\nlasts = \"30min\"\n[[subscriber]]\nname = \"one\"\n"
        );
        Scenario::from_text(&text, "long.toml").unwrap()
    }

    #[test]
    fn a_run_of_over_an_hour_needs_a_confirmation() {
        let hours = |hours: u64| Some(Duration::from_secs(hours * 3_600));
        let rows = [
            ("30min", None, true),
            ("31min", None, false),
            ("30min", Some(Duration::from_secs(60)), true),
            ("23h", hours(23), false),
            ("23h", hours(24), true),
        ];
        for (lasts, known, played) in rows {
            let allowed = allow(Path::new("long.toml"), &scenario(lasts), known);
            assert_eq!(allowed.is_ok(), played, "{lasts}, {known:?}: {allowed:?}");
        }
        let said = allow(Path::new("long.toml"), &scenario("23h"), None).unwrap_err();
        assert!(
            said.contains("hookproof sim long.toml") && said.contains("--yes-it-takes 1410min"),
            "{said}"
        );
    }
}
