//! One attempt from its connection to its end.

use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Uri, Version};
use http_body_util::Full;
use tokio::time::{Instant, timeout_at};

use super::connect::Opened;
use super::deadline::after;
use super::http1::Http1;
use super::http2::Place;
use super::lane::{Found, Lane, Slot, Want};
use super::route::Route;
use super::wire::Permit;
use super::{Answered, Cause, Failure, Made, Request, Shared};

const AGENT: HeaderValue = HeaderValue::from_static(concat!("Hookproof/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Makes one attempt.
pub(super) async fn make(shared: &Shared, lane: &Lane, route: &Route, request: &Request<'_>) -> Made {
    let attempt = Attempt { shared, lane, route, request, deadline: request.until };
    match attempt.over(Want::Any).await {
        Ended::Made(made) => made,
        // Not a second request: of the first, nothing was written.
        Ended::Stale(_) => match Box::pin(attempt.over(Want::New)).await {
            Ended::Made(made) => made,
            Ended::Stale(failure) => Made::Unsent(failure),
        },
    }
}

struct Attempt<'a> {
    shared: &'a Shared,
    lane: &'a Lane,
    route: &'a Route,
    request: &'a Request<'a>,
    deadline: Instant,
}

enum Ended {
    Made(Made),
    /// The connection was kept from before, and was dead before anything was written.
    Stale(Failure),
}

/// Something to send over.
enum Connection {
    Http1(Http1),
    Http2(Place),
}

impl Attempt<'_> {
    async fn over(&self, want: Want) -> Ended {
        let (connection, is_new) = match self.connection(want).await {
            Ok(found) => found,
            Err(failure) => return Ended::Made(Made::Unsent(failure)),
        };
        let (result, wrote) = match connection {
            Connection::Http1(connection) => self.over_http1(connection).await,
            Connection::Http2(place) => Box::pin(self.over_http2(place)).await,
        };
        match result {
            Ok(answered) => Ended::Made(Made::Answered(answered)),
            Err(failure) if wrote => Ended::Made(Made::Silent(failure)),
            Err(failure @ Failure::Deadline { .. }) if is_new => Ended::Made(Made::Unsent(failure)),
            Err(_) if self.permit().check().is_err() => Ended::Made(Made::Unsent(Failure::Withdrawn)),
            Err(failure) if is_new => Ended::Made(Made::Unsent(failure)),
            Err(failure) => Ended::Stale(failure),
        }
    }

    /// A connection, and whether it is new. Nothing of the request is written here.
    async fn connection(&self, want: Want) -> Result<(Connection, bool), Failure> {
        let Request { connections_max, deadline: within, .. } = *self.request;
        let connections_max = connections_max.get();
        loop {
            let found = self.lane.find(want, connections_max, self.shared.idle_max, self.deadline).await;
            match found.ok_or(Failure::Full { within, connections_max })? {
                Found::Shared(place) => return Ok((Connection::Http2(place), false)),
                Found::Idle(mut connection) => {
                    if connection.is_ready().await {
                        return Ok((Connection::Http1(connection), false));
                    }
                }
                // On the heap: an attempt is as large as its largest part, and most of them find a connection idle.
                Found::Room(slot) => return Box::pin(self.connect(slot)).await,
            }
        }
    }

    /// A new connection, in the place that was found for it.
    async fn connect(&self, slot: Slot) -> Result<(Connection, bool), Failure> {
        let within = self.request.connect_deadline;
        let until = after(within).min(self.deadline);
        let room = self.shared.sockets.room(&self.shared.lanes, until);
        let max = self.shared.sockets.max();
        let socket = tokio::select! {
            socket = room => socket.ok_or(Failure::NoSocket { max })?,
            () = self.request.consent.withdrawn() => return Err(Failure::Withdrawn),
        };
        let opening = self.shared.connector.open(&self.route.origin, &self.lane.lookups, slot.with(socket));
        let opened = timeout_at(after(within).min(self.deadline), opening).await;
        match opened.map_err(|_| Failure::ConnectDeadline { within })?? {
            Opened::Http1(connection) => Ok((Connection::Http1(connection), true)),
            Opened::Http2(connection) => {
                let place = connection.enter(&self.lane.gate).ok_or(Failure::Closed)?;
                self.lane.share(&connection, &self.route.origin);
                Ok((Connection::Http2(place), true))
            }
        }
    }

    /// The answer, and whether a byte of the request may have left.
    async fn over_http1(&self, mut connection: Http1) -> (Result<Answered, Failure>, bool) {
        let request = match self.request(&self.route.path) {
            Ok(mut request) => {
                request.headers_mut().insert(HOST, self.route.host.clone());
                request.map(|()| Full::new(self.request.body.clone()))
            }
            Err(failure) => return (Err(failure), false),
        };
        let trail = connection.trail();
        trail.permit(self.permit());
        let result = self.in_time(pin!(connection.exchange(request))).await;
        if result.is_ok() && connection.is_ready().await {
            self.lane.keep(connection, &self.route.origin);
        }
        (result, trail.wrote())
    }

    /// The same over HTTP/2.
    async fn over_http2(&self, place: Place) -> (Result<Answered, Failure>, bool) {
        let request = match self.request(&self.route.whole) {
            Ok(mut request) => {
                *request.version_mut() = Version::HTTP_2;
                request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(self.request.body.len()));
                request
            }
            Err(failure) => return (Err(failure), false),
        };
        let handed_over = place.handed_over();
        let exchange = pin!(place.exchange(request, Bytes::clone(&self.request.body), self.permit()));
        let result = self.in_time(exchange).await;
        (result, handed_over.load(Ordering::Relaxed))
    }

    fn permit(&self) -> Permit {
        Permit { until: self.deadline, consent: self.request.consent.clone() }
    }

    /// The exchange is pinned by whoever has it: a future that is handed on by value takes its room twice.
    async fn in_time(
        &self,
        exchange: Pin<&mut impl Future<Output = Result<Answered, Failure>>>,
    ) -> Result<Answered, Failure> {
        let within = self.request.deadline;
        timeout_at(self.deadline, exchange).await.unwrap_or(Err(Failure::Deadline { within }))
    }

    /// What is the same in every version of HTTP.
    fn request(&self, uri: &Uri) -> Result<http::Request<()>, Failure> {
        let mut headers = HeaderMap::with_capacity(12);
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(USER_AGENT, AGENT);
        for (name, value) in self.request.headers.iter() {
            let value = HeaderValue::from_str(value).map_err(|error| Failure::Request(Cause::of(&error)))?;
            headers.insert(HeaderName::from_static(name), value);
        }
        let mut request = http::Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        Ok(request)
    }
}
