use std::io::Write as _;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Version};
use tokio::time::{Instant, timeout_at};

use super::attempt_result::{Answered, AttemptResult};
use super::connect::{Connector, Opened};
use super::failure::{Cause, Failure};
use super::http1::Http1;
use super::http2::Place;
use super::lane::{AtHand, Found, Lane, Lanes, Want};
use super::limit::SocketPermit;
use super::request::Request;
use super::route::Route;
use super::sockets::Sockets;
use super::timer::{TIMER_MAX, after, later, now, reached};
use super::token::Bearer;
use super::traffic::ANSWER_BYTES;
use super::write_tracker::WriteTracker;
use crate::boot_clock::BootClock;
use crate::engine::Nanos;
use crate::oauth::OauthClient;
use crate::permission::Permission;
use crate::store::command::Details;

const AGENT: &str = concat!("Hookproof/", env!("CARGO_PKG_VERSION"));
const JSON: &str = "application/json";

pub(super) struct Shared {
    pub(super) lanes: Lanes,
    pub(super) connector: Connector,
    pub(super) idle_max: Duration,
    pub(super) sockets: Arc<Sockets>,
    pub(super) keep_answers: bool,
    pub(super) clock: BootClock,
}

pub(super) async fn make(
    shared: &Shared,
    lane: &Lane,
    route: &Route,
    request: &Request<'_>,
    details: &mut Details,
) -> AttemptResult {
    // In this order the timers' clock reaches the deadline first, unless the machine was suspended.
    let now = now();
    let moment = shared.clock.now();
    let (remaining, leased) = (request.permit.remaining(moment), request.permit.lease.remaining(moment));
    let deadline = later(now, remaining);
    let first_look = later(now, remaining.min(leased).min(TIMER_MAX));
    let bearer = None;
    let mut attempt = Attempt { shared, lane, route, request, began: now, deadline, first_look, bearer };
    if let Some(permission) = &request.target.permission {
        match Box::pin(attempt.permission(permission)).await {
            Ok(()) => {}
            Err(_) if attempt.is_revoked() => return AttemptResult::Unsent(Failure::Withdrawn),
            Err(failure) => return AttemptResult::Unsent(failure),
        }
    }
    if let Some(client) = &request.target.oauth {
        // A future is as large as its largest part.
        match Box::pin(attempt.token(client)).await {
            Ok(bearer) => attempt.bearer = Some(bearer),
            Err(_) if attempt.is_revoked() => return AttemptResult::Unsent(Failure::Withdrawn),
            Err(failure) => return AttemptResult::Unsent(failure),
        }
    }
    let mut stale = match attempt.over(Want::Any, details).await {
        Ended::Over(result) => return result,
        Ended::Stale(failure) => failure,
    };
    // Nothing was written. Each dead connection is dropped, so this bound is enough.
    for _ in 0..request.connections_max.get() {
        match Box::pin(attempt.over(Want::New, details)).await {
            Ended::Over(result) => return result,
            Ended::Stale(failure) => stale = failure,
        }
    }
    AttemptResult::Unsent(stale)
}

struct Attempt<'a> {
    shared: &'a Shared,
    lane: &'a Lane,
    route: &'a Route,
    request: &'a Request<'a>,
    began: Instant,
    deadline: Instant,
    first_look: Instant,
    bearer: Option<Bearer>,
}

enum Ended {
    Over(AttemptResult),
    Stale(Failure),
}

enum Connection {
    Http1(Box<Http1>),
    Http2(Place),
}

impl Attempt<'_> {
    async fn over(&self, want: Want, details: &mut Details) -> Ended {
        let is_hostile = self.lane.limit.account.is_hostile();
        let at_hand = if is_hostile { None } else { self.at_hand(want) };
        let found = match at_hand {
            Some(connection) => Ok((connection, None)),
            None if is_hostile => Err(Failure::Hostile),
            // A future is as large as its largest part, which most attempts do not need.
            None => Box::pin(self.search(want)).await,
        };
        let (connection, connect) = match found {
            Ok(found) => found,
            // A stopped process noticed too late; not the endpoint's fault.
            Err(_) if self.is_revoked() => {
                return Ended::Over(AttemptResult::Unsent(Failure::Withdrawn));
            }
            Err(failure) => return Ended::Over(AttemptResult::Unsent(self.cause(failure))),
        };
        let mut first_byte = None;
        let (result, wrote) = match connection {
            Connection::Http1(connection) => self.over_http1(connection, &mut first_byte).await,
            Connection::Http2(place) => Box::pin(self.over_http2(place, &mut first_byte)).await,
        };
        details.connect = connect;
        details.first_byte = first_byte.map(|at: Instant| nanos(at - self.began));
        match result.map_err(|failure| self.cause(failure)) {
            Ok(mut answered) => {
                let kept = answered.kept.take().filter(|kept| self.shared.keep_answers && !kept.is_empty());
                details.answer = kept.map(|kept| Arc::new(*kept));
                if answered.status == 401
                    && let Some(bearer) = &self.bearer
                {
                    bearer.refuse();
                }
                self.lane.limit.account.earn(ANSWER_BYTES);
                Ended::Over(AttemptResult::Answered(answered))
            }
            // A stopped process may have noticed too late.
            Err(_) if wrote && self.lease_is_over() => Ended::Over(AttemptResult::Silent(Failure::LeaseOver)),
            // A later write may meet the deadline before the timer does.
            Err(_) if wrote && self.is_too_late() => {
                let within = self.request.deadline;
                Ended::Over(AttemptResult::Silent(Failure::Deadline { within }))
            }
            Err(failure) if wrote => Ended::Over(AttemptResult::Silent(failure)),
            Err(_) if self.is_revoked() => Ended::Over(AttemptResult::Unsent(Failure::Withdrawn)),
            // The endpoint accepted nothing in all that time.
            Err(failure @ Failure::Deadline { .. }) => Ended::Over(AttemptResult::Unsent(failure)),
            Err(_) if self.request.permit.check(self.shared.clock.now()).is_err() => {
                Ended::Over(AttemptResult::Unsent(Failure::Withdrawn))
            }
            Err(failure) if connect.is_some() => Ended::Over(AttemptResult::Unsent(failure)),
            Err(failure) => Ended::Stale(failure),
        }
    }

    /// A hostile endpoint's connection ends with other errors.
    fn cause(&self, failure: Failure) -> Failure {
        let is_its_end = matches!(
            failure,
            Failure::Tls { .. }
                | Failure::Closed
                | Failure::Half(_)
                | Failure::NotHttp(_)
                | Failure::Broken(_)
        );
        if is_its_end && self.lane.limit.account.is_hostile() { Failure::Hostile } else { failure }
    }

    fn is_too_late(&self) -> bool {
        self.request.permit.deadline <= self.shared.clock.now()
    }

    fn lease_is_over(&self) -> bool {
        self.request.permit.lease.is_over(self.shared.clock.now())
    }

    /// Comes within [`TIMER_MAX`], since timers do not count suspended time.
    fn next_look(&self) -> Instant {
        after(self.request.permit.lease.remaining(self.shared.clock.now()).min(TIMER_MAX))
    }

    /// Lease renewals included, or a deadline passed in a suspension.
    async fn out_of_time(&self) {
        while !self.lease_is_over() && !self.slept_too_long() {
            reached(self.next_look()).await;
        }
    }

    fn slept_too_long(&self) -> bool {
        self.is_too_late() && now() < self.deadline
    }

    fn is_revoked(&self) -> bool {
        self.request.permit.is_revoked(self.shared.clock.now())
    }

    fn at_hand(&self, want: Want) -> Option<Connection> {
        if want == Want::New {
            return None;
        }
        let connections_max = self.request.connections_max.get();
        loop {
            if self.lane.is_wary() {
                return self.lane.shared(connections_max).map(Connection::Http2);
            }
            match self.lane.at_hand(connections_max, self.shared.idle_max)? {
                AtHand::Shared(place) => return Some(Connection::Http2(place)),
                AtHand::Idle(mut connection) => {
                    if self.is_ready(&mut connection) {
                        return Some(Connection::Http1(connection));
                    }
                }
            }
        }
    }

    async fn search(&self, want: Want) -> Result<(Connection, Option<Nanos>), Failure> {
        tokio::select! {
            // A ready connection saves polling the cancellation.
            biased;
            found = self.connection(want) => found,
            () = self.request.permit.cancelled.cancelled() => Err(Failure::Withdrawn),
            () = self.out_of_time() => Err(Failure::Withdrawn),
        }
    }

    async fn permission(&self, permission: &Arc<Permission>) -> Result<(), Failure> {
        let Shared { lanes, sockets, connector, .. } = self.shared;
        let until = after(self.request.connect_deadline).min(self.deadline);
        let room = sockets.room(|count| lanes.close_some_idle(count), until);
        let whom = (connector, self.route);
        tokio::select! {
            biased;
            asked = self.lane.permissions().get(self.request.target, permission, whom, room, until, self.deadline) => asked,
            () = self.request.permit.cancelled.cancelled() => Err(Failure::Withdrawn),
            () = self.out_of_time() => Err(Failure::Withdrawn),
        }
    }

    async fn token(&self, client: &Arc<OauthClient>) -> Result<Bearer, Failure> {
        let Shared { lanes, sockets, connector, .. } = self.shared;
        let until = after(self.request.connect_deadline).min(self.deadline);
        let room = sockets.room(|count| lanes.close_some_idle(count), until);
        tokio::select! {
            biased;
            bearer = self.lane.tokens().get(client, connector, room, until) => bearer,
            () = self.request.permit.cancelled.cancelled() => Err(Failure::Withdrawn),
            () = self.out_of_time() => Err(Failure::Withdrawn),
        }
    }

    /// A new one comes with the time that it took.
    async fn connection(&self, want: Want) -> Result<(Connection, Option<Nanos>), Failure> {
        let Request { connections_max, deadline: within, .. } = *self.request;
        let connections_max = connections_max.get();
        loop {
            let found = self.lane.find(want, connections_max, self.shared.idle_max, self.deadline).await;
            match found.ok_or(Failure::Full { within, connections_max })? {
                Found::AtHand(AtHand::Shared(place)) => return Ok((Connection::Http2(place), None)),
                Found::AtHand(AtHand::Idle(mut connection)) => {
                    if self.is_alive(&mut connection).await {
                        return Ok((Connection::Http1(connection), None));
                    }
                }
                Found::Room(permit) => {
                    let began = now();
                    let connection = self.connect(permit).await?;
                    return Ok((connection, Some(nanos(now() - began))));
                }
            }
        }
    }

    async fn is_alive(&self, connection: &mut Http1) -> bool {
        if !self.lane.looks_closer() {
            return self.is_ready(connection);
        }
        if !connection.has_unread() {
            return true;
        }
        self.lane.be_wary();
        timeout_at(self.deadline, connection.outlives_unread()).await == Ok(true)
    }

    fn is_ready(&self, connection: &mut Http1) -> bool {
        let is_ready = connection.is_ready();
        if connection.has_surplus() {
            self.lane.be_wary();
        }
        is_ready
    }

    async fn connect(&self, permit: SocketPermit) -> Result<Connection, Failure> {
        let within = self.request.connect_deadline;
        let until = after(within).min(self.deadline);
        let Shared { lanes, sockets, connector, .. } = self.shared;
        let socket = sockets.room(|count| lanes.close_some_idle(count), until).await;
        let socket = socket.ok_or(Failure::NoSocket { max: sockets.max() })?;
        let until = after(within).min(self.deadline);
        let opening = connector.open(&self.route.origin, &self.lane.lookups, permit.with(socket), until);
        let opened = timeout_at(until, opening).await;
        let too_late = |_| {
            let is_in_line = self.lane.lookups.is_in_line();
            if is_in_line { Failure::NoLookup } else { Failure::ConnectDeadline { within } }
        };
        match opened.map_err(too_late)?? {
            Opened::Http1(connection) => Ok(Connection::Http1(connection)),
            Opened::Http2(connection) => {
                let place = connection.enter(&self.lane.limit).ok_or(Failure::Closed)?;
                self.lane.share(&connection, &self.route.origin);
                Ok(Connection::Http2(place))
            }
        }
    }

    /// Also says whether a byte of the request may have left.
    async fn over_http1(
        &self,
        mut connection: Box<Http1>,
        first_byte: &mut Option<Instant>,
    ) -> (Result<Answered, Failure>, bool) {
        let tracker = self.tracker();
        let result = {
            let write = |head: &mut Vec<u8>| self.write_head(head);
            let exchange = connection.exchange(write, self.request.body, Arc::clone(&tracker), first_byte);
            self.in_time(pin!(exchange)).await
        };
        if result.is_ok() && self.is_ready(&mut connection) {
            self.lane.retain_connection(connection, &self.route.origin);
        }
        let wrote = tracker.give_up();
        if wrote && matches!(result, Err(Failure::Closed | Failure::Broken(_))) {
            self.lane.be_wary();
        }
        (result, wrote)
    }

    async fn over_http2(
        &self,
        place: Place,
        first_byte: &mut Option<Instant>,
    ) -> (Result<Answered, Failure>, bool) {
        let request = match self.http2_request() {
            Ok(request) => request,
            Err(failure) => return (Err(failure), false),
        };
        let tracker = self.tracker();
        let body = Bytes::from_owner(Arc::clone(self.request.body));
        let exchange = pin!(place.exchange(request, body, Arc::clone(&tracker), first_byte));
        let result = self.in_time(exchange).await;
        // In this order, nothing is written afterwards.
        (result, tracker.give_up())
    }

    fn tracker(&self) -> Arc<WriteTracker> {
        WriteTracker::new(self.request.permit.clone(), self.shared.clock, self.request.target.late_max)
    }

    /// The caller pins the exchange: a future passed by value doubles its memory.
    async fn in_time(
        &self,
        mut exchange: Pin<&mut impl Future<Output = Result<Answered, Failure>>>,
    ) -> Result<Answered, Failure> {
        let mut look = self.first_look;
        loop {
            if let Ok(result) = timeout_at(look, exchange.as_mut()).await {
                return result;
            }
            if self.lease_is_over() {
                return Err(Failure::LeaseOver);
            }
            if self.deadline <= now() {
                return Err(Failure::Deadline { within: self.request.deadline });
            }
            if self.slept_too_long() {
                return Err(Failure::Withdrawn);
            }
            look = self.deadline.min(self.next_look());
        }
    }

    fn write_head(&self, head: &mut Vec<u8>) -> Result<(), Failure> {
        let (line, rest) = self.route.head.split_at(self.route.query_at);
        for piece in [line, self.request.headers.query().as_bytes(), rest] {
            head.extend_from_slice(piece);
        }
        write_header(head, "content-type", JSON)?;
        write_header(head, "user-agent", AGENT)?;
        for (name, value) in self.request.headers.iter() {
            write_header(head, name, value)?;
        }
        for header in self.request.extra {
            head.extend_from_slice(header.line().as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        if let Some(bearer) = &self.bearer {
            write_header(head, "authorization", bearer.value())?;
        }
        let length = self.request.body.len();
        write!(head, "content-length: {length}\r\n\r\n").map_err(|error| Failure::Request(Cause::of(&error)))
    }

    fn http2_request(&self) -> Result<http::Request<()>, Failure> {
        let mut headers = HeaderMap::with_capacity(12);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        for (name, value) in self.request.headers.iter() {
            let value = HeaderValue::from_str(value).map_err(|error| Failure::Request(Cause::of(&error)))?;
            headers.insert(HeaderName::from_static(name), value);
        }
        for header in self.request.extra {
            headers.insert(header.name().clone(), header.value().clone());
        }
        if let Some(bearer) = &self.bearer {
            headers.insert(AUTHORIZATION, bearer.header()?);
        }
        headers.insert(CONTENT_LENGTH, HeaderValue::from(self.request.body.len()));
        let mut request = http::Request::new(());
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        let (whole, query) = (&self.route.whole, self.request.headers.query());
        *request.uri_mut() = match query {
            "" => whole.clone(),
            _ => format!("{whole}{query}").parse().map_err(|error| Failure::Request(Cause::of(&error)))?,
        };
        *request.headers_mut() = headers;
        Ok(request)
    }
}

fn nanos(length: Duration) -> Nanos {
    Nanos(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
}

/// Control characters could end the line.
fn write_header(head: &mut Vec<u8>, name: &str, value: &str) -> Result<(), Failure> {
    if !value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f)) {
        return Err(Failure::Request("the value of a header has a control character".into()));
    }
    for piece in [name, ": ", value, "\r\n"] {
        head.extend_from_slice(piece.as_bytes());
    }
    Ok(())
}
