//! The edge worker: verifies, lets each delivery through once in a while, forwards it as it came, and passes back what
//! the other side says, `Retry-After` included.
//!
//! It keeps nothing: if the other side fails, the sender hears of it and tries again. What was forwarded well is
//! remembered for a window, in memory; a repeat within it gets the same answer and is not forwarded. A repeat that
//! comes while the first is still under way waits for its answer. The other side should know ids all the same: after
//! a restart, or when the memory is full, a repeat gets through.

mod forward;
mod window;

use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{Layer as _, Service};
use tracing::{debug, warn};

pub use forward::{Target, TargetError};

use crate::answer::{overloaded, text};
use crate::clock::Clock;
use crate::layer::{Authentic, Verify, VerifyLayer};
use crate::server::{asks_for_health, health, only_post};
use forward::Head;
use window::{Entry, Window};

/// When to come back if too much is under way: as soon as some of it is over.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// How a relay forwards.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to.
    pub target: Target,
    /// The one path at which it takes deliveries, others being 404; any if there is none.
    pub path: Option<String>,
    /// For how long what was forwarded well is remembered.
    pub window: Duration,
    /// How many ids are remembered; the oldest make room.
    pub remembered_max: usize,
    /// How long the other side may take to say its status, waiting for an earlier try of the same delivery included.
    pub timeout: Duration,
    /// How many requests are under way to the other side at a time.
    pub under_way_max: usize,
}

impl Options {
    /// The usual bounds.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self {
            target,
            path: None,
            window: Duration::from_secs(30),
            remembered_max: 65_536,
            timeout: Duration::from_secs(8),
            under_way_max: 256,
        }
    }
}

type Answer = Response<Full<Bytes>>;
type Answering = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

/// The relay as a service.
#[derive(Clone, Debug)]
pub struct Relay {
    deliveries: Verify<Forward>,
    path: Option<Arc<str>>,
}

impl Relay {
    /// Forwards what the layer lets through.
    #[must_use]
    pub fn new(layer: &VerifyLayer, clock: Clock, options: Options) -> Self {
        let path = options.path.as_deref().map(Arc::from);
        let window = Window::new(options.window, options.remembered_max);
        let under_way = Arc::new(Semaphore::new(options.under_way_max));
        let shared = Shared { options, clock, window, under_way };
        Self { deliveries: layer.layer(Forward(Arc::new(shared))), path }
    }
}

impl<B> Service<Request<B>> for Relay
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
        let elsewhere = self.path.as_deref().is_some_and(|path| path != request.uri().path());
        let answer = if asks_for_health(&request) {
            health(true)
        } else if elsewhere {
            text(StatusCode::NOT_FOUND, "nothing is relayed from here")
        } else if *request.method() == Method::POST {
            return self.deliveries.call(request);
        } else {
            only_post()
        };
        Box::pin(ready(Ok(answer)))
    }
}

#[derive(Debug)]
struct Shared {
    options: Options,
    clock: Clock,
    window: Window,
    under_way: Arc<Semaphore>,
}

/// Forwards a verified delivery.
#[derive(Clone, Debug)]
struct Forward(Arc<Shared>);

impl Service<Request<Full<Bytes>>> for Forward {
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Answering {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { Ok(shared.relay(request).await) })
    }
}

impl Shared {
    async fn relay(&self, request: Request<Full<Bytes>>) -> Answer {
        let (parts, body) = request.into_parts();
        let Some(authentic) = parts.extensions.get::<Authentic>().cloned() else {
            return text(StatusCode::INTERNAL_SERVER_ERROR, "nobody has verified this");
        };
        let Ok(body) = body.collect().await;
        let mut forwarding = false;
        // One time for all: a repeat that waits for the one before it has waited when that fails.
        let waiting = self.forwarded(&authentic.id, &parts.headers, body.to_bytes(), &mut forwarding);
        let forwarded = tokio::time::timeout(self.options.timeout, waiting).await;
        match forwarded {
            Ok(Forwarded::Theirs(head, _permit)) => head.whole().await,
            Ok(Forwarded::Ours(answer)) => answer,
            Err(_) if forwarding => {
                warn!(id = authentic.id, timeout = ?self.options.timeout, "the other side took too long");
                text(StatusCode::GATEWAY_TIMEOUT, "the other side took too long")
            }
            Err(_) => overloaded("the same delivery is still under way", BUSY_RETRY_AFTER),
        }
    }

    /// The head of the other side's answer, or an answer of our own. Notes when it is the other side's turn.
    async fn forwarded(
        &self,
        id: &str,
        headers: &HeaderMap,
        body: Bytes,
        forwarding: &mut bool,
    ) -> Forwarded {
        loop {
            match self.window.enter(id, self.clock.now()) {
                Entry::Known(status) => {
                    debug!(id, "a repeat, not forwarded");
                    return Forwarded::Ours(empty(status));
                }
                // Whatever becomes of the first decides: if it fails, one of those that waited is the next.
                Entry::UnderWay(mut over) => drop(over.changed().await),
                Entry::Full => return Forwarded::Ours(overloaded("too much is under way", BUSY_RETRY_AFTER)),
                Entry::First(claim) => {
                    let Ok(permit) = Arc::clone(&self.under_way).try_acquire_owned() else {
                        return Forwarded::Ours(overloaded("too much is under way", BUSY_RETRY_AFTER));
                    };
                    *forwarding = true;
                    return match self.options.target.forward(headers, body).await {
                        Ok(head) => {
                            if head.status().is_success() {
                                claim.done(head.status(), self.clock.now());
                            }
                            Forwarded::Theirs(head, permit)
                        }
                        Err(error) => {
                            warn!(id, %error, "can't forward");
                            Forwarded::Ours(text(StatusCode::BAD_GATEWAY, "the other side can't be reached"))
                        }
                    };
                }
            }
        }
    }
}

/// What came of a delivery in time.
enum Forwarded {
    /// The other side's answer, and its place among what is under way.
    Theirs(Head, OwnedSemaphorePermit),
    /// An answer of our own.
    Ours(Answer),
}

/// The answer to a repeat: what the first was told, without its body.
fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}
