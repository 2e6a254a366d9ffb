use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Output, Stdio};
use std::time::Duration;

use hookproof_sender::engine::{LaneId, Nanos, Term};
use hookproof_sender::store::command::{Fate, Purge};
use hookproof_sender::store::lane::{Bounds, WhenFull};
use hookproof_sender::store::sqlite::{Options, SqliteStore};
use hookproof_sender::store::{Command, Reply};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::Value;

use crate::store::sqlite::File;
use crate::store::world::{World, body};

const ROOM: Bounds = Bounds { rows_max: 100_000, bytes_max: 1 << 30, when_full: WhenFull::Refuse };
const BODY_BYTES: usize = 32 << 10;
/// SQLite keeps temporary files below 8 MiB in memory.
const MANY: u32 = 400;

fn emit(world: &mut World<File>, lane: LaneId, count: u32) {
    let events = (0..count).map(|n| {
        let mut event = world.event(&[lane]);
        event.bodies = vec![body(format!("{n:08}").repeat(BODY_BYTES / 8).as_bytes())];
        Command::Emit(event)
    });
    let events: Vec<_> = events.collect();
    let replies = world.all(&events);
    assert!(replies.iter().all(|reply| matches!(reply, Reply::Emitted(_))), "{replies:?}");
}

fn deliver_and_purge(world: &mut World<File>, (lane, term): (LaneId, Term), count: u32) {
    let rows = world.try_claim(lane, term, count).unwrap().rows;
    let settle = |row: &hookproof_sender::store::reply::ClaimedRow| {
        world.settlement(lane, term, row.delivery, Fate::Delivered)
    };
    let settlements = rows.iter().map(settle).collect();
    world.settle_all(settlements);
    world.pass(Nanos::HOUR);
    let before = world.now;
    let purge = Purge {
        settled_before: before,
        attempts_before: before,
        dead_before: before,
        changes_before: before,
        max: 10_000,
    };
    let Reply::Purged(purged) = world.one(Command::Purge(purge)) else { panic!("no answer to a purge") };
    assert_eq!((purged.deliveries, purged.more), (u64::from(count), false));
}

/// `left` events still wait; also returns their bytes.
fn much_deleted(deleted: u32, left: u32) -> (File, usize) {
    let mut world = World::<File>::new();
    let own = world.own_lane(ROOM);
    emit(&mut world, own.0, deleted + left);
    deliver_and_purge(&mut world, own, deleted);
    (world.backend, usize::try_from(left).unwrap() * BODY_BYTES)
}

fn copy_whole(file: &Path, copy: &Path) {
    fs::copy(file, copy).unwrap();
    Connection::open(copy).unwrap().execute_batch("PRAGMA journal_mode = DELETE").unwrap();
}

/// All but the row with the file's place.
fn everything(file: &Path) -> Vec<String> {
    let sql = Connection::open(file).unwrap();
    let whole: String = sql.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
    let shown = |value: ValueRef<'_>| match value {
        ValueRef::Blob(bytes) => {
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            format!("{} bytes, {:x}", bytes.len(), hasher.finish())
        }
        other => format!("{other:?}"),
    };
    let rows_of = |query: &str| {
        let mut query = sql.prepare(query).unwrap();
        let columns = query.column_count();
        let row =
            |row: &rusqlite::Row<'_>| (0..columns).map(|column| Ok(shown(row.get_ref(column)?))).collect();
        let rows: Vec<Vec<String>> = query.query_map([], row).unwrap().map(Result::unwrap).collect();
        rows.iter().map(|row| row.join(" | ")).collect::<Vec<_>>()
    };
    let mut tables = sql
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'file_place' ORDER BY name")
        .unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut all = rows_of("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name");
    for table in tables {
        all.extend(rows_of(&format!("SELECT * FROM {table}")).iter().map(|row| format!("{table}: {row}")));
    }
    all
}

fn log_of(file: &Path) -> PathBuf {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

fn bytes(file: &Path) -> usize {
    fs::metadata(file).map_or(0, |found| usize::try_from(found.len()).unwrap())
}

fn pages(file: &Path) -> u64 {
    Connection::open(file).unwrap().query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap()
}

fn vacuum(program: &mut Program, file: &Path) -> Child {
    program.args(["vacuum", "--json", "--db"]).arg(file).stdin(Stdio::null());
    program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn sender() -> Program {
    Program::new(env!("CARGO_BIN_EXE_hookproof-sender"))
}

/// Waits until no thread of a store moves the log.
#[track_caller]
fn moved(file: &Path) {
    let sql = Connection::open(file).unwrap();
    sql.busy_timeout(Duration::from_mins(2)).unwrap();
    let is_busy: bool = sql.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| row.get(0)).unwrap();
    assert!(!is_busy, "the log of {} is still in use", file.display());
}

#[track_caller]
fn vacuumed(file: &Path) -> Value {
    moved(file);
    let output = vacuum(&mut sender(), file).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr_of(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_disk_gets_back_what_was_deleted_and_who_has_the_file_open_goes_on_with_it() {
    let mut world = World::<File>::new();
    let (lane, term) = world.own_lane(ROOM);
    emit(&mut world, lane, 250);
    emit(&mut world, lane, 250);
    deliver_and_purge(&mut world, (lane, term), 450);
    let file = world.backend.path();
    let (before, had) = (everything(&file), pages(&file) * 4_096);
    let same = |found: Metadata| (found.ino(), found.mode(), found.uid());
    let known = same(fs::metadata(&file).unwrap());
    let told = vacuumed(&file);
    let (left, has) = (50 * BODY_BYTES, bytes(&file));
    assert!((left..left * 5 / 4).contains(&has), "{has} bytes for {left}");
    assert_eq!(told["bytes_before"], had);
    assert_eq!(told["bytes_after"], has);
    let free = usize::try_from(told["free_bytes"].as_u64().unwrap()).unwrap();
    assert!((450 * BODY_BYTES..usize::try_from(had).unwrap() - left).contains(&free), "{told}");
    assert_eq!(bytes(&log_of(&file)), 0, "the log takes no room either");
    assert_eq!(same(fs::metadata(&file).unwrap()), known);
    assert_eq!(everything(&file), before);
    let beside = fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(beside, 3, "the file, its log and the log's index");
    assert_eq!(world.claim(lane, term).len(), 50);
    world.emit_one(lane);
    world.check_figures();
    assert!(pages(&file) * 4_096 >= u64::try_from(has).unwrap());
}

#[test]
fn deleted_space_is_used_again() {
    let mut world = World::<File>::new();
    let own = world.own_lane(ROOM);
    let mut round = || {
        emit(&mut world, own.0, 200);
        deliver_and_purge(&mut world, own, 200);
        pages(&world.backend.path())
    };
    let first = round();
    for again in 1..6 {
        assert_eq!(round(), first, "round {again}");
    }
    assert!(first * 4_096 > 200 * u64::try_from(BODY_BYTES).unwrap());
}

#[test]
fn killed_in_its_midst_the_file_is_whole_and_the_next_one_finishes() {
    let (backend, left) = much_deleted(1_000, 1_000);
    let file = backend.path();
    let (before, had) = (everything(&file), pages(&file));
    // A reader delays the end.
    let killed = |copy: &Path, is_time: &dyn Fn() -> bool| {
        copy_whole(&file, copy);
        drop(SqliteStore::open(copy, &Options::default()).unwrap());
        let reader = Connection::open(copy).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM deliveries").unwrap();
        let mut vacuuming = vacuum(&mut sender(), copy);
        while !is_time() {
            assert_eq!(vacuuming.try_wait().unwrap(), None, "it ended before it was to be killed");
            std::thread::yield_now();
        }
        vacuuming.kill().unwrap();
        let ended = vacuuming.wait_with_output().unwrap();
        assert_eq!(ended.status.signal(), Some(9), "{}", stderr_of(&ended));
        drop(reader);
        assert_eq!(everything(copy), before);
        pages(copy)
    };
    let copies = [0, left / 4, left / 2].map(|part| (part, file.with_extension(part.to_string())));
    let found: Vec<_> =
        copies.iter().map(|(part, copy)| killed(copy, &|| bytes(&log_of(copy)) > *part)).collect();
    assert!(found.contains(&had), "{found:?} of {had}: it was killed before it was done");
    let copy = file.with_extension("committed");
    let found = killed(&copy, &|| pages(&copy) < had);
    assert!(found < had * 2 / 3, "{found} of {had}");
    for copy in copies.iter().map(|(_, copy)| copy).chain([&copy]) {
        vacuumed(copy);
        assert!((left..left * 5 / 4).contains(&bytes(copy)));
        assert_eq!(everything(copy), before);
    }
}

#[test]
fn a_file_that_somebody_reads_or_writes_is_refused_and_stays() {
    let (backend, _) = much_deleted(10, 2);
    let file = backend.path();
    let had = bytes(&file);
    for at_work in ["BEGIN IMMEDIATE", "BEGIN; SELECT count(*) FROM deliveries"].repeat(2) {
        let other = Connection::open(&file).unwrap();
        other.execute_batch("UPDATE totals SET stirred = stirred + 1").unwrap();
        let before = everything(&file);
        other.execute_batch(at_work).unwrap();
        refused(&file, "is in use: a program has a transaction open on it");
        drop(other);
        assert_eq!((everything(&file), bytes(&file)), (before, had), "{at_work}");
    }
}

#[test]
fn a_file_that_somebody_reads_meanwhile_is_smaller_once_that_has_ended() {
    let (backend, left) = much_deleted(100, 20);
    let file = backend.path();
    let (before, had) = (everything(&file), bytes(&file));
    // An empty log blocks only the end.
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN; SELECT count(*) FROM deliveries").unwrap();
    refused(&file, "is packed, but keeps its size while a program reads it");
    assert_eq!(bytes(&file), had);
    drop(other);
    assert!((left..left * 3 / 2).contains(&bytes(&file)), "{}", bytes(&file));
    assert_eq!(everything(&file), before);
}

#[track_caller]
fn refused(file: &Path, why: &str) {
    let output = vacuum(&mut sender(), file).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr_of(&output));
    assert!(stderr_of(&output).contains(why), "{}", stderr_of(&output));
}

/// The disk fills up at once, or after the temporary file is written.
#[test]
fn a_disk_that_fills_during_a_vacuum_is_reported_and_loses_nothing() {
    let (backend, left) = much_deleted(600, MANY);
    let file = backend.path();
    let (before, had) = (everything(&file), bytes(&file));
    let copy = file.with_extension("copy");
    copy_whole(&file, &copy);
    let packed = vacuumed(&copy)["bytes_after"].as_u64().unwrap();
    // An idle application keeps the log file from being deleted.
    let idle = Connection::open(&file).unwrap();
    idle.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).unwrap();
    for limit in [u64::try_from(left).unwrap() / 2, packed + 1] {
        let mut program = Program::new("prlimit");
        program.arg(format!("--fsize={limit}:")).arg(env!("CARGO_BIN_EXE_hookproof-sender"));
        let output = vacuum(&mut program, &file).wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(70), "{limit}: {}", stderr_of(&output));
        assert!(stderr_of(&output).contains("could not vacuum the database"), "{}", stderr_of(&output));
        assert_eq!((everything(&file), bytes(&file)), (before.clone(), had), "{limit}");
        assert_eq!(bytes(&log_of(&file)), 0, "{limit}: what was written in vain takes no room");
    }
    drop(idle);
}

/// The content must be equal. Temporary files elsewhere have next to no space. `None` where the system cannot mount a
/// disk.
fn on_a_small_disk(bytes: usize, file: &Path) -> Option<Output> {
    const SCRIPT: &str = r#"mount -t tmpfs -o size="$1" none "$2" && mkdir "$2/elsewhere" &&
            mount -t tmpfs -o size=64k none "$2/elsewhere" || exit 99
        cp "$3" "$2/a.db" || exit 98
        SQLITE_TMPDIR="$2/elsewhere" "$4" vacuum --json --db "$2/a.db"
        code=$?; cp "$2/a.db" "$5" || exit 98; exit $code"#;
    let folder = crate::store::sqlite::folder();
    let [copy, after] = ["copy", "after"].map(|name| file.with_extension(name));
    copy_whole(file, &copy);
    let run = Program::new("unshare")
        .args(["-Urm", "sh", "-c", SCRIPT, "sh", &bytes.to_string()])
        .args([folder.path(), &copy, Path::new(env!("CARGO_BIN_EXE_hookproof-sender")), &after])
        .output();
    let is_there =
        |output: &Output| !stderr_of(output).contains("unshare: ") && output.status.code() != Some(99);
    let output = run.ok().filter(is_there);
    if output.is_none() {
        let demands = std::env::var("HOOKPROOF_DEMANDS").unwrap_or_default();
        assert!(!demands.split(',').any(|demand| demand == "namespace"), "no small disk can be mounted");
        eprintln!("skipped: no small disk can be mounted here");
    } else {
        assert!(everything(&after) == everything(&copy), "{output:?}");
    }
    output
}

#[test]
fn a_vacuum_without_room_is_refused_with_the_room_it_needs() {
    let (backend, left) = much_deleted(600, MANY);
    let file = backend.path();
    // Space for one copy beside the file, not for two.
    let Some(output) = on_a_small_disk(bytes(&file) + left * 3 / 2, &file) else { return };
    assert_eq!(output.status.code(), Some(1), "{}", stderr_of(&output));
    let told = stderr_of(&output);
    // Two copies of some 13 MiB, and a little more.
    assert!(told.contains("it needs 28 MiB for a while"), "{told}");
    assert!(told.contains("has 18 MiB left"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn with_the_room_that_it_says_it_takes_it_is_done() {
    let (backend, left) = much_deleted(600, MANY);
    let file = backend.path();
    let Some(output) = on_a_small_disk(bytes(&file) + (28 << 20), &file) else { return };
    assert!(output.status.success(), "{}", stderr_of(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let has = usize::try_from(told["bytes_after"].as_u64().unwrap()).unwrap();
    assert!((left..left * 5 / 4).contains(&has), "{told}");
}
