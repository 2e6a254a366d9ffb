//! The record, as changes.

/// The head of each: its kind, the file, a place and a length.
const HEAD: usize = 32;

/// One change of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new file got a name.
    Create {
        /// Which file.
        file: u64,
        /// Its name.
        name: String,
    },
    /// Bytes were written.
    Write {
        /// Into which file.
        file: u64,
        /// From where.
        offset: usize,
        /// These.
        bytes: Vec<u8>,
    },
    /// A file got another length.
    Truncate {
        /// Which file.
        file: u64,
        /// Its length now.
        length: usize,
    },
    /// All that was written before is on the disk, of a file or of the folder.
    Sync {
        /// Which file.
        file: u64,
    },
    /// All that was written to a file since its last sync is lost, though programs still read it.
    FailedSync {
        /// Which file.
        file: u64,
    },
    /// A name is gone.
    Unlink {
        /// Which name.
        name: String,
    },
    /// A file has another name.
    Rename {
        /// Before.
        from: String,
        /// After.
        to: String,
    },
    /// A file has one more name.
    Link {
        /// A name that it has.
        from: String,
        /// The other one.
        to: String,
    },
}

/// What was recorded, in its order.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Each change, and how long the record was with it.
    changes: Vec<(u64, Change)>,
}

impl Recording {
    pub(crate) fn read(record: &[u8]) -> Self {
        let mut changes = Vec::new();
        let (mut rest, mut position) = (record, 0);
        // The last may be cut short, if its program was killed.
        while let Some((change, length)) = Change::read(rest) {
            position += length as u64;
            changes.push((position, change));
            rest = &rest[length..];
        }
        Self { changes }
    }

    /// How many changes there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The changes.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().map(|(_, change)| change)
    }

    pub(crate) fn change(&self, place: usize) -> &Change {
        &self.changes[place].1
    }

    /// How many changes were recorded when the record was so long.
    #[must_use]
    pub fn before(&self, position: u64) -> usize {
        self.changes.partition_point(|(end, _)| *end <= position)
    }

    /// The places of changes of which this holds.
    #[must_use]
    pub fn places(&self, holds: impl Fn(&Change) -> bool) -> Vec<usize> {
        let holding = self.changes().enumerate().filter(|(_, change)| holds(change));
        holding.map(|(place, _)| place).collect()
    }

    /// The files that ever had a name with that end.
    #[must_use]
    pub fn files_named(&self, end: &str) -> Vec<u64> {
        let named = self.changes().filter_map(|change| match change {
            Change::Create { file, name } if name.ends_with(end) => Some(*file),
            _ => None,
        });
        named.collect()
    }
}

impl Change {
    /// One from the front of the record, and how long it is there; nothing, where that is not whole.
    fn read(record: &[u8]) -> Option<(Self, usize)> {
        let number = |place: usize| {
            let bytes = record.get(place * 8..place * 8 + 8)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        let size = |place: usize| usize::try_from(number(place)?).ok();
        let (kind, file, offset, length) = (number(0)?, number(1)?, size(2)?, size(3)?);
        // A length that a file got brings no bytes along.
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
