use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;
use tracing::info;

use super::App;
use super::problem::Problem;
use super::token::{Caller, Scope};
use crate::runtime::clock::wall;
use crate::store::Command;

/// Health checks, and the console's page, which holds no data.
const OPEN: [&str; 3] = ["/", "/healthz", "/readyz"];

pub(super) async fn gate(State(app): State<App>, mut request: Request, next: Next) -> Response {
    match admit(&app, &request) {
        Ok(caller) => request.extensions_mut().insert(caller),
        Err(problem) => {
            let mut response = problem.into_response();
            let expected = match response.status() {
                StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, "Bearer")),
                StatusCode::UNSUPPORTED_MEDIA_TYPE => Some((header::ACCEPT_ENCODING, "identity")),
                _ => None,
            };
            let expected = expected.map(|(name, value)| (name, HeaderValue::from_static(value)));
            response.headers_mut().extend(expected);
            return response;
        }
    };
    let longest = app.config().request_time_max;
    match timeout(longest, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!(
                "the request took longer than {} s; its effect may have happened nevertheless",
                longest.as_secs()
            );
            Problem::unavailable("timeout", message).into_response()
        }
    }
}

/// Judges the head alone, so that a refused body is not read.
fn admit(app: &App, request: &Request) -> Result<Caller, Problem> {
    let authority = authority(request)?;
    let (given, stored) = (&app.config().tokens, app.sender().tokens());
    let is_open_to_all = given.is_empty() && !stored.were_seen && !app.config().is_reachable;
    let caller = if OPEN.contains(&request.uri().path()) {
        Caller { name: None, scope: Scope::Read, subscribers: None }
    } else if is_open_to_all {
        refuse_web_pages(authority.as_ref(), request.headers())?;
        Caller { name: None, scope: Scope::Admin, subscribers: None }
    } else {
        let shown = bearer_token(request.headers());
        shown.and_then(|shown| given.caller(shown, &stored.tokens, wall())).ok_or_else(unauthorized)?
    };
    refuse_codings(request.headers())?;
    Ok(caller)
}

/// Refuses a request whose token does not include the scope of its route, or whose restriction excludes the route. Logs
/// each that acts.
pub(super) async fn check_token(
    (needed, reach): (Scope, Result<(), &'static str>),
    Extension(caller): Extension<Caller>,
    request: Request,
    next: Next,
) -> Response {
    if let Err(problem) = caller.check(needed) {
        return problem.into_response();
    }
    if caller.is_restricted()
        && let Err(why) = reach
    {
        return Problem::restricted(why).into_response();
    }
    if needed == Scope::Emit || matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let by = &*caller.by();
    info!(by, %method, path, status = response.status().as_u16(), "an operator's request");
    response
}

/// RFC 9112, 3.2: the target's goes before the header's; only HTTP/1.0 may omit both.
fn authority(request: &Request) -> Result<Option<Authority>, Problem> {
    let bad = |found: &str| {
        let message =
            format!("the request has {found}; expected one header `host` with a name and an optional port");
        Problem::bad_request("bad_host", message).field("host")
    };
    let mut headers = request.headers().get_all(header::HOST).iter();
    let host = match headers.next() {
        Some(host) => {
            let text = host.to_str().map_err(|_| bad("a host that is not ASCII"))?;
            Some(text.parse().ok().filter(is_plain).ok_or_else(|| bad("an invalid host"))?)
        }
        None => None,
    };
    if headers.next().is_some() {
        return Err(bad("several hosts"));
    }
    match (request.uri().authority().cloned(), host) {
        (Some(authority), _) if !is_plain(&authority) => Err(bad("an invalid host")),
        (Some(authority), _) | (None, Some(authority)) => Ok(Some(authority)),
        (None, None) if request.version() < Version::HTTP_11 => Ok(None),
        (None, None) => Err(bad("no host")),
    }
}

/// A name, and perhaps a port.
fn is_plain(authority: &Authority) -> bool {
    let after = authority.as_str().strip_prefix(authority.host());
    after
        .map(|after| after.strip_prefix(':').unwrap_or(after))
        .is_some_and(|port| port.is_empty() || authority.port_u16().is_some())
}

/// Refuses encodings, because bodies are not decoded.
fn refuse_codings(headers: &HeaderMap) -> Result<(), Problem> {
    let is_only = |name, coding: &[u8]| {
        headers.get_all(name).iter().all(|found| found.as_bytes().eq_ignore_ascii_case(coding))
    };
    if !is_only(header::CONTENT_ENCODING, b"identity") {
        let message = "the content-encoding of the body is not supported; expected identity";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Problem::new(status, "unsupported_coding", message).field("content-encoding"));
    }
    let is_repeated = headers.get_all(header::TRANSFER_ENCODING).iter().nth(1).is_some();
    if is_repeated || !is_only(header::TRANSFER_ENCODING, b"chunked") {
        let message = "the transfer-encoding of the body is not supported; expected chunked or none";
        let status = StatusCode::NOT_IMPLEMENTED;
        return Err(Problem::new(status, "unsupported_coding", message).field("transfer-encoding"));
    }
    Ok(())
}

fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let mut found = headers.get_all(header::AUTHORIZATION).iter();
    let (scheme, shown) = found.next()?.as_bytes().split_at_checked(7)?;
    if found.next().is_some() {
        return None;
    }
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(shown.trim_ascii())
}

impl Caller {
    pub(super) fn by(&self) -> Arc<str> {
        self.name.clone().unwrap_or_else(|| "a client without a token".into())
    }

    /// The command as this caller's change.
    pub(super) fn makes(&self, command: Command) -> Command {
        command.by(&self.by(), None)
    }

    pub(super) fn check(&self, needed: Scope) -> Result<(), Problem> {
        if self.scope.includes(needed) {
            return Ok(());
        }
        let (given, needed) = (self.scope.name(), needed.name());
        let message = format!("the token has the scope {given}; this request needs {needed}");
        Err(Problem::new(StatusCode::FORBIDDEN, "wrong_scope", message).field("authorization"))
    }
}

fn unauthorized() -> Problem {
    let message = "the token is missing, wrong or expired; send the header `authorization: Bearer TOKEN`";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", message).field("authorization")
}

/// Without a token, any client on this machine is trusted. A web page in its browser must not reach the API, neither
/// from another origin (`Origin`) nor through DNS rebinding (a foreign `Host`).
fn refuse_web_pages(host: Option<&Authority>, headers: &HeaderMap) -> Result<(), Problem> {
    let refused = |status, code, what, field| {
        let message = format!(
            "without a token, requests from another {what} are refused; start the sender with a token"
        );
        Err(Problem::new(status, code, message).field(field))
    };
    let is_ours = host.is_none_or(|host| {
        let name = host.host();
        name.eq_ignore_ascii_case("localhost")
            || name == "[::1]"
            || name.parse().is_ok_and(|ip: std::net::Ipv4Addr| ip.is_loopback())
    });
    if !is_ours {
        return refused(StatusCode::MISDIRECTED_REQUEST, "foreign_host", "host name", "host");
    }
    let is_page = headers.get_all(header::ORIGIN).iter().any(|origin| {
        let origin = origin.as_bytes().strip_prefix(b"http://");
        host.is_none_or(|host| origin.is_none_or(|name| !name.eq_ignore_ascii_case(host.as_str().as_bytes())))
    });
    if is_page {
        return refused(StatusCode::FORBIDDEN, "foreign_origin", "web page", "origin");
    }
    Ok(())
}
