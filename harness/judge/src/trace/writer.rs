//! Writes a trace: a header, the records in their given order, a trailer with their counts.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::lines::{Counts, Lines};
use super::record::{Ended, Header, Record, Trailer};

/// Fast rather than small.
const ZSTD_LEVEL: i32 = 3;

/// Writes a trace to a sink. It counts its lines, so the trailer is always right.
pub struct Writer<W: Write> {
    sink: W,
    /// The last line, kept for its capacity.
    line: Lines,
    counts: Counts,
}

/// The part of the trailer that only the run knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub t: u64,
    pub ended: Ended,
    pub dead_listed: bool,
    /// Events that the generator released later than its budget.
    pub late: u64,
    pub dropped: u64,
}

impl<W: Write> Writer<W> {
    pub fn new(sink: W, header: Header) -> io::Result<Self> {
        let mut writer = Self { sink, line: Lines::default(), counts: Counts::default() };
        writer.write(&Record::Header(Box::new(header)))?;
        Ok(writer)
    }

    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        line.push(record)?;
        self.append(&line)?;
        self.line = line;
        Ok(())
    }

    pub(super) fn append(&mut self, lines: &Lines) -> io::Result<()> {
        self.sink.write_all(lines.text())?;
        self.counts.add(lines.counts);
        Ok(())
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    /// Ends the trace. Without this it counts as cut short.
    pub fn finish(mut self, end: End) -> io::Result<W> {
        let Counts { lines, offers, arrivals } = self.counts;
        let End { t, ended, dead_listed, late, dropped } = end;
        self.write(&Record::Trailer(Trailer {
            t,
            ended,
            lines,
            offers,
            arrivals,
            dead_listed,
            late,
            dropped,
        }))?;
        self.sink.flush()?;
        Ok(self.sink)
    }
}

/// A trace file, compressed if its name ends in `.zst`.
pub enum TraceFile {
    Plain(BufWriter<File>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

impl TraceFile {
    /// Creates the file, or empties it.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::over(File::create(path)?, path)
    }

    /// Creates the file, or opens it with its content. The caller empties it by [`Self::empty`] before the
    /// first write.
    pub fn reserve(path: &Path) -> io::Result<Self> {
        Self::over(File::options().write(true).create(true).truncate(false).open(path)?, path)
    }

    /// Empties a file before its first write.
    pub fn empty(path: &Path) -> io::Result<()> {
        File::options().write(true).truncate(true).open(path).map(drop)
    }

    fn over(file: File, path: &Path) -> io::Result<Self> {
        let file = BufWriter::with_capacity(1 << 16, file);
        if path.extension().is_some_and(|extension| extension == "zst") {
            zstd::Encoder::new(file, ZSTD_LEVEL).map(Self::Zstd)
        } else {
            Ok(Self::Plain(file))
        }
    }

    /// Writes the rest. A compressed file that misses this can't be read to its end.
    pub fn close(self) -> io::Result<()> {
        match self {
            Self::Plain(mut file) => file.flush(),
            Self::Zstd(encoder) => encoder.finish()?.flush(),
        }
    }
}

impl Write for TraceFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }
}
