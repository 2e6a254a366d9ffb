//! A copy of a file in which programs work, and the way back.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use hookproof_failed_sync::{Unnamed, sync_folder};
use rusqlite::ErrorCode;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

use super::doctor::examine;
use super::failure::Doing;
use super::liveness::OwnerFiles;
use super::{SqliteFile, SqliteReader, SqliteStore, open};
use crate::command::{Change, Command};
use crate::engine::StoreTime;
use crate::job::{JobState, SetJob};
use crate::lane::{LaneState, Pause};
use crate::liveness::Liveness as _;
use crate::read::{Reader as _, Subscriber};
use crate::vacuum::{BackupError, RestoreError, Restored};
use crate::{Finding, State, Store as _, StoreError};

const COPY: &str = "copy the database";
const PAUSE: &str = "pause the subscribers";

/// SQLite's instructions between two looks at how far it is: a few hundred rows.
const STEP: i32 = 10_000;
/// Subscribers paused in one commit.
const PAUSED_AT_ONCE: u32 = 500;

fn failed(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |error| StoreError::Io { doing: COPY, detail: format!("{}: {error}", path.display()) }
}

/// Writes one state of a file into a new one, packed. The log of the original is not cut meanwhile.
pub(crate) fn backup(
    path: &Path,
    copy: &Path,
    goes_on: impl FnMut(u64, u64) -> bool + Send + 'static,
) -> Result<u64, BackupError> {
    if fs::symlink_metadata(copy).is_ok() {
        return Err(BackupError::Taken(copy.display().to_string()));
    }
    let new = copied(path, copy, goes_on)?;
    let bytes = synced(&new, copy)?;
    named(new, copy)?;
    Ok(bytes)
}

fn copied(
    path: &Path,
    copy: &Path,
    mut goes_on: impl FnMut(u64, u64) -> bool + Send + 'static,
) -> Result<Unnamed, BackupError> {
    let mut sql = open::reader(path)?;
    sql.execute_batch("PRAGMA query_only = OFF").doing(COPY)?;
    let new = Unnamed::beside(copy).map_err(failed(copy))?;
    let place = new.path().to_owned();
    let name = place.to_str().ok_or_else(|| BackupError::NoText(copy.display().to_string()))?.to_owned();
    let bytes = fs::metadata(path).map_or(0, |original| original.len());
    let ends = move || !goes_on(fs::metadata(&place).map_or(0, |copy| copy.len()), bytes);
    sql.progress_handler(STEP, Some(ends)).doing(COPY)?;
    match sql.execute("VACUUM INTO ?1", [name]) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            Err(BackupError::Interrupted)
        }
        copied => Ok(copied.doing(COPY).map(|_| new)?),
    }
}

/// Its bytes, all of them on the disk.
fn synced(new: &Unnamed, path: &Path) -> Result<u64, StoreError> {
    let written = File::open(new.path()).map_err(failed(path))?;
    written.sync_all().map_err(failed(path))?;
    Ok(written.metadata().map_err(failed(path))?.len())
}

fn named(new: Unnamed, path: &Path) -> Result<(), BackupError> {
    let is_new = new.name(path).map_err(failed(path))?;
    if is_new { Ok(()) } else { Err(BackupError::Taken(path.display().to_string())) }
}

/// The copy gets its name once all of it, with the pauses, is on the disk.
pub(crate) fn restore(
    copy: &Path,
    database: &SqliteFile,
    replaces: Option<u64>,
    wall: StoreTime,
    pause: impl FnOnce(StoreTime) -> Pause,
    goes_on: impl FnMut(u64, u64) -> bool + Send + 'static,
) -> Result<Restored, RestoreError> {
    let path = database.path();
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::canonicalize(copy).is_ok_and(|copy| copy == *path) {
        return Err(RestoreError::Alike(path.display().to_string()));
    }
    // Released before SQLite opens the copy.
    drop(alone_on(copy)?);
    let there = files_of(path).map_err(failed(path))?;
    if !there.is_empty() && replaces.is_none() {
        return Err(RestoreError::Occupied(there.iter().map(|name| name.display().to_string()).collect()));
    }
    // Closing it would release it.
    let _alone = if path.exists() { alone_on(path)? } else { None };
    let findings = sound(&SqliteFile::from(copy.to_owned()).with_keys(database.keys().clone()))?;
    let new = copied(copy, path, goes_on)?;
    let mut restored = Restored {
        findings,
        ..paused(&SqliteFile::from(new.path().to_owned()).with_keys(database.keys().clone()), wall, pause)?
    };
    restored.bytes = synced(&new, path)?;
    if let Some(end) = replaces.filter(|_| !there.is_empty()) {
        restored.aside = Some(move_aside(path, &there, end).map_err(failed(path))?);
    }
    named(new, path)?;
    Ok(restored)
}

/// Fails while another process has the file open. Until the result is closed, SQLite cannot open it in others. `None` if it is
/// not writable.
pub(super) fn alone_on(path: &Path) -> Result<Option<File>, RestoreError> {
    let in_use = || RestoreError::InUse(path.display().to_string());
    if OwnerFiles::of(path).others_may_live(None) {
        return Err(in_use());
    }
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
            return Ok(None);
        }
        file => file.map_err(failed(path))?,
    };
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::ACCESS | Errno::AGAIN) => Err(in_use()),
        Err(error) => Err(failed(path)(error.into()).into()),
    }
}

fn files_of(path: &Path) -> io::Result<Vec<OsString>> {
    let name = path.file_name().unwrap_or_default();
    let mut files = Vec::new();
    for file in fs::read_dir(folder(path))? {
        let found = file?.file_name();
        let Some(rest) = found.as_encoded_bytes().strip_prefix(name.as_encoded_bytes()) else { continue };
        let is_ours = ["", "-wal", "-shm", "-journal", "-reserve"].iter().any(|own| rest == own.as_bytes());
        if is_ours || rest.starts_with(b"-owner-") {
            files.push(found);
        }
    }
    files.sort();
    Ok(files)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The database first, because a log alone is refused.
fn move_aside(path: &Path, files: &[OsString], end: u64) -> io::Result<PathBuf> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".replaced-{end}"));
    let aside = PathBuf::from(aside);
    DirBuilder::new().mode(0o700).create(&aside)?;
    for name in files {
        fs::rename(folder(path).join(name), aside.join(name))?;
    }
    sync_folder(&aside.join("file"))?;
    sync_folder(path)?;
    Ok(aside)
}

fn sound(copy: &SqliteFile) -> Result<Vec<Finding>, RestoreError> {
    let mut findings = examine(copy, false)?;
    findings.retain(|finding| matches!(finding.state, State::Off | State::Unchecked));
    match findings.iter().find(|finding| finding.check == "file" && finding.state == State::Off) {
        Some(damage) => Err(RestoreError::Damaged {
            copy: copy.path().display().to_string(),
            detail: damage.detail.clone(),
        }),
        None => Ok(findings),
    }
}

fn paused(
    database: &SqliteFile,
    wall: StoreTime,
    pause: impl FnOnce(StoreTime) -> Pause,
) -> Result<Restored, StoreError> {
    let path = database.path();
    let mut store = SqliteStore::open(path, &database.options())?;
    let reader = SqliteReader::open_with(path, database.keys())?;
    let at = reader.clock()?.latest;
    let by = "restore".into();
    let (pause, mut since, mut paused) = (pause(at), 0, 0);
    loop {
        // A paused one comes again, by its new version.
        let subscribers = reader.subscribers_since(since, PAUSED_AT_ONCE)?;
        let Some(last) = subscribers.last() else { break };
        since = last.version;
        // A pause that is over would end at once.
        let flows = |one: &&Subscriber| match one.state {
            LaneState::Active => true,
            LaneState::Paused => one.pause.until.is_some_and(|until| until <= wall),
            LaneState::Disabled | LaneState::Removed => false,
        };
        let changes: Vec<_> = subscribers
            .iter()
            .filter(flows)
            .map(|subscriber| {
                let state = Some(LaneState::Paused);
                let change = Change { state, pause: pause.clone(), ..Change::of(subscriber.lane) };
                Command::Change(change).by(&by, None)
            })
            .collect();
        if !changes.is_empty() {
            paused += store.commit(at, &changes)?.len();
        }
    }
    let running = reader.jobs(None)?.into_iter().filter(|job| job.state == JobState::Running);
    let pauses = running.map(|job| {
        Command::SetJob(SetJob { job: job.id, state: JobState::Paused, error: None }).by(&by, None)
    });
    store.commit(at, &pauses.collect::<Vec<_>>())?;
    let status = reader.status(at)?;
    let [active, ..] = status.subscribers;
    drop(reader);
    store.close()?;
    drop(store);
    if active > 0 || !open::leave_whole(path)? {
        let detail = format!("{}: another program changes it; {active} are active", path.display());
        return Err(StoreError::Io { doing: PAUSE, detail });
    }
    let waiting = status.counts.waiting;
    Ok(Restored { bytes: 0, at, paused, waiting, aside: None, findings: Vec::new() })
}
