use std::collections::{BTreeMap, BTreeSet};

/// Kind, file, offset and length.
const HEAD: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Create {
        file: u64,
        name: String,
    },
    Write {
        file: u64,
        offset: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        file: u64,
        length: usize,
    },
    Sync {
        file: u64,
    },
    /// All writes since the file's last sync are lost, though programs still read them.
    FailedSync {
        file: u64,
    },
    Unlink {
        name: String,
    },
    Rename {
        from: String,
        to: String,
    },
    /// A name was added to a file.
    Link {
        from: String,
        to: String,
    },
}

#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Each change, with the recording's length after it.
    changes: Vec<(u64, Change)>,
}

impl Recording {
    pub(crate) fn read(record: &[u8]) -> Self {
        let mut changes = Vec::new();
        let (mut rest, mut position) = (record, 0);
        // Incomplete if the program was killed.
        while let Some((change, length)) = Change::read(rest) {
            position += length as u64;
            changes.push((position, change));
            rest = &rest[length..];
        }
        Self { changes }
    }

    #[must_use]
    pub const fn len(&self) -> usize {
        self.changes.len()
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().map(|(_, change)| change)
    }

    pub(crate) fn change(&self, place: usize) -> &Change {
        &self.changes[place].1
    }

    /// Counts changes in the first `position` bytes.
    #[must_use]
    pub fn before(&self, position: u64) -> usize {
        self.changes.partition_point(|(end, _)| *end <= position)
    }

    #[must_use]
    pub fn places(&self, holds: impl Fn(&Change) -> bool) -> Vec<usize> {
        let holding = self.changes().enumerate().filter(|(_, change)| holds(change));
        holding.map(|(place, _)| place).collect()
    }

    /// Files that ever had a name with this suffix, by number.
    #[must_use]
    pub fn files_named(&self, end: &str) -> Vec<u64> {
        let (mut names, mut found) = (BTreeMap::new(), BTreeSet::new());
        for change in self.changes() {
            let (name, file) = match change {
                Change::Create { file, name } => (name, Some(*file)),
                Change::Link { from, to } | Change::Rename { from, to } => (to, names.get(from).copied()),
                _ => continue,
            };
            let Some(file) = file else { continue };
            names.insert(name.clone(), file);
            if name.ends_with(end) {
                found.insert(file);
            }
        }
        found.into_iter().collect()
    }
}

impl Change {
    /// `None` if the record is incomplete.
    fn read(record: &[u8]) -> Option<(Self, usize)> {
        let number = |place: usize| {
            let bytes = record.get(place * 8..place * 8 + 8)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        let size = |place: usize| usize::try_from(number(place)?).ok();
        let (kind, file, offset, length) = (number(0)?, number(1)?, size(2)?, size(3)?);
        // `length` is a file's new length.
        let bytes = match kind {
            3..=5 => &[],
            _ => record.get(HEAD..HEAD.checked_add(length)?)?,
        };
        let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let two = || {
            let (from, to) = bytes.split_at_checked(usize::try_from(file).ok()?)?;
            Some((name(from), name(to)))
        };
        let change = match kind {
            1 => Self::Create { file, name: name(bytes) },
            2 => Self::Write { file, offset, bytes: bytes.to_vec() },
            3 => Self::Truncate { file, length },
            4 => Self::Sync { file },
            5 => Self::FailedSync { file },
            6 => Self::Unlink { name: name(bytes) },
            7 => two().map(|(from, to)| Self::Rename { from, to })?,
            8 => two().map(|(from, to)| Self::Link { from, to })?,
            _ => return None,
        };
        Some((change, HEAD + bytes.len()))
    }
}
