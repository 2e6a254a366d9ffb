//! Records as lines of a trace, with the counts for its trailer.

use super::frequent;
use super::record::Record;

/// The capacity that `clear` retains.
const IDLE_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Lines {
    text: Vec<u8>,
    pub(super) counts: Counts,
}

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

    pub(super) fn append(&mut self, other: &Self) {
        self.text.extend_from_slice(&other.text);
        self.counts.add(other.counts);
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(IDLE_BYTES_MAX);
        self.counts = Counts::default();
    }

    /// All lines, each with its newline.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }
}
