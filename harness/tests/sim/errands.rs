use hookproof_judge::check::{Status, Strictness};
use hookproof_judge::trace::{ProcessEvent, Trace};
use hookproof_simulator::sim::{Keep, judged, simulate};

use crate::sim::{options, scenario};

const SECOND: u64 = 1_000_000_000;

const STEADY: &str = r#"
drain = "30s"
[[traffic]]
shape = "steady"
rate  = "20/s"
lasts = "8s"
[[subscriber]]
name    = "a"
limit   = { rate = "60/s", burst = 30, in_flight = 10 }
timeout = "1s"
"#;

fn action_times(name: &str, faults: &str, action: &str) -> Vec<u64> {
    let scenario = scenario(name, &format!("{STEADY}{faults}"));
    let simulated = simulate(&scenario, &options(Keep::Trace)).unwrap();
    let trace = Trace::read(simulated.trace.as_slice()).unwrap();
    let judgement = judged(&scenario, &trace, Strictness::Strict);
    let failed: Vec<_> = judgement.verdicts.iter().filter(|one| one.status == Status::Fail).collect();
    assert!(failed.is_empty(), "{name}: {failed:#?}");
    trace.faults.iter().filter(|fault| fault.kind.word() == action).map(|fault| fault.t).collect()
}

const KILLED: &str = "[[fault]]\nat = \"2s\"\ndo = \"kill\"\nlasts = \"3s\"\n";
const LOCKED: &str = "[[fault]]\nat = \"2s\"\ndo = \"lock-database\"\nlasts = \"3s\"\n";
const FROZEN: &str = "[[fault]]\nat = \"2s\"\ndo = \"stop\"\nlasts = \"3s\"\n";
const LOWERED: &str = "[[fault]]\nat = \"3s\"\ndo = \"limit\"\nlimit = { rate = \"5/s\", burst = 20, in_flight = 10 }\nwithin = \"1s\"\n";
const ROTATED: &str = "[[fault]]\nat = \"3s\"\ndo = \"rotate\"\nlasts = \"2s\"\n";
const KILLED_LATER: &str = "[[fault]]\nat = \"4s\"\ndo = \"kill\"\nlasts = \"1s\"\n";

#[test]
fn an_operator_action_waits_until_the_sender_can_do_it() {
    let cases = [
        ("killed", format!("{KILLED}{LOWERED}"), "limit"),
        ("frozen", format!("{FROZEN}{LOWERED}"), "limit"),
        ("locked", format!("{LOCKED}{ROTATED}"), "rotate"),
        ("killed-while-locked", format!("{LOCKED}{LOWERED}{KILLED_LATER}"), "limit"),
    ];
    for (name, faults, action) in cases {
        let done = action_times(name, &faults, action);
        assert_eq!(done.len(), 1, "{name}: {done:?}");
        assert!(done[0] >= 5 * SECOND, "{name}: done at {} ns, when nobody could", done[0]);
    }
}

#[test]
fn the_owner_of_a_subscriber_is_the_one_that_is_struck() {
    for (action, struck) in [("kill", ProcessEvent::Killed), ("stop", ProcessEvent::Stopped)] {
        let text = format!(
            "{STEADY}[sender]\nworkers = 2\n[[fault]]\nat = \"2s\"\ndo = {action:?}\nlasts = \"1s\"\nworker = \"owner of a\"\n"
        );
        let scenario = scenario("owned", &text);
        let simulated = simulate(&scenario, &options(Keep::Trace)).unwrap();
        let trace = Trace::read(simulated.trace.as_slice()).unwrap();
        let hit: Vec<u32> =
            trace.processes.iter().filter(|one| one.event == struck).map(|one| one.worker).collect();
        let told: Vec<_> = trace.faults.iter().filter_map(|fault| fault.detail.clone()).collect();
        assert_eq!(hit.len(), 1, "{action}: {:?}", trace.processes);
        assert_eq!(told, [format!("worker {}, owner of a", hit[0])]);
        let again = |event| {
            trace.processes.iter().any(|one| one.worker == hit[0] && one.event == event && one.t > 2 * SECOND)
        };
        let back = if action == "stop" { ProcessEvent::Continued } else { ProcessEvent::Started };
        assert!(again(back), "{action}: {:?}", trace.processes);
    }
}

#[test]
fn a_process_that_two_faults_stop_goes_on_when_both_are_over() {
    let longer = "[[fault]]\nat = \"3s\"\ndo = \"stop\"\nlasts = \"4s\"\n";
    let scenario = scenario("stopped-twice", &format!("{STEADY}{FROZEN}{longer}"));
    let simulated = simulate(&scenario, &options(Keep::Trace)).unwrap();
    let trace = Trace::read(simulated.trace.as_slice()).unwrap();
    let told = |event| trace.processes.iter().filter(move |one| one.event == event).map(|one| one.t / SECOND);
    assert_eq!(told(ProcessEvent::Stopped).collect::<Vec<_>>(), [2]);
    assert_eq!(told(ProcessEvent::Continued).collect::<Vec<_>>(), [7]);
}

#[test]
fn an_action_without_a_process_is_not_done() {
    for action in ["stop", "kill", "restart"] {
        let absent = format!("[[fault]]\nat = \"3s\"\ndo = {action:?}\nlasts = \"20s\"\n");
        let done = action_times("absent", &format!("{KILLED}{absent}"), action);
        assert!(!done.contains(&(3 * SECOND)), "{action}");
    }
}
