use hookproof_judge::check::{Status, Strictness};
use hookproof_judge::scenario::{Answer, Duration, FaultAction, Scenario};
use hookproof_judge::trace::Trace;
use hookproof_simulator::sim::swarm::{Failure, attempt, disturbed, sweep, trouble};
use hookproof_simulator::sim::{Keep, Mutant, Options, judged, judged_disturbed, simulate};

use crate::sim::{options, read, reduced, scenario, stalled};

/// `HOOKPROOF_SEEDS`, or 1,000.
fn seeds() -> u64 {
    std::env::var("HOOKPROOF_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000)
}

fn with(mutant: Option<Mutant>) -> Options {
    Options { mutant, ..options(Keep::Trace) }
}

fn found(mutant: Mutant) -> Failure {
    let swept = sweep(&read(&reduced()), &with(Some(mutant)), 1_000).unwrap();
    swept.failure.unwrap_or_else(|| panic!("{} seeds did not find {}", swept.played, mutant.name()))
}

#[test]
fn the_sender_survives_the_sweep() {
    let swept = sweep(&read(&reduced()), &with(None), seeds()).unwrap();
    assert!(swept.failure.is_none(), "{:#?}", swept.failure);
    assert_eq!(swept.played, seeds());
    assert!(!swept.is_thin(), "{} of {} seeds came to a verdict", swept.judged, swept.played);
}

#[test]
fn every_bug_is_found_within_a_thousand_seeds_by_what_it_breaks() {
    let expected: [(Mutant, &[&str]); 4] = [
        (Mutant::ChargedOnSend, &["rate.", "retry."]),
        // A lane that it lost unnoticed, and gets back, waits for ever.
        (Mutant::LeaseNotFenced, &["rate.", "retry.", "recovery.drains"]),
        // A delivery that was made and not recorded is repeated, or waits for ever.
        (Mutant::SettleLost, &["duplicate.", "retry.", "recovery.drains"]),
        (Mutant::PauseForgotten, &["retry.after-"]),
    ];
    for (mutant, sections) in expected {
        let failure = found(mutant);
        let named = sections.iter().any(|section| failure.check.starts_with(section));
        assert!(named, "{} broke {}", mutant.name(), failure.sentence);
        assert!(!failure.witness.is_empty());
    }
}

/// The endpoint's failures come in a row, and retries wait with all the rest.
#[test]
fn a_lane_that_gives_way_is_not_blamed_for_its_jitter() {
    let spike = read(&crate::sim::shipped().join("viral-spike.toml"));
    let found = attempt(&spike, &with(None), 189, None).unwrap();
    assert!(found.is_none(), "{found:?}");
}

/// Each of these seeds must raise the alarm; otherwise the sweep is blind.
#[test]
fn the_alarm_works() {
    let scenario = read(&reduced());
    for (mutant, canary) in [(Mutant::ChargedOnSend, 1), (Mutant::SettleLost, 2)] {
        let alarm = attempt(&scenario, &with(Some(mutant)), canary, None).unwrap();
        assert!(alarm.is_some(), "seed {canary} no longer finds {}", mutant.name());
        let silence = attempt(&scenario, &with(None), canary, None).unwrap();
        assert!(silence.is_none(), "seed {canary} finds fault with the right sender: {silence:?}");
    }
}

#[test]
fn a_failure_is_cut_to_the_beginning_that_still_fails() {
    let scenario = read(&reduced());
    let failure = found(Mutant::SettleLost);
    let lasts: u64 = scenario.traffic.iter().filter_map(|phase| phase.lasts).map(|lasts| lasts.0).sum();
    assert!(failure.until.is_some_and(|until| until < lasts), "nothing was cut off the {lasts} ns");
    let again = attempt(&scenario, &with(Some(Mutant::SettleLost)), failure.seed, failure.until).unwrap();
    assert_eq!(again.map(|again| again.sentence), Some(failure.sentence));
}

#[test]
fn every_seed_has_troubles_of_its_own() {
    let scenario = read(&reduced());
    let [one, again, other] = [1, 1, 2].map(|seed| trouble(&scenario, seed, None));
    assert_eq!(one, again);
    assert_ne!(one.faults, other.faults);
    assert_ne!(one.subscribers[0].answers, other.subscribers[0].answers);
}

#[test]
fn a_shortened_run_equals_the_beginning_of_the_whole_one() {
    let spike = "[[traffic]]\nshape = \"spike\"\nrate = \"20/s\"\nto = \"200/s\"\nlasts = \"10s\"\n[[subscriber]]\nname = \"a\"";
    let scenario = scenario("spike", spike);
    let offered = |until: Option<u64>| {
        let simulated = simulate(&scenario, &Options { until, ..options(Keep::Trace) }).unwrap();
        let trace = Trace::read(simulated.trace.as_slice()).unwrap();
        trace.offers.iter().map(|offer| (offer.intended, offer.token)).collect::<Vec<_>>()
    };
    let (whole, cut) = (offered(None), offered(Some(2_500_000_000)));
    let before = whole.partition_point(|(intended, _)| *intended < 2_500_000_000);
    assert_eq!(cut, whole[..before]);
    assert!(!cut.is_empty() && cut.len() < whole.len());
}

#[test]
fn a_limit_that_is_raised_again_is_raised_in_every_seed() {
    let scenario = read(&crate::sim::shipped().join("live-change.toml"));
    let limits = |seed| {
        let faults = trouble(&scenario, seed, Some(6_000_000_000)).faults;
        faults.iter().filter(|fault| matches!(fault.action, FaultAction::Limit { .. })).count()
    };
    assert!((0..50).all(|seed| limits(seed) == 2));
}

/// An operator's command to a dead process, and checks that must not require the impossible.
#[test]
fn seeds_that_blamed_the_right_sender_do_so_no_more() {
    let seeds = [("live-change", 23), ("rotated-credentials", 12), ("gone", 13), ("hostile-answers", 30)];
    for (name, seed) in seeds {
        let scenario = read(&crate::sim::shipped().join(format!("{name}.toml")));
        let blamed = attempt(&scenario, &with(None), seed, None).unwrap();
        assert!(blamed.is_none(), "{name}, seed {seed}: {blamed:?}");
    }
}

fn impossible() -> Scenario {
    let text = std::fs::read_to_string(reduced()).unwrap();
    let text = format!("{text}\n[expect]\nlatency.dashboard = {{ max = \"1ns\" }}\n");
    Scenario::from_text(&text, "impossible").unwrap()
}

#[test]
fn a_figure_of_the_undisturbed_scenario_is_named_and_not_held_against_a_seed() {
    let scenario = impossible();
    let trace = simulate(&scenario, &options(Keep::Trace)).unwrap().trace;
    let trace = Trace::read(trace.as_slice()).unwrap();
    let find = |id: &str, judgement: &hookproof_judge::check::Judgement| {
        judgement
            .verdicts
            .iter()
            .find(|verdict| verdict.id == id)
            .map(|one| (one.status, one.sentence.clone()))
    };
    let (status, _) = find("latency.first-attempt", &judged(&scenario, &trace, Strictness::Strict)).unwrap();
    assert_eq!(status, Status::Fail);
    let (status, sentence) = find("latency.first-attempt", &judged_disturbed(&scenario, &trace)).unwrap();
    assert_eq!(status, Status::NotApplicable);
    assert!(
        sentence.starts_with("not judged with --seeds, since a fault may break the figure: 1 of 2 latencies"),
        "{sentence}"
    );
    assert!(attempt(&scenario, &with(None), 1, None).unwrap().is_none());
}

#[test]
fn a_rule_is_held_against_every_seed_beside_such_a_figure() {
    let swept = sweep(&impossible(), &with(Some(Mutant::ChargedOnSend)), 1_000).unwrap();
    let check = swept.failure.map(|failure| failure.check).unwrap_or_default();
    assert!(check.starts_with("rate.") || check.starts_with("retry."), "{check:?}");
}

#[test]
fn stalls_are_drawn_beside_the_troubles_that_a_seed_has_without_them() {
    let scenario = read(&reduced());
    let longest = Duration::from_secs(59);
    let stalling = Options { stalls: longest, ..with(None) };
    let (mut drawn, mut most) = (0, 0);
    for seed in 0..200 {
        let (calm, stalled) = (trouble(&scenario, seed, None), disturbed(&scenario, &stalling, seed, None));
        assert_eq!(calm.faults, stalled.faults);
        assert_eq!(calm, disturbed(&scenario, &with(None), seed, None));
        let behaviours = stalled.subscribers.iter().flat_map(|subscriber| &subscriber.behaviours);
        for stall in behaviours.filter(|one| one.answer == Answer::Stall) {
            drawn += 1;
            most = most.max(stall.lasts.unwrap().0);
        }
    }
    assert!((100..300).contains(&drawn), "{drawn} stalls of 400 endpoints");
    assert!((50..=59).contains(&(most / 1_000_000_000)), "the longest took {most} ns");
}

/// Half of the endpoints are silent for up to 59 s: within the minute of doubt, and far beyond the quarantine.
#[test]
fn the_sender_survives_stalls_kills_and_takeovers_together() {
    let stalling = Options { stalls: Duration::from_secs(59), ..with(None) };
    let swept = sweep(&read(&stalled()), &stalling, seeds()).unwrap();
    assert!(swept.failure.is_none(), "{:#?}", swept.failure);
    assert_eq!(swept.played, seeds());
    assert!(!swept.is_thin(), "{} of {} seeds came to a verdict", swept.judged, swept.played);
}

/// `hookproof sim scenarios/viral-spike.toml --seeds 1000` runs all.
#[test]
fn the_whole_spike_survives_its_first_seeds() {
    let swept = sweep(&read(&crate::sim::shipped().join("viral-spike.toml")), &with(None), 4).unwrap();
    assert!(swept.failure.is_none(), "{:#?}", swept.failure);
    assert_eq!((swept.played, swept.judged), (4, 4));
}
