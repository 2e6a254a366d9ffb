//! Senders outside the harness's processes: behind a stand-in for a container runtime, and a client whose death
//! leaves the sender running.

use std::path::Path;

use hookproof::clock::Clock;
use hookproof_judge::trace::{ProcessEvent, Trace};

use super::{hookproof, ours};

/// `start` returns once the sender runs in its own session, `run` stays as a client, and `kill` and `stop` reach the
/// sender.
const RUNTIME: &str = r#"#!/bin/sh
set -eu
did=$1 dir=$2
shift 2
case $did in
  start) setsid "$@" >"$dir/daemon.log" 2>&1 & echo $! >"$dir/pid" ;;
  run) setsid "$@" >"$dir/daemon.log" 2>&1 & echo $! >"$dir/pid"; while :; do sleep 1; done ;;
  kill) kill -KILL "$(cat "$dir/pid")" ;;
  stop) kill -TERM "$(cat "$dir/pid")" ;;
esac
"#;

const SCENARIO: &str = r#"
name = "struck"
drain = "20s"
linger = "500ms"
[[traffic]]
shape = "steady"
rate = "60/s"
lasts = "5s"
[[subscriber]]
name = "one"
limit = { rate = "100/s", burst = 50, in_flight = 10 }
answers = "20ms..60ms"
[[fault]]
at = "2s"
do = "kill"
lasts = "300ms"
"#;

fn driver(start: &str, more: &str) -> String {
    let runtime = |word: &str| format!("\"sh\", \"{{{{ here }}}}/runtime\", \"{word}\", \"{{{{ dir }}}}\"");
    let text = ours().replacen("command = [", &format!("command = [\n  {},", runtime(start)), 1);
    let text = text.replace("[stop]\nsignal = \"TERM\"", &format!("[stop]\ncommand = [{}]", runtime("stop")));
    let text = if start == "start" { text.replacen("[start]", "[start]\ndetached = true", 1) } else { text };
    text + &more.replace("KILL", &runtime("kill"))
}

fn run(folder: &Path, scenario: &str, driver: &str) -> (Option<i32>, String) {
    let file = |name: &str| folder.join(name).display().to_string();
    std::fs::write(file("runtime"), RUNTIME).unwrap();
    std::fs::write(file("scenario.toml"), scenario).unwrap();
    std::fs::write(file("driver.toml"), driver).unwrap();
    let (scenario, driver, out) = (file("scenario.toml"), file("driver.toml"), file("out"));
    let (code, said) = hookproof(&["run", &scenario, "--driver", &driver, "--out", &out], &[]);
    let pid = std::fs::read_to_string(folder.join("out/struck/sender/pid")).unwrap();
    let sender = Path::new("/proc").join(pid.trim()).join("exe");
    let clock = Clock::begun();
    while sender.exists() {
        assert!(clock.now() < 30_000_000_000, "the sender was left behind: {said}");
        std::thread::yield_now();
    }
    (code, said)
}

fn play(folder: &Path, scenario: &str, driver: &str) -> (Option<i32>, String, Trace) {
    let (code, said) = run(folder, scenario, driver);
    let trace = folder.join("out/struck/trace.jsonl");
    let trace = Trace::open(&trace).unwrap_or_else(|error| panic!("{error}: {said}"));
    (code, said, trace)
}

fn count(trace: &Trace, event: ProcessEvent) -> usize {
    trace.processes.iter().filter(|one| one.event == event).count()
}

#[test]
fn a_sender_that_is_detached_is_killed_started_again_and_stopped_by_commands() {
    let folder = tempfile::tempdir().unwrap();
    let (_, said, trace) = play(folder.path(), SCENARIO, &driver("start", "\n[kill]\ncommand = [KILL]\n"));
    assert!(trace.undone.is_empty(), "{said}");
    assert_eq!((trace.faults.len(), count(&trace, ProcessEvent::Killed)), (1, 1), "{said}");
    // Ready before the run and after the kill; ended by the kill and at the end.
    let lives = (count(&trace, ProcessEvent::Ready), count(&trace, ProcessEvent::Exited));
    assert_eq!(lives, (2, 2), "{:?}", trace.processes);
    let passed = hookproof_judge::check::judge(
        &hookproof_judge::scenario::Scenario::from_text(SCENARIO, "scenario.toml").unwrap(),
        &trace,
        hookproof_judge::check::Strictness::Usual,
    );
    let of = |id: &str| passed.verdicts.iter().find(|one| one.id == id).unwrap().status.to_string();
    assert_eq!(
        [of("crash.ack-then-kill"), of("loss.none"), of("process.exits")],
        ["PASS", "PASS", "PASS"],
        "{said}"
    );
    assert_eq!(of("queue.memory"), "NOT APPLICABLE", "{said}");
}

#[test]
fn a_kill_that_only_kills_the_client_of_a_daemon_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let (code, said, trace) = play(folder.path(), SCENARIO, &driver("run", ""));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("kill was not injected: the sender still answers"), "{said}");
    assert!(trace.faults.is_empty() && count(&trace, ProcessEvent::Killed) == 0, "{:?}", trace.processes);
    assert_eq!((trace.undone.len(), trace.undone[0].plan), (1, Some(0)), "{:?}", trace.undone);
    let report = std::fs::read_to_string(folder.path().join("out/struck/report.html")).unwrap();
    assert!(report.contains("kill was not injected"), "the report doesn't say it");
}

#[test]
fn a_command_that_kills_nothing_is_found_out_too() {
    let folder = tempfile::tempdir().unwrap();
    for (command, why) in
        [("\"true\"", "the sender still answers"), ("\"false\"", "`false` ended with exit 1")]
    {
        let kill = format!("\n[kill]\ncommand = [{command}]\n");
        let (code, said, trace) = play(folder.path(), SCENARIO, &driver("start", &kill));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(&format!("kill was not injected: {why}")) && trace.faults.is_empty(), "{said}");
    }
}

#[test]
fn a_strike_that_fails_is_taken_back_and_not_the_one_that_came_too_soon_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let twice = format!("{SCENARIO}times = 2\nevery = \"200ms\"\n");
    let slow = "\n[kill]\ncommand = [\"sh\", \"-c\", \"sleep 2; exit 1\"]\n";
    let (code, said, trace) = play(folder.path(), &twice, &driver("start", slow));
    assert_eq!(code, Some(2), "{said}");
    let killed = count(&trace, ProcessEvent::Killed);
    assert!(trace.faults.is_empty() && killed == 0, "{:?} {killed}: {said}", trace.faults);
    let mut undone: Vec<_> = trace.undone.iter().map(|one| one.plan).collect();
    undone.sort_unstable();
    assert_eq!(undone, [Some(0), Some(1)], "{said}");
}

#[test]
fn a_sender_that_is_detached_is_stopped_where_the_run_cannot_begin() {
    let folder = tempfile::tempdir().unwrap();
    let whole = driver("start", "");
    let subscribe = whole.replace("POST {{ base }}/v1/subscribers\"", "POST {{ base }}/v1/no-subscribers\"");
    let late = whole.replace("/readyz\"\nwithin   = \"30s\"", "/never-ready\"\nwithin   = \"1s\"");
    let setup = driver("start", "\n[[setup]]\nrequest = \"GET {{ base }}/v1/no-setup\"\n");
    let rows = [
        (subscribe, "subscribe was answered with 404"),
        (late, "is not ready after 1s"),
        (setup, "setup was answered with 404"),
    ];
    for (driver, why) in rows {
        assert_ne!(driver, whole, "{why}: the driver file has changed");
        let (code, said) = run(folder.path(), SCENARIO, &driver);
        assert_eq!(code, Some(4), "{why}: {said}");
        assert!(said.contains(why) && !said.contains("was not injected"), "{why}: {said}");
    }
}

#[test]
fn a_sender_that_is_detached_needs_a_command_that_stops_it() {
    let text = driver("start", "");
    let at = text.find("[stop]").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("driver.toml");
    std::fs::write(&file, &text[..at]).unwrap();
    let (code, said) = hookproof(&["driver", "check", file.to_str().unwrap()], &[]);
    assert!(code == Some(64) && said.contains("stop.command: missing"), "{code:?}: {said}");
}
