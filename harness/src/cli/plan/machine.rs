//! The machine's capacity: given, from an older report, or measured with the sender itself.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::exit::{HARNESS, INTERRUPTED, USAGE};
use crate::cli::out::say;
use crate::endpoint::{Reach, Spec};
use crate::run::{Options, ceiling, play};
use hookproof_judge::check::{Evidence, Status, figures};
use hookproof_judge::report::Report;
use hookproof_judge::scenario::{Duration, Range, Rate, SECOND, Scenario, Size, Store};
use hookproof_judge::trace::{self, ClockKind, Ended, FORMAT, Header, OURS, Trace};
use hookproof_simulator::plan::machine::Machine;
use hookproof_simulator::sim::EPOCH;

/// The report of `hookproof run scenarios/throughput.toml`.
const THROUGHPUT: &str = "reports/runs/throughput/report.json";
/// The length of the measurement, in seconds.
const LASTS: u64 = 2;

#[derive(Args, Debug)]
pub(super) struct MachineArgs {
    /// The rate that a sender carries on one machine, in requests or events a second: 20000/s. By default,
    /// the ceiling measured here times the efficiency of --throughput; or else the sender itself, measured
    /// for some seconds
    #[arg(long, value_name = "RATE")]
    machine: Option<Rate>,
    /// The report of a run with the sender's share of the ceiling; by default that of the last `hookproof run
    /// scenarios/throughput.toml`, if there is one, and the store is a file
    #[arg(long, value_name = "REPORT", conflicts_with_all = ["machine", "no_measure"])]
    throughput: Option<PathBuf>,
    /// Machines that share the store, each as fast as this one
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
    /// The machine's capacity for this scenario, with its database at this path.
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
            machine.source = format!(
                "{} % of a bare client's {ceiling}/s here, by {}",
                millionths / 10_000,
                path.display()
            );
            return Ok(());
        }
        say("measuring how much the sender carries on this machine; --machine RATE says it");
        let (carries, at_least) = runtime.block_on(sender(scenario, ceiling))?;
        (machine.carries_per_second, machine.at_least) = (Some(carries), at_least);
        let percent = carries.saturating_mul(100) / ceiling.max(1);
        let more = if at_least { ", which is all that it was offered" } else { "" };
        machine.source = format!("measured here: {percent} % of a bare client's {ceiling}/s{more}");
        Ok(())
    }

    /// The sender's share of the ceiling in a report, in millionths, and the report. A given report must be
    /// valid; the last run's is skipped with a message if it is not.
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
                say(format_args!("{THROUGHPUT} does not count: {why}; {expected}"));
                Ok(None)
            }
        }
    }
}

/// Our own sender's share of the ceiling in a report, in millionths; or the reason why it has none.
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
        _ => Err("it says no efficiency".to_owned()),
    }
}

fn unmeasured(why: &str) -> (u8, String) {
    (HARNESS, format!("this machine can't be measured: {why}; try --machine RATE, or --no-measure"))
}

/// The free space at a file's place, which need not exist.
fn free_bytes(path: &Path) -> Option<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// A bare client's rate on this machine, in two seconds, with bodies of the scenario's largest size and
/// endpoints without latency.
async fn bare(scenario: &Scenario) -> Result<u64, (u8, String)> {
    let subscriber = scenario.subscribers.first().ok_or_else(|| unmeasured("nobody is subscribed"))?;
    let spec = Spec {
        name: subscriber.name.clone(),
        path: subscriber.path(),
        behaviours: Vec::new(),
        answers: Range::just(Duration(0)),
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

/// The sender's deliveries per second to one subscriber with a wide limit, and whether it kept up. It is
/// offered half of the ceiling, then all of it if it kept up.
async fn sender(scenario: &Scenario, ceiling: u64) -> Result<(u64, bool), (u8, String)> {
    let (carries, keeps_up) = delivers(scenario, (ceiling / 2).max(1)).await?;
    if !keeps_up {
        return Ok((carries, false));
    }
    let (more, keeps_up) = delivers(scenario, ceiling).await?;
    Ok((carries.max(more), keeps_up))
}

/// The sender's deliveries per second at an offered rate, and whether it kept up.
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
    Ok((milli / 1_000, figures::keeps_up(&evidence)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hookproof_simulator::sim::{self, Keep, simulate};

    /// Whether the sender keeps up with 200 events a second to a subscriber with this limit.
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
