//! The lines that `sim` prints about a simulation.

use std::time::Duration;

use super::exit;
use super::out::{line, one_line};
use hookproof_judge::check::{Judgement, Status};
use hookproof_judge::scenario::Scenario;
use hookproof_simulator::sim::{Simulated, skipped, swarm};

pub(super) fn summary(scenario: &Scenario, simulated: &Simulated, took: Duration) -> String {
    let figures = &simulated.figures;
    let owed: u64 = figures.lanes.iter().map(|lane| lane.owed).sum();
    let arrivals: u64 = figures.lanes.iter().map(|lane| lane.arrivals).sum();
    let happened = u128::from(figures.offered + arrivals) * 1_000_000_000;
    let speed = happened / took.as_nanos().max(1);
    format!(
        "{}: {} events, {owed} deliveries owed, {} delivered, {} dead, {} waiting, {arrivals} attempts; {:.1} s of \
         virtual time in {:.2} s ({speed} events and attempts a second); {} commits, database {} MiB; sha256 {}",
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
    exit::code(judgement.status)
}
