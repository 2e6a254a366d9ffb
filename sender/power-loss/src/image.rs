//! The disks that a power cut could leave.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{Change, Random, Recording};

/// Bytes that a disk writes atomically.
const SECTOR: usize = 512;

/// Percentages of unsynced sectors that survive.
const KEPT: [u64; 5] = [0, 10, 50, 90, 100];

/// The files by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    pub cut: usize,
    pub seed: u64,
    files: BTreeMap<String, Vec<u8>>,
}

impl Image {
    pub(crate) const fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    /// Writes the files into a folder without these names.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        self.files.iter().try_for_each(|(name, bytes)| std::fs::write(folder.join(name), bytes))
    }
}

#[derive(Clone, Debug, Default)]
struct File {
    durable: Vec<u8>,
    /// Changes since the last sync, as indices in the recording.
    pending: Vec<usize>,
}

type Names = BTreeMap<String, usize>;

/// Replays a recording once, from cut to cut.
#[derive(Debug)]
pub struct Images<'a> {
    recording: &'a Recording,
    done: usize,
    files: Vec<File>,
    /// The system reuses inode numbers, so the latest file counts.
    by_number: BTreeMap<u64, usize>,
    names: Names,
    /// The names at the folder's last sync, and after each change since.
    since: Vec<Names>,
}

impl<'a> Images<'a> {
    /// Before the first change.
    #[must_use]
    pub fn new(recording: &'a Recording) -> Self {
        let (files, by_number, names) = (Vec::new(), BTreeMap::new(), Names::new());
        Self { recording, done: 0, files, by_number, names, since: vec![Names::new()] }
    }

    /// One disk that a cut after `cut` changes could leave. `cut` must not decrease between calls.
    ///
    /// # Panics
    /// If the recording names an unknown file.
    pub fn after(&mut self, cut: usize, seed: u64) -> Image {
        let recording = self.recording;
        for (place, change) in recording.changes().enumerate().take(cut).skip(self.done) {
            self.take(place, change);
        }
        self.done = self.done.max(cut);
        let mut random = Random::new(seed);
        let names = &self.since[random.place(self.since.len())];
        let kept = KEPT[random.place(KEPT.len())];
        let mut made: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        for file in names.values() {
            made.entry(*file).or_insert_with(|| self.content(*file, kept, &mut random));
        }
        let files = names.iter().map(|(name, file)| (name.clone(), made[file].clone())).collect();
        Image { cut, seed, files }
    }

    /// The disk after the last change, without a cut.
    ///
    /// # Panics
    /// As [`Self::after`].
    pub fn whole(mut self) -> Image {
        let cut = self.recording.len();
        drop(self.after(cut, 0));
        let all = |file: &usize| self.content(*file, 100, &mut Random::new(0));
        let files = self.names.iter().map(|(name, file)| (name.clone(), all(file))).collect();
        Image { cut, seed: 0, files }
    }

    fn take(&mut self, place: usize, change: &Change) {
        match change {
            Change::Create { file, name } => {
                self.by_number.insert(*file, self.files.len());
                self.names.insert(name.clone(), self.files.len());
                self.files.push(File::default());
            }
            Change::Write { file, .. } | Change::Truncate { file, .. } => {
                self.file(*file).pending.push(place);
            }
            Change::Sync { file } => return self.sync(*file),
            // A failed sync of the folder makes no name durable, and a later one does.
            Change::FailedSync { file } if !self.by_number.contains_key(file) => return,
            Change::FailedSync { file } => {
                let recording = self.recording;
                // The file system's journal holds lengths, so a failed sync of bytes does not lose them.
                let stays = |place: &usize| matches!(recording.change(*place), Change::Truncate { .. });
                return self.file(*file).pending.retain(stays);
            }
            Change::Unlink { name } => drop(self.names.remove(name)),
            Change::Rename { from, to } => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            Change::Link { from, to } => {
                if let Some(file) = self.names.get(from).copied() {
                    self.names.insert(to.clone(), file);
                }
            }
        }
        if !matches!(change, Change::Write { .. } | Change::Truncate { .. }) {
            self.since.push(self.names.clone());
        }
    }

    fn file(&mut self, number: u64) -> &mut File {
        let place = self.by_number.get(&number);
        &mut self.files[*place.expect("a file is created before it is written")]
    }

    fn sync(&mut self, number: u64) {
        let Some(place) = self.by_number.get(&number).copied() else {
            self.since = vec![self.names.clone()];
            return;
        };
        let recording = self.recording;
        let file = &mut self.files[place];
        for place in std::mem::take(&mut file.pending) {
            apply(&mut file.durable, recording.change(place), |_| true);
        }
    }

    fn content(&self, file: usize, kept: u64, random: &mut Random) -> Vec<u8> {
        let file = &self.files[file];
        let mut bytes = file.durable.clone();
        for place in &file.pending {
            apply(&mut bytes, self.recording.change(*place), |_| random.below(100) < kept);
        }
        bytes
    }
}

/// Applies a change to the sectors that `keeps` selects.
fn apply(file: &mut Vec<u8>, change: &Change, mut keeps: impl FnMut(usize) -> bool) {
    match change {
        Change::Write { offset, bytes, .. } => {
            let (mut from, end) = (*offset, offset + bytes.len());
            while from < end {
                let until = (from / SECTOR + 1).saturating_mul(SECTOR).min(end);
                if keeps(from) {
                    if file.len() < until {
                        file.resize(until, 0);
                    }
                    file[from..until].copy_from_slice(&bytes[from - offset..until - offset]);
                }
                from = until;
            }
        }
        Change::Truncate { length, .. } if keeps(*length) => file.resize(*length, 0),
        _ => {}
    }
}
