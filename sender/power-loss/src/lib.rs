//! Tests of power loss. A preloaded recorder (`record.c`) records each change of the files in one folder.
//! From the recording, this crate derives the disks that a power cut could leave.
//!
//! Such a disk has everything that was synced. Of the rest, any sectors of 512 bytes may be present, in any
//! order, with the names after any change since the folder's last sync. Bytes of a failed sync are lost.

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

/// See `struct state` in `record.c`.
const STATE_BYTES: usize = 8 * 4 * 2;

/// The kind of file of failing syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The database, with a name that ends with `.db`.
    Database = 0,
    /// Its write-ahead log.
    Log = 1,
    /// The folder, which names both.
    Folder = 3,
}

#[derive(Debug)]
pub struct Disk {
    home: TempDir,
}

impl Disk {
    /// Creates an empty folder.
    ///
    /// # Errors
    /// When the system cannot create it.
    pub fn new() -> std::io::Result<Self> {
        let disk = Self { home: tempfile::tempdir()? };
        std::fs::create_dir(disk.folder())?;
        std::fs::write(disk.record(), [])?;
        std::fs::write(disk.state(), [0; STATE_BYTES])?;
        Ok(disk)
    }

    /// Recorded programs use it.
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

    /// Makes the next `count` syncs of a file fail.
    ///
    /// # Errors
    /// When the shared state cannot be written.
    pub fn fail_syncs(&self, of: Of, count: u64) -> std::io::Result<()> {
        let state = OpenOptions::new().write(true).open(self.state())?;
        state.write_all_at(&count.to_ne_bytes(), 8 * of as u64)
    }

    /// Records a program.
    ///
    /// # Panics
    /// When the recorder cannot be built.
    pub fn attach(&self, program: &mut Command) {
        program.env("LD_PRELOAD", recorder()).env("POWER_LOSS_FOLDER", self.folder());
        program.env("POWER_LOSS_RECORD", self.record()).env("POWER_LOSS_STATE", self.state());
    }

    /// Records a program, and makes its syncs do nothing.
    pub fn attach_lying(&self, program: &mut Command) {
        self.attach(program);
        program.env("POWER_LOSS_LIES", "1");
    }

    /// The recording's length in bytes. Acknowledgements so far depend only on changes before it.
    ///
    /// # Errors
    /// When the system cannot report it.
    pub fn position(&self) -> std::io::Result<u64> {
        Ok(std::fs::metadata(self.record())?.len())
    }

    /// Puts an image in the place of the files. A database stays the same file, as it does when a machine starts again.
    ///
    /// # Errors
    ///
    /// When the folder does not take it.
    pub fn restart(&self, image: &Image) -> std::io::Result<()> {
        let same = self.home.path().join("same");
        for entry in std::fs::read_dir(self.folder())? {
            let path = entry?.path();
            if is_database(&path) && !same.exists() {
                std::fs::hard_link(&path, &same)?;
            }
            std::fs::remove_file(path)?;
        }
        for (name, bytes) in image.files() {
            let path = self.folder().join(name);
            if is_database(&path) && same.exists() {
                std::fs::hard_link(&same, &path)?;
            }
            std::fs::write(path, bytes)?;
        }
        Ok(())
    }

    /// The recording so far.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn recording(&self) -> std::io::Result<Recording> {
        Ok(Recording::read(&std::fs::read(self.record())?))
    }
}

fn is_database(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "db")
}

/// Built once for each test program.
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
