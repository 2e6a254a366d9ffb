//! Spans for OpenTelemetry: of events and of attempts.
//!
//! A trace id is a hash of the database's identity and the event's id. So all processes and all retries add to one trace,
//! and the database stores nothing for it.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use crate::engine::StoreTime;
use crate::sign;

/// The bound of the queue. Further spans are dropped and counted.
pub const WAITING_MAX: usize = 8_192;

/// The queue of spans to export. Clones share it.
#[derive(Clone, Debug)]
pub struct Spans {
    queue: Arc<Queue>,
    database: u64,
}

#[derive(Debug)]
struct Queue {
    sender: mpsc::Sender<Span>,
    dropped: AtomicU64,
    /// The trace of one event in so many is kept. All processes keep the same ones.
    one_in: NonZeroU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    id: [u8; 16],
    /// The span of the event.
    event: [u8; 8],
}

/// The caller's span, from the W3C header `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    trace: [u8; 16],
    span: [u8; 8],
}

#[derive(Debug)]
pub struct Span {
    pub trace: Trace,
    /// Of an attempt. `None`: the event's own.
    pub id: Option<[u8; 8]>,
    pub link: Option<TraceParent>,
    /// In real time.
    pub began: StoreTime,
    pub ended: StoreTime,
    pub attributes: Vec<(&'static str, Value)>,
    pub error: Option<String>,
}

impl Spans {
    #[must_use]
    pub fn channel(one_in: NonZeroU64) -> (Self, mpsc::Receiver<Span>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let queue = Arc::new(Queue { sender, dropped: AtomicU64::new(0), one_in });
        (Self { queue, database: 0 }, receiver)
    }

    /// For events of the database with this identity.
    #[must_use]
    pub fn of_database(self, identity: u64) -> Self {
        Self { database: identity, ..self }
    }

    /// The trace of an event, if it is kept.
    #[must_use]
    pub fn trace(&self, event: &str) -> Option<Trace> {
        let digest = Sha256::new().chain_update(self.database.to_be_bytes()).chain_update(event).finalize();
        let (id, rest) = digest.split_first_chunk()?;
        let (event, rest) = rest.split_first_chunk()?;
        let (sample, _) = rest.split_first_chunk()?;
        let is_kept = u64::from_be_bytes(*sample) % self.queue.one_in == 0;
        is_kept.then_some(Trace { id: *id, event: *event })
    }

    pub fn record(&self, make: impl FnOnce() -> Span) {
        match self.queue.sender.try_reserve() {
            Ok(place) => place.send(make()),
            Err(_) => self.count_dropped(1),
        }
    }

    pub fn count_dropped(&self, spans: u64) {
        self.queue.dropped.fetch_add(spans, Ordering::Relaxed);
    }

    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.queue.dropped.load(Ordering::Relaxed)
    }
}

impl Trace {
    /// The header of an attempt, with its span.
    #[must_use]
    pub fn traceparent(&self, attempt: [u8; 8]) -> String {
        format!("00-{}-{}-01", hex(&self.id), hex(&attempt))
    }
}

impl TraceParent {
    pub const HEADER: &'static str = "traceparent";

    /// Of version 00, which later versions begin with too. `None` if it is malformed: the W3C has it ignored.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let [version, trace, span, flags] = [(); 4].map(|()| parts.next());
        let _: [u8; 1] = unhex(flags?)?;
        let version: [u8; 1] = unhex(version?)?;
        let is_known = version != [0xff] && (version != [0] || parts.next().is_none());
        let (trace, span) = (unhex(trace?)?, unhex(span?)?);
        (is_known && trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span })
    }
}

impl Span {
    /// As OTLP writes it in JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        const PRODUCER: u8 = 4;
        const CLIENT: u8 = 3;
        const ERROR: u8 = 2;
        let (id, kind, name) = match &self.id {
            Some(attempt) => (attempt, CLIENT, "attempt"),
            None => (&self.trace.event, PRODUCER, "event"),
        };
        let mut span = json!({
            "traceId": hex(&self.trace.id), "spanId": hex(id), "name": name, "kind": kind,
            "startTimeUnixNano": self.began.0.to_string(), "endTimeUnixNano": self.ended.0.to_string(),
            "attributes": self.attributes.iter().map(|(key, value)| attribute(key, value)).collect::<Vec<_>>(),
        });
        if self.id.is_some() {
            span["parentSpanId"] = hex(&self.trace.event).into();
        }
        if let Some(link) = &self.link {
            span["links"] = json!([{ "traceId": hex(&link.trace), "spanId": hex(&link.span) }]);
        }
        if let Some(error) = &self.error {
            span["status"] = json!({ "code": ERROR, "message": error });
        }
        span
    }
}

/// A whole number or a text, as OTLP writes it.
pub fn attribute(key: &str, value: &Value) -> Value {
    let value = match value {
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        other => json!({ "stringValue": other }),
    };
    json!({ "key": key, "value": value })
}

fn hex(bytes: &[u8]) -> String {
    sign::hex(bytes).collect()
}

/// Upper-case digits are malformed.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| match pair[at] {
            digit @ b'0'..=b'9' => Some(digit - b'0'),
            letter @ b'a'..=b'f' => Some(letter - b'a' + 10),
            _ => None,
        };
        *byte = digit(0)? * 16 + digit(1)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: &str = "00f067aa0ba902b7";
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_traceparent_is_read_as_the_w3c_defines_it() {
        let good = TraceParent::parse(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
        assert_eq!((hex(&good.trace).as_str(), hex(&good.span).as_str()), (TRACE, SPAN));
        assert_eq!(TraceParent::parse(&format!("cc-{TRACE}-{SPAN}-09-what-comes")), Some(good));
        let (no_trace, no_span) = ("0".repeat(32), "0".repeat(16));
        for bad in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{no_trace}-{SPAN}-01"),
            format!("00-{TRACE}-{no_span}-01"),
            format!("00-{TRACE}é-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-0g"),
        ] {
            assert_eq!(TraceParent::parse(&bad), None, "{bad}");
        }
    }

    #[test]
    fn one_event_in_so_many_has_a_trace_and_the_same_one_everywhere() {
        let spans = |one_in| Spans::channel(NonZeroU64::new(one_in).unwrap()).0;
        let (all, some, again) = (spans(1), spans(10), spans(10));
        let ids: Vec<String> = (0..10_000).map(|number| format!("evt_{number}")).collect();
        assert!(ids.iter().all(|id| all.trace(id).is_some()));
        let kept = ids.iter().filter(|id| some.trace(id).is_some()).count();
        assert!((800..1_200).contains(&kept), "{kept}");
        assert!(ids.iter().all(|id| some.trace(id) == again.trace(id)));
        assert_ne!(all.trace("a"), all.trace("b"));
        assert_ne!(all.trace("a"), all.clone().of_database(7).trace("a"));
    }

    #[test]
    fn spans_beyond_the_bound_are_dropped_and_counted() {
        let (spans, waiting) = Spans::channel(NonZeroU64::MIN);
        let trace = spans.trace("a").unwrap();
        for _ in 0..WAITING_MAX + 3 {
            let (began, ended) = (StoreTime(1), StoreTime(2));
            let (id, link, attributes, error) = (None, None, Vec::new(), None);
            spans.record(|| Span { trace, id, link, began, ended, attributes, error });
        }
        assert_eq!((waiting.len(), spans.dropped()), (WAITING_MAX, 3));
    }
}
