//! Reads a trace while another process writes it, without locking or asking the writer.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::reader::{Trace, TraceError};
use super::reading::Reading;

/// The most bytes that are read: they stay in memory, beside the run.
const BYTES_MAX: u64 = 256 << 20;

/// A trace file that a run still writes.
pub struct Growing {
    source: BufReader<File>,
    reading: Reading,
}

impl Growing {
    /// Opens a growing trace; none before its header is written.
    pub fn open(path: &Path) -> Result<Option<Self>, TraceError> {
        let mut source = BufReader::with_capacity(1 << 16, File::open(path)?);
        match Reading::begin(&mut source) {
            Ok((reading, true)) => Ok(Some(Self { source, reading })),
            Ok((_, false)) | Err(TraceError::Empty | TraceError::NoHeader) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the new lines, up to the bound, as a truncated trace.
    pub fn catch_up(&mut self) -> Result<&Trace, TraceError> {
        while !self.is_full() {
            match self.reading.next(&mut self.source)? {
                Some(true) => {
                    let record = self.reading.record()?;
                    self.reading.take(record)?;
                }
                // A half-written line is read again once it is whole.
                Some(false) => {
                    let length = i64::try_from(self.reading.length()).unwrap_or(i64::MAX);
                    self.source.seek_relative(-length)?;
                    break;
                }
                None => break,
            }
        }
        self.reading.trace.settle()?;
        Ok(&self.reading.trace)
    }

    pub fn is_full(&self) -> bool {
        self.reading.bytes() >= BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::trace::{End, Ended, Offer, Record, Text, Unoffered, Writer};

    /// The trailer counts an unoffered event, which is then left out.
    #[test]
    fn what_could_not_be_offered_is_left_out_once_the_trace_is_whole() {
        let good = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/traces/good.jsonl");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl");
        let header = Trace::open(&good).unwrap().header;
        let mut writer = Writer::new(File::create(&path).unwrap(), header).unwrap();
        let (kind, key, owed) = (Text::default(), Text::default(), std::iter::empty().collect());
        let offer = Offer { t: 2, intended: 1, held: 0, token: 7, kind, key, owed };
        let unoffered = Unoffered { t: 3, intended: 1, token: 7, why: "no file is left".to_owned() };
        for record in [Record::Offer(offer), Record::Unoffered(unoffered)] {
            writer.write(&record).unwrap();
        }
        let mut growing = Growing::open(&path).unwrap().unwrap();
        growing.catch_up().unwrap();
        writer.finish(End { t: 4, ended: Ended::Done, dead_listed: true, late: 0, dropped: 0 }).unwrap();
        for _ in 0..2 {
            let trace = growing.catch_up().unwrap();
            assert!(trace.offers.is_empty() && trace.unoffered.len() == 1 && trace.trailer.is_some());
        }
    }

    /// A trace written byte by byte always reads as its whole lines.
    #[test]
    fn what_is_half_written_is_read_once_it_is_whole() {
        let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/traces/good.jsonl");
        let text = std::fs::read(&whole).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl");
        let mut file = File::create(&path).unwrap();
        assert!(Growing::open(&path).unwrap().is_none(), "there is no header yet");
        let header = text.iter().position(|byte| *byte == b'\n').unwrap();
        file.write_all(&text[..header / 2]).unwrap();
        assert!(Growing::open(&path).unwrap().is_none(), "there is half a header");
        file.write_all(&text[header / 2..=header]).unwrap();
        let mut growing = Growing::open(&path).unwrap().unwrap();
        let mut arrivals = 0;
        for piece in text[header + 1..].chunks(97) {
            file.write_all(piece).unwrap();
            let so_far = growing.catch_up().unwrap().arrivals.len();
            assert!(so_far >= arrivals);
            arrivals = so_far;
        }
        let (seen, wanted) = (growing.catch_up().unwrap(), Trace::open(&whole).unwrap());
        assert_eq!(seen.arrivals, wanted.arrivals);
        assert_eq!(
            (&seen.offers, &seen.answers, &seen.trailer),
            (&wanted.offers, &wanted.answers, &wanted.trailer)
        );
    }
}
