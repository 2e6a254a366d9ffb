//! A seed decides everything, and the sweep finds every bug. `HOOKPROOF_SEEDS=100000` takes a night.

mod command;
mod ending;
mod errands;
mod leases;
mod liveness;
mod mutator;
mod reality;
mod scenarios;
mod setup;
mod sweep;

use std::path::{Path, PathBuf};

use hookproof_judge::scenario::Scenario;
use hookproof_simulator::sim::{Keep, Options, Simulated, simulate};

pub(crate) fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios")
}

/// The viral spike, small enough for a thousand seeds.
pub(crate) fn reduced() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sim/reduced-viral-spike.toml")
}

pub(crate) fn stalled() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sim/stalling-spike.toml")
}

pub(crate) fn read(path: &Path) -> Scenario {
    let text = std::fs::read_to_string(path).unwrap();
    Scenario::from_text(&text, &path.display().to_string()).unwrap()
}

/// `text` has every line but the name.
pub(crate) fn scenario(name: &str, text: &str) -> Scenario {
    Scenario::from_text(&format!("name = \"{name}\"\n{text}"), name).unwrap()
}

pub(crate) fn options(keep: Keep) -> Options {
    Options { folder: shipped(), keep, ..Options::default() }
}

fn run(path: &Path, seed: u64, keep: Keep) -> Simulated {
    simulate(&read(path), &Options { seed: Some(seed), ..options(keep) }).unwrap()
}

#[test]
fn the_same_seed_makes_the_same_trace_and_another_one_another() {
    for path in [reduced(), shipped().join("viral-spike.toml"), shipped().join("crash-loop.toml")] {
        let [one, again, other] = [7, 7, 8].map(|seed| run(&path, seed, Keep::Trace));
        assert_eq!(one.sha256, again.sha256, "{}", path.display());
        assert!(one.trace == again.trace, "{}: the hashes agree and the traces don't", path.display());
        assert_ne!(one.sha256, other.sha256, "{}", path.display());
    }
}

#[test]
fn a_run_that_keeps_no_trace_has_a_hash_of_its_own_that_the_seed_decides() {
    let [one, again, other] = [7, 7, 8].map(|seed| run(&reduced(), seed, Keep::Figures));
    assert!(one.trace.is_empty());
    assert_eq!(one.sha256, again.sha256);
    assert_ne!(one.sha256, other.sha256);
}

#[test]
fn figures_are_the_same_with_and_without_a_trace() {
    let [traced, bare] = [Keep::Trace, Keep::Figures].map(|keep| run(&reduced(), 7, keep).figures);
    assert_eq!((traced.offered, traced.delivered(), traced.end), (bare.offered, bare.delivered(), bare.end));
    let arrivals = |figures: &hookproof_simulator::sim::figures::Figures| {
        figures.lanes.iter().map(|lane| lane.arrivals).collect::<Vec<_>>()
    };
    assert_eq!(arrivals(&traced), arrivals(&bare));
}
