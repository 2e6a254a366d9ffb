//! Disk space reserved for deliveries: a file beside the database without useful content.
//!
//! A commit that finds the disk full shrinks this file and is retried. While the file is not complete, events are
//! refused, so that the rest serves deliveries. It is refilled when the disk has room for that and [`MARGIN`] more.
//! It grows with the deliveries that wait. All processes on the database share the file. Its length tells each whether to accept events, and a lock
//! serialises changes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

use crate::StoreError;
use crate::engine::{Nanos, StoreTime};
use crate::log_size::DiskRoom;

const BYTES_MIN: u64 = 32 << 20;
/// A delivery at the first attempt takes 40 to 120 bytes, with its part of the log.
const BYTES_A_DELIVERY: u64 = 160;
/// How much one failed commit releases. Other programs that fill the disk get no more at a time.
const STEP: u64 = 4 << 20;
/// Extra free space required before a refill. Otherwise the next event would be refused again.
const MARGIN: u64 = 16 << 20;
const LOOK_EVERY: Nanos = Nanos::SECOND;

#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    room: DiskRoom,
    seen: Mutex<ReserveState>,
}

#[derive(Debug, Default)]
struct ReserveState {
    /// Whether to create a missing file. Processes that do not deliver only respect an existing one.
    is_kept: bool,
    /// When the disk had no room for it.
    lacked: Option<StoreTime>,
    /// The deliveries that wait. `None` before the first commit of this process.
    waiting: Option<u64>,
    is_told: bool,
}

impl Reserve {
    pub(super) fn beside(database: &Path) -> Self {
        let (room, seen) = Default::default();
        Self { path: Self::path_beside(database), room, seen }
    }

    /// All links to the database lead to the same reserve. A database that does not exist yet has no links.
    pub(super) fn path_beside(database: &Path) -> PathBuf {
        let database = std::fs::canonicalize(database).unwrap_or_else(|_| database.to_owned());
        let mut path = database.into_os_string();
        path.push("-reserve");
        path.into()
    }

    pub(super) fn set_waiting(&self, deliveries: u64) {
        self.lock_state().waiting = Some(deliveries);
    }

    /// Grows in steps, so that few commits change it.
    fn bytes_wanted(waiting: u64) -> u64 {
        waiting.saturating_mul(BYTES_A_DELIVERY).div_ceil(STEP).saturating_mul(STEP).max(BYTES_MIN)
    }

    pub(super) fn room(&self) -> &DiskRoom {
        &self.room
    }

    pub(super) fn maintain(&self) {
        let mut seen = self.lock_state();
        seen.is_kept = true;
        self.refresh_state(&mut seen, None);
        if let Some(left) = self.room.reserve_left() {
            Self::log_once(&mut seen, left);
        }
    }

    /// Reads the file's state, and refills it if the disk has room.
    pub(super) fn refresh(&self, now: StoreTime) {
        self.refresh_state(&mut self.lock_state(), Some(now));
    }

    /// Logs once that a commit succeeded with the help of the reserve. The store's thread logs failed commits.
    pub(super) fn carried(&self) {
        if let Some(left @ 1..) = self.room.reserve_left() {
            Self::log_once(&mut self.lock_state(), left);
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, ReserveState> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refresh_state(&self, seen: &mut ReserveState, now: Option<StoreTime>) {
        let found = std::fs::metadata(&self.path).ok().map(|file| file.len());
        // Another process may know of a backlog.
        let wanted = seen.waiting.map_or_else(|| found.unwrap_or(0).max(BYTES_MIN), Self::bytes_wanted);
        let left = found.unwrap_or(if seen.is_kept { 0 } else { wanted });
        // On a full disk it is whole again only when the disk has room. A smaller backlog does not suffice.
        let is_lacking = left < wanted || self.room.reserve_left().is_some();
        let is_time = seen
            .lacked
            .is_none_or(|lacked| now.is_none_or(|now| now < lacked || now.since(lacked) >= LOOK_EVERY));
        let mut is_whole = !is_lacking;
        if (is_lacking || left > wanted.saturating_add(BYTES_MIN)) && is_time {
            match self.resize(wanted) {
                Ok(()) => (is_whole, seen.lacked) = (true, None),
                Err(error) => {
                    if is_lacking && error.kind() != io::ErrorKind::StorageFull && !seen.is_told {
                        seen.is_told = true;
                        let path = self.path.display();
                        tracing::error!(%error, "the reserve {path} cannot be made: events are refused");
                    }
                    seen.lacked = now;
                }
            }
        }
        self.room.set_reserve_left((!is_whole).then_some(left));
        if is_whole && std::mem::take(&mut seen.is_told) {
            tracing::info!("the disk has room again: events are accepted");
        }
    }

    fn log_once(seen: &mut ReserveState, left: u64) {
        if !std::mem::replace(&mut seen.is_told, true) {
            let left_mib = left >> 20;
            tracing::error!(
                left_mib,
                "the disk is full: events are refused; deliveries continue with the reserve; free some space"
            );
        }
    }

    /// Runs `act`, releasing parts of the reserve while the disk is full.
    pub(super) fn lend<T>(&self, mut act: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
        loop {
            match act() {
                Err(StoreError::Full { .. }) if self.release() => {}
                result => return result,
            }
        }
    }

    /// Releases a part. Returns false if nothing is left.
    pub(super) fn release(&self) -> bool {
        let released = open(&self.path, false).and_then(|file| {
            file.lock()?;
            let length = file.metadata()?.len();
            let left = length.saturating_sub(STEP);
            file.set_len(left)?;
            Ok((length > 0).then_some(left))
        });
        match released {
            Ok(Some(left)) => {
                self.room.set_reserve_left(Some(left));
                return true;
            }
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(%error, "the reserve {} cannot be released", self.path.display());
            }
        }
        false
    }

    fn resize(&self, wanted: u64) -> io::Result<()> {
        let mut file = open(&self.path, true)?;
        file.lock()?;
        let length = file.metadata()?.len();
        let missing = wanted.saturating_sub(length);
        if missing == 0 {
            return file.set_len(wanted);
        }
        let disk = fstatvfs(&file)?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < missing.saturating_add(MARGIN) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let filled = match fallocate(&file, FallocateFlags::empty(), 0, wanted) {
            // File systems without this call must be written to.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill_with_zeros(&mut file, missing),
            filled => filled.map_err(io::Error::from),
        };
        if filled.is_err() {
            file.set_len(length)?;
        }
        filled
    }
}

fn fill_with_zeros(file: &mut File, bytes: u64) -> io::Result<()> {
    file.seek(SeekFrom::End(0))?;
    io::copy(&mut io::repeat(0).take(bytes), file).map(drop)
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(create).truncate(false);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_grows_and_shrinks_with_the_backlog() {
        let folder = tempfile::tempdir().unwrap();
        let reserve = Reserve::beside(&folder.path().join("db"));
        let length = || std::fs::metadata(&reserve.path).unwrap().len();
        reserve.maintain();
        assert_eq!(length(), BYTES_MIN);
        let waiting = |deliveries| {
            reserve.set_waiting(deliveries);
            // All in one second: growth refuses no event.
            reserve.refresh(StoreTime::from_secs(1));
            assert_eq!(reserve.room().reserve_left(), None);
            length()
        };
        assert_eq!(waiting(1_000), BYTES_MIN);
        let grown = waiting(500_000);
        assert!((80_000_000..80_000_000 + STEP).contains(&grown), "{grown}");
        assert_eq!(waiting(400_000), grown, "a little less frees nothing");
        let next = Reserve::beside(&folder.path().join("db"));
        next.maintain();
        next.refresh(StoreTime::from_secs(1));
        assert_eq!(length(), grown, "the next process does not know the backlog yet");
        assert_eq!(waiting(0), BYTES_MIN);
    }
}
