use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use hookproof_judge::scenario::{Scenario, Shape};
use hookproof_judge::trace::Trace;
use hookproof_simulator::plan::scale::{AS_IT_STANDS, scaled};
use hookproof_simulator::plan::slo::{Measure, NEVER, Slo};
use hookproof_simulator::plan::{PlanRequest, answer, plan};
use serde_json::Value;

use crate::plan::plan_request;

const SEEDS: u64 = 5;

const RATE: &str = "name = \"rate\"\nseed = 11\ndrain = \"60s\"\n\
    [[traffic]]\nshape = \"spike\"\nrate = \"5/s\"\nto = \"40/s\"\nlasts = \"12s\"\n\
    [[subscriber]]\nname = \"a\"\nlimit = { rate = \"20/s\", burst = 10, in_flight = 10 }\nanswers = \"20ms..60ms\"\n";

const DRAIN: &str = "name = \"drain\"\nseed = 12\ndrain = \"90s\"\n\
    [[traffic]]\nshape = \"steady\"\nrate = \"30/s\"\nlasts = \"6s\"\n\
    [[subscriber]]\nname = \"a\"\nlimit = { rate = \"50/s\", burst = 20, windows = [\"12 per 1s\"] }\nanswers = \"10ms..30ms\"\n";

const SHED: &str = "name = \"shed\"\nseed = 13\ndrain = \"60s\"\n\
    [[traffic]]\nshape = \"steady\"\nrate = \"15/s\"\nlasts = \"12s\"\n\
    [[subscriber]]\nname = \"a\"\nlimit = { in_flight = 2 }\nqueue = { rows = 60, when_full = \"shed-oldest\" }\nanswers = \"100ms\"\n";

const WIDE: &str = "name = \"wide\"\nseed = 14\ndrain = \"60s\"\n\
    [[traffic]]\nshape = \"steady\"\nrate = \"400/s\"\nlasts = \"4s\"\n[events]\ndata_bytes = \"200..400\"\n\
    [[subscriber]]\nname = \"a\"\nlimit = { rate = \"500000/s\", burst = 50000, in_flight = 256 }\nanswers = \"0ms\"\n";

/// `thousandths` is the part of the scenario's traffic.
fn real(text: &str, thousandths: u64, slo: &Slo, folder: &Path) -> u64 {
    let scenario = Scenario::from_text(text, "real.toml").unwrap();
    let path = folder.join("real.toml");
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    command.arg("run").arg(&path).arg("--out").arg(folder);
    for (place, phase) in scaled(&scenario, thousandths).traffic.iter().enumerate() {
        let rates = match phase.shape {
            Shape::Steady { rate } => vec![("rate", rate)],
            Shape::Spike { rate, to } => vec![("rate", rate), ("to", to)],
            ref other => panic!("{other:?}"),
        };
        for (key, rate) in rates {
            command.arg("--set").arg(format!("traffic.{place}.{key}={rate}"));
        }
    }
    let run = command.output().unwrap();
    let trace = std::fs::read(folder.join(&scenario.name).join("trace.jsonl"));
    let trace = trace.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&run.stderr)));
    let trace = Trace::read(trace.as_slice()).unwrap();
    let lasts: u64 = scenario.traffic.iter().filter_map(|phase| phase.lasts).map(|lasts| lasts.0).sum();
    let began = trace.offers.iter().map(|offer| offer.intended).min().unwrap();
    figure(&trace, slo.measure, began + lasts)
}

/// The endpoint's observations in the plan's terms: an undelivered event takes for ever.
fn figure(trace: &Trace, measure: Measure, traffic_end: u64) -> u64 {
    let arrivals: BTreeMap<u64, u64> =
        trace.arrivals.iter().filter_map(|one| Some((one.n, one.token?))).collect();
    let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
    for answer in trace.answers.iter().filter(|one| one.whole && (200..300).contains(&one.status)) {
        if let Some(token) = arrivals.get(&answer.n) {
            taken.entry(*token).or_insert(answer.end);
        }
    }
    let left = trace.offers.len() - taken.len();
    match measure {
        Measure::Latency(thousandths) => {
            let waited = |offer: &hookproof_judge::trace::Offer| {
                taken.get(&offer.token).map_or(NEVER, |end| end.saturating_sub(offer.intended))
            };
            let mut all: Vec<u64> = trace.offers.iter().map(waited).collect();
            all.sort_unstable();
            all[(all.len() * thousandths as usize).div_ceil(1_000) - 1]
        }
        Measure::Drain if left > 0 => NEVER,
        Measure::Drain => taken.values().max().unwrap().saturating_sub(traffic_end),
        Measure::Shed => {
            let shed: BTreeSet<_> =
                trace.dead.iter().filter(|one| one.reason == "overflow").map(|one| one.token).collect();
            shed.len() as u64
        }
        other => panic!("{other:?} is not looked at"),
    }
}

/// Eight real runs: `cargo test -p hookproof --test all -- --ignored --nocapture plan::reality`.
#[test]
#[ignore = "real runs take minutes and want the machine for themselves"]
fn real_runs_pass_below_the_answer_and_break_above_it() {
    let mut wrong = Vec::new();
    for (text, slo) in [(RATE, "p95<4s"), (DRAIN, "drain<15s"), (SHED, "shed=0")] {
        let scenario = Scenario::from_text(text, "real.toml").unwrap();
        let found =
            plan(&scenario, &PlanRequest { headroom: true, seeds: SEEDS, ..plan_request(&[slo]) }).unwrap();
        let carries = found.headroom.as_ref().unwrap().carries.unwrap();
        println!("{}: {}", scenario.name, answer(&found));
        let slo: Slo = slo.parse().unwrap();
        for (percent, said) in [(90, true), (110, false)] {
            let folder = tempfile::tempdir().unwrap();
            let seen = real(text, carries * percent / 100, &slo, folder.path());
            let holds = seen <= slo.most;
            println!(
                "{}: at 0.01 × {percent} of that: {slo} comes to {}: {holds}",
                scenario.name,
                slo.show(seen)
            );
            if holds != said {
                wrong.push(format!("{} at {percent} %", scenario.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// `cargo test -p hookproof --test all -- --ignored --nocapture the_machine_carries`.
#[test]
#[ignore = "it measures this machine, which it wants for itself"]
fn twice_what_the_machine_carries_breaks_in_a_real_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wide.toml");
    std::fs::write(&path, WIDE).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    command
        .args(["plan", "--json", "--seeds", "1", "--slo", "p95<500ms"])
        .arg(&path)
        .current_dir(folder.path());
    let output = command.output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!("{}; {}", found["answer"], found["machine"]["limits"]["source"]);
    assert_eq!(found["headroom"]["breaks"][0]["subscriber"], "this machine");
    let carries = found["headroom"]["carries"].as_u64().unwrap();
    assert!(carries > AS_IT_STANDS, "{carries}");
    let slo: Slo = "p95<500ms".parse().unwrap();
    let half = real(WIDE, carries / 2, &slo, folder.path());
    let twice = real(WIDE, carries * 2, &slo, folder.path());
    println!("at half of it the p95 is {}, at twice {}", slo.show(half), slo.show(twice));
    assert!(half <= slo.most && twice > slo.most);
}
