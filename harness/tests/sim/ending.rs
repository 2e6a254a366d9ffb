use hookproof_simulator::sim::{Keep, Options, simulate};

use crate::sim::{options, scenario};

/// These events are still on their way when the process is killed.
const THAWED_AND_KILLED: &str = r#"
drain = "5s"
[[traffic]]
shape = "steady"
rate  = "50/s"
lasts = "6s"
[[subscriber]]
name = "a"
[[fault]]
at    = "2s"
do    = "stop"
lasts = "2s"
[[fault]]
at    = "4s"
do    = "kill"
lasts = "1s"
"#;

/// Events must be matched again when the process is killed.
const CHANGED_AND_KILLED: &str = r#"
drain = "5s"
[[traffic]]
shape = "steady"
rate  = "2000/s"
lasts = "3s"
[[subscriber]]
name = "a"
[[fault]]
at    = "1s"
do    = "limit"
limit = { rate = "1000/s", burst = 100 }
[[fault]]
at    = "1003ms"
do    = "kill"
lasts = "1s"
"#;

#[test]
fn a_run_ends_though_events_die_with_the_process_that_had_them() {
    for (name, text, seeds) in [("thawed", THAWED_AND_KILLED, 4), ("changed", CHANGED_AND_KILLED, 6)] {
        let scenario = scenario(name, text);
        for seed in 1..=seeds {
            let options = Options { seed: Some(seed), ..options(Keep::Figures) };
            let figures = simulate(&scenario, &options).unwrap().figures;
            assert!(figures.refused > 0, "{name}, seed {seed}: the kill cost nobody an answer");
        }
    }
}

/// Wrong repeats must be seen in virtual time as in a real run.
#[test]
fn a_run_lingers_after_the_last_request() {
    let text = "linger = \"7s\"\n[[traffic]]\nshape = \"burst\"\nevents = 3\n[[subscriber]]\nname = \"a\"\n\
                limit = { rate = \"1/s\", burst = 1 }\n";
    let simulated = simulate(&scenario("lingering", text), &options(Keep::Trace)).unwrap();
    let trace = hookproof_judge::trace::Trace::read(simulated.trace.as_slice()).unwrap();
    let last = trace.arrivals.iter().map(|arrival| arrival.t).max().unwrap();
    let end = simulated.figures.end;
    assert!(end >= last + 7_000_000_000, "the last request came at {last}, and the run ended at {end}");
}

#[test]
fn dead_letters_are_counted_that_the_store_has_forgotten() {
    let text = r#"
drain = "5s"
[[traffic]]
shape  = "burst"
events = 100_500
[events]
data_bytes = "10..10"
[[subscriber]]
name  = "a"
limit = { rate = "1/s", burst = 1 }
queue = { rows = 10, when_full = "shed-oldest" }
"#;
    let figures = simulate(&scenario("forgotten", text), &options(Keep::Figures)).unwrap().figures;
    let lane = &figures.lanes[0];
    assert!(figures.ledger.counts.dead_kept < figures.ledger.counts.dead, "nothing was forgotten");
    assert_eq!(lane.delivered + lane.dead[2] + lane.left, 100_500, "{:?}", lane.dead);
    assert_eq!(figures.ledger.missing(), None);
}
