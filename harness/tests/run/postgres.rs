use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hookproof::clock::Clock;
use hookproof::fault::hold_database;
use hookproof_judge::check::{Status, Strictness, judge};
use hookproof_judge::scenario::{FaultKind, Scenario};
use hookproof_judge::trace::{Ended, Trace};
use rustix::process::{Pid, Signal, kill_process};
use tokio_postgres::NoTls;

use crate::postgres_server::{Fsync, Private, execute, none, query};
use crate::run::{Run, lives};

const SHARED: &str = r#"
name   = "shared"
drain  = "20s"
linger = "500ms"
[sender]
store           = "postgres"
workers         = 2
takeover_within = "15s"
[[traffic]]
shape = "steady"
rate  = "50/s"
lasts = "4s"
[[subscriber]]
name  = "one"
count = 4
limit = { rate = "200/s", burst = 100, in_flight = 20 }
"#;
const LOCKS: &str = "[[fault]]\nat = \"1s\"\ndo = \"lock-database\"\nlasts = \"300ms\"\n";
const RESTARTS: &str = "[[fault]]\nat = \"2s\"\ndo = \"database-restart\"\nlasts = \"200ms\"\n";
const SCRIPT: &str = include_str!("../../src/database/server.sh");
const FOREIGN: &str = "CREATE DATABASE foreign_one";

fn start(scenario: &str, place: &Path, address: &str) -> Run {
    // If the harness is root, another user runs the server.
    std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o777)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    std::fs::write(&file, scenario).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    command.arg("run").arg(&file).arg("--out").arg(folder.path());
    command.env("TMPDIR", place).env("HOOKPROOF_POSTGRES", address);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    Run { folder, name: "shared", child }
}

fn status(scenario: &str, trace: &Trace, check: &str) -> (Status, String) {
    let scenario = Scenario::from_text(scenario, "shared.toml").unwrap();
    let verdicts = judge(&scenario, trace, Strictness::Usual).verdicts;
    let verdict = verdicts.into_iter().find(|one| one.id == check).unwrap();
    (verdict.status, verdict.sentence)
}

fn server(test: &str) -> Option<Private> {
    let server = Private::start(Fsync::Off);
    if server.is_none() {
        none(test);
    }
    server
}

#[test]
fn a_run_starts_a_server_of_its_own_which_it_may_stop_and_which_ends_with_it() {
    if server("a_run_starts_a_server_of_its_own").is_none() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let scenario = format!("{SHARED}{RESTARTS}");
    let run = start(&scenario, place.path(), "");
    let (code, said, trace, reported) = run.end();
    assert!(passes(code, &said) && reported, "{said}");
    let trace = trace.unwrap();
    for check in ["fault.database-restart", "rate.across-workers", "loss.none"] {
        let (status, sentence) = status(&scenario, &trace, check);
        assert_eq!(status, Status::Pass, "{check}: {sentence}");
    }
    assert!(!lives(place.path()) && place.path().read_dir().unwrap().next().is_none(), "the server is left");
}

/// On a busy machine the harness may be late, and then says so.
fn passes(code: Option<i32>, said: &str) -> bool {
    let mut open = said.lines().filter_map(|line| line.trim_start().strip_prefix("INCONCLUSIVE"));
    code == Some(0) || code == Some(2) && open.any(|check| check.trim_start().starts_with("harness."))
}

const CUT_OFF: &str = "[[fault]]\nat = \"1s\"\ndo = \"partition\"\nworker = 1\nlasts = \"1s\"\n\
    [[fault]]\nat = \"3s\"\ndo = \"partition\"\nhow = \"cut\"\nworker = 1\nlasts = \"500ms\"\n";

#[test]
fn a_node_is_cut_off_from_a_server_of_the_runs_own_and_comes_back() {
    if server("a_node_is_cut_off").is_none() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let scenario = format!("{SHARED}{CUT_OFF}");
    let (code, said, trace, _) = start(&scenario, place.path(), "").end();
    let trace = trace.unwrap();
    for check in ["fault.partition", "rate.across-workers", "loss.none", "process.exits"] {
        let (status, sentence) = status(&scenario, &trace, check);
        assert_eq!(status, Status::Pass, "{check}: {sentence}: {said}");
    }
    assert!(passes(code, &said) && trace.faults.len() == 2, "{code:?}: {said}");
    assert!(place.path().read_dir().unwrap().next().is_none(), "the links are left");
}

const SLOWED: &str = "[[fault]]\nat = \"1s\"\ndo = \"partition\"\nhow = \"delay\"\nby = \"50ms\"\nworker = 0\nlasts = \"2s\"\n";
const HALF_OPEN: &str =
    "[[fault]]\nat = \"1s\"\ndo = \"partition\"\nhow = \"half-open\"\nworker = 0\nlasts = \"2s\"\n";

fn accepted(trace: &Trace) -> impl Iterator<Item = (u64, u64, u64)> {
    let offered = |token: u64| trace.offers.iter().find(|offer| offer.token == token).unwrap().t;
    trace.accepted.iter().map(move |one| (one.token, offered(one.token), one.t))
}

/// A run with one partition of the emitters' node; its checks must hold.
fn parted(test: &str, fault: &str) -> Option<Trace> {
    server(test)?;
    let place = tempfile::tempdir().unwrap();
    let shared = SHARED.replace("count = 4", "count = 16");
    let scenario = format!("{shared}{fault}[expect]\naccepted_min = 0.2\n");
    let (code, said, trace, _) = start(&scenario, place.path(), "").end();
    let trace = trace.unwrap();
    for check in ["fault.partition", "rate.across-workers", "loss.none", "process.exits"] {
        let (status, sentence) = status(&scenario, &trace, check);
        assert_eq!(status, Status::Pass, "{check}: {sentence}: {said}");
    }
    assert!(passes(code, &said) && trace.faults.len() == 1, "{code:?}: {said}");
    Some(trace)
}

#[test]
fn a_node_with_a_slow_way_to_its_server_is_answered_as_much_later() {
    let Some(trace) = parted("a_node_with_a_slow_way_to_its_server", SLOWED) else { return };
    let (there_and_back, fault) = (100_000_000, &trace.faults[0]);
    // The call returns at once if its answer would come after the partition's end.
    let slowed = |from: u64| fault.t < from && from + there_and_back < fault.until.unwrap();
    let taken: Vec<_> = accepted(&trace).filter(|(_, from, _)| slowed(*from)).collect();
    if !trace.offers.iter().any(|offer| slowed(offer.t)) {
        return eprintln!("not judged: the machine was too busy to offer anything meanwhile");
    }
    assert!(!taken.is_empty(), "nothing was accepted meanwhile");
    assert!(taken.iter().all(|(_, from, until)| until - from >= there_and_back), "{taken:?}");
}

#[test]
fn a_node_that_is_heard_and_hears_nothing_takes_no_event_before_it_does() {
    let Some(trace) = parted("a_node_that_is_heard_and_hears_nothing", HALF_OPEN) else { return };
    let fault = &trace.faults[0];
    let ends = fault.until.unwrap();
    let during = |t: u64| fault.t < t && t < ends;
    let told: Vec<_> = accepted(&trace).filter(|(_, from, until)| during(*from) && during(*until)).collect();
    assert_eq!(told, [], "it was told of a commit");
    // Perhaps all permitted calls began before the partition.
    let half = u64::midpoint(fault.t, ends);
    assert!(accepted(&trace).any(|(_, from, until)| from < half && ends <= until), "nothing had to wait");
}

#[tokio::test]
async fn a_run_that_ends_before_its_database_server_is_back_says_that_it_was_stopped() {
    if server("a_run_that_ends_before_its_database_server_is_back").is_none() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let scenario = SHARED.replace("[sender]", "[sender]\nstop_within = \"1s\"");
    let run = start(&(scenario + &RESTARTS.replace("200ms", "60s")), place.path(), "");
    let said = || std::fs::read_to_string(run.folder.path().join("shared/postgres.log")).unwrap_or_default();
    let clock = Clock::begun();
    while !said().contains("received immediate shutdown request") {
        assert!(clock.now() < 60_000_000_000, "the server was not stopped: {}", said());
        clock.pass(5_000_000).await;
    }
    run.signal(Signal::INT);
    let (_, said, trace, _) = run.end();
    let [fault] = &trace.unwrap().faults[..] else { panic!("{said}") };
    assert_eq!((fault.kind, fault.until), (FaultKind::DatabaseRestart, Some(u64::MAX)), "{said}");
    assert!(!said.contains("process.exits"), "without its store it need not end in order: {said}");
}

fn folder(place: &Path) -> Option<PathBuf> {
    let folders = place.read_dir().unwrap().filter_map(Result::ok).map(|one| one.path());
    { folders }.find(|one| one.join("data/postmaster.pid").exists())
}

fn postmaster(place: &Path) -> Option<Pid> {
    let file = std::fs::read_to_string(folder(place)?.join("data/postmaster.pid")).ok()?;
    file.lines().next()?.parse().ok().and_then(Pid::from_raw)
}

/// The run must break off. Returns the harness's output.
async fn bereft(faults: &str, strike: impl FnOnce(&Path)) -> String {
    let place = tempfile::tempdir().unwrap();
    let scenario = SHARED.replace("20s", "1s").replace("[sender]", "[sender]\nstop_within = \"1s\"");
    let run = start(&(scenario + faults), place.path(), "");
    let arrived =
        || std::fs::read_to_string(run.folder.path().join("shared/trace.jsonl")).unwrap_or_default();
    let clock = Clock::begun();
    while !arrived().contains("\"k\":\"arrival\"") {
        assert!(clock.now() < 60_000_000_000, "nothing arrives");
        clock.pass(5_000_000).await;
    }
    strike(place.path());
    let (code, said, trace, _) = run.end();
    assert_eq!(code, Some(70), "{said}");
    let trailer = trace.unwrap().trailer.unwrap();
    assert_eq!(trailer.ended, Ended::Interrupted, "it ran to its end without a store: {said}");
    said
}

#[tokio::test]
async fn a_run_whose_own_database_server_dies_is_none() {
    if server("a_run_whose_own_database_server_dies").is_none() {
        return;
    }
    for (faults, expected) in [("", "broke off"), (RESTARTS, "database-restart was not injected")] {
        let kill = |place: &Path| kill_process(postmaster(place).unwrap(), Signal::KILL).unwrap();
        let said = bereft(faults, kill).await;
        let is_told = said.contains("PostgreSQL server ended unexpectedly") && said.contains(expected);
        assert!(is_told, "expected {expected:?} in {said}");
    }
}

#[tokio::test]
async fn a_run_whose_own_database_server_does_not_come_back_is_none() {
    if server("a_run_whose_own_database_server_does_not_come_back").is_none() {
        return;
    }
    // The server reads its settings at its restart.
    let spoil = |place: &Path| {
        let settings = folder(place).unwrap().join("data/postgresql.conf");
        std::fs::write(settings, "no_such_setting = 1\n").unwrap();
    };
    let said = bereft(RESTARTS, spoil).await;
    assert!(said.contains("did not stop or restart in time"), "{said}");
}

#[tokio::test]
async fn a_harness_that_is_killed_takes_its_database_server_with_it() {
    if server("a_harness_that_is_killed_takes_its_database_server_with_it").is_none() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut run = start(SHARED, place.path(), "");
    run.in_its_midst().await;
    assert!(lives(place.path()), "the server is there, so that its absence later says something");
    run.signal(Signal::KILL);
    run.child.wait().unwrap();
    let clock = Clock::begun();
    while lives(place.path()) || lives(run.folder.path()) {
        assert!(clock.now() < 60_000_000_000, "the server or a sender has outlived the harness");
        clock.pass(5_000_000).await;
    }
}

#[test]
fn a_harness_that_is_killed_while_its_database_is_made_leaves_no_folder() {
    if server("a_harness_that_is_killed_while_its_database_is_made").is_none() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut script = Command::new("sh");
    script.args(["-c", SCRIPT, SCRIPT, "off"]).env("TMPDIR", place.path());
    script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut keeper = script.spawn().unwrap();
    // A killed harness leaves only closed pipes.
    drop((keeper.stdin.take(), keeper.stdout.take(), keeper.stderr.take()));
    let ended = keeper.wait().unwrap();
    assert!(place.path().read_dir().unwrap().next().is_none(), "the folder is left: {ended}");
}

#[test]
fn a_run_on_a_given_server_has_a_database_of_its_own_and_leaves_nothing() {
    let Some(server) = server("a_run_on_a_given_server_has_a_database_of_its_own") else { return };
    let address = server.address("public");
    execute(&address, FOREIGN);
    let databases = || query(&address, "SELECT datname FROM pg_database ORDER BY datname");
    let before = databases();
    let place = tempfile::tempdir().unwrap();
    // The harness stops no server that it did not start.
    let scenario = format!("{SHARED}{LOCKS}{RESTARTS}");
    let run = start(&scenario, place.path(), &address);
    let (code, said, trace, _) = run.end();
    assert!(
        code == Some(2) && said.contains("the database server is not the harness's own"),
        "{code:?}: {said}"
    );
    let trace = trace.unwrap();
    assert_eq!(status(&scenario, &trace, "fault.locked").0, Status::Pass, "{said}");
    assert_eq!(status(&scenario, &trace, "fault.database-restart").0, Status::Inconclusive, "{said}");
    assert_eq!(databases(), before);
    assert_eq!(query(&address, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), ["0"]);
}

#[tokio::test]
async fn a_lock_fault_aborts_no_transaction() {
    let Some(server) = server("a_lock_fault_aborts_no_transaction") else { return };
    let address = server.address("public");
    let (stranger, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
    tokio::spawn(connection);
    // A session that detects a deadlock ends its own wait: here only the stranger detects it.
    stranger.batch_execute("ALTER DATABASE postgres SET deadlock_timeout = '1min'").await.unwrap();
    stranger.batch_execute("CREATE TABLE first_one (); CREATE TABLE second_one ()").await.unwrap();
    stranger.batch_execute("SET deadlock_timeout = '5s'; BEGIN; LOCK TABLE second_one").await.unwrap();
    let held = tokio::spawn(async move { hold_database(&address).await });
    while stranger.query("SELECT 1 FROM pg_locks WHERE NOT granted", &[]).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    stranger.batch_execute("LOCK TABLE first_one; COMMIT").await.expect("the stranger gets both");
    held.await.unwrap().unwrap();
}

#[test]
fn an_address_without_a_server_and_a_driver_without_a_database_are_usage_errors() {
    let place = tempfile::tempdir().unwrap();
    let (code, said, ..) = start(SHARED, place.path(), "localhost").end();
    assert!(code == Some(64) && said.contains("HOOKPROOF_POSTGRES"), "{code:?}: {said}");
    let driver = place.path().join("driver.toml");
    let ours = include_str!("../../../scenarios/drivers/hookproof.toml");
    std::fs::write(&driver, ours.replace("{{ database }}", "{{ dir }}/sender.db")).unwrap();
    let (code, said, ..) = crate::run::start("shared", SHARED, &["--driver", driver.to_str().unwrap()]).end();
    assert!(code == Some(64) && said.contains("does not use {{ database }}"), "{code:?}: {said}");
}
