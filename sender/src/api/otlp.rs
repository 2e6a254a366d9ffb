//! Exports spans and metrics to a collector by OTLP over HTTP, in JSON. Drops everything that the collector refuses, and
//! counts dropped spans.

use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use tracing::warn;

use super::exposition::{self, Counted, Gathered, Sample, Type};
use super::metrics::gathered;
use crate::engine::{Nanos, StoreTime};
use crate::excerpt::Excerpt;
use crate::guard::{Guard, Target, TargetError};
use crate::runtime::Sender;
use crate::runtime::clock::{rest, wall};
use crate::spans::{Span, attribute};
use crate::transport::{Outlet, Settings};

const METRICS_EVERY: Duration = Duration::from_secs(15);
const SPANS_AT_ONCE: usize = 2_048;
/// Before a small batch, so that more spans join it.
const GATHER: Nanos = Nanos::from_millis(200);
const AFTER_FAILURE: Nanos = Nanos::SECOND;
const POST_TIMEOUT: Duration = Duration::from_secs(10);
/// For all spans that wait when the sender stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
const WARN_EVERY: Nanos = Nanos::from_secs(10);
const SCOPE: &str = "hookproof";

#[derive(Clone, Copy)]
enum Signal {
    Spans,
    Metrics,
}

pub struct Collector {
    outlet: Outlet,
    headers: HeaderMap,
    spans: Destination,
    metrics: Destination,
}

struct Destination {
    target: Target,
    warned: Option<StoreTime>,
}

/// Quotes no URL: it may hold a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectorError {
    #[error("it has a user; put a key into OTEL_EXPORTER_OTLP_HEADERS")]
    User,
    #[error("it has a query; put a key into OTEL_EXPORTER_OTLP_HEADERS")]
    Query,
    #[error("it ends with /v1/traces or /v1/metrics, which the sender adds")]
    Path,
    #[error(transparent)]
    Target(TargetError),
}

impl From<TargetError> for CollectorError {
    fn from(error: TargetError) -> Self {
        if error == TargetError::UserInfo { Self::User } else { Self::Target(error) }
    }
}

impl Collector {
    /// `url` is without `/v1/traces`.
    pub fn new(url: &str, headers: HeaderMap, settings: Settings) -> Result<Self, CollectorError> {
        let base = Target::parse(url, &Guard::open())?;
        if base.url().query().is_some() {
            return Err(CollectorError::Query);
        }
        let path = base.url().path().trim_end_matches('/');
        if path.ends_with("/v1/traces") || path.ends_with("/v1/metrics") {
            return Err(CollectorError::Path);
        }
        let base = base.as_str().trim_end_matches('/');
        let at = |path: &str| Target::parse(&format!("{base}/v1/{path}"), &Guard::open());
        let destination = |target| Destination { target, warned: None };
        let (spans, metrics) = (destination(at("traces")?), destination(at("metrics")?));
        Ok(Self { outlet: Outlet::new(settings), headers, spans, metrics })
    }

    /// Returns how many items the collector took.
    async fn post(&mut self, signal: Signal, items: u64, body: &Value, now: StoreTime) -> u64 {
        let Self { outlet, headers, spans, metrics } = self;
        let (what, rejected, to) = match signal {
            Signal::Spans => ("spans", "rejectedSpans", spans),
            Signal::Metrics => ("metrics", "rejectedDataPoints", metrics),
        };
        let answer = outlet.post(&to.target, headers, body.to_string().into_bytes(), POST_TIMEOUT).await;
        let (taken, problem) = match answer {
            Ok((status, body)) if status.is_success() => match partial(&body, rejected) {
                None => return items,
                Some((count, why)) => (items.saturating_sub(count), format!("it refused {count}: {why}")),
            },
            Ok((status, _)) => (0, refusal(status)),
            Err(failure) => (0, format!("{failure}{EXPECTED}")),
        };
        if to.warned.is_none_or(|warned| now.since(warned) >= WARN_EVERY) {
            to.warned = Some(now);
            let url = to.target.url();
            let (host, port) = (url.host_str(), url.port_or_known_default());
            warn!(host, port, %problem, "the OTLP collector did not take {what}: they are dropped");
        }
        taken
    }
}

const EXPECTED: &str = "; expected a collector that takes OTLP over HTTP in JSON, often on port 4318";

fn refusal(status: StatusCode) -> String {
    let hint = match status.as_u16() {
        401 | 403 => "; put its key into OTEL_EXPORTER_OTLP_HEADERS, such as api-key=…",
        404 | 405 | 415 => EXPECTED,
        _ => "",
    };
    format!("it answered {}{hint}", status.as_u16())
}

/// How many the collector rejected of a post that it took, and its reason.
fn partial(answer: &[u8], field: &str) -> Option<(u64, Excerpt)> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let partial = &answer["partialSuccess"];
    // Proto3 writes 64-bit numbers as text.
    let count = partial[field].as_u64().or_else(|| partial[field].as_str()?.parse().ok())?;
    (count > 0).then(|| (count, Excerpt::of(partial["errorMessage"].as_str().unwrap_or_default())))
}

/// Runs until it is told to stop. `instance` names this process.
pub async fn export(
    sender: Sender,
    instance: String,
    collector: Collector,
    waiting: mpsc::Receiver<Span>,
    stop: oneshot::Receiver<()>,
) {
    let resource = json!({ "attributes": [
        attribute("service.name", &"hookproof-sender".into()),
        attribute("service.version", &env!("CARGO_PKG_VERSION").into()),
        attribute("service.instance.id", &instance.into()),
    ]});
    let mut ticks = interval(METRICS_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let batch = Vec::with_capacity(SPANS_AT_ONCE);
    let mut exporter = Exporter { sender, collector, resource, waiting, batch };
    tokio::select! {
        // Ends a post under way: its spans are posted again below.
        _ = stop => {}
        () = exporter.run(ticks) => {}
    }
    exporter.waiting.close();
    if timeout(DRAIN_TIMEOUT, exporter.drain()).await.is_err() {
        warn!("the OTLP collector is slow: the last spans are dropped");
    }
}

struct Exporter {
    sender: Sender,
    collector: Collector,
    resource: Value,
    waiting: mpsc::Receiver<Span>,
    batch: Vec<Span>,
}

impl Exporter {
    async fn run(&mut self, mut ticks: Interval) {
        loop {
            tokio::select! {
                biased;
                _ = ticks.tick() => self.post_metrics().await,
                // None is left where all senders of spans are gone.
                count = self.waiting.recv_many(&mut self.batch, SPANS_AT_ONCE), if self.batch.is_empty() => {
                    if count == 0 {
                        return;
                    }
                    if count < SPANS_AT_ONCE {
                        rest(GATHER).await;
                        while self.batch.len() < SPANS_AT_ONCE
                            && let Ok(span) = self.waiting.try_recv()
                        {
                            self.batch.push(span);
                        }
                    }
                    if !self.post_spans().await {
                        rest(AFTER_FAILURE).await;
                    }
                }
            }
        }
    }

    async fn drain(&mut self) {
        while !self.batch.is_empty() || self.waiting.recv_many(&mut self.batch, SPANS_AT_ONCE).await > 0 {
            self.post_spans().await;
        }
    }

    /// Whether the collector took all.
    async fn post_spans(&mut self) -> bool {
        let spans: Vec<Value> = self.batch.iter().map(Span::to_json).collect();
        let count = u64::try_from(spans.len()).unwrap_or(u64::MAX);
        let body = json!({ "resourceSpans": [
            { "resource": self.resource, "scopeSpans": [{ "scope": { "name": SCOPE }, "spans": spans }] }
        ]});
        let now = self.sender.clock().now();
        let dropped = count - self.collector.post(Signal::Spans, count, &body, now).await;
        self.batch.clear();
        if let Some(spans) = self.sender.spans() {
            spans.count_dropped(dropped);
        }
        dropped == 0
    }

    async fn post_metrics(&mut self) {
        // A database that cannot be read is in the log already.
        let Ok(gathered) = gathered(&self.sender).await else { return };
        let now = wall();
        let metrics: Vec<Value> = gathered.iter().map(|family| metric(family, now)).collect();
        let body = json!({ "resourceMetrics": [
            { "resource": self.resource, "scopeMetrics": [{ "scope": { "name": SCOPE }, "metrics": metrics }] }
        ]});
        let now = self.sender.clock().now();
        self.collector.post(Signal::Metrics, 1, &body, now).await;
    }
}

fn metric(family: &Gathered, now: StoreTime) -> Value {
    const CUMULATIVE: u8 = 2;
    let points: Vec<Value> =
        family.samples.iter().map(|(labels, sample)| point(labels, sample, now)).collect();
    let (kind, data) = match family.kind {
        Type::Gauge => ("gauge", json!({ "dataPoints": points })),
        Type::Counter => (
            "sum",
            json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true }),
        ),
        Type::Histogram => {
            ("histogram", json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE }))
        }
    };
    json!({ "name": family.name, "description": family.help, kind: data })
}

fn point(labels: &[(String, String)], sample: &Sample, now: StoreTime) -> Value {
    let mut point = match sample {
        Sample::Value(exposition::Value::Count(count)) => json!({ "asInt": count.to_string() }),
        Sample::Value(value) => json!({ "asDouble": number(&value.to_string()) }),
        Sample::Histogram(Counted { within, samples, sum }) => {
            let upto = within.iter().map(|(_, count)| *count).chain([*samples]);
            let below = [0].into_iter().chain(within.iter().map(|(_, count)| *count));
            let counts = upto.zip(below).map(|(upto, below)| upto.saturating_sub(below).to_string());
            json!({
                "count": samples.to_string(), "sum": number(&sum.to_string()),
                "bucketCounts": counts.collect::<Vec<_>>(),
                "explicitBounds": within.iter().map(|(bound, _)| number(bound)).collect::<Vec<_>>(),
            })
        }
    };
    let labels = labels.iter().map(|(name, value)| attribute(name, &value.as_str().into()));
    point["attributes"] = labels.collect();
    point["timeUnixNano"] = now.0.to_string().into();
    point
}

fn number(text: &str) -> Value {
    text.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::exposition::Exposition;

    #[test]
    fn families_are_written_as_otlp_reads_them() {
        let mut all = Exposition::Gathered(Vec::new());
        all.family("a_total", Type::Counter, "Things.").sample(&[("name", "x")], 7_u64);
        all.family("b", Type::Gauge, "Share.").sample(&[], exposition::Value::Millionths(250_000));
        let mut whiles = all.family("c_seconds", Type::Histogram, "Whiles.");
        let sum = exposition::Value::Millionths(1_500_000);
        whiles.histogram(&[("name", "x")], Counted { within: vec![("0.5", 2), ("1", 2)], samples: 5, sum });
        let Exposition::Gathered(all) = all else { panic!("gathered") };
        let written: Vec<Value> = all.iter().map(|family| metric(family, StoreTime(9))).collect();
        let named = json!([{ "key": "name", "value": { "stringValue": "x" } }]);
        assert_eq!(
            written,
            [
                json!({ "name": "a_total", "description": "Things.", "sum": { "aggregationTemporality": 2,
                    "isMonotonic": true,
                    "dataPoints": [{ "attributes": named, "timeUnixNano": "9", "asInt": "7" }] } }),
                json!({ "name": "b", "description": "Share.", "gauge": {
                    "dataPoints": [{ "attributes": [], "timeUnixNano": "9", "asDouble": 0.25 }] } }),
                json!({ "name": "c_seconds", "description": "Whiles.", "histogram": { "aggregationTemporality": 2,
                    "dataPoints": [{ "attributes": named, "timeUnixNano": "9", "count": "5", "sum": 1.5,
                        "bucketCounts": ["2", "0", "3"], "explicitBounds": [0.5, 1] }] } }),
            ]
        );
    }

    #[test]
    fn a_collector_is_named_by_its_base() {
        let new =
            |url| Collector::new(url, HeaderMap::new(), Settings::default()).map(|made| made.spans.target);
        for (url, posted_to) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://otel.example/base/", "https://otel.example/base/v1/traces"),
        ] {
            assert_eq!(new(url).unwrap().as_str(), posted_to);
        }
        for (url, error) in [
            ("http://me:s3cret@h:4318", CollectorError::User),
            ("http://h:4318/?api-key=s3cret", CollectorError::Query),
            ("http://h:4318/v1/traces", CollectorError::Path),
        ] {
            assert_eq!(new(url), Err(error), "{url}");
        }
        assert!(matches!(new("https://"), Err(CollectorError::Target(_))));
    }

    #[test]
    fn a_part_that_is_rejected_is_read() {
        let rejected = |answer: &str| partial(answer.as_bytes(), "rejectedSpans").map(|(count, _)| count);
        assert_eq!(rejected(r#"{"partialSuccess":{"rejectedSpans":"5","errorMessage":"no"}}"#), Some(5));
        assert_eq!(rejected(r#"{"partialSuccess":{"rejectedSpans":5}}"#), Some(5));
        for all in ["", "{}", r#"{"partialSuccess":{}}"#, r#"{"partialSuccess":{"rejectedSpans":"0"}}"#] {
            assert_eq!(rejected(all), None, "{all}");
        }
    }
}
