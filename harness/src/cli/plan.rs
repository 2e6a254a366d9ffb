//! `plan`: computes the headroom of a launch.

mod machine;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::exit::{FAILED, HARNESS, USAGE};
use super::interrupt::interrupt_flag;
use super::out::{line, say};
use hookproof_judge::scenario::{Millionths, Scenario};
use hookproof_play::traffic::Schedule;
use hookproof_simulator::plan::launch::{Condition, With};
use hookproof_simulator::plan::scale::{AS_IT_STANDS, is_coarse, scaled};
use hookproof_simulator::plan::slo::Slo;
use hookproof_simulator::plan::{
    Asked, Plan, answer, is_sheet, page, plan, sheets, table, with_live, with_patch, with_recorded,
};
use hookproof_simulator::sim::Options;
use machine::MachineArgs;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof plan scenarios/capacity-launch.toml
  hookproof plan launch.toml --slo 'p95<60s' --slo shed=0 --slo 'partner.drain<10m' --carry 5
  hookproof plan launch.toml --from sender.db --recorded last-launch.csv --times 3 --out reports/plan
  hookproof plan launch.toml --with kill@peak --with 'partner-b down 10min' --with 'partner-a answers 2s'
  hookproof plan launch.toml --patch reports/plan/launch/patch.toml --machine 20000/s

Objectives: p50, p95, p99 and drain (lengths of time), shed, expired, dead and backlog (counts), each for everybody or,
as in partner.p95<60s, for one. Without any, nothing may be shed or expire, and the backlog has to drain in the
scenario's time. Exits with 1 where the traffic as it stands does not meet them, with any of the seeds; with --no-headroom only the
scenario's own is tried.

The machine is a limit like any other: what a sender carries on it a second, room for the database, and memory. The
headroom is told with the interval in which that of another seed lies in 19 of 20 cases (Student's t on the logarithms of
what each seed carries); more seeds make it narrower.

Launch questions, --with: kill, restart, stop, disk-full and lock-database @peak or @ a moment, the last three with how long
(stop@30s 10s); NAME down LENGTH, from the peak or, as in 'partner-b down 10min@1min', from a moment; NAME answers LENGTH.
Moments count from the beginning of the traffic.

Into a folder of the scenario's name below --out go the page, plan.json, patch.toml (what to raise, for --patch), and
partners/NAME.md, a sheet for each partner that says what they will see.")]
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
    /// The number of seeds for the headroom; one gives no interval
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Change a value of the scenario: drain=10s; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    machine: MachineArgs,
    /// Skip the headroom: one simulation, and its bounds
    #[arg(long)]
    no_headroom: bool,
    /// The folder of the page and the JSON
    #[arg(long, value_name = "DIR", default_value = "reports/plan")]
    out: PathBuf,
    /// Write sheets for at most this many partners, the first of the scenario
    #[arg(long, value_name = "N", default_value_t = 200)]
    sheets: usize,
    /// The plan as JSON on stdout, in place of the table
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct Instead {
    /// Take subscribers and their measured latencies from a sender's SQLite file, not from a server
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Play real traffic: CSV or JSON Lines with time,type,key,bytes
    #[arg(long, value_name = "FILE")]
    recorded: Option<PathBuf>,
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
                say(format_args!("hookproof plan: {why}"));
                ExitCode::from(code)
            }
        }
    }

    fn plan(self) -> Result<u8, (u8, String)> {
        let usage = |why: String| (USAGE, why);
        let (scenario, conditions) = self.scenario().map_err(usage)?;
        let database = self.instead.from.clone().unwrap_or_else(|| PathBuf::from("sender.db"));
        let machine = self.machine.machine(&scenario, &database)?;
        let interrupt = interrupt_flag();
        let folder = self.scenario.parent().map(Path::to_owned).unwrap_or_default();
        let asked = Asked {
            slos: self.slo.clone(),
            carry: self.carry.map(|carry| carry.0 / AS_IT_STANDS),
            headroom: !self.no_headroom,
            seeds: self.seeds,
            machine,
            conditions,
            options: Options { seed: self.seed, folder, interrupt, ..Options::default() },
        };
        let plan =
            plan(&scenario, &asked).map_err(|error| (super::sim::exit_code(&error), error.to_string()))?;
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

    /// The scenario with all requested changes, and the conditions.
    fn scenario(&self) -> Result<(Scenario, Vec<Condition>), String> {
        let mut scenario = super::sim::read(&self.scenario, &self.set)
            .map_err(|problems| problems.join("\nhookproof plan: "))?;
        let set = |set: &String| Condition::of_all(format!("--set {set}"), format!("{set}, as it was set"));
        let mut conditions: Vec<Condition> = self.set.iter().map(set).collect();
        let mut told = |option: &str, path: &Path, means: &str| {
            conditions.push(Condition::of_all(format!("{option} {}", path.display()), means));
        };
        if let Some(database) = &self.instead.from {
            let live = with_live(&scenario, database).map_err(|error| error.to_string())?;
            live.notes.iter().for_each(|note| say(format_args!("hookproof plan: {note}")));
            scenario = live.scenario;
            told("--from", database, "subscribers and their latencies are those of a live sender");
        }
        if let Some(recording) = &self.instead.recorded {
            scenario = with_recorded(&scenario, recording).map_err(|error| error.to_string())?;
            told("--recorded", recording, "the traffic is a recording");
        }
        if let Some(path) = &self.instead.patch {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("{} can't be read: {error}", path.display()))?;
            scenario =
                with_patch(&scenario, &text).map_err(|error| format!("{}: {error}", path.display()))?;
            told("--patch", path, "settings are changed by a patch");
        }
        conditions.extend(self.what_if(&mut scenario)?);
        self.fits(&scenario)?;
        if self.times != Millionths::ONE {
            let times = format!("{} times the traffic", self.times);
            conditions.push(Condition::of_all(format!("--times {}", self.times), times));
        }
        Ok((scaled(&scenario, self.times.0 / AS_IT_STANDS), conditions))
    }

    fn what_if(&self, scenario: &mut Scenario) -> Result<Vec<Condition>, String> {
        if self.instead.with.is_empty() {
            return Ok(Vec::new());
        }
        let folder = self.scenario.parent().unwrap_or(Path::new(""));
        let seed = self.seed.unwrap_or(scenario.seed);
        let schedule = Schedule::compute(&scenario.traffic, &scenario.events, seed, folder);
        let schedule = schedule.map_err(|error| error.to_string())?;
        self.instead.with.iter().map(|with| with.apply(scenario, &schedule)).collect()
    }

    /// Checks the other options against the scenario.
    fn fits(&self, scenario: &Scenario) -> Result<(), String> {
        let times = self.times.0 / AS_IT_STANDS;
        if times == 0 {
            return Err("--times is 0; expected more".to_owned());
        }
        if is_coarse(scenario) {
            for (name, factor) in [("times", Some(self.times)), ("carry", self.carry)] {
                if let Some(factor) = factor.filter(|factor| factor.0 % Millionths::ONE.0 != 0) {
                    return Err(format!(
                        "--{name} {factor} is no whole number; a recording is played whole, so often as that says"
                    ));
                }
            }
        }
        let known = |slo: &&Slo| scenario.subscribers.iter().any(|one| slo.concerns(&one.name, &one.group));
        if let Some(stray) = self.slo.iter().find(|slo| !known(slo)) {
            return Err(format!(
                "the objective {stray} is about nobody; the subscribers are {}",
                names(scenario)
            ));
        }
        Ok(())
    }

    /// Writes the plan's files; returns their description.
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
            left => {
                format!("sheets for {written} of {all} partners, without {left}; --sheets {all} writes all")
            }
        };
        Ok(format!("page: {path}\n{whose}: {partners}"))
    }
}

/// Removes the sheets of an older plan, so that partners who are no longer in the plan get none.
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
    let names: Vec<&str> = scenario.subscribers.iter().map(|one| one.name.as_str()).take(20).collect();
    names.join(", ")
}

/// The plan with its answer.
fn json(plan: &Plan) -> String {
    let mut value = serde_json::json!(plan);
    value["answer"] = answer(plan).into();
    value.to_string()
}
