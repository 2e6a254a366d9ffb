use hookproof_judge::check::{Status, Strictness};
use hookproof_judge::trace::{CutKind, ProcessEvent, Trace};
use hookproof_simulator::sim::{Keep, SimError, declared, judged, simulate, unmodelled};

use crate::sim::{options, scenario};

const SECOND: u64 = 1_000_000_000;

const STEADY: &str = r#"
[[traffic]]
shape = "steady"
rate  = "20/s"
lasts = "8s"
[[subscriber]]
name = "a"
"#;

fn traced(name: &str, text: &str) -> Trace {
    let scenario = scenario(name, text);
    let simulated = simulate(&scenario, &options(Keep::Trace)).unwrap();
    let trace = Trace::read(simulated.trace.as_slice()).unwrap();
    let judgement = judged(&scenario, &trace, Strictness::Strict);
    let failed: Vec<_> = judgement.verdicts.iter().filter(|one| one.status == Status::Fail).collect();
    assert!(failed.is_empty(), "{name}: {failed:#?}");
    trace
}

#[test]
fn the_trace_declares_what_our_driver_file_does() {
    let ours = hookproof::driver::DriverFile::hookproof().unwrap();
    assert_eq!(declared(), ours.declared());
}

#[test]
fn the_lease_is_the_one_that_the_arguments_name() {
    let backlog = r#"
[[traffic]]
shape  = "burst"
events = 200
[[subscriber]]
name  = "a"
limit = { rate = "10/s", burst = 5, in_flight = 2 }
[[fault]]
at     = "2s"
do     = "stop"
lasts  = "50s"
worker = 0
"#;
    let resumed = |arguments: &str| {
        let setup = format!("drain = \"90s\"\n[sender]\nworkers = 2\narguments = [{arguments}]\n{backlog}");
        let trace = traced("leased", &setup);
        let after = trace.arrivals.iter().map(|one| one.t).filter(|t| *t > 2 * SECOND + SECOND / 2);
        after.min().unwrap()
    };
    assert!(resumed("") > 29 * SECOND);
    assert!(resumed(r#""--lease", "3s""#) < 10 * SECOND);
    assert!(resumed(r#""--lease=3s""#) < 10 * SECOND);
}

/// The cap is two: a new owner opens two at once.
#[test]
fn a_process_that_cannot_renew_its_lease_closes_what_it_has_open_and_another_goes_on() {
    let trace = traced(
        "parted",
        r#"
drain = "120s"
[sender]
store     = "postgres"
workers   = 2
arguments = ["--lease", "3s"]
[[traffic]]
shape  = "burst"
events = 4
[[subscriber]]
name    = "a"
limit   = { rate = "10/s", burst = 20, in_flight = 2 }
answers = "20s"
timeout = "40s"
[[fault]]
at     = "1s"
do     = "partition"
worker = "owner of a"
how    = "cut"
lasts  = "10s"
"#,
    );
    let closed: Vec<u64> =
        trace.cuts.iter().filter(|cut| cut.how == CutKind::PeerGone).map(|cut| cut.t).collect();
    assert!(closed.len() == 2 && closed.iter().all(|t| (SECOND..5 * SECOND).contains(t)), "{closed:?}");
    let arrived: Vec<u64> = trace.arrivals.iter().map(|one| one.t).collect();
    let again = arrived.iter().filter(|t| (closed[1]..closed[1] + 2 * SECOND).contains(*t)).count();
    assert_eq!(again, 2, "{closed:?} {arrived:?}");
}

#[test]
fn unmodelled_settings_are_named_and_invalid_ones_are_errors() {
    let with = |sender: &str| scenario("setup", &format!("[sender]\n{sender}\n{STEADY}"));
    assert!(unmodelled(&with(r#"arguments = ["--lease", "3s"]"#)).is_empty());
    let named =
        unmodelled(&with("arguments = [\"--lease=3s\", \"--keep\", \"3d\"]\ndurability = \"process\""));
    assert!(named.len() == 2 && named[0].ends_with("--keep 3d"), "{named:?}");
    let named = unmodelled(&with("store = \"postgres\""));
    assert!(named.len() == 1 && named[0].contains("SQLite"), "{named:?}");
    let bad = simulate(&with(r#"arguments = ["--lease", "1ms"]"#), &options(Keep::Figures));
    assert!(matches!(bad, Err(SimError::Argument(_))), "{bad:?}");
}

#[test]
fn an_event_that_the_sender_refuses_is_the_scenarios_fault() {
    let bad = scenario("bad-type", &format!("{STEADY}[events]\ntypes = {{ \"Bad Type!\" = 1 }}\n"));
    let refused = simulate(&bad, &options(Keep::Figures));
    assert!(matches!(refused, Err(SimError::Event { .. })), "{refused:?}");
}

/// It renews its lease while it waits for its last answers.
#[test]
fn a_process_on_its_way_out_keeps_its_lanes() {
    let text = r#"
drain = "90s"
[sender]
workers     = 2
stop_within = "60s"
arguments   = ["--lease", "5s"]
[[traffic]]
shape = "steady"
rate  = "5/s"
lasts = "2s"
[[subscriber]]
name    = "slow"
timeout = "50s"
answers = "30s..30s"
limit   = { rate = "100/s", burst = 100, in_flight = 50 }
[[fault]]
at     = "3s"
do     = "restart"
worker = 0
[[fault]]
at     = "4s"
do     = "restart"
worker = 1
"#;
    let trace = traced("leaving", text);
    assert_eq!(trace.arrivals.len(), 10, "attempts were made twice");
    let exits = trace.processes.iter().filter(|one| one.event == ProcessEvent::Exited);
    assert!(exits.map(|one| one.status.as_deref()).all(|status| status == Some("exit 0")));
}

#[test]
fn a_store_that_has_not_written_for_a_second_takes_no_events() {
    let full = "[[fault]]\nat = \"2s\"\ndo = \"disk-full\"\nlasts = \"4s\"\n";
    let trace = traced("full", &format!("drain = \"30s\"\n{STEADY}{full}"));
    assert!(!trace.refused.is_empty());
    for refused in &trace.refused {
        assert_eq!(refused.status, Some(503));
        assert!((3 * SECOND..6 * SECOND + SECOND / 2).contains(&refused.t), "refused at {} ns", refused.t);
    }
    let locked = "[[fault]]\nat = \"2s\"\ndo = \"lock-database\"\nlasts = \"4s\"\n";
    let trace = traced("locked", &format!("drain = \"30s\"\n{STEADY}{locked}"));
    assert!(trace.refused.is_empty(), "a writer waits five seconds for another one");
}

#[test]
fn network_delays_add_up_and_end_with_their_faults() {
    let delayed = |faults: &[(u64, u64)]| {
        let fault = |(by, lasts): &(u64, u64)| {
            format!(
                "[[fault]]\nat = \"2s\"\ndo = \"partition\"\nhow = \"delay\"\nby = \"{by}ms\"\nlasts = \"{lasts}ms\"\n"
            )
        };
        let text = faults.iter().map(fault).collect::<String>();
        let trace =
            traced("delayed", &format!("drain = \"30s\"\n[sender]\nstore = \"postgres\"\n{STEADY}{text}"));
        assert_eq!(trace.faults.iter().filter(|fault| fault.delay.is_some()).count(), faults.len());
        trace.arrivals.iter().map(|one| one.t).collect::<Vec<_>>()
    };
    // The scenario's text decides the random numbers, so no two runs are equal to the nanosecond.
    let alike = |one: &[u64], other: &[u64]| {
        one.len() == other.len()
            && one.iter().zip(other).all(|(one, other)| one.abs_diff(*other) < SECOND / 40)
    };
    let (never, once) = (delayed(&[]), delayed(&[(60, 3_000)]));
    assert!(alike(&delayed(&[(20, 3_000), (40, 3_000)]), &once));
    // Each commit is answered three times, 120 ms later each time.
    let later = |times: &[u64]| times.iter().zip(&never).map(|(t, never)| t.saturating_sub(*never)).max();
    assert!(later(&once).is_some_and(|most| most > 3 * 120 * SECOND / 1_000), "{once:?} {never:?}");
    let after =
        |times: &[u64]| times.iter().filter(|t| **t > 5 * SECOND + SECOND / 40).copied().collect::<Vec<_>>();
    assert!(alike(&after(&once), &after(&never)), "{once:?} {never:?}");
    // After the first delay only the second applies.
    let (both, second) = (delayed(&[(2_000, 1_000), (60, 3_000)]), delayed(&[(60, 3_000)]));
    let from = |times: &[u64]| times.iter().filter(|t| **t > 4 * SECOND).count();
    assert!(!alike(&both, &second) && from(&both).abs_diff(from(&second)) < 20, "{both:?} {second:?}");
}
