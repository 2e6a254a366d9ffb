use std::fmt;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::App;
use super::problem::Problem;

/// Health checks, and the console's page, which holds no data.
const OPEN: [&str; 3] = ["/", "/healthz", "/readyz"];

pub(super) async fn gate(State(app): State<App>, request: Request, next: Next) -> Response {
    if let Err(problem) = admit(&app, &request) {
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
fn admit(app: &App, request: &Request) -> Result<(), Problem> {
    let authority = authority(request)?;
    match &app.config().token {
        _ if OPEN.contains(&request.uri().path()) => {}
        Some(token) if bearer_token(request.headers()).is_some_and(|shown| token.is(shown)) => {}
        Some(_) => return Err(unauthorized()),
        None => refuse_web_pages(authority.as_ref(), request.headers())?,
    }
    refuse_codings(request.headers())
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
    let (scheme, shown) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(shown.trim_ascii())
}

fn unauthorized() -> Problem {
    let message = "the token is missing or wrong; send the header `authorization: Bearer TOKEN`";
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

/// Holds only the digest.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl Token {
    /// The fewest bytes; a shorter token could be guessed.
    pub const BYTES_MIN: usize = 16;
    /// The most bytes.
    pub const BYTES_MAX: usize = 1_024;

    pub fn new(text: &str) -> Result<Self, TokenError> {
        if !(Self::BYTES_MIN..=Self::BYTES_MAX).contains(&text.len()) {
            return Err(TokenError::Length { bytes: text.len() });
        }
        match text.bytes().position(|byte| !byte.is_ascii_graphic()) {
            Some(at) => Err(TokenError::Character { at }),
            None => Ok(Self(Sha256::digest(text).into())),
        }
    }

    /// Compares digests in constant time.
    #[must_use]
    pub fn is(&self, shown: &[u8]) -> bool {
        let shown: [u8; 32] = Sha256::digest(shown).into();
        let different =
            self.0.iter().zip(shown).fold(0, |different, (ours, theirs)| different | (ours ^ theirs));
        different == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Reveals nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Too short or too long.
    #[error("the token has {bytes} bytes; expected {} to {}", Token::BYTES_MIN, Token::BYTES_MAX)]
    Length {
        /// Its length.
        bytes: usize,
    },
    /// A character that is not visible ASCII.
    #[error("the token has a character at byte {at} that is not visible ASCII")]
    Character {
        /// Its byte position.
        at: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_the_token() {
        let token = Token::new("correct horse".replace(' ', "-").repeat(2).as_str()).unwrap();
        assert!(token.is(b"correct-horsecorrect-horse"));
        for other in ["", "correct-horse", "correct-horsecorrect-horsf", "correct-horsecorrect-horse "] {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn a_token_must_be_long_enough_and_fit_a_header() {
        assert_eq!(Token::new("short"), Err(TokenError::Length { bytes: 5 }));
        assert_eq!(Token::new(&"x".repeat(1_025)), Err(TokenError::Length { bytes: 1_025 }));
        assert_eq!(Token::new("a token with blanks"), Err(TokenError::Character { at: 1 }));
    }
}
