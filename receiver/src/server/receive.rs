use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use tower::{Layer as _, Service};
use tracing::warn;

use super::{asks_for_health, health, only_post};
use crate::answer::{method_not_allowed, overloaded, received, text};
use crate::inbox::{Arrival, Effects, Inbox, Refused};
use crate::layer::{Authentic, Verify, VerifyLayer};

/// The queue empties with the next commits.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Processing or an operator must make room.
const FULL_RETRY_AFTER: Duration = Duration::from_secs(30);
const LISTED_MAX: u32 = 100_000;
const EVENT_HEADERS: [&str; 2] = ["x-github-event", "x-vvv-event"];

type Answer = Response<Full<Bytes>>;
type Answering = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

/// Accepts verified deliveries by POST on any path, and answers handshakes and `GET /healthz`.
#[derive(Clone, Debug)]
pub struct Receive {
    deliveries: Verify<Keep>,
    inbox: Inbox,
}

impl Receive {
    #[must_use]
    pub fn new(layer: &VerifyLayer, inbox: Inbox) -> Self {
        Self { deliveries: layer.layer(Keep { inbox: inbox.clone() }), inbox }
    }
}

impl<B> Service<Request<B>> for Receive
where
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answering {
        if *request.method() == Method::POST || self.deliveries.answers_handshake(&request) {
            return self.deliveries.call(request);
        }
        let answer = if asks_for_health(&request) { readiness(&self.inbox) } else { only_post() };
        Box::pin(ready(Ok(answer)))
    }
}

/// An operator must know that deliveries are safe but not processed.
fn readiness(inbox: &Inbox) -> Answer {
    if inbox.is_open() && !inbox.works() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "cannot work on the inbox");
    }
    health(inbox.is_open())
}

#[derive(Clone, Debug)]
struct Keep {
    inbox: Inbox,
}

impl Service<Request<Full<Bytes>>> for Keep {
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Answering {
        let inbox = self.inbox.clone();
        Box::pin(async move { Ok(accept_into_inbox(&inbox, request).await) })
    }
}

async fn accept_into_inbox(inbox: &Inbox, request: Request<Full<Bytes>>) -> Answer {
    let (parts, body) = request.into_parts();
    let Some(authentic) = parts.extensions.get::<Authentic>() else {
        return text(StatusCode::INTERNAL_SERVER_ERROR, "nobody has verified this");
    };
    let Ok(body) = body.collect().await;
    let arrival = Arrival {
        event: EVENT_HEADERS.iter().find_map(|name| header(&parts.headers, name)),
        content_type: header(&parts.headers, CONTENT_TYPE.as_str()),
        ..Arrival::authentic(authentic, body.to_bytes())
    };
    match inbox.accept(arrival).await {
        Ok(_) => received(),
        Err(refused @ (Refused::Busy | Refused::Closed)) => {
            overloaded(&refused.to_string(), BUSY_RETRY_AFTER)
        }
        Err(Refused::Full) => overloaded("the inbox is full", FULL_RETRY_AFTER),
        // The details do not concern the sender.
        Err(Refused::Disk(_)) => overloaded("the inbox cannot be written", FULL_RETRY_AFTER),
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// Processed ids, one on each line, at `GET /effects`. Not for the public: it needs a listener of its own.
#[derive(Clone, Debug)]
pub struct EffectsService {
    effects: Arc<Mutex<Effects>>,
}

impl EffectsService {
    #[must_use]
    pub fn new(effects: Effects) -> Self {
        Self { effects: Arc::new(Mutex::new(effects)) }
    }

    fn list(&self) -> Answer {
        let effects = self.effects.lock().unwrap_or_else(PoisonError::into_inner);
        match effects.processed(LISTED_MAX) {
            Ok(ids) if ids.is_empty() => Answer::default(),
            Ok(ids) => text(StatusCode::OK, ids.join("\n")),
            Err(error) => {
                warn!(%error, "cannot read the effects");
                text(StatusCode::INTERNAL_SERVER_ERROR, "cannot read the effects")
            }
        }
    }
}

impl<B> Service<Request<B>> for EffectsService {
    type Response = Answer;
    type Error = Infallible;
    type Future = Ready<Result<Answer, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        ready(Ok(match (request.method(), request.uri().path()) {
            (&Method::GET, "/effects") => self.list(),
            (&Method::GET, _) => text(StatusCode::NOT_FOUND, "unknown path; expected /effects"),
            _ => method_not_allowed("GET"),
        }))
    }
}
