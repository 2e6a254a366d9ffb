//! Answers to senders, without internal details.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};

use crate::verify::Rejection;
use crate::verify::handshake::{Answer, Refused};

/// A plain-text answer with one line.
pub fn text<R: From<Bytes>>(status: StatusCode, line: impl Into<String>) -> Response<R> {
    let mut line: String = line.into();
    line.push('\n');
    let mut response = Response::new(Bytes::from(line).into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

pub fn handshake<R: From<Bytes>>(answer: Result<Answer, Refused>) -> Response<R> {
    let Answer { content_type, body, headers } = match answer {
        Ok(answer) => answer,
        Err(refused) => return text(refused.status(), refused.to_string()),
    };
    let mut response = Response::new(Bytes::from(body).into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

pub fn received<R: From<Bytes>>() -> Response<R> {
    let mut response = Response::new(Bytes::new().into());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Names the broken rule. `status` is mostly [`Rejection::status`].
pub fn rejected<R: From<Bytes>>(rejection: &Rejection, status: StatusCode) -> Response<R> {
    let mut response = text(status, rejection.to_string());
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Signature"));
    }
    response
}

pub fn overloaded<R: From<Bytes>>(line: &str, after: Duration) -> Response<R> {
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, line);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
    response
}

pub fn method_not_allowed<R: From<Bytes>>(allowed: &'static str) -> Response<R> {
    let mut response =
        text(StatusCode::METHOD_NOT_ALLOWED, format!("this method is not allowed here; expected {allowed}"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// The rest of the request is not read, so the connection closes.
pub(crate) fn closing<R>(mut response: Response<R>) -> Response<R> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
