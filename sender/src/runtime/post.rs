//! One attempt, from the claimed row to the outcome for the engine.

use std::future::Future;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tracing::warn;

use super::clock::{Clock, unique, wall};
use crate::delivery_ids::DeliveryIds;
use crate::dispatch::AttemptEnd;
use crate::engine::{Nanos, StoreTime};
use crate::fanout::sign_attempt;
use crate::guard::Guard;
use crate::roster::Subscriber;
use crate::spans::{Span, Spans, Trace, TraceParent};
use crate::store::command::{Attempt, AttemptOutcome, Details};
use crate::store::reply::ClaimedRow;
use crate::transport::{self, AttemptResult, Failure, Request, SendPermit, Transport};

pub(super) trait Post: Send + Sync + 'static {
    /// Ends by the permit's deadline and the end of the lane's lease.
    fn post(
        &self,
        clock: &Clock,
        subscriber: &Subscriber,
        row: &ClaimedRow,
        number: u32,
        permit: SendPermit,
    ) -> impl Future<Output = AttemptEnd> + Send;
}

fn result(
    (made, details): (AttemptResult, Details),
    row: &ClaimedRow,
    began: StoreTime,
    ended: StoreTime,
) -> AttemptEnd {
    let error = made.failure().map(|failure| failure.to_string().into());
    let outcome = made.outcome(wall());
    let Some((kind, status)) = outcome.recorded() else { return AttemptEnd { outcome, record: None } };
    let latency = ended.since(began);
    let (body_hash, received) = (row.body.hash(), Some(row.received));
    let record = Attempt { at: began, latency, outcome: kind, status, error, body_hash, received, details };
    AttemptEnd { outcome, record: Some(record) }
}

pub(super) struct HttpPost {
    transport: Transport,
    ids: DeliveryIds,
    spans: Option<Spans>,
    said: Mutex<Option<StoreTime>>,
}

struct OpenSpan {
    trace: Trace,
    id: [u8; 8],
    began: StoreTime,
}

/// The attempt got no socket, or no turn for a name lookup.
const TRY_AGAIN: Duration = Duration::from_millis(100);
/// The proxy has failed. Each try signs the body anew.
const TRY_PROXY_AGAIN: Duration = Duration::from_secs(1);
const SAY_EVERY: Nanos = Nanos::from_secs(10);

impl HttpPost {
    pub(super) fn new(guard: Guard, ids: DeliveryIds, settings: transport::Settings) -> Self {
        let spans = settings.spans.clone();
        Self { transport: Transport::new(settings, guard), ids, spans, said: Mutex::default() }
    }

    fn open_span(&self, event: &str) -> Option<OpenSpan> {
        let trace = self.spans.as_ref()?.trace(event)?;
        Some(OpenSpan { trace, id: unique(), began: wall() })
    }

    /// Without the URL: it may hold a secret.
    fn end_span(
        &self,
        open: OpenSpan,
        (subscriber, row, number): (&Subscriber, &ClaimedRow, u32),
        end: &AttemptEnd,
        failure: Option<&'static str>,
    ) {
        let (Some(spans), Some(record)) = (&self.spans, &end.record) else { return };
        let OpenSpan { trace, id, began } = open;
        spans.record(|| {
            let is_delivered = record.outcome == AttemptOutcome::Delivered;
            let mut attributes: Vec<(&str, Value)> = vec![
                ("http.request.method", "POST".into()),
                ("hookproof.subscriber", subscriber.name().as_ref().into()),
                ("hookproof.delivery.id", self.ids.name(row.received, row.delivery).as_str().into()),
                ("hookproof.event.id", row.event.as_ref().into()),
                ("hookproof.event.type", row.kind.as_ref().into()),
            ];
            if let Ok(url) = subscriber.ready().map(|ready| ready.target().url.url()) {
                let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
                attributes.push(("server.address", host.into()));
                attributes.extend(url.port_or_known_default().map(|port| ("server.port", port.into())));
            }
            attributes.extend((number > 1).then(|| ("http.request.resend_count", (number - 1).into())));
            attributes.extend(record.status.map(|status| ("http.response.status_code", status.into())));
            let error = failure.map(str::to_owned).or(record.status.map(|status| status.to_string()));
            attributes.extend(error.filter(|_| !is_delivered).map(|kind| ("error.type", kind.into())));
            let ended = StoreTime(began.0.saturating_add(record.latency.0));
            let error = (!is_delivered).then(|| record.error.as_deref().unwrap_or_default().to_owned());
            Span { trace, id: Some(id), link: None, began, ended, attributes, error }
        });
    }

    fn warn_of_failure(&self, failure: &Failure, now: StoreTime) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|said| now.since(said) >= SAY_EVERY) {
            *said = Some(now);
            warn!(%failure, "attempts wait for a resource or the proxy of the sender; their endpoints are not at fault");
        }
    }
}

impl Post for HttpPost {
    async fn post(
        &self,
        clock: &Clock,
        subscriber: &Subscriber,
        row: &ClaimedRow,
        number: u32,
        permit: SendPermit,
    ) -> AttemptEnd {
        loop {
            let began = clock.now();
            let mut again = TRY_AGAIN;
            let span = self.open_span(&row.event);
            match self.attempt(subscriber, row, number, &permit, span.as_ref()).await {
                Ok(made) => {
                    let failure = made.0.failure();
                    let waits = matches!(
                        failure,
                        Some(Failure::NoSocket { .. } | Failure::NoLookup | Failure::ProxyAway(_))
                    );
                    if let Some(failure) = failure.filter(|failure| waits || failure.is_the_proxys()) {
                        self.warn_of_failure(failure, began);
                    }
                    if let Some(Failure::ProxyAway(_)) = made.0.failure() {
                        again = TRY_PROXY_AGAIN;
                    }
                    if !waits {
                        let failure = failure.map(Failure::code);
                        let end = result(made, row, began, clock.now());
                        if let Some(span) = span {
                            self.end_span(span, (subscriber, row, number), &end, failure);
                        }
                        return end;
                    }
                }
                Err(impossible) => return AttemptEnd::impossible(began, &impossible),
            }
            // Keeps its place while the permit allows; then its lane decides again.
            tokio::select! {
                () = pause(again) => {}
                () = permit.cancelled.cancelled() => return AttemptEnd::withheld(),
            }
            if permit.check(clock.boot().now()).is_err() {
                return AttemptEnd::withheld();
            }
        }
    }
}

impl HttpPost {
    async fn attempt(
        &self,
        subscriber: &Subscriber,
        row: &ClaimedRow,
        number: u32,
        permit: &SendPermit,
        span: Option<&OpenSpan>,
    ) -> Result<(AttemptResult, Details), String> {
        let ready = subscriber.ready().map_err(ToString::to_string)?;
        let id = self.ids.name(row.received, row.delivery);
        let mut headers =
            sign_attempt(ready, &id, row, number, wall()).map_err(|unusable| unusable.to_string())?;
        let extra = &ready.agreement().headers;
        // The subscriber's own header wins.
        if let Some(span) = span.filter(|_| extra.iter().all(|header| header.name() != TraceParent::HEADER)) {
            headers.add(TraceParent::HEADER).text(&span.trace.traceparent(span.id));
        }
        let timeouts = ready.agreement().timeouts;
        let in_flight = subscriber.settings().contract().in_flight();
        let request = Request {
            lane: subscriber.lane(),
            target: ready.target(),
            headers: &headers,
            extra,
            body: &row.body.bytes,
            deadline: Duration::from_nanos(timeouts.total.0),
            permit: permit.clone(),
            connect_deadline: Duration::from_nanos(timeouts.connect.0),
            connections_max: NonZeroU32::new(in_flight).unwrap_or(NonZeroU32::MIN),
        };
        let mut details = Details::default();
        Ok((self.transport.attempt(&request, &mut details).await, details))
    }
}

async fn pause(length: Duration) {
    #[expect(clippy::disallowed_methods, reason = "the runtime may wait for time")]
    tokio::time::sleep(length).await;
}
