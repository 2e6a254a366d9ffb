//! Writes a trace: a header, the records in their given order, a trailer with their counts.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::Result;

use super::record::{Accepted, Answer, Arrival, Ended, Header, Offer, Payload, Record, Trailer};
use super::{Shared, Text};

/// Fast rather than small.
const ZSTD_LEVEL: i32 = 3;

/// It counts its lines, so the trailer is always right.
pub struct Writer<W: Write> {
    sink: W,
    line: Lines,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub t: u64,
    pub ended: Ended,
    pub dead_listed: bool,
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
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::over(File::create(path)?, path)
    }

    /// The caller empties it by [`Self::empty`] before the first write.
    pub fn reserve(path: &Path) -> io::Result<Self> {
        Self::over(File::options().write(true).create(true).truncate(false).open(path)?, path)
    }

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

// Records as lines of a trace, with the counts for its trailer.

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
        let written = write(&mut self.text, record);
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

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }
}

// Writes the most frequent records without a general JSON escaper. The records' own serialization defines the format; a
// test compares both.

type Owed = Shared<[Text]>;

thread_local! {
    static LAST_OWED: RefCell<(Owed, Vec<u8>)> = RefCell::default();
}

pub(super) fn write(text: &mut Vec<u8>, record: &Record) -> Option<Result<()>> {
    let line = Line(text);
    match record {
        Record::Arrival(arrival) => Some(line.arrival(arrival)),
        Record::Answer(answer) => Some(line.answer(answer)),
        Record::Offer(offer) => Some(line.offer(offer)),
        Record::Accepted(accepted) => Some(line.accepted(accepted)),
        _ => None,
    }
}

struct Line<'a>(&'a mut Vec<u8>);

impl Line<'_> {
    fn arrival(mut self, arrival: &Arrival) -> Result<()> {
        self.put(r#"{"k":"arrival","t":"#).number(arrival.t)?;
        self.put(r#","read":"#).number(arrival.read)?;
        self.put(r#","n":"#).number(arrival.n)?;
        self.put(r#","endpoint":"#).text(&arrival.endpoint)?;
        self.put(r#","connection":"#).number(arrival.connection)?;
        if let Some(token) = arrival.token {
            self.put(r#","token":"#).number(token)?;
        }
        if !arrival.more.is_empty() {
            self.put(r#","more":"#).value(&arrival.more)?;
        }
        self.text_of(r#","id":"#, arrival.id.as_deref())?;
        self.text_of(r#","attempt":"#, arrival.attempt.as_deref())?;
        self.put(r#","method":"#).text(&arrival.head.method)?;
        self.put(r#","path":"#).text(&arrival.head.path)?;
        self.text_of(r#","content_type":"#, arrival.head.content_type.as_deref())?;
        self.text_of(r#","forbidden":"#, arrival.head.forbidden.as_deref())?;
        self.text_of(r#","origin":"#, arrival.head.origin.as_deref())?;
        if arrival.head.http2 {
            self.put(r#","http2":true"#);
        }
        self.put(r#","bytes":"#).number(arrival.bytes)?;
        self.put(r#","sha256":"#).text(&arrival.sha256)?;
        match &arrival.payload {
            None => {}
            Some(Payload::Intact) => {
                self.put(r#","payload":"intact""#);
            }
            Some(payload) => self.put(r#","payload":"#).value(payload)?,
        }
        self.text_of(r#","signature":"#, arrival.signed.signature.as_deref())?;
        self.put(r#","verified":"#).value(&arrival.signed.verified)?;
        if arrival.signed.surplus > 0 {
            self.put(r#","surplus":"#).number(arrival.signed.surplus.into())?;
        }
        self.text_of(r#","disclosed":"#, arrival.signed.disclosed.as_deref())?;
        self.text_of(r#","timestamp":"#, arrival.signed.timestamp.as_deref())?;
        self.end()
    }

    fn answer(mut self, answer: &Answer) -> Result<()> {
        self.put(r#"{"k":"answer","t":"#).number(answer.t)?;
        self.put(r#","end":"#).number(answer.end)?;
        self.put(r#","n":"#).number(answer.n)?;
        self.put(r#","status":"#).number(answer.status.into())?;
        self.text_of(r#","retry_after":"#, answer.retry_after.as_deref())?;
        if !answer.whole {
            self.put(r#","whole":false"#);
        }
        self.end()
    }

    fn offer(mut self, offer: &Offer) -> Result<()> {
        self.put(r#"{"k":"offer","t":"#).number(offer.t)?;
        self.put(r#","intended":"#).number(offer.intended)?;
        if offer.held > 0 {
            self.put(r#","held":"#).number(offer.held)?;
        }
        self.put(r#","token":"#).number(offer.token)?;
        self.put(r#","type":"#).text(&offer.kind)?;
        self.put(r#","key":"#).text(&offer.key)?;
        self.put(r#","owed":"#).owed(&offer.owed)?;
        self.end()
    }

    /// Caches the serialized list: it may hold thousands of names, and consecutive offers often share it.
    fn owed(&mut self, owed: &Owed) -> Result<()> {
        LAST_OWED.with_borrow_mut(|last| {
            if last.1.is_empty() || !last.0.is_same(owed) {
                *last = (owed.clone(), serde_json::to_vec(owed)?);
            }
            self.0.extend_from_slice(&last.1);
            Ok(())
        })
    }

    fn accepted(mut self, accepted: &Accepted) -> Result<()> {
        self.put(r#"{"k":"accepted","t":"#).number(accepted.t)?;
        self.put(r#","token":"#).number(accepted.token)?;
        self.put(r#","status":"#).number(accepted.status.into())?;
        if let Some(matched) = accepted.matched {
            self.put(r#","matched":"#).number(matched.into())?;
        }
        self.end()
    }

    fn put(&mut self, own: &str) -> &mut Self {
        self.0.extend_from_slice(own.as_bytes());
        self
    }

    fn end(mut self) -> Result<()> {
        self.put("}");
        Ok(())
    }

    fn value(&mut self, value: &impl serde::Serialize) -> Result<()> {
        serde_json::to_writer(&mut *self.0, value)
    }

    fn number(&mut self, number: u64) -> Result<()> {
        self.value(&number)
    }

    fn text(&mut self, text: &str) -> Result<()> {
        // Without an early exit the compiler vectorises the loop.
        let escaped = |byte: u8| (byte < b' ') | (byte == b'"') | (byte == b'\\');
        if text.bytes().fold(false, |any, byte| any | escaped(byte)) {
            return self.value(&text);
        }
        self.put("\"").put(text).put("\"");
        Ok(())
    }

    fn text_of(&mut self, name: &str, text: Option<&str>) -> Result<()> {
        match text {
            Some(text) => self.put(name).text(text),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Head, Signed, Verified};

    #[track_caller]
    fn check(record: &Record) {
        let mut text = Vec::new();
        write(&mut text, record).expect("it is of such a kind").unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), serde_json::to_string(record).unwrap());
    }

    fn arrival(text: &str, verified: Verified) -> Arrival {
        let text = Text::from(text);
        let head = Head {
            method: text.clone(),
            path: text.clone(),
            content_type: Some(text.clone()),
            forbidden: Some(text.clone()),
            origin: Some(text.clone()),
            http2: true,
        };
        let signature = Some(text.as_str().into());
        Arrival {
            t: 1,
            read: u64::MAX,
            n: 3,
            endpoint: text.clone(),
            connection: 4,
            token: Some(5),
            more: [6, 7].into(),
            id: Some(text.clone()),
            attempt: Some(text.clone()),
            head: head.into(),
            bytes: 8,
            sha256: text.clone(),
            payload: Some(Payload::Altered(text.clone())),
            signed: Signed {
                signature,
                verified,
                surplus: 3,
                disclosed: Some(text.clone()),
                timestamp: Some(text),
            },
        }
    }

    #[test]
    fn a_line_is_what_its_record_is_written_as() {
        for text in ["", "plain", "a \"quoted\" \\ one", "line\nand \u{1} and \u{7f}", "größer 🙂"] {
            for verified in [
                Verified::Keys(vec![0, 12].into()),
                Verified::No(text.into()),
                Verified::Unchecked(text.into()),
            ] {
                let whole = arrival(text, verified);
                let head = Head {
                    content_type: None,
                    forbidden: None,
                    origin: None,
                    http2: false,
                    ..(*whole.head).clone()
                };
                let signed = Signed {
                    signature: None,
                    surplus: 0,
                    disclosed: None,
                    timestamp: None,
                    ..whole.signed.clone()
                };
                let (token, more, id, attempt) = (None, [].into(), None, None);
                let bare = Arrival {
                    token,
                    more,
                    id,
                    attempt,
                    head: head.into(),
                    payload: None,
                    signed,
                    ..whole.clone()
                };
                let intact = Arrival { payload: Some(Payload::Intact), ..bare.clone() };
                check(&Record::Arrival(whole));
                check(&Record::Arrival(intact));
                check(&Record::Arrival(bare));
            }
            for (retry_after, whole) in [(None, true), (Some(text.into()), false)] {
                check(&Record::Answer(Answer { t: 1, end: 2, n: 3, status: 204, retry_after, whole }));
            }
            for (held, owed) in [(0, vec![]), (9, vec![text.into(), "b".into()])] {
                let (kind, key) = (text.into(), text.into());
                check(&Record::Offer(Offer {
                    t: 1,
                    intended: 2,
                    held,
                    token: 3,
                    kind,
                    key,
                    owed: owed.into(),
                }));
            }
        }
        // The same list, an equal list, another list.
        let owed = |names: &[&str]| names.iter().map(|name| Text::from(*name)).collect::<Owed>();
        let (same, alike, others) = (owed(&["a"]), owed(&["a"]), owed(&["b", "c"]));
        for owed in [&same, &same, &alike, &others, &same] {
            let (kind, key, owed) = ("k".into(), "y".into(), owed.clone());
            check(&Record::Offer(Offer { t: 1, intended: 2, held: 0, token: 3, kind, key, owed }));
        }
        for matched in [None, Some(7)] {
            check(&Record::Accepted(Accepted { t: 1, token: 2, status: 202, matched }));
        }
    }
}
