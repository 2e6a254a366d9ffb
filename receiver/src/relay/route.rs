use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::Service;
use tracing::{debug, warn};

use super::forward::{Head, Target};
use super::window::{Entry, Window};
use super::{Answer, Answering};
use crate::answer::{overloaded, text};
use crate::clock::Clock;
use crate::layer::Authentic;

const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Kept when the route's settings change.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) window: Window,
    pub(super) under_way: Arc<Semaphore>,
}

#[derive(Debug)]
pub(super) struct Route {
    pub(super) subscriber: String,
    pub(super) target: Target,
    pub(super) timeout: Duration,
    pub(super) clock: Clock,
    pub(super) memory: Arc<Memory>,
    pub(super) under_way_in_all: Arc<Semaphore>,
}

#[derive(Clone, Debug)]
pub(super) struct Forward(pub(super) Arc<Route>);

impl Service<Request<Full<Bytes>>> for Forward {
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Answering {
        let route = Arc::clone(&self.0);
        Box::pin(async move { Ok(route.relay(request).await) })
    }
}

impl Route {
    async fn relay(&self, request: Request<Full<Bytes>>) -> Answer {
        let (parts, body) = request.into_parts();
        let Some(authentic) = parts.extensions.get::<Authentic>().cloned() else {
            return text(StatusCode::INTERNAL_SERVER_ERROR, "nobody has verified this");
        };
        let Ok(body) = body.collect().await;
        let mut forwarding = false;
        // A repeat that waits for an earlier request has used its time when that fails.
        let waiting = self.forwarded(&authentic.id, &parts.headers, body.to_bytes(), &mut forwarding);
        let forwarded = tokio::time::timeout(self.timeout, waiting).await;
        match forwarded {
            Ok(Forwarded::Theirs(head, _places)) => head.whole().await,
            Ok(Forwarded::Ours(answer)) => answer,
            Err(_) if forwarding => {
                let Self { subscriber, timeout, .. } = self;
                warn!(id = authentic.id, subscriber, ?timeout, "the target took too long");
                text(StatusCode::GATEWAY_TIMEOUT, "the target took too long")
            }
            Err(_) => overloaded("the same delivery is still being forwarded", BUSY_RETRY_AFTER),
        }
    }

    /// Sets `forwarding` when the target is asked.
    async fn forwarded(
        &self,
        id: &str,
        headers: &HeaderMap,
        body: Bytes,
        forwarding: &mut bool,
    ) -> Forwarded {
        let subscriber = &self.subscriber;
        loop {
            match self.memory.window.enter(id, self.clock.now()) {
                Entry::Known(status) => {
                    debug!(id, subscriber, "a repeat, not forwarded");
                    return Forwarded::Ours(empty(status));
                }
                // If the first request fails, a waiting repeat is next.
                Entry::UnderWay(mut over) => drop(over.changed().await),
                Entry::Full => {
                    return Forwarded::Ours(overloaded("too many requests at once", BUSY_RETRY_AFTER));
                }
                Entry::First(claim) => {
                    let Some(places) = self.places() else {
                        return Forwarded::Ours(overloaded("too many requests at once", BUSY_RETRY_AFTER));
                    };
                    *forwarding = true;
                    return match self.target.forward(headers, body).await {
                        Ok(head) => {
                            if head.status().is_success() {
                                claim.complete(head.status(), self.clock.now());
                            }
                            Forwarded::Theirs(head, places)
                        }
                        Err(error) => {
                            warn!(id, subscriber, %error, "cannot forward");
                            Forwarded::Ours(text(StatusCode::BAD_GATEWAY, "the target cannot be reached"))
                        }
                    };
                }
            }
        }
    }

    /// `None` if this route or all are full.
    fn places(&self) -> Option<[OwnedSemaphorePermit; 2]> {
        let own = Arc::clone(&self.memory.under_way).try_acquire_owned().ok()?;
        let in_all = Arc::clone(&self.under_way_in_all).try_acquire_owned().ok()?;
        Some([own, in_all])
    }
}

enum Forwarded {
    Theirs(Head, [OwnedSemaphorePermit; 2]),
    Ours(Answer),
}

fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}
