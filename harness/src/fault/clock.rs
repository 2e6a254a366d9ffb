//! A wrong wall clock for one process, without privilege: a preloaded libfaketime adds an offset from a file to the
//! system's time. It rereads the file on each call, so the clock can change while the process runs.
//!
//! Only the C library's calls for the wall clock are affected, not monotonic clocks, file times and the database
//! server. A program without the C library is unaffected; the timestamps of its requests show whether the fault
//! worked (`fault.clock-skew`).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use hookproof_judge::scenario::{FaultAction, FaultTarget, SECOND, Scenario};
use hookproof_play::fault::Skews;

/// Debian's package has it below [`FOLDERS`] and a machine's name.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";
const FOLDERS: [&str; 4] = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib"];
const NAMED_BY: &str = "HOOKPROOF_FAKETIME";
const PRELOAD: &str = "LD_PRELOAD";

#[derive(Debug)]
pub struct WallClock {
    library: PathBuf,
    file: PathBuf,
    skews: Skews,
}

#[must_use]
pub fn sets_clocks(scenario: &Scenario) -> bool {
    scenario.faults.iter().any(|fault| matches!(fault.action, FaultAction::ClockSkew { .. }))
}

impl WallClock {
    #[must_use]
    pub fn library() -> Option<PathBuf> {
        if let Some(named) = std::env::var_os(NAMED_BY).filter(|named| !named.is_empty()) {
            return Some(PathBuf::from(named)).filter(|path| path.is_file());
        }
        let machines = FOLDERS.iter().flat_map(|folder| {
            let below = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
            std::iter::once(PathBuf::from(folder)).chain(below)
        });
        machines.map(|folder| folder.join(LIBRARY)).find(|path| path.is_file())
    }

    /// Clocks by process, with offset 0. Fails when the library is missing, or a file cannot be written.
    pub fn of(scenario: &Scenario, folder: &Path) -> io::Result<BTreeMap<usize, Self>> {
        let mut clocks = BTreeMap::new();
        let skews =
            scenario.faults.iter().filter(|fault| matches!(fault.action, FaultAction::ClockSkew { .. }));
        for fault in skews {
            let library = Self::library().ok_or_else(|| io::Error::other("libfaketime is not installed"))?;
            let all = 0..usize::try_from(scenario.sender.workers).unwrap_or_default();
            let one = fault.worker.as_ref().and_then(FaultTarget::worker);
            for worker in one.map_or(all, |worker| worker..worker + 1) {
                // The process may have another working directory.
                let file = std::path::absolute(folder)?.join(format!("sender-{worker}.clock"));
                let clock = Self { library: library.clone(), file, skews: Skews::default() };
                clock.set(0)?;
                clocks.insert(worker, clock);
            }
        }
        Ok(clocks)
    }

    #[cfg(test)]
    pub(crate) fn unread(file: PathBuf) -> Self {
        Self { library: PathBuf::new(), file, skews: Skews::default() }
    }

    #[must_use]
    pub fn env(&self) -> Vec<(String, String)> {
        let mut preload = self.library.display().to_string();
        if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            preload = format!("{preload}:{}", others.to_string_lossy());
        }
        let file = self.file.display().to_string();
        let env = [
            (PRELOAD, preload.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("NO_FAKE_STAT", "1"),
        ];
        env.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    /// Sets the offset in nanoseconds, until the fault ends or a later one begins. Fails when its file cannot be
    /// written; the fault has not begun then.
    pub fn begin(&mut self, fault: u32, ahead: i64) -> io::Result<()> {
        self.set(ahead)?;
        self.skews.begin(fault, ahead);
        Ok(())
    }

    /// The latest remaining fault sets the clock, or it is right. Fails when its file cannot be written.
    pub fn end(&mut self, fault: u32) -> io::Result<()> {
        if self.skews.end(fault) { self.set(self.skews.offset()) } else { Ok(()) }
    }

    /// Ends every fault. Fails when its file cannot be written.
    pub fn put_right(&mut self) -> io::Result<()> {
        self.skews.clear();
        self.set(0)
    }

    /// In nanoseconds, rounded to milliseconds.
    fn set(&self, ahead: i64) -> io::Result<()> {
        let sign = if ahead < 0 { '-' } else { '+' };
        let (whole, rest) = (ahead.unsigned_abs() / SECOND, ahead.unsigned_abs() % SECOND / 1_000_000);
        // Atomic, so that a reader sees the old file or the new one.
        let next = self.file.with_extension("clock-next");
        std::fs::write(&next, format!("{sign}{whole}.{rest:03}\n"))?;
        std::fs::rename(next, &self.file)
    }
}

/// Removes the library's leftovers of a process that has ended.
pub fn tidy_clock(pid: Pid) {
    let pid = pid.as_raw_nonzero();
    for name in [format!("sem.faketime_sem_{pid}"), format!("faketime_shm_{pid}")] {
        let _ = std::fs::remove_file(Path::new("/dev/shm").join(name));
    }
}

#[must_use]
pub fn has_clock(env: &[(String, String)]) -> bool {
    env.iter().any(|(name, _)| name == "FAKETIME_TIMESTAMP_FILE")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall_clock(folder: &Path) -> WallClock {
        WallClock::unread(folder.join("clock"))
    }

    #[test]
    fn of_several_faults_the_latest_that_lasts_sets_the_clock() {
        let folder = tempfile::tempdir().unwrap();
        let mut clock = wall_clock(folder.path());
        let second = i64::try_from(SECOND).unwrap();
        let shows = |clock: &WallClock| std::fs::read_to_string(&clock.file).unwrap();
        for (fault, ahead) in [(0, 20 * second), (1, -30 * second), (2, 40 * second)] {
            clock.begin(fault, ahead).unwrap();
        }
        for (ended, text) in
            [(1, "+40.000\n"), (2, "+20.000\n"), (2, "+20.000\n"), (3, "+20.000\n"), (0, "+0.000\n")]
        {
            clock.end(ended).unwrap();
            assert_eq!(shows(&clock), text, "once {ended} is over");
        }
        clock.begin(4, second).unwrap();
        clock.put_right().unwrap();
        assert_eq!(shows(&clock), "+0.000\n");
    }

    #[test]
    fn an_offset_is_written_as_the_library_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let clock = wall_clock(folder.path());
        for (ahead, text) in [(0, "+0.000\n"), (-90_000_000_000, "-90.000\n"), (1_500_000_000, "+1.500\n")] {
            clock.set(ahead).unwrap();
            assert_eq!(std::fs::read_to_string(&clock.file).unwrap(), text);
        }
    }
}
