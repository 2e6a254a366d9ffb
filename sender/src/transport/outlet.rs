//! Requests that are no attempts: for tokens, and to servers that the operator names.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

use super::Settings;
use super::connect::Connector;
use super::failure::{Cause, Failure};
use super::limit::SocketLimit;
use super::lookups::{Asker, Lookups};
use super::route::{Origin, Route};
use super::sockets::{Socket, Sockets};
use super::timer::after;
use super::tls::Tls;
use super::wire::Wire;
use crate::guard::{Guard, Parts, Target};

const HEAD_BYTES_MAX: usize = 32 * 1024;
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Addresses are tried in parallel.
const SOCKETS_MAX: u32 = 4;

pub(super) type Answer = (StatusCode, Zeroizing<Vec<u8>>);

/// Posts JSON to a server that the operator has named: its address is not judged, and no proxy is used.
pub struct Outlet {
    connector: Connector,
    lookups: Lookups,
    limit: Arc<SocketLimit>,
}

impl Outlet {
    /// With the roots and the resolver of attempts.
    #[must_use]
    pub fn new(Settings { roots, resolver, .. }: Settings) -> Self {
        let connector = Connector {
            guard: Guard::open(),
            asker: Asker::new(resolver, SOCKETS_MAX),
            tls: Tls::new(roots),
            sockets: Sockets::new(SOCKETS_MAX),
            proxy: None,
        };
        let limit = Arc::<SocketLimit>::default();
        limit.set_max(SOCKETS_MAX);
        Self { connector, lookups: Lookups::default(), limit }
    }

    pub async fn post(
        &self,
        target: &Target,
        headers: &HeaderMap,
        json: Vec<u8>,
        within: Duration,
    ) -> Result<Answer, Failure> {
        let until = after(within);
        let posted = timeout_at(until, self.posted(target, headers, json, until)).await;
        posted.unwrap_or(Err(Failure::Deadline { within }))
    }

    async fn posted(
        &self,
        target: &Target,
        headers: &HeaderMap,
        json: Vec<u8>,
        until: Instant,
    ) -> Result<Answer, Failure> {
        let no_socket = || Failure::NoSocket { max: SOCKETS_MAX };
        let socket = self.connector.sockets.enter().ok_or_else(no_socket)?;
        let permit = self.limit.enter().ok_or_else(no_socket)?.with(socket);
        let route = Route::to(target, None)?;
        let wire = self.connector.open_http1(&route.origin, &self.lookups, permit, until).await?;
        let mut request = request_to(Method::POST, target, Bytes::from(json)).map_err(Failure::Request)?;
        request.headers_mut().extend(headers.clone());
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        exchange(wire, request).await.map_err(Failure::Broken)
    }
}

/// For one request of a lane at a time.
#[derive(Default)]
pub(super) struct Aside {
    lookups: Lookups,
    limit: Arc<SocketLimit>,
}

impl Aside {
    pub(super) async fn open(
        &self,
        connector: &Connector,
        origin: &Origin,
        room: impl Future<Output = Option<Socket>>,
        until: Instant,
    ) -> Result<Wire, Failure> {
        let no_socket = || Failure::NoSocket { max: connector.sockets.max() };
        self.limit.set_max(1);
        let permit = self.limit.enter().ok_or_else(no_socket)?.with(room.await.ok_or_else(no_socket)?);
        connector.open_http1(origin, &self.lookups, permit, until).await
    }
}

pub(super) fn request_to(
    method: Method,
    target: &Target,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Cause> {
    let Parts { authority, path, .. } = target.parts().map_err(|e| Cause::of(&e))?;
    let request = Request::builder().method(method).uri(path.as_str()).header(HOST, authority.as_str());
    request.body(Full::new(body)).map_err(|e| Cause::of(&e))
}

pub(super) async fn exchange(wire: Wire, request: Request<Full<Bytes>>) -> Result<Answer, Cause> {
    let (head, body) = exchange_head(wire, request).await?;
    Ok((head.status, body?))
}

pub(super) async fn exchange_head(
    wire: Wire,
    request: Request<Full<Bytes>>,
) -> Result<(response::Parts, Result<Zeroizing<Vec<u8>>, Cause>), Cause> {
    let handshake = http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(wire)).await;
    let (mut sender, connection) = handshake.map_err(|e| Cause::of(&e))?;
    let exchange = async move {
        let (head, body) = sender.send_request(request).await.map_err(|e| Cause::of(&e))?.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(|e| Cause::of(&*e));
        Ok((head, body.map(|body| Zeroizing::new(body.to_bytes().to_vec()))))
    };
    match select(Box::pin(exchange), Box::pin(connection)).await {
        Either::Left((answer, _)) => answer,
        Either::Right((_, exchange)) => exchange.await,
    }
}
