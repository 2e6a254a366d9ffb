//! `plan`: computes the headroom of a launch.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use hookproof_judge::check::{Evidence, Status, figures};
use hookproof_judge::report::Report;
use hookproof_judge::scenario::{Duration, Millionths, Range, Rate, SECOND, Scenario, Size, Store};
use hookproof_judge::trace::{self, ClockKind, Ended, FORMAT, Header, OURS, Trace};
use hookproof_play::traffic::Schedule;
use hookproof_simulator::plan::forecast::Forecast;
use hookproof_simulator::plan::launch::{Condition, With};
use hookproof_simulator::plan::machine::Machine;
use hookproof_simulator::plan::scale::{AS_IT_STANDS, is_coarse, scaled};
use hookproof_simulator::plan::slo::Slo;
use hookproof_simulator::plan::{
    Plan, PlanRequest, answer, forecast, is_sheet, page, plan_telling, sheets, table, with_live, with_patch,
    with_recorded,
};
use hookproof_simulator::sim::{EPOCH, Options, Progress, SimError};

use super::interrupt::interrupt_flag;
use super::out::{FAILED, HARNESS, INTERRUPTED, USAGE, line, print_stderr};
use super::progress::{Patience, Watch, about};
use crate::endpoint::{Reach, Spec};
use crate::run::{self, ceiling, play};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof plan scenarios/capacity-launch.toml
  hookproof plan launch.toml --slo 'p95<60s' --slo shed=0 --slo 'partner.drain<10m' --carry 5
  hookproof plan launch.toml --from sender.db --recorded last-launch.csv --times 3 --out reports/plan
  hookproof plan launch.toml --with kill@peak --with 'partner-b down 10min' --with 'partner-a answers 2s'
  hookproof plan launch.toml --patch reports/plan/launch/patch.toml --machine 20000/s

Objectives: p50, p95, p99 and drain (durations), shed, expired, dead and backlog (counts), for all subscribers, or for one as in
partner.p95<60s, where partner may be a group. Without a name, endpoints that are down by the plan are left out. Without
objectives, no delivery may be shed or expire, and the backlog must drain within the scenario's time.
Exits with 1 if today's traffic misses an objective with any of the seeds; --no-headroom tries only the scenario's own seed.

The machine is a limit like any other: its deliveries per second, disk space and memory. The headroom has a 95 % interval for
another seed (Student's t on logarithms); more seeds make it narrower.

Launch questions, --with: kill and restart, @peak or @MOMENT; stop, disk-full and lock-database the same with a duration
(stop@30s 10s); NAME down DURATION, from the peak or from a moment ('partner-b down 10min@1min'); NAME answers DURATION.
Moments count from the beginning of the traffic.

Writes into a folder with the scenario's name below --out: the page, plan.json, patch.toml (limits to raise, for --patch), and
partners/NAME.md, a sheet for each partner with the expected requests.")]
pub(super) struct Asks {
    /// The launch, as a scenario
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// An objective: p95<60s, shed=0, drain<10m; may be given again
    #[arg(long, value_name = "OBJECTIVE")]
    slo: Vec<Slo>,
    #[command(flatten)]
    instead: Instead,
    /// Plan for this many times the traffic
    #[arg(long, value_name = "N", default_value = "1")]
    times: Millionths,
    /// Search the changes that carry this many times the traffic; by default the next whole multiple
    #[arg(long, value_name = "N")]
    carry: Option<Millionths>,
    /// The seed, in place of the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    effort: Effort,
    /// Change a value of the scenario: drain=10s; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    machine: MachineArgs,
    /// The folder of the page and the JSON
    #[arg(long, value_name = "DIR", default_value = "reports/plan")]
    out: PathBuf,
    /// Write sheets for at most this many partners, the worst first
    #[arg(long, value_name = "N", default_value_t = 200)]
    sheets: usize,
    /// The plan as JSON on stdout, in place of the table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    patience: Patience,
}

/// The simulations of a plan.
#[derive(Args, Clone, Copy, Debug)]
struct Effort {
    /// The number of seeds for the headroom; one gives no interval
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Simulate only this many of each kind of like subscribers, which stand for the others; 0 simulates all
    #[arg(long, value_name = "N", default_value_t = 0)]
    sample: usize,
    /// Skip the headroom: one simulation, and its bounds
    #[arg(long)]
    no_headroom: bool,
}

#[derive(Args, Debug)]
struct Instead {
    /// Take subscribers and their measured latencies from a sender's SQLite file, not from a server
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Play real traffic: CSV or JSON Lines with time, type, key and bytes, or an access log
    #[arg(long, value_name = "FILE")]
    recorded: Option<PathBuf>,
    /// The recording's names for its columns: time=created_at,type=event,key=video_id
    #[arg(long, value_name = "COLUMN=NAME", value_delimiter = ',', value_parser = column, requires = "recorded")]
    columns: Vec<(String, String)>,
    /// A launch question: kill@peak, 'partner-b down 10min', 'partner-a answers 2s'; may be given again
    #[arg(long, value_name = "QUESTION")]
    with: Vec<With>,
    /// Settings of subscribers over the scenario's, as an earlier plan wrote them
    #[arg(long, value_name = "FILE")]
    patch: Option<PathBuf>,
}

impl Asks {
    pub(super) fn run(self) -> ExitCode {
        match self.plan() {
            Ok(code) => ExitCode::from(code),
            Err((code, why)) => {
                print_stderr(format_args!("hookproof plan: {why}"));
                ExitCode::from(code)
            }
        }
    }

    fn plan(self) -> Result<u8, (u8, String)> {
        let usage = |why: String| (USAGE, why);
        let (scenario, conditions) = self.scenario().map_err(usage)?;
        let (folder, progress) = (self.folder(), Arc::<Progress>::default());
        let options = Options {
            seed: self.seed,
            folder,
            sample: self.effort.sample,
            interrupt: interrupt_flag(),
            progress: Arc::clone(&progress),
            ..Options::default()
        };
        let forecast = forecast(&scenario, &options).map_err(refused)?;
        let steps = self.announce(&forecast).map_err(usage)?;
        let database = self.instead.from.clone().unwrap_or_else(|| PathBuf::from("sender.db"));
        let machine = self.machine.machine(&scenario, &database)?;
        let asked = PlanRequest {
            slos: self.slo.clone(),
            carry: self.carry.map(|carry| carry.0 / AS_IT_STANDS),
            headroom: !self.effort.no_headroom,
            seeds: self.effort.seeds,
            machine,
            conditions,
            options,
        };
        let watch = Watch::begin("plan", steps, progress);
        let mut early = Ok(());
        let plan = plan_telling(&scenario, &asked, |first| {
            early = self.write(&scenario, first).map(drop);
            watch.say(format_args!("today's traffic: {}\nsearching for the headroom …", answer(first)));
        });
        drop(watch);
        let plan = plan.map_err(refused)?;
        early.map_err(|error| (HARNESS, error.to_string()))?;
        let written = self.write(&scenario, &plan).map_err(|error| (HARNESS, error.to_string()))?;
        if self.json {
            line(json(&plan));
        } else {
            line(format_args!("{}\n\n{}{written}", answer(&plan), table(&plan)));
        }
        Ok(if !plan.model_errors.is_empty() {
            HARNESS
        } else if plan.holds() {
            0
        } else {
            FAILED
        })
    }

    fn folder(&self) -> PathBuf {
        self.scenario.parent().map(Path::to_owned).unwrap_or_default()
    }

    /// Prints the size and the bounds before the simulation, and returns its steps.
    ///
    /// # Errors If it takes long and nobody confirmed it.
    fn announce(&self, forecast: &Forecast) -> Result<u64, String> {
        let (times, headroom) = if self.effort.no_headroom {
            (1, "")
        } else {
            let times = SEARCH_RUNS + SEED_RUNS * self.effort.seeds;
            (times, "; --no-headroom plays one simulation, --seeds 1 searches with one seed")
        };
        let steps = forecast.steps.saturating_mul(times);
        print_stderr(format_args!("{}: {}, {}", self.scenario.display(), forecast.size(), about(steps)));
        forecast.bounds().take(BOUNDS_MAX).for_each(|line| print_stderr(format_args!("  {line}")));
        if let Some(more) = forecast.kinds.len().checked_sub(BOUNDS_MAX).filter(|more| *more > 0) {
            print_stderr(format_args!("  and {more} more kinds of subscribers"));
        }
        if let Some(warning) = forecast.warning() {
            print_stderr(format_args!("hookproof plan: {warning}"));
        }
        self.patience.allows(steps, &format!("{}{headroom}", forecast.remedies()))?;
        Ok(steps)
    }

    fn scenario(&self) -> Result<(Scenario, Vec<Condition>), String> {
        let mut scenario = super::sim::read(&self.scenario, &self.set)
            .map_err(|problems| problems.join("\nhookproof plan: "))?;
        let set = |set: &String| Condition::of_all(format!("--set {set}"), format!("{set} by --set"));
        let mut conditions: Vec<Condition> = self.set.iter().map(set).collect();
        let mut told = |option: &str, path: &Path, means: &str| {
            conditions.push(Condition::of_all(format!("{option} {}", path.display()), means));
        };
        if let Some(database) = &self.instead.from {
            let live = with_live(&scenario, database).map_err(|error| error.to_string())?;
            live.notes.iter().for_each(|note| print_stderr(format_args!("hookproof plan: {note}")));
            scenario = live.scenario;
            told("--from", database, "subscribers and their latencies are those of a live sender");
        }
        if let Some(recording) = &self.instead.recorded {
            scenario = with_recorded(&scenario, recording, &self.instead.columns)
                .map_err(|error| error.to_string())?;
            told("--recorded", recording, "the traffic is a recording");
        }
        if let Some(path) = &self.instead.patch {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
            scenario =
                with_patch(&scenario, &text).map_err(|error| format!("{}: {error}", path.display()))?;
            told("--patch", path, "settings are changed by a patch");
        }
        conditions.extend(self.apply_conditions(&mut scenario)?);
        self.fits(&scenario)?;
        if self.times != Millionths::ONE {
            let times = format!("{} times the traffic", self.times);
            conditions.push(Condition::of_all(format!("--times {}", self.times), times));
        }
        Ok((scaled(&scenario, self.times.0 / AS_IT_STANDS), conditions))
    }

    fn apply_conditions(&self, scenario: &mut Scenario) -> Result<Vec<Condition>, String> {
        if self.instead.with.is_empty() {
            return Ok(Vec::new());
        }
        let folder = self.scenario.parent().unwrap_or(Path::new(""));
        let seed = self.seed.unwrap_or(scenario.seed);
        let schedule = Schedule::compute(&scenario.traffic, &scenario.events, seed, folder);
        let schedule = schedule.map_err(|error| error.to_string())?;
        self.instead.with.iter().map(|with| with.apply(scenario, &schedule)).collect()
    }

    fn fits(&self, scenario: &Scenario) -> Result<(), String> {
        let times = self.times.0 / AS_IT_STANDS;
        if times == 0 {
            return Err("--times is 0; expected more than 0".to_owned());
        }
        if is_coarse(scenario) {
            for (name, factor) in [("times", Some(self.times)), ("carry", self.carry)] {
                if let Some(factor) = factor.filter(|factor| factor.0 % Millionths::ONE.0 != 0) {
                    return Err(format!(
                        "--{name} {factor} is not a whole number; a recording is repeated a whole number of \
                         times"
                    ));
                }
            }
        }
        let known =
            |slo: &&Slo| slo.whom.is_none() || scenario.subscribers.iter().any(|one| slo.concerns(one));
        if let Some(stray) = self.slo.iter().find(|slo| !known(slo)) {
            return Err(format!(
                "the objective {stray} names an unknown subscriber; expected one of {}",
                names(scenario)
            ));
        }
        Ok(())
    }

    fn write(&self, scenario: &Scenario, plan: &Plan) -> std::io::Result<String> {
        let folder = self.out.join(&plan.scenario);
        let partners = folder.join("partners");
        std::fs::create_dir_all(&partners)?;
        remove_sheets(scenario, &partners)?;
        let mut written = 0;
        for (name, text) in sheets(scenario, plan).take(self.sheets) {
            std::fs::write(partners.join(name), text)?;
            written += 1;
        }
        let trial = plan.headroom.as_ref().and_then(|headroom| headroom.advice.trial.as_ref());
        // An older plan's patch must not remain.
        std::fs::write(folder.join("patch.toml"), trial.map_or("", |trial| &trial.patch))?;
        std::fs::write(folder.join("plan.json"), json(plan))?;
        let path = folder.join("plan.html");
        std::fs::write(&path, page(plan))?;
        let (all, partners, path) = (scenario.subscribers.len(), partners.display(), path.display());
        let whose = match all - written {
            0 => "a sheet for each partner".to_owned(),
            _ => format!("sheets for {written} of {all} partners; use --sheets {all} for all"),
        };
        Ok(format!("page: {path}\n{whose}: {partners}"))
    }
}

/// The most kinds of subscribers with bounds before the simulation.
const BOUNDS_MAX: usize = 8;
/// The work of a search for the headroom, in simulations of the present traffic: about this many, and for each seed this many.
const SEARCH_RUNS: u64 = 20;
const SEED_RUNS: u64 = 10;

fn column(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((column, name)) if !name.is_empty() => Ok((column.trim().to_owned(), name.trim().to_owned())),
        _ => Err("expected COLUMN=NAME, such as time=created_at".to_owned()),
    }
}

fn refused(error: SimError) -> (u8, String) {
    (super::sim::exit_code(&error), error.to_string())
}

/// Partners who left the plan must get no sheet.
fn remove_sheets(scenario: &Scenario, partners: &Path) -> std::io::Result<()> {
    for entry in partners.read_dir()? {
        let path = entry?.path();
        let is_text = path.is_file() && path.extension().is_some_and(|extension| extension == "md");
        if is_text && is_sheet(scenario, &String::from_utf8_lossy(&std::fs::read(&path)?)) {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn names(scenario: &Scenario) -> String {
    let mut names: Vec<&str> = scenario.subscribers.iter().map(|one| one.group.as_str()).collect();
    names.dedup();
    names.truncate(20);
    names.join(", ")
}

fn json(plan: &Plan) -> String {
    let mut value = serde_json::json!(plan);
    value["answer"] = answer(plan).into();
    value.to_string()
}

/// The report of `hookproof run scenarios/throughput.toml`.
const THROUGHPUT: &str = "reports/runs/throughput/report.json";
const LASTS: u64 = 2;

#[derive(Args, Debug)]
struct MachineArgs {
    /// The rate that a sender carries on one machine, in requests or events a second: 20000/s. By default,
    /// the ceiling measured here times the efficiency of --throughput; or else the sender itself, measured
    /// for some seconds
    #[arg(long, value_name = "RATE")]
    machine: Option<Rate>,
    /// The report of a run with the sender's share of the ceiling; by default that of the last `hookproof run
    /// scenarios/throughput.toml`, if there is one, and the store is a file
    #[arg(long, value_name = "REPORT", conflicts_with_all = ["machine", "no_measure"])]
    throughput: Option<PathBuf>,
    /// Machines that share the database, each as fast as this one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    nodes: u64,
    /// Space for the database; by default the free space at its place
    #[arg(long, value_name = "SIZE")]
    disk: Option<Size>,
    /// Memory of the machine; by default this one's
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Measure nothing: the machine is no limit, except for the given values
    #[arg(long)]
    no_measure: bool,
}

impl MachineArgs {
    fn machine(&self, scenario: &Scenario, database: &Path) -> Result<Machine, (u8, String)> {
        if self.nodes > 1 && scenario.sender.store == Store::Sqlite {
            return Err((
                USAGE,
                "--nodes needs [sender] store = \"postgres\", since several machines cannot share a file"
                    .to_owned(),
            ));
        }
        let measures = !self.no_measure;
        let free = || measures.then(|| free_bytes(database)).flatten();
        let memory = || measures.then(|| trace::Machine::here().memory_bytes).filter(|bytes| *bytes > 0);
        let mut machine = Machine {
            nodes: self.nodes,
            disk_bytes: self.disk.map(|size| size.0).or_else(free),
            memory_bytes: self.memory.map(|size| size.0).or_else(memory),
            ..Machine::default()
        };
        if let Some(rate) = self.machine {
            let per_second = u128::from(rate.count) * u128::from(SECOND) / u128::from(rate.per.0);
            machine.carries_per_second = Some(u64::try_from(per_second).unwrap_or(u64::MAX));
            "given".clone_into(&mut machine.source);
        } else if measures {
            self.measure(scenario, &mut machine)?;
        }
        if self.nodes > 1 && !machine.source.is_empty() {
            machine.source.push_str(&format!(", by each of {} nodes", self.nodes));
        }
        Ok(machine)
    }

    fn measure(&self, scenario: &Scenario, machine: &mut Machine) -> Result<(), (u8, String)> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| unmeasured(&error.to_string()))?;
        let ceiling = runtime.block_on(bare(scenario))?;
        machine.ceiling_per_second = Some(ceiling);
        if let Some((millionths, path)) = self.efficiency(scenario)? {
            let carries = u128::from(ceiling) * u128::from(millionths) / 1_000_000;
            machine.carries_per_second = Some(u64::try_from(carries).unwrap_or(u64::MAX));
            machine.source = format!(
                "{} % of a bare client's {ceiling}/s here, by {}",
                millionths / 10_000,
                path.display()
            );
            return Ok(());
        }
        print_stderr("measuring the capacity of this machine; --machine RATE sets it instead");
        let (carries, at_least) = runtime.block_on(sender(scenario, ceiling))?;
        (machine.carries_per_second, machine.at_least) = (Some(carries), at_least);
        let percent = carries.saturating_mul(100) / ceiling.max(1);
        let more = if at_least { ", all of the offered rate" } else { "" };
        machine.source = format!("measured here: {percent} % of a bare client's {ceiling}/s{more}");
        Ok(())
    }

    /// In millionths. A given report must be valid; the last run's is skipped with a message if it is not.
    fn efficiency(&self, scenario: &Scenario) -> Result<Option<(u64, PathBuf)>, (u8, String)> {
        let expected = "expected the report.json of a run of throughput.toml with the sender itself";
        if let Some(path) = &self.throughput {
            let wrong = |why: String| (USAGE, format!("{}: {why}; {expected}", path.display()));
            return reached(path).map(|millionths| Some((millionths, path.clone()))).map_err(wrong);
        }
        let last = Path::new(THROUGHPUT);
        if scenario.sender.store != Store::Sqlite || !last.exists() {
            return Ok(None);
        }
        match reached(last) {
            Ok(millionths) => Ok(Some((millionths, last.to_owned()))),
            Err(why) => {
                print_stderr(format_args!("{THROUGHPUT} is not used: {why}; {expected}"));
                Ok(None)
            }
        }
    }
}

/// In millionths; or the reason why it has none.
fn reached(path: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let report: Report = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    if report.driver != OURS {
        return Err(format!("it was played with the driver {}", report.driver));
    }
    match report.ended {
        Some(Ended::Done) => {}
        Some(Ended::Interrupted) => return Err("the run was interrupted".to_owned()),
        Some(Ended::SenderGone) => return Err("the sender ended in the run".to_owned()),
        None => return Err("its trace was cut short".to_owned()),
    }
    let judged = [Status::Pass, Status::Warn, Status::Fail].contains(&report.judgement.status);
    if !judged {
        return Err(format!("the run was not judged ({})", report.judgement.sentence));
    }
    match (report.speed.delivered_per_second, report.speed.ceiling_per_second) {
        (Some(delivered), Some(ceiling)) if ceiling > 0 => Ok(delivered.saturating_mul(1_000_000) / ceiling),
        _ => Err("it has no efficiency".to_owned()),
    }
}

fn unmeasured(why: &str) -> (u8, String) {
    (HARNESS, format!("this machine cannot be measured: {why}; use --machine RATE or --no-measure"))
}

/// The file need not exist.
fn free_bytes(path: &Path) -> Option<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// A bare client's rate, with bodies of the scenario's largest size and endpoints without latency.
async fn bare(scenario: &Scenario) -> Result<u64, (u8, String)> {
    let subscriber =
        scenario.subscribers.first().ok_or_else(|| unmeasured("the scenario has no subscribers"))?;
    let spec = Spec {
        name: subscriber.name.clone(),
        path: subscriber.path(),
        behaviours: Vec::new(),
        answers: Range::just(Duration(0)),
        permission: None,
        scheme: subscriber.sign.into(),
    };
    let size = usize::try_from(scenario.events.data_bytes.most.0).unwrap_or(usize::MAX);
    let header = Header {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: scenario.name.clone(),
        scenario_sha256: String::new(),
        schedule_sha256: String::new(),
        seed: scenario.seed,
        driver: "plan".to_owned(),
        clock: ClockKind::Real,
        clock_resolution_ns: 1,
        began_unix_ns: EPOCH.0,
        scenario_toml: String::new(),
    };
    ceiling(vec![spec], &vec![b'x'; size], header).await.map_err(|error| unmeasured(&error.to_string()))
}

/// Deliveries per second to one subscriber with a wide limit, and whether the sender kept up. It is offered half of
/// the ceiling, then all of it if it kept up.
async fn sender(scenario: &Scenario, ceiling: u64) -> Result<(u64, bool), (u8, String)> {
    let (carries, keeps_up) = delivers(scenario, (ceiling / 2).max(1)).await?;
    if !keeps_up {
        return Ok((carries, false));
    }
    let (more, keeps_up) = delivers(scenario, ceiling).await?;
    Ok((carries.max(more), keeps_up))
}

async fn delivers(scenario: &Scenario, offered: u64) -> Result<(u64, bool), (u8, String)> {
    let bytes = scenario.events.data_bytes;
    let store = match scenario.sender.store {
        Store::Sqlite => "sqlite",
        Store::Postgres => "postgres",
    };
    let text = format!(
        "name = \"machine\"\nseed = {}\ndrain = \"120s\"\n[sender]\nstore = \"{store}\"\ndurability = \"{}\"\n\
         [[traffic]]\nshape = \"steady\"\nrate = \"{}/s\"\nlasts = \"{LASTS}s\"\n[events]\ndata_bytes = \"{}..{}\"\n\
         [[subscriber]]\nname = \"wide\"\nlimit = {{ rate = \"500000/s\", burst = 50000, in_flight = 256 }}\n\
         answers = \"0ms\"\n",
        scenario.seed,
        scenario.sender.durability.name(),
        offered,
        bytes.least,
        bytes.most,
    );
    let wide = Scenario::from_text(&text, "machine").map_err(|problems| {
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        unmeasured(&told.join("; "))
    })?;
    let folder = tempfile::tempdir().map_err(|error| unmeasured(&error.to_string()))?;
    let options = run::Options {
        seed: None,
        driver: None,
        out: folder.path().to_owned(),
        program: std::env::current_exe().map_err(|error| unmeasured(&error.to_string()))?,
        folder: PathBuf::from("."),
        show: false,
        reach: Reach::default(),
        live: None,
    };
    let interrupts = crate::cli::interrupt::interrupts().map_err(|error| unmeasured(&error.to_string()))?;
    let played =
        play(&wide, &options, interrupts.first).await.map_err(|error| unmeasured(&error.to_string()))?;
    if let Some(failure) = &played.failure {
        return Err(unmeasured(&failure.to_string()));
    }
    match played.ended {
        Ended::Done => {}
        Ended::Interrupted => {
            return Err((INTERRUPTED, "interrupted while the sender was measured".to_owned()));
        }
        Ended::SenderGone => return Err(unmeasured("the sender ended while it was measured")),
    }
    let trace = Trace::open(&played.trace).map_err(|error| unmeasured(&error.to_string()))?;
    let evidence = Evidence::new(&wide, &trace);
    let milli =
        figures::delivered_per_second_milli(&evidence).ok_or_else(|| unmeasured("no delivery was made"))?;
    Ok((milli / 1_000, figures::keeps_up(&evidence)))
}

#[cfg(test)]
mod tests {
    use hookproof_simulator::sim::{self, Keep, simulate};

    use super::*;

    fn keeps_up_at(rate: u64) -> bool {
        let text = format!(
            "name = \"machine\"\n[[traffic]]\nshape = \"steady\"\nrate = \"200/s\"\nlasts = \"2s\"\n[[subscriber]]\n\
             name = \"wide\"\nlimit = {{ rate = \"{rate}/s\", burst = 50 }}\n"
        );
        let scenario = Scenario::from_text(&text, "machine").unwrap();
        let options = sim::Options { keep: Keep::Trace, ..sim::Options::default() };
        let trace = Trace::read(simulate(&scenario, &options).unwrap().trace.as_slice()).unwrap();
        figures::keeps_up(&Evidence::new(&scenario, &trace))
    }

    #[test]
    fn all_that_was_offered_is_told_from_all_that_is_carried() {
        assert!(keeps_up_at(1_000) && !keeps_up_at(150));
    }
}
