//! What the machine can do: as it is given, by an older report, or measured with the sender itself.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::check::{Evidence, figures};
use crate::cli::exit::{HARNESS, INTERRUPTED, USAGE};
use crate::cli::out::say;
use crate::endpoint::{Reach, Spec};
use crate::plan::machine::Machine;
use crate::report::Report;
use crate::run::{Options, ceiling, play};
use crate::scenario::{Duration, Range, Rate, SECOND, Scenario, Size, Store};
use crate::sim::EPOCH;
use crate::trace::{self, ClockKind, Ended, FORMAT, Header, Trace};

/// Where `hookproof run scenarios/throughput.toml` leaves its report.
const THROUGHPUT: &str = "reports/runs/throughput/report.json";
/// How long the sender is measured, in seconds.
const LASTS: u64 = 2;

#[derive(Args, Debug)]
pub(super) struct MachineArgs {
    /// What a sender carries on one machine, in requests or events a second: 20000/s. Without it, the ceiling that is
    /// measured here times the efficiency of --throughput; or else the sender itself, measured for some seconds
    #[arg(long, value_name = "RATE")]
    machine: Option<Rate>,
    /// The report of a run that says how much of the ceiling a sender reaches; that of the last `hookproof run
    /// scenarios/throughput.toml`, if there is one, and the store is a file
    #[arg(long, value_name = "REPORT", conflicts_with_all = ["machine", "no_measure"])]
    throughput: Option<PathBuf>,
    /// Machines that share the store, each as fast as this one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    nodes: u64,
    /// Room for the database; what is free where the database is without it
    #[arg(long, value_name = "SIZE")]
    disk: Option<Size>,
    /// Memory of the machine; this one's without it
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Measure nothing: the machine is no limit, but for what is given
    #[arg(long)]
    no_measure: bool,
}

impl MachineArgs {
    /// What it can do for this scenario, whose database is at a place.
    pub(super) fn machine(&self, scenario: &Scenario, database: &Path) -> Result<Machine, (u8, String)> {
        if self.nodes > 1 && scenario.sender.store == Store::Sqlite {
            return Err((
                USAGE,
                "--nodes needs [sender] store = \"postgres\"; a file is one machine's".to_owned(),
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
            let percent = millionths / 10_000;
            machine.source =
                format!("{percent} % of a bare client's {ceiling}/s here, by {}", path.display());
            return Ok(());
        }
        say("measuring how much the sender carries on this machine; --machine RATE says it");
        let carries = runtime.block_on(sender(scenario, ceiling))?;
        machine.carries_per_second = Some(carries);
        let percent = carries.saturating_mul(100) / ceiling.max(1);
        machine.source = format!("measured here: {percent} % of a bare client's {ceiling}/s");
        Ok(())
    }

    /// How much of the ceiling a sender reached in a run, in millionths, and in which.
    fn efficiency(&self, scenario: &Scenario) -> Result<Option<(u64, PathBuf)>, (u8, String)> {
        let last = PathBuf::from(THROUGHPUT);
        let is_there = scenario.sender.store == Store::Sqlite && last.exists();
        let Some(path) = self.throughput.clone().or_else(|| is_there.then_some(last)) else {
            return Ok(None);
        };
        let wrong = |why: &str| {
            (
                USAGE,
                format!("{}: {why}; expected the report.json of a run of throughput.toml", path.display()),
            )
        };
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(&error.to_string()))?;
        let report: Report = serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
        let speed = &report.speed;
        match (speed.delivered_per_second, speed.ceiling_per_second) {
            (Some(delivered), Some(ceiling)) if ceiling > 0 => {
                Ok(Some((delivered.saturating_mul(1_000_000) / ceiling, path)))
            }
            _ => Err(wrong("it says no efficiency")),
        }
    }
}

fn unmeasured(why: &str) -> (u8, String) {
    (HARNESS, format!("this machine can't be measured: {why}; try --machine RATE, or --no-measure"))
}

/// What is free where a file is, or will be.
fn free_bytes(path: &Path) -> Option<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// What a bare client reaches on this machine, in two seconds, with bodies of the scenario's largest size and endpoints
/// that answer at once.
async fn bare(scenario: &Scenario) -> Result<u64, (u8, String)> {
    let subscriber = scenario.subscribers.first().ok_or_else(|| unmeasured("nobody is subscribed"))?;
    let profile: crate::wire::Profile = subscriber
        .sign
        .name()
        .parse()
        .map_err(|error: crate::wire::UnknownProfile| unmeasured(&error.to_string()))?;
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
    ceiling(vec![spec], &vec![b'x'; size], header).await.map_err(|error| unmeasured(&error.to_string()))
}

/// What the sender delivers a second to one subscriber without a narrow limit, where half of the ceiling is offered.
async fn sender(scenario: &Scenario, ceiling: u64) -> Result<u64, (u8, String)> {
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
        (ceiling / 2).max(1),
        bytes.least,
        bytes.most,
    );
    let wide = Scenario::from_text(&text, "machine").map_err(|problems| {
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        unmeasured(&told.join("; "))
    })?;
    let folder = tempfile::tempdir().map_err(|error| unmeasured(&error.to_string()))?;
    let options = Options {
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
        figures::delivered_per_second_milli(&evidence).ok_or_else(|| unmeasured("nothing was delivered"))?;
    Ok(milli / 1_000)
}
