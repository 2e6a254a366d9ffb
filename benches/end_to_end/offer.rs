use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::exchange::{Connection, Failure};
use crate::figures::Latencies;
use crate::now;

pub(crate) const BODY_BYTES: usize = 300;
/// The sender's envelope around the data, without the type: id, timestamp, names.
const AROUND_BYTES: usize = 97;
/// Events in a request of a flood, and concurrent requests.
const BATCH: u64 = 500;
const FLOODING: usize = 4;
/// Concurrent requests by the clock: a slow one must not delay the next.
const PACING: u64 = 32;
const FAST: &[u8] = b"\"fast.";
pub(crate) const KIND: &str = "video.trending";
const EMITTED: &str = "\"emitted_ns\": ";

pub(crate) struct Offer {
    pub(crate) events: u64,
    pub(crate) acknowledged: Latencies,
    pub(crate) lag: Latencies,
}

/// As long as the sender's bodies.
pub(crate) fn plain_body() -> Vec<u8> {
    vec![b'x'; BODY_BYTES]
}

fn event(kind: &str, n: u64, emitted: Option<Duration>) -> String {
    let mut data = format!("\"n\": {n}, ");
    if let Some(emitted) = emitted {
        write!(data, "{EMITTED}{}, ", emitted.as_nanos()).expect("a string takes all");
    }
    let filled = BODY_BYTES - AROUND_BYTES - kind.len();
    write!(data, "\"rest\": \"{}\"", "x".repeat(filled.saturating_sub(data.len() + 11)))
        .expect("a string takes all");
    format!("{{\"type\": \"{kind}\", \"key\": \"v1\", \"data\": {{{data}}}}}")
}

pub(crate) fn emitted_at(body: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, after) = text.split_once(EMITTED)?;
    let digits = after.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().map(Duration::from_nanos)
}

pub(crate) fn is_fast(body: &[u8]) -> bool {
    body.windows(FAST.len()).take(AROUND_BYTES).any(|window| window == FAST)
}

pub(crate) fn flood(address: SocketAddr, kind: &str, events: u64) -> Result<(), Failure> {
    let next = AtomicU64::new(0);
    on_threads(FLOODING, || {
        let mut connection = Connection::open(address)?;
        loop {
            let from = next.fetch_add(BATCH, Ordering::Relaxed);
            if from >= events {
                return Ok(());
            }
            let batch: String =
                (from..events.min(from + BATCH)).map(|n| event(kind, n, None) + "\n").collect();
            let answer = connection.post("/v1/events", "application/x-ndjson", batch.as_bytes())?;
            if let Some(refused) = answer.lines().find(|line| line.contains("\"error\"")) {
                return Err(Failure::Says(format!("an event was refused: {refused}")));
            }
        }
    })
}

#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) requests_per_second: u32,
    pub(crate) events_each: u64,
    pub(crate) lasts: Duration,
}

/// Emits by the clock, in open loop.
pub(crate) fn paced(address: SocketAddr, clock: Instant, pace: Pace) -> Result<Offer, Failure> {
    let gap = Duration::from_secs(1) / pace.requests_per_second;
    let requests = u64::try_from(pace.lasts.as_nanos() / gap.as_nanos()).unwrap_or(u64::MAX);
    let format = if pace.events_each == 1 { "application/json" } else { "application/x-ndjson" };
    let began = now();
    let (next, whole) = (AtomicU64::new(0), Mutex::new((Latencies::default(), Latencies::default())));
    on_threads(usize::try_from(PACING).unwrap_or(1), || {
        let mut connection = Connection::open(address)?;
        let (mut acknowledged, mut lag) = (Latencies::default(), Latencies::default());
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= requests {
                break;
            }
            let intended = began + gap * u32::try_from(n).unwrap_or(u32::MAX);
            wait_until(intended);
            let released = now();
            lag.record(released.saturating_duration_since(intended));
            let emitted = Some(released.saturating_duration_since(clock));
            let numbers = n * pace.events_each..(n + 1) * pace.events_each;
            let events: Vec<String> = numbers.map(|n| event(KIND, n, emitted)).collect();
            connection.post("/v1/events", format, events.join("\n").as_bytes())?;
            acknowledged.record(now() - released);
        }
        let mut whole =
            whole.lock().map_err(|_| Failure::Says("another thread of the bench panicked".to_owned()))?;
        whole.0.merge(&acknowledged);
        whole.1.merge(&lag);
        Ok(())
    })?;
    let (acknowledged, lag) =
        whole.into_inner().map_err(|_| Failure::Says("a thread of the bench panicked".to_owned()))?;
    Ok(Offer { events: requests * pace.events_each, acknowledged, lag })
}

#[expect(clippy::disallowed_methods, reason = "the bench's schedule is what it waits for")]
pub(crate) fn wait_until(moment: Instant) {
    std::thread::sleep(moment.saturating_duration_since(now()));
}

fn on_threads(count: usize, work: impl Fn() -> Result<(), Failure> + Sync) -> Result<(), Failure> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(&work)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(Failure::Says("a thread of the bench panicked".to_owned())))
        })
    })
}
