mod advice;
mod bounds;
mod command;
mod further;
mod launch;
mod machine;
mod owed;
mod partners;
mod questions;
mod reality;
mod seeds;
mod sure;

use std::path::{Path, PathBuf};

use hookproof_judge::scenario::Scenario;
use hookproof_simulator::plan::PlanRequest;
use hookproof_simulator::plan::machine::Machine;
use hookproof_simulator::sim::Options;

pub(crate) fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios")
}

pub(crate) fn launch() -> Scenario {
    let text = std::fs::read_to_string(shipped().join("capacity-launch.toml")).unwrap();
    Scenario::from_text(&text, "capacity-launch.toml").unwrap()
}

pub(crate) fn plan_request(slos: &[&str]) -> PlanRequest {
    PlanRequest {
        slos: slos.iter().map(|slo| slo.parse().unwrap()).collect(),
        carry: None,
        headroom: false,
        seeds: 1,
        machine: Machine::default(),
        conditions: Vec::new(),
        options: Options { folder: shipped(), ..Options::default() },
    }
}
