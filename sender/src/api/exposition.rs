//! Metrics in the Prometheus text format (version 0.0.4), written while the client reads: a slow client does not make
//! the process hold all of it. Or gathered for OTLP.

use std::convert::Infallible;
use std::fmt::{self, Write};
use std::pin::Pin;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::mpsc;

/// At most two pieces are in memory: one that waits and one being written.
const PIECE_BYTES: usize = 64 << 10;
/// Room for one more sample.
const SAMPLE_BYTES: usize = 1 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// Only grows, for one database.
    Counter,
    Gauge,
    Histogram,
}

pub(super) enum Exposition {
    Text(Text),
    Gathered(Vec<Gathered>),
}

pub(super) struct Text {
    text: String,
    pieces: mpsc::Sender<Bytes>,
}

/// A family with its samples.
pub(super) struct Gathered {
    pub(super) name: &'static str,
    pub(super) kind: Type,
    pub(super) help: String,
    pub(super) samples: Vec<(Vec<(String, String)>, Sample)>,
}

pub(super) enum Sample {
    Value(Value),
    Histogram(Counted),
}

/// Samples of a histogram.
#[derive(Clone)]
pub(super) struct Counted {
    /// Each bound, with the count of samples up to it.
    pub(super) within: Vec<(&'static str, u64)>,
    pub(super) samples: u64,
    pub(super) sum: Value,
}

impl Exposition {
    pub(super) const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    pub(super) fn body<W: Future<Output = Self> + Send + 'static>(write: impl FnOnce(Self) -> W) -> Body {
        let (sender, pieces) = mpsc::channel(1);
        let text = Text { text: String::with_capacity(PIECE_BYTES + SAMPLE_BYTES), pieces: sender };
        let written = write(Self::Text(text));
        let whole = async move {
            if let Self::Text(mut text) = written.await {
                text.hand_on().await;
            }
        };
        Body::from_stream(stream::unfold(Reading { writer: Some(Box::pin(whole)), pieces }, Reading::next))
    }

    /// Samples must follow at once.
    pub(super) fn family<'a>(&'a mut self, name: &'static str, kind: Type, help: &str) -> Family<'a> {
        debug_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{name}");
        match self {
            Self::Text(text) => {
                let kind = match kind {
                    Type::Counter => "counter",
                    Type::Gauge => "gauge",
                    Type::Histogram => "histogram",
                };
                text.line(format_args!("# HELP {name} {help}"));
                text.line(format_args!("# TYPE {name} {kind}"));
            }
            Self::Gathered(all) => {
                all.push(Gathered { name, kind, help: help.to_owned(), samples: Vec::new() });
            }
        }
        Family { text: self, name }
    }
}

impl Text {
    fn line(&mut self, line: fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "{line}");
    }

    /// Waits until the client reads the previous piece.
    async fn hand_on(&mut self) {
        let piece = Bytes::copy_from_slice(self.text.as_bytes());
        self.text.clear();
        // [`Reading`] keeps the receiver.
        let _ = self.pieces.send(piece).await;
    }
}

struct Reading {
    /// `None` once finished; a panic breaks the answer off.
    writer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    pieces: mpsc::Receiver<Bytes>,
}

impl Reading {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if let Some(writer) = &mut self.writer {
            tokio::select! {
                biased;
                piece = self.pieces.recv() => return piece.map(|piece| (Ok(piece), self)),
                () = writer => self.writer = None,
            }
        }
        self.pieces.recv().await.map(|piece| (Ok(piece), self))
    }
}

pub(super) struct Family<'a> {
    text: &'a mut Exposition,
    name: &'static str,
}

impl Family<'_> {
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Into<Value>) {
        let value = value.into();
        if let Exposition::Text(_) = self.text {
            return self.line("", labels, value);
        }
        self.gather(labels, Sample::Value(value));
    }

    pub(super) fn histogram(&mut self, labels: &[(&str, &str)], counted: Counted) {
        if let Exposition::Text(_) = self.text {
            let Counted { within, samples, sum } = counted;
            for (le, within) in within.into_iter().chain([("+Inf", samples)]) {
                self.line("_bucket", &[labels, &[("le", le)]].concat(), within.into());
            }
            self.line("_sum", labels, sum);
            return self.line("_count", labels, samples.into());
        }
        self.gather(labels, Sample::Histogram(counted));
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: Value) {
        if let Exposition::Text(text) = &mut *self.text {
            text.line(format_args!("{}{suffix}{} {value}", self.name, Labels(labels)));
        }
    }

    fn gather(&mut self, labels: &[(&str, &str)], sample: Sample) {
        if let Exposition::Gathered(all) = &mut *self.text
            && let Some(family) = all.last_mut()
        {
            let labels = labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            family.samples.push((labels, sample));
        }
    }

    /// Waits for the client if a piece is full.
    pub(super) async fn pause(&mut self) {
        if let Exposition::Text(text) = &mut *self.text
            && text.text.len() >= PIECE_BYTES
        {
            text.hand_on().await;
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Value {
    Count(u64),
    Millionths(u64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Count(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Count(value.into())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Millionths(count) => write!(f, "{}.{:06}", count / 1_000_000, count % 1_000_000),
        }
    }
}

struct Labels<'a>(&'a [(&'a str, &'a str)]);

impl fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name}=\"", if place == 0 { '{' } else { ',' })?;
            for piece in value.split_inclusive(['\\', '"', '\n']) {
                let plain = piece.trim_end_matches(['\\', '"', '\n']);
                f.write_str(plain)?;
                match &piece[plain.len()..] {
                    "\n" => f.write_str("\\n")?,
                    "" => {}
                    special => write!(f, "\\{special}")?,
                }
            }
            f.write_char('"')?;
        }
        if self.0.is_empty() { Ok(()) } else { f.write_char('}') }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn families_are_written_as_prometheus_reads_them() {
        let body = Exposition::body(|mut text| async move {
            let mut family = text.family("a_total", Type::Counter, "Things.");
            family.sample(&[("name", "a \"b\"\\\n"), ("x", "y")], 7_u64);
            family.sample(&[], true);
            let (within, sum) = (vec![("0.5", 1)], Value::Millionths(1_000_001));
            let mut family = text.family("b_seconds", Type::Histogram, "Whiles.");
            family.histogram(&[], Counted { within, samples: 2, sum });
            text
        });
        assert_eq!(
            body.collect().await.unwrap().to_bytes(),
            "# HELP a_total Things.\n# TYPE a_total counter\na_total{name=\"a \\\"b\\\"\\\\\\n\",x=\"y\"} 7\na_total 1\n\
             # HELP b_seconds Whiles.\n# TYPE b_seconds histogram\nb_seconds_bucket{le=\"0.5\"} 1\n\
             b_seconds_bucket{le=\"+Inf\"} 2\nb_seconds_sum 1.000001\nb_seconds_count 2\n"
        );
    }

    fn many(samples: usize) -> (Body, Arc<AtomicUsize>) {
        let written = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&written);
        let body = Exposition::body(move |mut text| async move {
            let mut family = text.family("a", Type::Gauge, "Things.");
            for _ in 0..samples {
                family.sample(&[("name", "of a hundred bytes or so")], 1_u64);
                count.fetch_add(1, Ordering::Relaxed);
                family.pause().await;
            }
            text
        });
        (body, written)
    }

    #[tokio::test]
    async fn metrics_are_written_only_as_they_are_read() {
        let (mut body, written) = many(1_000_000);
        assert_eq!(written.load(Ordering::Relaxed), 0);
        let line = "a{name=\"of a hundred bytes or so\"} 1\n".len();
        let mut read = 0;
        for _ in 0..20 {
            read += body.frame().await.unwrap().unwrap().into_data().unwrap().len();
            let ahead = (written.load(Ordering::Relaxed) * line).saturating_sub(read);
            assert!(ahead <= 2 * (PIECE_BYTES + SAMPLE_BYTES), "{ahead} bytes are written and not read");
        }
        let before = written.load(Ordering::Relaxed);
        drop(body);
        assert!(before < 1_000_000 && Arc::strong_count(&written) == 1, "it would be written on");
    }

    #[tokio::test]
    async fn all_of_it_comes() {
        let (body, _) = many(100_000);
        let text = body.collect().await.unwrap().to_bytes();
        assert_eq!(text.split(|byte| *byte == b'\n').count(), 2 + 100_000 + 1);
    }
}
