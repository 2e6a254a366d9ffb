//! Power loss as a test. Programs run with a recorder preloaded (`record.c`, built by the C compiler that SQLite needs anyway), which
//! notes each change of the files in one folder; and of that record this makes the disks that a power cut could leave.
//!
//! A disk after a cut has all that was synced before it. Of the rest, any sectors of 512 bytes may be there, whatever the order in
//! which they were written; and names of files as they were after any of the changes since their folder was synced. What a
//! failed sync covered is gone.

mod image;
mod random;
mod recording;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

pub use image::{Image, Images};
pub use random::Random;
pub use recording::{Change, Recording};

/// What all recorded processes share: see `struct state` in `record.c`.
const STATE_BYTES: usize = 8 * 3 * 2;

/// Which file a sync is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The database, whose name ends with `.db`.
    Database = 0,
    /// Its write-ahead log.
    Log = 1,
}

/// A folder whose changes are recorded.
#[derive(Debug)]
pub struct Disk {
    home: TempDir,
}

impl Disk {
    /// An empty one.
    ///
    /// # Errors
    ///
    /// When the system gives no room for it.
    pub fn new() -> std::io::Result<Self> {
        let disk = Self { home: tempfile::tempdir()? };
        std::fs::create_dir(disk.folder())?;
        std::fs::write(disk.record(), [])?;
        std::fs::write(disk.state(), [0; STATE_BYTES])?;
        Ok(disk)
    }

    /// Where programs find it.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.home.path().join("disk")
    }

    fn record(&self) -> PathBuf {
        self.home.path().join("record")
    }

    fn state(&self) -> PathBuf {
        self.home.path().join("state")
    }

    /// Has the next sync of a file fail.
    ///
    /// # Errors
    ///
    /// When that can't be written down.
    pub fn fail_next_sync(&self, of: Of) -> std::io::Result<()> {
        let state = OpenOptions::new().write(true).open(self.state())?;
        state.write_all_at(&1_u64.to_ne_bytes(), 8 * of as u64)
    }

    /// Has a program recorded.
    ///
    /// # Panics
    ///
    /// When the recorder can't be built.
    pub fn attach(&self, program: &mut Command) {
        program.env("LD_PRELOAD", recorder()).env("POWER_LOSS_FOLDER", self.folder());
        program.env("POWER_LOSS_RECORD", self.record()).env("POWER_LOSS_STATE", self.state());
    }

    /// The same of a program whose syncs do nothing.
    pub fn attach_lying(&self, program: &mut Command) {
        self.attach(program);
        program.env("POWER_LOSS_LIES", "1");
    }

    /// How long the record is. What a program was told by now rests on what is recorded by now.
    ///
    /// # Errors
    ///
    /// When the system does not say.
    pub fn position(&self) -> std::io::Result<u64> {
        Ok(std::fs::metadata(self.record())?.len())
    }

    /// What was recorded.
    ///
    /// # Errors
    ///
    /// When it can't be read.
    pub fn recording(&self) -> std::io::Result<Recording> {
        Ok(Recording::read(&std::fs::read(self.record())?))
    }
}

/// The recorder, built once for each program that tests.
fn recorder() -> &'static Path {
    static BUILT: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, library) = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder for the recorder");
        let (source, library) = (folder.path().join("record.c"), folder.path().join("record.so"));
        std::fs::write(&source, include_str!("record.c")).expect("the recorder's source can be written");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
        let built = compiler.output().expect("a C compiler, as SQLite needs one: install `cc`");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        (folder, library)
    });
    library
}
