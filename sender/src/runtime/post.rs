//! One attempt, from the row that the store handed out to the outcome that the engine hears.

use std::future::Future;
use std::io;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tracing::warn;

use super::clock::{Clock, tokio_now, wall};
use crate::delivery_ids::DeliveryIds;
use crate::engine::{Nanos, Outcome, WallTime};
use crate::fanout::sign_attempt;
use crate::guard::Guard;
use crate::roster::Subscriber;
use crate::store::command::{self, Attempt};
use crate::store::reply::ClaimedRow;
use crate::transport::{self, Consent, Failure, Made, Request, Transport};

/// Whatever makes attempts.
pub(super) trait Post: Send + Sync + 'static {
    /// Makes the `number`th attempt of a delivery. Comes to an end by the time that it is given, and sends nothing once
    /// the lane's consent is withdrawn.
    fn post(
        &self,
        clock: &Clock,
        subscriber: &Subscriber,
        row: &ClaimedRow,
        number: u32,
        leave: Leave,
    ) -> impl Future<Output = Posted> + Send;
}

/// Until when an attempt may go on, and whether it may still begin.
#[derive(Clone, Debug)]
pub(super) struct Leave {
    pub(super) until: Instant,
    pub(super) consent: Consent,
}

/// How an attempt went.
pub(super) struct Posted {
    /// For the engine.
    pub(super) outcome: Outcome,
    /// For the record, if an attempt was made.
    pub(super) record: Option<Attempt>,
}

impl Posted {
    /// Nothing could be sent.
    pub(super) fn impossible(now: WallTime, why: &str) -> Self {
        let record = Attempt {
            at: now,
            latency: Nanos::ZERO,
            outcome: command::Outcome::Unsent,
            status: None,
            error: Some(why.into()),
            body_hash: 0,
        };
        Self { outcome: Outcome::Unsent, record: Some(record) }
    }

    /// No attempt was made, and it is nobody's fault but ours.
    pub(super) const fn withheld() -> Self {
        Self { outcome: Outcome::Withheld, record: None }
    }

    fn of(made: Made, row: &ClaimedRow, began: WallTime, ended: WallTime) -> Self {
        let error = made.failure().map(|failure| failure.to_string().into());
        let outcome = made.outcome(wall());
        let (kind, status) = match &outcome {
            Outcome::Answered(answer) if (200..300).contains(&answer.status) => {
                (command::Outcome::Delivered, Some(answer.status))
            }
            Outcome::Answered(answer) => (command::Outcome::Rejected, Some(answer.status)),
            Outcome::Unsent => (command::Outcome::Unsent, None),
            Outcome::Silent => (command::Outcome::Silent, None),
            Outcome::Withheld => return Self::withheld(),
        };
        let latency = ended.since(began);
        let record = Attempt { at: began, latency, outcome: kind, status, error, body_hash: row.body.hash };
        Self { outcome, record: Some(record) }
    }
}

/// Makes attempts over HTTP.
pub(super) struct HttpPost {
    transport: Transport,
    ids: DeliveryIds,
    /// Says that sockets are used up, now and then.
    said: Mutex<Option<WallTime>>,
}

/// How long an attempt waits that got no socket, where even asking for one fails at once.
const TRY_AGAIN: Duration = Duration::from_millis(100);
/// How often to say that sockets are used up.
const SAY_EVERY: Nanos = Nanos::from_secs(10);

impl HttpPost {
    /// A post office without connections.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub(super) fn new(
        guard: Guard,
        ids: DeliveryIds,
        connections_max: Option<NonZeroU32>,
    ) -> io::Result<Self> {
        let settings = transport::Settings { connections_max, ..transport::Settings::default() };
        Ok(Self { transport: Transport::new(settings, guard)?, ids, said: Mutex::default() })
    }

    fn say(&self, failure: &Failure, now: WallTime) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|said| now.since(said) >= SAY_EVERY) {
            *said = Some(now);
            warn!(%failure, "attempts wait for a socket; nothing is held against their endpoints");
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
        leave: Leave,
    ) -> Posted {
        loop {
            let began = clock.now();
            match self.attempt(subscriber, row, number, &leave).await {
                Ok(made) => match made.failure() {
                    Some(failure @ Failure::NoSocket { .. }) => self.say(failure, began),
                    _ => return Posted::of(made, row, began, clock.now()),
                },
                Err(impossible) => return Posted::impossible(began, &impossible),
            }
            // What waits for a socket keeps its place while it may; then its lane decides anew.
            tokio::select! {
                () = pause(TRY_AGAIN) => {}
                () = leave.consent.withdrawn() => return Posted::withheld(),
            }
            if leave.until <= tokio_now() {
                return Posted::withheld();
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
        leave: &Leave,
    ) -> Result<Made, String> {
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
            body: Bytes::from_owner(row.body.bytes.clone()),
            deadline: Duration::from_nanos(timeouts.total.0),
            until: leave.until,
            consent: leave.consent.clone(),
            connect_deadline: Duration::from_nanos(timeouts.connect.0),
            connections_max: NonZeroU32::new(in_flight).unwrap_or(NonZeroU32::MIN),
        };
        Ok(self.transport.attempt(&request).await)
    }
}

async fn pause(length: Duration) {
    #[expect(clippy::disallowed_methods, reason = "the runtime may wait for time")]
    tokio::time::sleep(length).await;
}
