//! A trace in memory. The reader refuses an invalid trace, and marks one without a trailer as cut short: its
//! run died, and no check may pass on it.
//!
//! It refuses:
//!
//! - a missing header, another version's format, a line that is no record;
//! - times that run back by more than [`DISORDER`], the longest delay between the threads that record;
//! - an answer without its arrival, or two to one; an outcome without its offer, or an offer without its
//!   outcome;
//! - counts that differ from the trailer's, lines after it, a scenario with another SHA-256.
//!
//! It drops offers that the harness could not hand over, and, where the trailer counts lost records, the
//! lines that refer to those.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::fault::{Fault, Process, Undone};
use super::harness::{Dead, Declared, Depth, Host, Offset, Reached, Stall, Unoffered};
use super::record::{
    Accepted, Answer, Arrival, Cut, Ended, Header, Offer, Record, Refused, SharedSecret, Shares, Trailer,
};
use crate::scenario::SECOND;
use crate::signature::sha256_hex;

/// The format that this version writes and reads.
pub const FORMAT: u32 = 2;
/// How far a line's time may precede that of an earlier line, in nanoseconds.
pub const DISORDER: u64 = 2 * SECOND;
/// The most bytes that are read, decompressed: the whole trace stays in memory.
const BYTES_MAX: u64 = 8 << 30;

/// Each list has the order of its lines; arrivals go by number.
#[derive(Clone, Debug)]
pub struct Trace {
    pub header: Header,
    pub offers: Vec<Offer>,
    pub accepted: Vec<Accepted>,
    pub refused: Vec<Refused>,
    /// `arrivals[n].n == n`.
    pub arrivals: Vec<Arrival>,
    pub answers: Vec<Answer>,
    pub cuts: Vec<Cut>,
    pub faults: Vec<Fault>,
    pub processes: Vec<Process>,
    pub depths: Vec<Depth>,
    pub dead: Vec<Dead>,
    pub shared: Vec<SharedSecret>,
    pub host: Host,
    /// The driver file's; without any, the sender lacks nothing.
    pub declared: Declared,
    pub stalls: Vec<Stall>,
    pub unoffered: Vec<Unoffered>,
    pub undone: Vec<Undone>,
    /// The way to the endpoints, and the requests that matched none.
    pub reached: Reached,
    pub offset: Option<Offset>,
    pub trailer: Option<Trailer>,
}

#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("reading the trace failed: {0}")]
    Io(#[from] std::io::Error),
    #[error("the trace is empty; expected a header in its first line")]
    Empty,
    #[error("the trace has no header; expected one in its first line")]
    NoHeader,
    #[error("the trace has format {0}; expected {FORMAT}: judge it with the version that wrote it")]
    Format(u32),
    #[error("the trace is larger than {} GiB; record a shorter run", BYTES_MAX >> 30)]
    Large,
    #[error("line {line} of the trace is not a record: {why}")]
    Line { line: u64, why: String },
    #[error("the trace contradicts itself: {0}")]
    Contradiction(String),
}

impl Trace {
    #[must_use]
    pub fn of(header: Header) -> Self {
        Self {
            header,
            offers: Vec::new(),
            accepted: Vec::new(),
            refused: Vec::new(),
            arrivals: Vec::new(),
            answers: Vec::new(),
            cuts: Vec::new(),
            faults: Vec::new(),
            processes: Vec::new(),
            depths: Vec::new(),
            dead: Vec::new(),
            shared: Vec::new(),
            host: Host::default(),
            declared: Declared::default(),
            stalls: Vec::new(),
            unoffered: Vec::new(),
            undone: Vec::new(),
            reached: Reached::default(),
            offset: None,
            trailer: None,
        }
    }

    pub(super) fn add(&mut self, record: Record, lines: u64) -> Result<(), TraceError> {
        match record {
            Record::Header(_) => {
                return Err(TraceError::Line { line: lines + 1, why: "it is a second header".to_owned() });
            }
            Record::Offer(one) => self.offers.push(one),
            Record::Accepted(one) => self.accepted.push(one),
            Record::Refused(one) => self.refused.push(one),
            Record::Arrival(one) => self.arrivals.push(one),
            Record::Answer(one) => self.answers.push(one),
            Record::Cut(one) => self.cuts.push(one),
            Record::Fault(one) => self.faults.push(one),
            Record::Process(one) => self.processes.push(one),
            Record::Depth(one) => self.depths.push(one),
            Record::Dead(one) => self.dead.push(one),
            Record::SharedSecret(one) => self.shared.push(one),
            Record::Ceiling(one) => self.host.ceiling = Some(one),
            Record::Machine(one) => self.host.machine = Some(one),
            Record::ClockSet(one) => self.host.clock_sets.push(one),
            Record::Declared(one) => self.declared = one,
            Record::Stall(one) => self.stalls.push(one),
            Record::Unoffered(one) => self.unoffered.push(one),
            Record::Offset(one) => self.offset = Some(one),
            Record::Public(one) => self.reached.public = Some(one),
            Record::Stray(one) => self.reached.strays.push(one),
            Record::Handshake(one) => self.reached.handshakes.push(one),
            Record::Certificate(one) => self.reached.certificates.push(one),
            Record::Permission(one) => self.reached.permissions.push(one),
            Record::Undone(one) => {
                one.take_back(&mut self.faults, &mut self.processes);
                self.undone.push(one);
            }
            Record::Trailer(one) => {
                count("lines", one.lines, lines)?;
                count("offers", one.offers, self.offers.len() as u64)?;
                count("arrivals", one.arrivals, self.arrivals.len() as u64)?;
                self.trailer = Some(one);
            }
        }
        Ok(())
    }

    pub fn settle(&mut self) -> Result<(), TraceError> {
        self.leave_out_unoffered();
        self.close_holes();
        self.arrivals.sort_by_key(|arrival| arrival.n);
        self.begin_connections();
        for (at, arrival) in self.arrivals.iter().enumerate() {
            if arrival.n != at as u64 {
                return contradiction(format!("arrival {at} is missing or recorded twice"));
            }
            if arrival.read < arrival.t {
                return contradiction(format!("arrival {at} was read before it arrived"));
            }
        }
        let came =
            |n: u64| usize::try_from(n).ok().and_then(|n| self.arrivals.get(n)).map(|arrival| arrival.t);
        for answer in &self.answers {
            match came(answer.n) {
                Some(t) if t <= answer.t && answer.t <= answer.end => {}
                Some(_) => {
                    return contradiction(format!("arrival {} was answered before it arrived", answer.n));
                }
                None => {
                    return contradiction(format!(
                        "an answer to arrival {}, which is not recorded",
                        answer.n
                    ));
                }
            }
        }
        if let Some(n) = self.cuts.iter().filter_map(|cut| cut.n).find(|n| came(*n).is_none()) {
            return contradiction(format!("a cut of arrival {n}, which is not recorded"));
        }
        let mut answered: Vec<u64> = self.answers.iter().map(|answer| answer.n).collect();
        answered.sort_unstable();
        if let Some(pair) = answered.windows(2).find(|pair| pair[0] == pair[1]) {
            return contradiction(format!("two answers to arrival {}", pair[0]));
        }
        self.outcomes()?;
        self.nothing_later()
    }

    /// Not before the trailer is read, since it counts them.
    fn leave_out_unoffered(&mut self) {
        if self.trailer.is_none() || self.unoffered.is_empty() {
            return;
        }
        // An event that is offered twice has two intended moments.
        let unoffered: BTreeSet<_> = self.unoffered.iter().map(|one| (one.token, one.intended)).collect();
        self.offers.retain(|offer| !unoffered.contains(&(offer.token, offer.intended)));
    }

    fn begin_connections(&mut self) {
        let handshakes = &mut self.reached.handshakes;
        handshakes.sort_by_key(|one| one.connection);
        if handshakes.is_empty() {
            return;
        }
        for arrival in &self.arrivals {
            let at = handshakes.binary_search_by_key(&arrival.connection, |one| one.connection);
            if let Ok(at) = at {
                handshakes[at].first.get_or_insert(arrival.n);
            }
        }
    }

    /// In a run that was not done, some offers have no outcome.
    fn outcomes(&self) -> Result<(), TraceError> {
        let mut left: BTreeMap<u64, u64> = BTreeMap::new();
        for offer in &self.offers {
            *left.entry(offer.token).or_default() += 1;
        }
        let outcomes =
            self.accepted.iter().map(|one| one.token).chain(self.refused.iter().map(|one| one.token));
        for token in outcomes {
            match left.get_mut(&token) {
                Some(0) => return contradiction(format!("more outcomes for event {token} than offers")),
                Some(count) => *count -= 1,
                None => {
                    return contradiction(format!("an outcome for event {token}, which was never offered"));
                }
            }
        }
        let whole = |trailer: &Trailer| trailer.ended == Ended::Done && trailer.dropped == 0;
        let open = left.iter().find(|(_, count)| **count > 0);
        match open.filter(|_| self.trailer.as_ref().is_some_and(whole)) {
            Some((token, _)) => {
                contradiction(format!("no outcome for event {token}, though the run was complete"))
            }
            None => Ok(()),
        }
    }

    /// Tolerates [`DISORDER`].
    fn nothing_later(&self) -> Result<(), TraceError> {
        let Some(trailer) = &self.trailer else { return Ok(()) };
        let ends = [
            self.arrivals.iter().map(|one| one.read).max(),
            self.answers.iter().map(|one| one.end).max(),
            self.offers.iter().map(|one| one.t).max(),
        ];
        match ends.into_iter().flatten().max().filter(|t| *t > trailer.t.saturating_add(DISORDER)) {
            Some(t) => {
                contradiction(format!("the run ended at {} ns, but a line has the time {t} ns", trailer.t))
            }
            None => Ok(()),
        }
    }
}

fn contradiction(what: String) -> Result<(), TraceError> {
    Err(TraceError::Contradiction(what))
}

fn count(what: &str, said: u64, found: u64) -> Result<(), TraceError> {
    if said == found {
        return Ok(());
    }
    contradiction(format!("the trailer counts {said} {what}, but the trace has {found}"))
}

/// In bytes.
const LINE_MAX: u64 = 16 << 20;
const WHY_CHARS_MAX: usize = 200;

impl Trace {
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

struct Reading {
    pub(super) trace: Trace,
    line: Vec<u8>,
    lines: u64,
    bytes: u64,
    latest: u64,
    shares: Shares,
}

impl Reading {
    /// Answers whether its line is whole.
    pub(super) fn begin(source: &mut impl BufRead) -> Result<(Self, bool), TraceError> {
        let mut line = Vec::new();
        let whole = read_line(source, &mut line, 1)?.ok_or(TraceError::Empty)?;
        let trace = Trace::of(header(&line)?);
        let bytes = line.len() as u64;
        Ok((Self { trace, line, lines: 1, bytes, latest: 0, shares: Shares::default() }, whole))
    }

    /// Answers whether it is whole, or none at the end.
    pub(super) fn next(&mut self, source: &mut impl BufRead) -> Result<Option<bool>, TraceError> {
        let whole = read_line(source, &mut self.line, self.lines + 1)?;
        if self.bytes + self.line.len() as u64 > BYTES_MAX {
            return Err(TraceError::Large);
        }
        Ok(whole)
    }

    pub(super) fn length(&self) -> usize {
        self.line.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn record(&self) -> Result<Record, TraceError> {
        serde_json::from_slice(&self.line).map_err(|error| self.refused(why(&error)))
    }

    pub(super) fn take(&mut self, mut record: Record) -> Result<(), TraceError> {
        if self.trace.trailer.is_some() {
            return Err(self.refused("it follows the trailer, which must be the last line".to_owned()));
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

    /// Exempts records that are written late by nature (a fault, a report of the queue).
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
            let why = format!(
                "its time is {t} ns, though an earlier line has {} ns: the trace was reordered",
                self.latest
            );
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
                "the scenario in its header does not match the SHA-256 in its header".to_owned(),
            ))
        }
        Ok(Record::Header(header)) => Ok(*header),
        Ok(_) => Err(TraceError::NoHeader),
        Err(error) => Err(TraceError::Line { line: 1, why: why(&error) }),
    }
}

fn why(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let mut letters = text.strip_suffix(&place).unwrap_or(&text).chars();
    let first = letters.by_ref().take(WHY_CHARS_MAX);
    let mut why: String = first.map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if letters.next().is_some() {
        why.push('…');
    }
    format!("{why}, at column {}", error.column())
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

/// They stay in memory, beside the run.
const GROWING_BYTES_MAX: u64 = 256 << 20;

pub struct Growing {
    source: BufReader<File>,
    reading: Reading,
}

impl Growing {
    pub fn open(path: &Path) -> Result<Option<Self>, TraceError> {
        let mut source = BufReader::with_capacity(1 << 16, File::open(path)?);
        match Reading::begin(&mut source) {
            Ok((reading, true)) => Ok(Some(Self { source, reading })),
            Ok((_, false)) | Err(TraceError::Empty | TraceError::NoHeader) => Ok(None),
            Err(error) => Err(error),
        }
    }

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
        self.reading.bytes() >= GROWING_BYTES_MAX
    }
}

// Drops each line that refers to a lost record. No check passes or fails on such a trace. Without lost records such a
// line is an error.

impl Trace {
    /// 0 for a truncated trace.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.trailer.as_ref().map_or(0, |trailer| trailer.dropped)
    }

    /// Duplicate arrival numbers stay, and are refused later.
    pub(super) fn close_holes(&mut self) {
        if self.dropped() == 0 {
            return;
        }
        self.number_arrivals();
        self.leave_out_outcomes();
    }

    fn number_arrivals(&mut self) {
        self.arrivals.sort_by_key(|arrival| arrival.n);
        let numbers: Vec<u64> = self.arrivals.iter().map(|arrival| arrival.n).collect();
        if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
            return;
        }
        let place = |n: u64| numbers.binary_search(&n).ok().map(|at| at as u64);
        for (n, arrival) in (0..).zip(&mut self.arrivals) {
            arrival.n = n;
        }
        self.answers.retain_mut(|answer| {
            let place = place(answer.n);
            answer.n = place.unwrap_or(answer.n);
            place.is_some()
        });
        self.cuts.retain_mut(|cut| {
            let place = cut.n.map(place);
            cut.n = place.flatten();
            place != Some(None)
        });
        for handshake in &mut self.reached.handshakes {
            // It holds an old number.
            handshake.first = None;
        }
    }

    /// Keeps at most as many outcomes of an event as there are offers.
    fn leave_out_outcomes(&mut self) {
        let mut left: BTreeMap<u64, u64> = BTreeMap::new();
        for offer in &self.offers {
            *left.entry(offer.token).or_default() += 1;
        }
        let mut take = |token: u64| {
            let left = left.get_mut(&token).filter(|left| **left > 0);
            left.map(|left| *left -= 1).is_some()
        };
        self.accepted.retain(|one| take(one.token));
        self.refused.retain(|one| take(one.token));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::trace::{End, Ended, Offer, Record, Text, Unoffered, Writer};

    #[test]
    fn an_unoffered_event_is_left_out_of_the_complete_trace() {
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

    #[test]
    fn a_partial_line_is_read_once_it_is_complete() {
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
