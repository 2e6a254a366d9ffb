//! `hookproof run`: the real program, our sender as its child, real sockets.

mod agreement;
mod clock;
mod gate;
mod joins;
mod live;
mod open;
mod postgres;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hookproof::clock::Clock;
use hookproof_judge::trace::{Ended, Trace};
use rustix::process::{Pid, Signal, kill_process};

const QUIET: &str = r#"
name = "quiet"
drain = "10s"
linger = "500ms"
[[traffic]]
shape = "steady"
rate = "50/s"
lasts = "3s"
[[subscriber]]
name = "one"
limit = { rate = "200/s", burst = 100, in_flight = 20 }
"#;

/// The run takes seven seconds; sections on subscribers and faults may follow.
fn served_by_two(name: &str, subscribers: u32) -> String {
    format!(
        r#"
name   = "{name}"
drain  = "20s"
linger = "500ms"
[sender]
workers         = 2
takeover_within = "10s"
[[traffic]]
shape = "steady"
rate  = "5/s"
lasts = "7s"
[[subscriber]]
name  = "one"
count = {subscribers}
limit = {{ rate = "200/s", burst = 100, in_flight = 20 }}
"#
    )
}

struct Run {
    folder: tempfile::TempDir,
    name: &'static str,
    child: Child,
}

fn start(name: &'static str, scenario: &str, more: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    std::fs::write(&file, scenario).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_hookproof"))
        .arg("run")
        .arg(&file)
        .arg("--out")
        .arg(folder.path())
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    Run { folder, name, child }
}

impl Run {
    fn out(&self) -> PathBuf {
        self.folder.path().join(self.name)
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    async fn in_its_midst(&self) {
        let clock = Clock::begun();
        let trace = self.out().join("trace.jsonl");
        while !std::fs::read_to_string(&trace).unwrap_or_default().contains("\"k\":\"arrival\"") {
            clock.pass(5_000_000).await;
        }
    }

    /// No process may be left.
    fn end(self) -> (Option<i32>, String, Option<Trace>, bool) {
        let (out, folder) = (self.out(), self.folder);
        let output = self.child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let trace = Trace::open(&out.join("trace.jsonl")).ok();
        let reported = out.join("report.html").exists() && out.join("report.json").exists();
        assert!(!lives(folder.path()), "a process of the sender is left");
        (output.status.code(), said, trace, reported)
    }
}

fn lives(folder: &Path) -> bool {
    let name = folder.display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let mut lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(&name))
}

#[test]
fn a_run_that_goes_well_exits_with_0_and_leaves_a_trace_and_a_report() {
    let (code, said, trace, reported) = start("quiet", QUIET, &[]).end();
    assert_eq!(code, Some(0), "{said}");
    let trailer = trace.unwrap().trailer.unwrap();
    assert_eq!((trailer.ended, trailer.dropped, trailer.dead_listed), (Ended::Done, 0, true));
    assert!(trailer.offers == 150 && trailer.arrivals >= 150 && reported, "{trailer:?}");
}

#[test]
fn a_standard_is_not_kept_by_a_run_that_exercises_only_a_part_of_it() {
    let graded = ["--skip", "harness", "--standard", "five-failures@1"];
    let (code, said, ..) = start("quiet", QUIET, &graded).end();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("not exercised  S4   must    several processes share one limit"), "{said}");
    assert!(said.contains("five-failures@1: INCONCLUSIVE: "), "{said}");
    let (code, said, ..) = start("quiet", QUIET, &["--standard", "five-failures"]).end();
    assert!(code == Some(64) && said.contains("expected one of standard-webhooks@1.0"), "{said}");
}

#[tokio::test]
async fn an_interrupted_run_says_so_and_still_reports() {
    let run = start("quiet", QUIET, &[]);
    run.in_its_midst().await;
    run.signal(Signal::INT);
    let (code, said, trace, reported) = run.end();
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(trace.unwrap().trailer.unwrap().ended, Ended::Interrupted);
    assert!(reported);
}

#[tokio::test]
async fn a_harness_that_is_killed_takes_its_sender_with_it() {
    let mut run = start("quiet", QUIET, &[]);
    run.in_its_midst().await;
    assert!(lives(run.folder.path()), "the sender is there, so that its absence later says something");
    run.signal(Signal::KILL);
    run.child.wait().unwrap();
    let clock = Clock::begun();
    while lives(run.folder.path()) {
        assert!(clock.now() < 10_000_000_000, "the sender has outlived the harness");
        clock.pass(5_000_000).await;
    }
}

#[tokio::test]
async fn a_harness_that_stood_still_accuses_nobody() {
    let runs = [
        start("quiet", QUIET, &[]),
        start("limits", include_str!("../sender_mutants/played/limits.toml"), &[]),
        start("isolation", include_str!("../sender_mutants/played/isolation.toml"), &[]),
    ];
    for run in &runs {
        run.in_its_midst().await;
        run.signal(Signal::STOP);
    }
    // Longer than the deadlines of the attempts, and than the sender keeps an idle connection.
    Clock::begun().pass(12_000_000_000).await;
    runs.iter().for_each(|run| run.signal(Signal::CONT));
    let [quiet, limits, isolation] = runs.map(Run::end);
    for (code, said, ..) in [&quiet, &limits, &isolation] {
        assert_eq!(*code, Some(2), "{said}");
    }
    assert!(quiet.2.unwrap().trailer.unwrap().late > 20);
}

#[test]
fn a_sender_that_dies_for_good_still_gets_its_report() {
    let driver = tempfile::NamedTempFile::new().unwrap();
    let ours = include_str!("../../../scenarios/drivers/hookproof.toml");
    let dying = ours.replace(
        "\"{{ hookproof }}\", \"sender\"",
        "\"timeout\", \"-s\", \"KILL\", \"2\", \"{{ hookproof }}\", \"sender\"",
    );
    assert_ne!(ours, dying);
    std::fs::write(driver.path(), dying).unwrap();
    let (code, said, trace, reported) =
        start("quiet", QUIET, &["--driver", driver.path().to_str().unwrap()]).end();
    // Its accepted and undelivered events are lost; a failed check then decides the exit code before the death does.
    let failed = said.lines().any(|line| line.trim_start().starts_with("FAIL  "));
    assert_eq!(code, Some(if failed { 1 } else { 4 }), "{said}");
    assert_eq!(trace.unwrap().trailer.unwrap().ended, Ended::SenderGone);
    assert!(reported);
}

fn numbered(keys: &[&str]) -> (Option<i32>, String, Trace) {
    let driver = tempfile::NamedTempFile::new().unwrap();
    let ours = include_str!("../../../scenarios/drivers/hookproof.toml");
    let counting = ours.replace("\"key\": {{ key | tojson }}", "\"key\": \"{{ key | u32 }}\"");
    assert_ne!(ours, counting);
    std::fs::write(driver.path(), counting).unwrap();
    let phase = "[[traffic]]\nshape = \"steady\"\nrate = \"50/s\"\nlasts = \"1s\"\nkey =";
    let traffic: String = keys.iter().map(|key| format!("{phase} {key:?}\n")).collect();
    let (head, rest) = QUIET.split_once("[[traffic]]").unwrap();
    let (_, subscriber) = rest.split_once("[[subscriber]]").unwrap();
    let scenario = [head, &traffic, "[[subscriber]]", subscriber].concat();
    let (code, said, trace, _) =
        start("quiet", &scenario, &["--driver", driver.path().to_str().unwrap()]).end();
    (code, said, trace.unwrap())
}

#[test]
fn events_that_the_harness_cannot_hand_over_are_not_offered_and_the_run_is_inconclusive() {
    let (code, said, trace) = numbered(&["7", "seven"]);
    assert!(code == Some(2) && said.contains("not offered"), "{code:?}: {said}");
    assert!(trace.unoffered.len() >= 50 && trace.offers.len() + trace.unoffered.len() == 100, "{said}");
    assert_eq!(trace.offers.len(), trace.accepted.len(), "{said}");
}

#[test]
fn a_run_in_which_no_event_could_be_handed_over_says_why() {
    let (code, said, trace) = numbered(&["seven"]);
    assert!(code == Some(2) && trace.offers.is_empty(), "{code:?}: {said}");
    let line = said.lines().find(|line| line.contains("harness.schedule")).unwrap();
    assert!(line.contains("none of 50 events was offered: {{ key | u32 }} is \"seven\""), "{said}");
}

#[test]
fn a_report_may_go_where_nothing_is_yet_below_the_runs_own_folder() {
    let brief = QUIET.replace("3s", "100ms");
    for (scenario, file, expected) in
        [(brief.as_str(), "out/reports/r.json", 0), ("no scenario", "out/r.json", 64)]
    {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x.toml"), scenario).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
        command
            .args(["run", "x.toml", "--out", "out", "--only", "loss", "--skip", "harness", "--json", file]);
        let output = command.current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{said}");
        assert!(folder.path().join(file).exists(), "{said}");
    }
}

#[test]
fn a_sender_that_does_not_start_and_a_scenario_that_is_none_have_their_exit_codes() {
    let driver = tempfile::NamedTempFile::new().unwrap();
    let absent = "name = \"x\"\nstart = { command = [\"/no/such/sender\"], ready = \"{{ base }}/\" }\n\
                  subscribe = { request = \"POST {{ base }}/\" }\nemit = { request = \"POST {{ base }}/\", body = \"\" }\n";
    std::fs::write(driver.path(), absent).unwrap();
    let (code, said, ..) = start("quiet", QUIET, &["--driver", driver.path().to_str().unwrap()]).end();
    assert!(code == Some(4) && said.contains("/no/such/sender"), "{code:?}: {said}");
    let (code, said, ..) = start("quiet", "name = \"quiet\"\ntrafic = 1\n", &[]).end();
    assert!(code == Some(64) && said.contains("traffic"), "{code:?}: {said}");
}

#[test]
fn a_regression_since_the_baseline_exits_with_3() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("base.json");
    let file = path.to_str().unwrap();
    let (code, said, ..) = start("quiet", QUIET, &["--skip", "harness", "--json", file]).end();
    assert_eq!(code, Some(0), "{said}");
    let mut base: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    // It passed once, and is no longer judged.
    let verdicts = base["judgement"]["verdicts"].as_array_mut().unwrap();
    let mut lost = verdicts.iter().find(|one| one["status"] == "pass").unwrap().clone();
    lost["id"] = "no.such-check".into();
    verdicts.push(lost);
    std::fs::write(&path, serde_json::to_vec(&[base]).unwrap()).unwrap();
    let (code, said, ..) = start("quiet", QUIET, &["--skip", "harness", "--baseline", file]).end();
    assert!(code == Some(3) && said.contains("no.such-check"), "{code:?}: {said}");
}
