use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::binary::endpoint::Endpoint;
use crate::binary::{Database, SERVE};
use crate::{WIDE, acknowledged_after_all, holds_still, offer, said_once};

/// Root may write everything, so the sender runs as nobody.
const NOBODY: u32 = 65_534;

/// The sender must end at once with this code and one line with `says`, and leave the folder unchanged.
#[track_caller]
fn refuses(mut command: Command, code: i32, says: &str) {
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
    said_once(&serving, "no longer the file that was opened");
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
    serving.tell_to_stop();
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
        (0o555, 0o666, "beside the database"),
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
        "has schema 9, this program expects 1; use the version of the program that made it",
    );
    refuses(
        database.command(&["drain"]),
        64,
        "has schema 9, this program expects 1; use the version of the program that made it",
    );
    assert_eq!(fs::read(database.path()).unwrap(), before);
}

fn files(database: &Database) -> Vec<String> {
    let names = fs::read_dir(database.folder.path()).unwrap().map(|file| file.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).filter(|name| !name.ends_with("-reserve")).collect()
}

/// Starts a sender on a copy of the database's file alone, and returns its count of events.
fn events_of_a_copy(database: &Database) -> u64 {
    let copy = Database::new();
    fs::copy(database.path(), copy.path()).unwrap();
    let serving = copy.serve();
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
    let drained = database.command(&["drain", "--for", "100ms", "--allow-private-targets"]).output().unwrap();
    assert!(drained.status.success(), "{drained:?}");
    assert_eq!(files(&database), ["sender.db"], "after a drain");
}
