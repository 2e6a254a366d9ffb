//! Records as the lines of a trace, and how many there are of what its trailer counts.

use super::frequent;
use super::record::Record;

/// The room that is kept for lines which come next.
const IDLE_BYTES_MAX: usize = 1 << 20;

/// Lines, one behind another.
#[derive(Debug, Default)]
pub(super) struct Lines {
    text: Vec<u8>,
    pub(super) counts: Counts,
}

/// How many lines there are, of all kinds and of some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) lines: u64,
    pub(super) offers: u64,
    pub(super) arrivals: u64,
}

impl Counts {
    pub(super) const fn add(&mut self, other: Self) {
        self.lines += other.lines;
        self.offers += other.offers;
        self.arrivals += other.arrivals;
    }
}

impl Lines {
    /// Adds a record.
    pub(super) fn push(&mut self, record: &Record) -> serde_json::Result<()> {
        let length = self.text.len();
        let written = frequent::write(&mut self.text, record);
        let written = written.unwrap_or_else(|| serde_json::to_writer(&mut self.text, record));
        written.inspect_err(|_| self.text.truncate(length))?;
        self.text.push(b'\n');
        self.counts.add(Counts {
            lines: 1,
            offers: u64::from(matches!(record, Record::Offer(_))),
            arrivals: u64::from(matches!(record, Record::Arrival(_))),
        });
        Ok(())
    }

    /// Adds other lines.
    pub(super) fn append(&mut self, other: &Self) {
        self.text.extend_from_slice(&other.text);
        self.counts.add(other.counts);
    }

    /// Takes all lines out, and keeps some room for others.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(IDLE_BYTES_MAX);
        self.counts = Counts::default();
    }

    /// All of them, each with its end.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }
}
