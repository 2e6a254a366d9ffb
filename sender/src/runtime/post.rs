//! One attempt, from the claimed row to the outcome for the engine.

use std::future::Future;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tracing::warn;

use super::clock::{Clock, wall};
use crate::delivery_ids::DeliveryIds;
use crate::dispatch::AttemptEnd;
use crate::engine::{Nanos, StoreTime};
use crate::fanout::sign_attempt;
use crate::guard::Guard;
use crate::roster::Subscriber;
use crate::store::command::{Attempt, Details};
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
    said: Mutex<Option<StoreTime>>,
}

/// The attempt got no socket, or no turn for a name lookup.
const TRY_AGAIN: Duration = Duration::from_millis(100);
/// The proxy has failed. Each try signs the body anew.
const TRY_PROXY_AGAIN: Duration = Duration::from_secs(1);
const SAY_EVERY: Nanos = Nanos::from_secs(10);

impl HttpPost {
    pub(super) fn new(guard: Guard, ids: DeliveryIds, settings: transport::Settings) -> Self {
        Self { transport: Transport::new(settings, guard), ids, said: Mutex::default() }
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
            match self.attempt(subscriber, row, number, &permit).await {
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
                        return result(made, row, began, clock.now());
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
    ) -> Result<(AttemptResult, Details), String> {
        let ready = subscriber.ready().map_err(ToString::to_string)?;
        let id = self.ids.name(row.received, row.delivery);
        let headers =
            sign_attempt(ready, &id, row, number, wall()).map_err(|unusable| unusable.to_string())?;
        let timeouts = ready.agreement().timeouts;
        let in_flight = subscriber.settings().contract().in_flight();
        let request = Request {
            lane: subscriber.lane(),
            target: ready.target(),
            headers: &headers,
            extra: &ready.agreement().headers,
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
