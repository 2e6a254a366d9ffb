//! Reads a trace line by line, and trusts none of it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::reader::{BYTES_MAX, DISORDER, FORMAT, Trace, TraceError};
use super::record::{Header, Record};
use super::shares::Shares;
use crate::signature::digest::sha256_hex;

/// The longest line, in bytes.
const LINE_MAX: u64 = 16 << 20;

impl Trace {
    /// Reads the trace in a file; decompresses it if the name ends in `.zst`.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path)?;
        if path.extension().is_some_and(|extension| extension == "zst") {
            Self::read(BufReader::with_capacity(1 << 16, zstd::Decoder::new(file)?))
        } else {
            Self::read(BufReader::with_capacity(1 << 16, file))
        }
    }

    pub fn read(mut source: impl BufRead) -> Result<Self, TraceError> {
        let (mut reading, _) = Reading::begin(&mut source)?;
        loop {
            let whole = match reading.next(&mut source) {
                Ok(Some(whole)) => whole,
                Ok(None) => break,
                // The compressed file of a writer that died ends within a block.
                Err(TraceError::Io(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            };
            match reading.record() {
                Ok(record) => reading.take(record)?,
                // The last line of a run that died may be incomplete.
                Err(_) if !whole => break,
                Err(error) => return Err(error),
            }
        }
        let mut trace = reading.trace;
        trace.settle()?;
        Ok(trace)
    }
}

/// A trace as far as it was read.
pub(super) struct Reading {
    pub(super) trace: Trace,
    /// The last line that was read.
    line: Vec<u8>,
    /// Lines that were added to the trace.
    lines: u64,
    bytes: u64,
    /// The latest time of a line.
    latest: u64,
    shares: Shares,
}

impl Reading {
    /// Reads the header; answers whether its line is whole.
    pub(super) fn begin(source: &mut impl BufRead) -> Result<(Self, bool), TraceError> {
        let mut line = Vec::new();
        let whole = read_line(source, &mut line, 1)?.ok_or(TraceError::Empty)?;
        let trace = Trace::of(header(&line)?);
        let bytes = line.len() as u64;
        Ok((Self { trace, line, lines: 1, bytes, latest: 0, shares: Shares::default() }, whole))
    }

    /// Reads the next line; answers whether it is whole, or none at the end.
    pub(super) fn next(&mut self, source: &mut impl BufRead) -> Result<Option<bool>, TraceError> {
        let whole = read_line(source, &mut self.line, self.lines + 1)?;
        if self.bytes + self.line.len() as u64 > BYTES_MAX {
            return Err(TraceError::Large);
        }
        Ok(whole)
    }

    /// The length of the last line, without its newline.
    pub(super) fn length(&self) -> usize {
        self.line.len()
    }

    /// The bytes that were added, without newlines.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn record(&self) -> Result<Record, TraceError> {
        let refused = |error: serde_json::Error| self.refused(error.to_string());
        serde_json::from_slice(&self.line).map_err(refused)
    }

    pub(super) fn take(&mut self, mut record: Record) -> Result<(), TraceError> {
        if self.trace.trailer.is_some() {
            return Err(self.refused("it comes after the trailer, which a run writes last".to_owned()));
        }
        self.in_order(&record)?;
        self.shares.share(&mut record);
        self.trace.add(record, self.lines)?;
        self.lines += 1;
        self.bytes += self.line.len() as u64;
        Ok(())
    }

    fn refused(&self, why: String) -> TraceError {
        TraceError::Line { line: self.lines + 1, why }
    }

    /// Refuses a line whose time precedes that of an earlier one by more than [`DISORDER`]. Records written
    /// late by nature (a fault, a report of the queue) are exempt.
    fn in_order(&mut self, record: &Record) -> Result<(), TraceError> {
        let t = match record {
            Record::Offer(one) => one.t,
            Record::Accepted(one) => one.t,
            Record::Refused(one) => one.t,
            Record::Arrival(one) => one.read,
            Record::Answer(one) => one.end,
            Record::Cut(one) => one.t,
            _ => return Ok(()),
        };
        if t.saturating_add(DISORDER) < self.latest {
            let why =
                format!("its time is {t} ns, after a line of {} ns: the trace was reordered", self.latest);
            return Err(self.refused(why));
        }
        self.latest = t.max(self.latest);
        Ok(())
    }
}

fn header(line: &[u8]) -> Result<Header, TraceError> {
    // The version comes first: another format may have other fields.
    #[derive(serde::Deserialize)]
    struct Version {
        k: String,
        format: u32,
    }
    let version: Version = serde_json::from_slice(line).map_err(|_| TraceError::NoHeader)?;
    if version.k != "header" {
        return Err(TraceError::NoHeader);
    }
    if version.format != FORMAT {
        return Err(TraceError::Format(version.format));
    }
    match serde_json::from_slice(line) {
        Ok(Record::Header(header))
            if header.scenario_sha256 != sha256_hex(header.scenario_toml.as_bytes()) =>
        {
            Err(TraceError::Contradiction(
                "the scenario in its header is not the one that was played: its SHA-256 is another"
                    .to_owned(),
            ))
        }
        Ok(Record::Header(header)) => Ok(*header),
        Ok(_) => Err(TraceError::NoHeader),
        Err(error) => Err(TraceError::Line { line: 1, why: error.to_string() }),
    }
}

/// The next line without its newline, and whether it had one.
fn read_line(source: &mut impl BufRead, line: &mut Vec<u8>, at: u64) -> Result<Option<bool>, TraceError> {
    line.clear();
    let read = source.by_ref().take(LINE_MAX).read_until(b'\n', line)?;
    if read == 0 {
        return Ok(None);
    }
    if read as u64 == LINE_MAX {
        return Err(TraceError::Line { line: at, why: format!("it is longer than {LINE_MAX} bytes") });
    }
    let whole = line.last() == Some(&b'\n');
    if whole {
        line.pop();
    }
    Ok(Some(whole))
}
