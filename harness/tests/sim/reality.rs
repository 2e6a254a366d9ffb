use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use hookproof_judge::trace::Trace;
use hookproof_simulator::sim::{Keep, simulate};

use crate::sim::{options, read, shipped};

/// The spread of real runs is due to the clock alone.
const RUNS: usize = 2;

#[derive(Debug)]
struct Amount {
    delivered: usize,
    refused: usize,
    dead: BTreeMap<String, usize>,
    attempts: BTreeMap<String, u64>,
    /// From the last event to the last successful answer, in milliseconds.
    drain_ms: u64,
}

impl Amount {
    fn of(trace: &Trace) -> Self {
        let taken: Vec<_> =
            trace.answers.iter().filter(|one| one.whole && (200..300).contains(&one.status)).collect();
        let arrival = |n: u64| trace.arrivals.iter().find(|one| one.n == n);
        let deliveries: BTreeSet<_> = taken
            .iter()
            .filter_map(|answer| arrival(answer.n))
            .map(|arrival| (arrival.endpoint.as_str(), arrival.token))
            .collect();
        let accepted: BTreeSet<u64> = trace.accepted.iter().map(|one| one.token).collect();
        let refused = trace.offers.iter().filter(|offer| !accepted.contains(&offer.token));
        let mut amount = Self {
            delivered: deliveries.len(),
            refused: refused.map(|offer| offer.owed.len()).sum(),
            dead: BTreeMap::new(),
            attempts: BTreeMap::new(),
            drain_ms: 0,
        };
        trace.dead.iter().for_each(|one| *amount.dead.entry(one.reason.clone()).or_default() += 1);
        trace
            .arrivals
            .iter()
            .for_each(|one| *amount.attempts.entry(one.endpoint.to_string()).or_default() += 1);
        let last_offer = trace.offers.iter().map(|offer| offer.intended).max().unwrap_or(0);
        let last_taken = taken.iter().map(|answer| answer.end).max().unwrap_or(0);
        amount.drain_ms = last_taken.saturating_sub(last_offer) / 1_000_000;
        amount
    }
}

fn real(path: &Path, folder: &Path) -> Amount {
    let run = Command::new(env!("CARGO_BIN_EXE_hookproof"))
        .args(["run", path.to_str().unwrap(), "--out", folder.to_str().unwrap()])
        .output()
        .unwrap();
    let name = path.file_stem().unwrap();
    let trace = std::fs::read(folder.join(name).join("trace.jsonl"));
    let trace = trace.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&run.stderr)));
    Amount::of(&Trace::read(trace.as_slice()).unwrap())
}

/// Takes two minutes, on an idle machine: `cargo test -p hookproof --test all sim::reality -- --ignored --nocapture`.
#[test]
#[ignore = "real runs take minutes and want the machine for themselves"]
fn simulation_and_reality_agree() {
    for name in ["retry-after", "viral-spike"] {
        let path = shipped().join(format!("{name}.toml"));
        let simulated = simulate(&read(&path), &options(Keep::Trace)).unwrap();
        let simulated = Amount::of(&Trace::read(simulated.trace.as_slice()).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let runs: Vec<Amount> = (0..RUNS).map(|_| real(&path, folder.path())).collect();
        println!("{name}: simulated {simulated:?}");
        runs.iter().for_each(|run| println!("{name}: real      {run:?}"));
        let drains: Vec<u64> = runs.iter().map(|run| run.drain_ms).collect();
        let (least, most) = (drains.iter().min().unwrap(), drains.iter().max().unwrap());
        println!("{name}: drained in {} ms simulated, {least} to {most} ms in reality", simulated.drain_ms);
        for run in &runs {
            let [told, seen] = [&simulated, run].map(|one| one.delivered + one.refused);
            assert_eq!(told, seen, "{name}: deliveries of what was taken");
            assert_eq!(simulated.dead, run.dead, "{name}: dead letters");
            for (endpoint, attempts) in &run.attempts {
                let told = simulated.attempts.get(endpoint).copied().unwrap_or(0);
                assert!(
                    told.abs_diff(*attempts) * 50 <= *attempts,
                    "{name}: {endpoint}: {told} and {attempts}"
                );
            }
        }
        let spread = (most - least).max(most / 10);
        let near = simulated.drain_ms + spread >= *least && simulated.drain_ms <= most + spread;
        assert!(near, "{name}: drained in {} ms, in reality in {least} to {most}", simulated.drain_ms);
    }
}
