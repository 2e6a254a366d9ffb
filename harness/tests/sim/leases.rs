use hookproof_judge::check::{Status, Strictness, Verdict};
use hookproof_judge::scenario::{FaultAction, Partition, SECOND, Scenario};
use hookproof_judge::trace::{ProcessEvent, Trace};
use hookproof_simulator::sim::swarm::trouble;
use hookproof_simulator::sim::{Keep, Mutant, Options, judged, simulate};

use crate::sim::{options, read, reduced, scenario};

fn traced(scenario: &Scenario, mutant: Option<Mutant>) -> Trace {
    let simulated = simulate(scenario, &Options { mutant, ..options(Keep::Trace) }).unwrap();
    Trace::read(simulated.trace.as_slice()).unwrap()
}

fn verdicts(mutant: Option<Mutant>) -> Vec<Verdict> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sim/stopped-past-its-lease.toml");
    let scenario = read(&path);
    judged(&scenario, &traced(&scenario, mutant), Strictness::Strict).verdicts
}

#[test]
fn the_sends_of_all_workers_reveal_a_worker_that_ignores_its_lease() {
    let find = |verdicts: &[Verdict]| {
        let found = verdicts.iter().find(|verdict| verdict.id == "rate.across-workers");
        found.map(|verdict| (verdict.status, verdict.sentence.clone())).unwrap()
    };
    let right = verdicts(None);
    assert_eq!(find(&right).0, Status::Pass, "{}", find(&right).1);
    let broken: Vec<_> =
        right.iter().filter(|one| matches!(one.status, Status::Fail | Status::Warn)).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    let (status, sentence) = find(&verdicts(Some(Mutant::LeaseNotFenced)));
    assert_eq!(status, Status::Fail, "{sentence}");
}

/// The sender has no store in the middle.
const WAITING: &str = r#"
drain = "90s"
[sender]
arguments = ["--lease", "30s"]
[[traffic]]
shape  = "burst"
events = 1000
[[subscriber]]
name  = "slow"
limit = { rate = "50/s", burst = 10, in_flight = 10 }
[[fault]]
at    = "3s"
lasts = "6s"
do    = "partition"
"#;

fn on_a_server(text: &str) -> String {
    text.replace("[sender]\n", "[sender]\nstore = \"postgres\"\n")
}

#[test]
fn a_worker_without_its_store_claims_nothing_until_it_reconnects() {
    let trace = traced(&scenario("waiting", &on_a_server(WAITING)), None);
    let during = |from: u64, until: u64| {
        trace.arrivals.iter().filter(|one| (from * SECOND..until * SECOND).contains(&one.t)).count()
    };
    assert!(during(0, 3) >= 100 && during(10, 20) >= 400, "it works before and afterwards");
    // A lane claims a second's allowance.
    assert_eq!(during(5, 9), 0, "{} came of what was claimed meanwhile", during(5, 9));
}

#[test]
fn a_worker_started_without_its_store_starts_once_it_connects() {
    let killed = "[[fault]]\nat = \"4s\"\ndo = \"kill\"\nlasts = \"100ms\"\n";
    let trace = traced(&scenario("killed", &on_a_server(&format!("{WAITING}{killed}"))), None);
    let ready: Vec<u64> =
        trace.processes.iter().filter(|one| one.event == ProcessEvent::Ready).map(|one| one.t).collect();
    assert!(ready.len() == 2 && ready[1] >= 9 * SECOND, "{ready:?}");
}

#[test]
fn a_sweep_cuts_one_of_several_processes_off_and_never_the_only_one() {
    let partitions = |scenario: &Scenario| {
        let mut all = Vec::new();
        for seed in 0..200 {
            let faults = trouble(scenario, seed, None).faults;
            all.extend(faults.into_iter().filter_map(|fault| match fault.action {
                FaultAction::Partition(how) => Some((how, fault.worker, fault.lasts)),
                _ => None,
            }));
        }
        all
    };
    let two = partitions(&read(&reduced()));
    let silences = two.iter().filter(|(how, ..)| *how == Partition::Silence);
    let longest = silences.clone().map(|(_, _, lasts)| lasts.0).max();
    assert!(
        silences.count() >= 10 && two.iter().any(|(how, ..)| matches!(how, Partition::Delay(_))),
        "{two:?}"
    );
    assert!(two.iter().all(|(_, worker, _)| worker.is_some()), "{two:?}");
    assert!(longest > Some(20 * SECOND), "none lasts for longer than a lease");
    let mut alone = read(&reduced());
    alone.sender.workers = 1;
    assert!(partitions(&alone).is_empty());
}
