//! `plan`: how far a launch stretches.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::exit::{FAILED, HARNESS, USAGE};
use super::interrupt::interrupt_flag;
use super::out::{line, say};
use crate::endpoint::Spec;
use crate::plan::scale::{AS_IT_STANDS, is_coarse, scaled};
use crate::plan::slo::Slo;
use crate::plan::{Asked, Plan, answer, page, plan, table, with_live, with_recorded};
use crate::run::ceiling;
use crate::scenario::{Duration, Millionths, Range, Scenario};
use crate::sim::{EPOCH, Options};
use crate::trace::{ClockKind, FORMAT, Header};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof plan scenarios/capacity-launch.toml
  hookproof plan launch.toml --slo 'p95<60s' --slo shed=0 --slo 'partner.drain<10m' --carry 5
  hookproof plan launch.toml --from sender.db --recorded last-launch.csv --times 3 --out reports/plan

Objectives: p50, p95, p99 and drain (lengths of time), shed, expired, dead and backlog (counts), each for everybody or,
as in partner.p95<60s, for one. Without any, nothing may be shed or expire, and the backlog has to drain in the
scenario's time. Exits with 1 where the traffic as it stands does not meet them.")]
pub(super) struct Asks {
    /// The launch, as a scenario
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// An objective: p95<60s, shed=0, drain<10m; may be given again
    #[arg(long, value_name = "OBJECTIVE")]
    slo: Vec<Slo>,
    /// Take subscribers and their measured latencies from a sender's database
    #[arg(long, value_name = "DATABASE")]
    from: Option<PathBuf>,
    /// Play real traffic: CSV or JSON Lines with time,type,key,bytes
    #[arg(long, value_name = "FILE")]
    recorded: Option<PathBuf>,
    /// Plan for so many times the traffic
    #[arg(long, value_name = "N", default_value = "1")]
    times: Millionths,
    /// Look for what would carry so many times the traffic; the next whole multiple without it
    #[arg(long, value_name = "N")]
    carry: Option<Millionths>,
    /// In the place of the scenario's seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Change a value of the scenario: drain=10s; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Don't measure what this machine can do
    #[arg(long)]
    no_measure: bool,
    /// Don't look for the headroom: one simulation, and its bounds
    #[arg(long)]
    no_headroom: bool,
    /// Where the page and the JSON go; reports/plan without it
    #[arg(long, value_name = "DIR", default_value = "reports/plan")]
    out: PathBuf,
    /// The plan as JSON on stdout, in the place of the table
    #[arg(long)]
    json: bool,
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
        let scenario = self.scenario().map_err(usage)?;
        let interrupt = interrupt_flag();
        let ceiling_per_second = if self.no_measure { None } else { Some(measure(&scenario)?) };
        let folder = self.scenario.parent().map(Path::to_owned).unwrap_or_default();
        let asked = Asked {
            slos: self.slo.clone(),
            carry: self.carry.map(|carry| carry.0 / AS_IT_STANDS),
            headroom: !self.no_headroom,
            ceiling_per_second,
            options: Options { seed: self.seed, folder, interrupt, ..Options::default() },
        };
        let plan =
            plan(&scenario, &asked).map_err(|error| (super::sim::exit_code(&error), error.to_string()))?;
        let page = self.write(&plan).map_err(|error| (HARNESS, error.to_string()))?;
        if self.json {
            line(json(&plan));
        } else {
            line(format_args!("{}\n\n{}page: {}", answer(&plan), table(&plan), page.display()));
        }
        Ok(if !plan.model_errors.is_empty() {
            HARNESS
        } else if plan.breaches.is_empty() {
            0
        } else {
            FAILED
        })
    }

    /// The scenario with all that is to be different.
    fn scenario(&self) -> Result<Scenario, String> {
        let mut scenario = super::sim::read(&self.scenario, &self.set)
            .map_err(|problems| problems.join("\nhookproof plan: "))?;
        if let Some(database) = &self.from {
            let live = with_live(&scenario, database).map_err(|error| error.to_string())?;
            live.notes.iter().for_each(|note| say(format_args!("hookproof plan: {note}")));
            scenario = live.scenario;
        }
        if let Some(recording) = &self.recorded {
            scenario = with_recorded(&scenario, recording).map_err(|error| error.to_string())?;
        }
        let times = self.times.0 / AS_IT_STANDS;
        if times == 0 {
            return Err("--times is 0; expected more".to_owned());
        }
        if is_coarse(&scenario) {
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
                names(&scenario)
            ));
        }
        Ok(scaled(&scenario, times))
    }

    fn write(&self, plan: &Plan) -> std::io::Result<PathBuf> {
        let folder = self.out.join(&plan.scenario);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("plan.json"), json(plan))?;
        let path = folder.join("plan.html");
        std::fs::write(&path, page(plan))?;
        Ok(path)
    }
}

fn names(scenario: &Scenario) -> String {
    let names: Vec<&str> = scenario.subscribers.iter().map(|one| one.name.as_str()).take(20).collect();
    names.join(", ")
}

/// The answer, and what it rests on.
fn json(plan: &Plan) -> String {
    let mut value = serde_json::json!(plan);
    value["answer"] = answer(plan).into();
    value.to_string()
}

/// What a bare client reaches on this machine, in two seconds, with bodies of the scenario's largest size and endpoints
/// that answer at once.
fn measure(scenario: &Scenario) -> Result<u64, (u8, String)> {
    let failed = |why: String| (HARNESS, format!("this machine can't be measured: {why}; try --no-measure"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(error.to_string()))?;
    let subscriber = scenario.subscribers.first().ok_or_else(|| failed("nobody is subscribed".to_owned()))?;
    let profile: crate::wire::Profile = subscriber
        .sign
        .name()
        .parse()
        .map_err(|error: crate::wire::UnknownProfile| failed(error.to_string()))?;
    let spec = Spec {
        name: subscriber.name.clone(),
        path: subscriber.path(),
        behaviours: Vec::new(),
        answers: Range::just(Duration(0)),
        scheme: profile.into(),
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
    let measured = runtime.block_on(ceiling(vec![spec], &vec![b'x'; size], header));
    measured.map_err(|error| failed(error.to_string()))
}
