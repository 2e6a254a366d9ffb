//! What every request passes before it reaches a handler: who asks, from where, and for how long.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use super::App;
use super::problem::Problem;

/// Answered to anybody: whoever restarts or balances processes has no token, and a browser has none before its user
/// typed it into the console, which itself says nothing.
const OPEN: [&str; 3] = ["/", "/healthz", "/readyz"];

pub(super) async fn gate(State(app): State<App>, request: Request, next: Next) -> Response {
    let token = app.config().token.as_ref();
    let admitted = match token {
        _ if OPEN.contains(&request.uri().path()) => Ok(()),
        Some(token) if shown(request.headers()).is_some_and(|shown| token.is(shown)) => Ok(()),
        Some(_) => Err(unauthorized()),
        None => refuse_web_pages(request.headers()),
    };
    if let Err(problem) = admitted {
        let mut response = problem.into_response();
        if response.status() == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        return response;
    }
    let longest = app.config().request_time_max;
    match timeout(longest, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!(
                "the request took longer than {} s; what it asked for may yet have happened",
                longest.as_secs()
            );
            Problem::unavailable("timeout", message).into_response()
        }
    }
}

/// What the request shows.
fn shown(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, shown) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(shown.trim_ascii())
}

fn unauthorized() -> Problem {
    let message = "no token, or not the right one; send the header authorization: Bearer …";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", message).field("authorization")
}

/// Without a token, being on this machine is what admits. A web page that its user visits is on this machine too, so
/// to speak, and must not reach the API: neither directly (then the browser tells its origin) nor under a name of its
/// own that it makes point here (then the host is that name).
fn refuse_web_pages(headers: &HeaderMap) -> Result<(), Problem> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let is_ours = host.is_none_or(|host| {
        let name =
            if host.ends_with(']') { host } else { host.rsplit_once(':').map_or(host, |(name, _)| name) };
        matches!(name, "localhost" | "[::1]")
            || name.parse().is_ok_and(|ip: std::net::Ipv4Addr| ip.is_loopback())
    });
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let is_page = origin.is_some_and(|origin| host.is_none() || origin.strip_prefix("http://") != host);
    if is_ours && !is_page {
        return Ok(());
    }
    let (what, field) = if is_page { ("web page", "origin") } else { ("host name", "host") };
    let message =
        format!("without a token, requests from another {what} are refused; start the sender with a token");
    Err(Problem::new(StatusCode::FORBIDDEN, "foreign_origin", message).field(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(host: Option<&str>, origin: Option<&str>, admitted: bool) {
        let mut headers = HeaderMap::new();
        for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().unwrap());
            }
        }
        assert_eq!(refuse_web_pages(&headers).is_ok(), admitted, "{host:?} {origin:?}");
    }

    #[test]
    fn without_a_token_only_this_machine_is_admitted_and_no_web_page() {
        check(None, None, true);
        check(Some("localhost:7411"), None, true);
        check(Some("127.0.0.1:7411"), None, true);
        check(Some("127.0.0.1"), None, true);
        check(Some("[::1]:7411"), None, true);
        check(Some("[::1]"), None, true);
        check(Some("evil.example:7411"), None, false);
        check(Some("127.0.0.1.evil.example"), None, false);
        check(Some("10.0.0.1:7411"), None, false);
        check(Some("localhost:7411"), Some("http://localhost:7411"), true);
        check(Some("localhost:7411"), Some("https://evil.example"), false);
        check(Some("localhost:7411"), Some("http://localhost:3000"), false);
        check(Some("localhost:7411"), Some("null"), false);
        check(None, Some("https://evil.example"), false);
    }
}
