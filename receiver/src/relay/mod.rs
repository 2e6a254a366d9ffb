//! The relay: verifies deliveries, forwards each once within a window, and passes the target's answer back,
//! `Retry-After` included. Each subscriber has a route with keys, a target and a timeout; or one route serves all.
//!
//! Nothing is stored: if the target fails, the sender retries. Each route remembers recent ids in memory; a repeat
//! gets the same status, or waits for the first request. After a restart, or when the memory is full, a repeat gets
//! through, so the target should recognise ids as well.

mod forward;
mod route;
mod table;
mod window;

use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Body;
use tower::Service;

pub use forward::{Target, TargetError};
pub use table::{Options, RouteSettings, Routes};

use crate::layer::{Admission, linger};
use crate::server::{asks_for_health, health, only_post};
use table::{Table, Unrouted};

type Answer = Response<Full<Bytes>>;
type Answering = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

/// The relay as a service. Clones share its state.
#[derive(Clone, Debug)]
pub struct Relay {
    table: Arc<Table>,
}

impl Relay {
    #[must_use]
    pub fn new(admission: Admission, options: Options, routes: Routes) -> Self {
        Self { table: Arc::new(Table::new(admission, options, routes)) }
    }

    /// Deliveries under way end on their old route, and ids stay known.
    pub fn replace(&self, routes: Routes) {
        self.table.replace(routes);
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
        if asks_for_health(&request) {
            return Box::pin(ready(Ok(health(true))));
        }
        let found = self.table.find(request.headers(), request.uri().path());
        let answers = found.as_ref().is_ok_and(|route| route.service.answers_handshake(&request));
        if *request.method() != Method::POST && !answers {
            return Box::pin(ready(Ok(only_post())));
        }
        match found {
            Ok(mut route) => route.service.call(request),
            Err(unrouted) => Box::pin(async move { Ok(refuse(unrouted, request).await) }),
        }
    }
}

async fn refuse<B: Body<Data = Bytes>>(unrouted: Unrouted, request: Request<B>) -> Answer {
    let (parts, body) = request.into_parts();
    linger(&parts.headers, pin!(body)).await;
    unrouted.answer()
}
