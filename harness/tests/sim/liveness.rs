//! A word to the dispatcher that is lost once leaves a lane standing, and is found with the lane, the moment and the
//! word.

use hookproof_judge::check::{Status, Strictness};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::Trace;
use hookproof_simulator::sim::{Keep, Loss, Options, judged, simulate, swarm, with_silence};

use crate::sim::{options, scenario};

/// A lane gets one event, and then another one.
const SPARSE: &str = r#"
drain = "2min"
[[traffic]]
shape  = "burst"
events = 1
[[traffic]]
shape = "pause"
lasts = "11s"
[[traffic]]
shape  = "burst"
events = 1
"#;

/// More than a lane may send at once.
const BUSY: &str = r#"
drain = "2min"
[[traffic]]
shape  = "burst"
events = 300
"#;

const LANE: &str = r#"
[[subscriber]]
name    = "quiet"
limit   = { rate = "50/s", burst = 10, in_flight = 10, doubt = "2s", quarantine = "1s" }
retry   = { base = "3s", cap = "3s" }
timeout = "1s"
"#;

/// Its endpoint fails at first.
const FAILS: &str = r#"
[[subscriber.behaviour]]
answer = 500
lasts  = "2s"
"#;

/// Of each kind so many words are lost in turn.
const PLACES: u32 = 6;

fn plays() -> [(&'static str, Scenario); 4] {
    let plays =
        [("sparse", SPARSE, ""), ("busy", BUSY, ""), ("retried", SPARSE, FAILS), ("failing", BUSY, FAILS)];
    plays.map(|(name, traffic, behaviour)| (name, scenario(name, &format!("{traffic}{LANE}{behaviour}"))))
}

fn play(scenario: &Scenario, loses: Option<(Loss, u32)>) -> (Option<String>, Status) {
    let simulated = simulate(scenario, &Options { loses, ..options(Keep::Trace) }).unwrap();
    let trace = Trace::read(simulated.trace.as_slice()).unwrap();
    let judgement = judged(scenario, &trace, Strictness::Strict);
    let judgement = with_silence(judgement, simulated.silence.as_ref(), &trace);
    let liveness = judgement.verdicts.iter().find(|one| one.id == "liveness.served").unwrap();
    (simulated.silence.map(|silence| silence.sentence), liveness.status)
}

/// Where a loss is found first, and what is said of it.
fn found(loss: Loss) -> Option<(u32, Scenario, String)> {
    plays().into_iter().find_map(|(_, scenario)| {
        (0..PLACES).find_map(|place| {
            let (silence, status) = play(&scenario, Some((loss, place)));
            let said = silence?;
            assert_eq!(status, Status::Fail, "{said}");
            Some((place, scenario.clone(), said))
        })
    })
}

#[test]
fn a_word_that_is_lost_once_is_found_by_the_lane_that_waits_for_it() {
    let rows = [
        (Loss::Work, "it waits for no answer of the store"),
        (Loss::Acquired, "the answer to a handover"),
        (Loss::Claimed, "the answer to a claim"),
        (Loss::Persisted, "the confirmation of a checkpoint"),
    ];
    let all = rows.map(|(loss, waits_for)| (loss, waits_for, found(loss).map(|(_, _, said)| said)));
    let is_right =
        |said: &str, waits_for| said.starts_with("no request to quiet from ") && said.contains(waits_for);
    let right =
        all.iter().all(|(_, waits_for, said)| said.as_ref().is_some_and(|said| is_right(said, *waits_for)));
    assert!(right, "{all:#?}");
}

#[test]
fn without_a_loss_no_lane_stands_still() {
    for (name, scenario) in plays() {
        assert_eq!(play(&scenario, None), (None, Status::Pass), "{name}");
    }
}

#[test]
fn a_sweep_fails_by_the_seed_in_which_a_lane_stands_still() {
    let (place, scenario, _) = found(Loss::Claimed).unwrap();
    let options = Options { loses: Some((Loss::Claimed, place)), ..options(Keep::Trace) };
    let swept = swarm::sweep(&scenario, &options, 20).unwrap();
    let failure = swept.failure.unwrap();
    assert_eq!(failure.check, "liveness.served", "{}", failure.sentence);
    assert!(failure.sentence.contains("no request to quiet from "), "{}", failure.sentence);
}
