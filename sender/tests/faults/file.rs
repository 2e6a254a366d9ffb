use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use hookproof_sender::store;

use crate::binary::endpoint::Endpoint;
use crate::binary::http::try_ask;
use crate::binary::{Database, SERVE, event};
use crate::faults::{WIDE, acknowledged_after_all, assert_logged_once, holds_still, offer};

/// Root may write everything, so the sender runs as nobody.
const NOBODY: u32 = 65_534;

/// The sender ends at once with one line, and leaves the folder unchanged.
#[track_caller]
pub(crate) fn refuses(mut command: Command, code: i32, says: &str) {
    let output = command.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{complaint}");
    assert!(complaint.contains(says), "expected {says:?}: {complaint}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let database = Database::new();
    let path = database.folder.path().join("none").join("sender.db");
    let mut command = database.command(&SERVE);
    command.env("HOOKPROOF_DB", &path);
    refuses(command, 70, path.to_str().unwrap());
    assert!(!path.parent().unwrap().exists());
}

#[test]
fn a_file_that_is_moved_away_while_serving_is_missed_until_it_is_back() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &WIDE);
    let mut serving = database.serve();
    let first = serving.emit("before");
    sink.wait_for_events(&[first]);
    let away = database.folder.path().join("away.db");
    fs::rename(database.path(), &away).unwrap();
    let offered = offer(&serving, "during");
    holds_still(&mut serving, &offered, Duration::from_secs(4));
    assert!(!database.path().exists(), "no second file is made in its place");
    assert_eq!(serving.get("/readyz").status, 503);
    fs::rename(&away, database.path()).unwrap();
    let event = acknowledged_after_all(&serving, &offered);
    sink.wait_for_events(&[event]);
    assert_logged_once(&serving, "was replaced by another file");
    serving.stop_in_order();
}

#[test]
fn a_file_that_is_deleted_while_serving_stops_acknowledgements_and_the_end_is_not_held_up() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &WIDE);
    let mut serving = database.serve_with(&["--stop-within", "2s"]);
    let first = serving.emit("before");
    sink.wait_for_events(&[first]);
    fs::remove_file(database.path()).unwrap();
    let offered = offer(&serving, "during");
    holds_still(&mut serving, &offered, Duration::from_secs(2));
    assert_eq!(serving.complaints().len(), 1, "{:#?}", serving.complaints());
    serving.request_stop();
    let (code, _) = serving.wait();
    assert!(matches!(code, Some(0 | 1)), "{code:?}: {:#?}", serving.lines());
    if let Ok(Some(answer)) = offered.recv() {
        assert_ne!(answer.status, 202, "{answer:?}");
    }
}

#[test]
fn a_file_or_a_folder_that_may_not_be_written_is_named_and_left_alone() {
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    let folder = database.folder.path();
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let program = folder.join("sender");
    fs::copy(env!("CARGO_BIN_EXE_hookproof-sender"), &program).unwrap();
    let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    allow(&program, 0o755);
    let serve = || {
        let mut command = database.command_of(program.to_str().unwrap(), &SERVE);
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    };
    let before = fs::read(database.path()).unwrap();
    for (of_folder, of_file, says) in [
        (0o777, 0o444, "check the permissions"),
        (0o555, 0o666, "check the permissions of the file and its folder"),
        (0o777, 0o000, "check the"),
    ] {
        allow(&database.path(), of_file);
        allow(folder, of_folder);
        refuses(serve(), 70, says);
        allow(folder, 0o777);
        allow(&database.path(), 0o666);
        assert_eq!(fs::read(database.path()).unwrap(), before);
    }
    for beside in ["-wal", "-shm"] {
        let path = folder.join(format!("{}{beside}", database.path().file_name().unwrap().display()));
        if path.exists() {
            allow(&path, 0o666);
        }
    }
    crate::binary::Serving::start(serve()).stop_in_order();
}

#[test]
fn a_file_that_another_version_made_is_refused_and_left_alone() {
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    database.sql().execute_batch("PRAGMA user_version = 9; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let before = fs::read(database.path()).unwrap();
    refuses(
        database.command(&SERVE),
        64,
        "has schema 9; expected 1: use the version of the program that made it",
    );
    refuses(
        database.command(&["drain"]),
        64,
        "has schema 9; expected 1: use the version of the program that made it",
    );
    assert_eq!(fs::read(database.path()).unwrap(), before);
}

pub(crate) fn files(database: &Database) -> Vec<String> {
    let names = fs::read_dir(database.folder.path()).unwrap().map(|file| file.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).filter(|name| !name.ends_with("-reserve")).collect()
}

fn events_of_a_copy(database: &Database) -> u64 {
    let copy = Database::new();
    fs::copy(database.path(), copy.path()).unwrap();
    events_of(&copy)
}

fn events_of(database: &Database) -> u64 {
    let serving = database.serve();
    let events = serving.get("/v1/status").json()["deliveries"]["accepted"].as_u64().unwrap();
    serving.stop_in_order();
    events
}

#[test]
fn each_orderly_stop_leaves_one_whole_file() {
    let database = Database::new();
    database.subscribe("sink", "http://127.0.0.1:9/", &[]);
    assert_eq!(files(&database), ["sender.db"], "after a command that wrote");
    for stops in 1..=16 {
        let serving = database.serve();
        serving.emit("an event");
        assert_eq!(serving.get("/v1/status").json()["deliveries"]["accepted"], stops);
        serving.stop_in_order();
        assert_eq!(files(&database), ["sender.db"], "after {stops} stops");
    }
    assert_eq!(events_of_a_copy(&database), 16);
    eprintln!("16 of 16 stops left one whole file");
    let drained = database.command(&["drain", "--for", "100ms", "--allow-private-targets"]).output().unwrap();
    assert!(drained.status.success(), "{drained:?}");
    assert_eq!(files(&database), ["sender.db"], "after a drain");
}

fn of_a_copy(database: &Database, arguments: &[&str]) -> (Database, std::process::Output) {
    let copy = Database::new();
    fs::copy(database.path(), copy.path()).unwrap();
    let output = copy.command(arguments).output().unwrap();
    (copy, output)
}

const COPIED: &str = "was copied or moved while it was open, without its log";

#[test]
fn a_copy_without_its_log_is_refused_by_all_commands_and_left_as_it_is() {
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    let mut serving = database.serve();
    serving.emit("an event");
    let mut refused = Vec::new();
    for when in ["while it runs", "after a kill"] {
        for command in
            [&["status"][..], &["doctor"], &["emit", "--type", "x", "--data", "1"], &["vacuum"], &SERVE]
        {
            let copy = Database::new();
            fs::copy(database.path(), copy.path()).unwrap();
            refuses(copy.command(command), 64, COPIED);
            assert_eq!(
                fs::read(copy.path()).unwrap(),
                fs::read(database.path()).unwrap(),
                "{when}: {command:?}"
            );
            assert_eq!(files(&copy), ["sender.db"], "{when}: {command:?}");
            refused.push(copy);
        }
        serving.kill();
    }
    // With its log it is whole, wherever it is.
    let copy = Database::new();
    let log = |of: &Database| of.folder.path().join("sender.db-wal");
    fs::copy(database.path(), copy.path()).unwrap();
    fs::copy(log(&database), log(&copy)).unwrap();
    assert_eq!(copy.json(&["status", "--json"])["deliveries"]["accepted"], 1);
    assert!(!log(&copy).exists(), "the reader was the last to close it");
    assert_eq!(events_of(&copy), 1, "the copy says where it is now");
    // The remedy that the refusal names.
    let accepted = refused.pop().unwrap();
    accepted.sql().execute_batch("PRAGMA journal_mode = DELETE").unwrap();
    assert_eq!(events_of(&accepted), 0, "the event was in the log");
    assert_eq!(events_of(&database), 1);
    assert_eq!(events_of_a_copy(&database), 1, "after an orderly stop");
}

#[test]
fn killed_just_after_its_log_was_moved_a_file_opens_in_its_own_place_alone() {
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    let mut serving = database.serve();
    serving.emit("an event");
    serving.kill();
    // The last that closes it moves the log.
    database.sql().query_row("SELECT count(*) FROM events", [], |_| Ok(())).unwrap();
    assert!(!database.folder.path().join("sender.db-wal").exists());
    let (_copy, output) = of_a_copy(&database, &["status"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains(COPIED), "{output:?}");
    assert_eq!(events_of(&database), 1);
}

/// Moves the file, with what `beside` names, to another name in another folder.
fn moved(database: &Database, beside: &[&str]) -> (Database, std::path::PathBuf) {
    let elsewhere = Database::new();
    let to = elsewhere.folder.path().join("production.db");
    fs::rename(database.path(), &to).unwrap();
    for end in beside {
        let from = database.folder.path().join(format!("sender.db{end}"));
        fs::rename(from, elsewhere.folder.path().join(format!("production.db{end}"))).unwrap();
    }
    (elsewhere, to)
}

#[test]
fn a_file_that_is_moved_without_its_log_is_refused_until_it_is_back() {
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    let mut serving = database.serve();
    serving.emit("an event");
    serving.kill();
    let (elsewhere, to) = moved(&database, &[]);
    for arguments in [&["status"][..], &["emit", "--type", "x", "--data", "1"]] {
        let mut command = elsewhere.command(arguments);
        command.env("HOOKPROOF_DB", &to);
        refuses(command, 64, COPIED);
    }
    fs::rename(&to, database.path()).unwrap();
    let (elsewhere, to) = moved(&database, &["-wal"]);
    let mut status = elsewhere.command(&["status", "--json"]);
    status.env("HOOKPROOF_DB", &to);
    assert_eq!(crate::binary::read_json(status)["deliveries"]["accepted"], 1);
    fs::rename(&to, database.path()).unwrap();
    assert_eq!(events_of(&database), 1, "the reader left one whole file");
}

#[test]
fn after_a_kill_a_command_that_only_reads_leaves_one_whole_file() {
    for command in [&["status"][..], &["doctor", "--allow-private-targets"], &["subscriber", "show", "none"]]
    {
        let database = Database::with_sink("http://127.0.0.1:9/", &[]);
        let mut serving = database.serve();
        serving.emit("an event");
        serving.kill();
        drop(database.command(command).output().unwrap());
        assert_eq!(events_of_a_copy(&database), 1, "{command:?}");
    }
}

#[test]
fn a_copy_that_may_only_be_read_is_read() {
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    let copy = Database::new();
    fs::copy(database.path(), copy.path()).unwrap();
    let folder = copy.folder.path();
    let program = folder.join("sender");
    fs::copy(env!("CARGO_BIN_EXE_hookproof-sender"), &program).unwrap();
    let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    allow(&program, 0o755);
    allow(&copy.path(), 0o444);
    allow(folder, 0o555);
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    for arguments in [&["status"][..], &["doctor", "--allow-private-targets"]] {
        let mut command = copy.command_of(program.to_str().unwrap(), arguments);
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    allow(folder, 0o755);
}

#[test]
fn a_stop_that_leaves_the_log_to_another_program_warns() {
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    let serving = database.serve();
    let other = database.sql();
    other.query_row("SELECT count(*) FROM events", [], |_| Ok(())).unwrap();
    serving.request_stop();
    let line = serving.wait_for_line("the newest commits stay in its log");
    assert!(line.contains("\"WARN\""), "{line}");
    serving.stop_in_order();
}

#[test]
fn an_interrupted_backup_leaves_nothing_and_the_next_one_removes_the_rest_of_a_killed_one() {
    const LEFT: &str = "copy.db-new-0123456789abcdef";
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    let sql = database.sql();
    sql.execute_batch(
        "WITH RECURSIVE row (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM row WHERE n < 100000)
             INSERT INTO outbox (id, type, data) SELECT n, 'x', json_quote(hex(zeroblob(200))) FROM row",
    )
    .unwrap();
    drop(sql);
    let copies = tempfile::tempdir().unwrap();
    let to = copies.path().join("copy.db");
    let there = || -> Vec<String> {
        let names = fs::read_dir(copies.path()).unwrap().map(|file| file.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    };
    let backup = || database.command(&["backup", to.to_str().unwrap()]);
    let is_interrupted = || {
        let mut copying = backup().stderr(std::process::Stdio::piped()).spawn().unwrap();
        let is_written =
            |name: &String| fs::metadata(copies.path().join(name)).is_ok_and(|file| file.len() > 0);
        while copying.try_wait().unwrap().is_none() && !there().iter().any(is_written) {
            std::thread::yield_now();
        }
        let pid = copying.id().to_string();
        let _ = Command::new("kill").args(["-INT", &pid]).status().unwrap();
        let output = copying.wait_with_output().unwrap();
        if output.status.success() {
            assert_eq!(there(), ["copy.db"]);
            fs::remove_file(&to).unwrap();
            return false;
        }
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("was interrupted"), "{output:?}");
        assert_eq!(there(), Vec::<String>::new());
        true
    };
    assert!((0..50).any(|_| is_interrupted()), "each of 50 copies was faster than its interruption");
    let two_hours_ago = fs::metadata(copies.path()).unwrap().modified().unwrap() - Duration::from_secs(7_200);
    for old in [LEFT.to_owned(), format!("{LEFT}-journal")] {
        fs::File::create(copies.path().join(old)).unwrap().set_modified(two_hours_ago).unwrap();
    }
    let others = ["copy.db-new-0123456789abcdee", "other.db-new-0123456789abcdef"];
    fs::write(copies.path().join(others[0]), "of a copy that goes on").unwrap();
    fs::File::create(copies.path().join(others[1])).unwrap().set_modified(two_hours_ago).unwrap();
    assert!(backup().output().unwrap().status.success());
    let mut names = there();
    names.sort();
    assert_eq!(names, ["copy.db", others[0], others[1]]);
}

#[test]
fn a_log_without_its_file_is_refused_and_left_alone() {
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    let mut serving = database.serve();
    serving.emit("an event");
    serving.kill();
    let log = database.folder.path().join("sender.db-wal");
    let bytes = fs::read(&log).unwrap();
    assert!(!bytes.is_empty());
    let away = database.folder.path().join("away.db");
    fs::rename(database.path(), &away).unwrap();
    for empty in [false, true] {
        if empty {
            fs::write(database.path(), "").unwrap();
        }
        for command in [&["subscriber", "add", "x", "https://x.example/"][..], &SERVE] {
            refuses(database.command(command), 64, "is missing or empty, and its log");
        }
        assert_eq!(fs::read(&log).unwrap(), bytes);
    }
    fs::rename(&away, database.path()).unwrap();
    assert_eq!(events_of(&database), 1);
}

#[test]
fn a_backup_of_a_running_store_is_whole_private_and_starts() {
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    let serving = database.serve();
    (0..20).for_each(|number| drop(serving.emit(&number.to_string())));
    let copy = Database::new();
    let to = copy.path();
    let backup = ["backup", to.to_str().unwrap(), "--json"];
    let told = database.json(&backup);
    let made = fs::metadata(&to).unwrap();
    assert_eq!(told["bytes"], made.len());
    assert!(told["took_ms"].is_u64(), "{told}");
    assert_eq!(made.permissions().mode() & 0o777, 0o600);
    assert_eq!(files(&copy), ["sender.db"]);
    let bytes = fs::read(&to).unwrap();
    refuses(database.command(&backup), 1, "exists, and a backup replaces no file");
    assert_eq!(fs::read(&to).unwrap(), bytes);
    assert_eq!(serving.get("/v1/status").json()["deliveries"]["accepted"], 20, "it goes on");
    let doctor = copy.command(&["doctor", "--allow-private-targets"]).output().unwrap();
    let found = String::from_utf8_lossy(&doctor.stdout);
    assert!(found.lines().any(|line| line.starts_with("well") && line.contains("file")), "{found}");
    serving.stop_in_order();
    assert_eq!(events_of(&copy), 20);
    refuses(
        database.command(&["backup", "x", "--db", "postgres://db.example/hooks"]),
        64,
        "pg_dump --format=custom",
    );
}

#[test]
fn a_backup_made_while_deliveries_run_has_every_event_that_was_acknowledged_before_it() {
    const ROUNDS: usize = 3;
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &WIDE);
    let serving = database.serve();
    let (address, is_over) = (serving.address.clone(), Arc::new(AtomicBool::new(false)));
    let ends = Arc::clone(&is_over);
    let emitting = std::thread::spawn(move || {
        let (body, mut taken) = (event("meanwhile"), 0);
        // It also ends when the sender is gone.
        while let Ok(answer) = try_ask(&address, "POST", "/v1/events", "application/json", body.as_bytes()) {
            assert_eq!(answer.status, 202);
            taken += 1;
            if ends.load(Ordering::Relaxed) {
                break;
            }
        }
        taken
    });
    let mut acknowledged = Vec::new();
    for _ in 0..ROUNDS {
        acknowledged.extend((0..20).map(|number| serving.emit(&number.to_string())));
        let copy = Database::new();
        database.json(&["backup", copy.path().to_str().unwrap(), "--json"]);
        assert_eq!(files(&copy), ["sender.db"]);
        let copied = copy.serve();
        for event in &acknowledged {
            let found = copied.get(&format!("/v1/deliveries?event={event}")).json();
            assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "{event}: {found}");
        }
        copied.stop_in_order();
    }
    is_over.store(true, Ordering::Relaxed);
    assert!(emitting.join().unwrap() > ROUNDS, "events were taken all the time");
    sink.wait_for_events(&acknowledged);
    serving.stop_in_order();
}

#[test]
fn a_long_backup_reports_its_progress() {
    const ROWS: u32 = 500_000;
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    let rows = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
        INSERT INTO capped SELECT i FROM n";
    database.sql().execute(rows, [ROWS]).unwrap();
    let (copy, (tell, told)) = (Database::new(), channel());
    let report = move |copied, all| tell.send((copied, all)).is_ok();
    let bytes = store::Database::from(database.path()).backup(&copy.path(), report).unwrap();
    let told: Vec<_> = told.iter().collect();
    assert!(told.len() > 1 && told.is_sorted(), "{told:?}");
    let length = fs::metadata(database.path()).unwrap().len();
    assert!(told.iter().all(|(copied, all)| *copied <= bytes && *all == length), "{told:?}");
    assert!(told.last().unwrap().0 > 0, "{told:?}");
}

/// Each round begins at once, so that both find no file.
#[test]
fn commands_that_make_a_store_at_once_work_on_the_same_one() {
    for _ in 0..5 {
        let database = Database::new();
        let added: Vec<_> = (0..4)
            .map(|number| {
                let name = format!("shop{number}");
                let mut command = database.command(&["subscriber", "add", &name, "https://x.example/"]);
                (name, command.stdout(std::process::Stdio::null()).spawn().unwrap())
            })
            .collect();
        for (name, mut child) in added {
            assert!(child.wait().unwrap().success(), "{name}");
        }
        let listed = database.command(&["subscriber", "list", "--json"]).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert_eq!(listed.lines().count(), 4, "{listed}");
        assert_eq!(files(&database), ["sender.db"]);
    }
}
