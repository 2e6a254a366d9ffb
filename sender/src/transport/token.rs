//! Bearer tokens by OAuth 2.0 client credentials (RFC 6749 §4.4).
//!
//! A lane has one token. Attempts that need a new one wait for the same request, which is no attempt: it counts for no
//! limit of the contract. A token is kept until shortly before its end. After a 401 of the endpoint the next attempt gets
//! a new one, once a second at most. After a failure the lane asks ever later, up to a minute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

use super::connect::Connector;
use super::failure::{Cause, Failure};
use super::outlet::{Answer, Aside, exchange, request_to};
use super::route::Route;
use super::sockets::Socket;
use super::timer::{SOONER, after, lock, now};
use super::wire::Wire;
use crate::excerpt::Excerpt;
use crate::oauth::OauthClient;

const TOKEN_BYTES_MAX: usize = 8 * 1024;

const LIFETIME_MAX: Duration = Duration::from_secs(86_400);
/// Without `expires_in`.
const LIFETIME_UNKNOWN: Duration = Duration::from_secs(300);
/// A tenth of the lifetime, if that is less.
const MARGIN_MAX: Duration = Duration::from_secs(30);

const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Tokens {
    aside: Aside,
    state: Mutex<State>,
    of_use_until: std::sync::Mutex<Option<Instant>>,
}

#[derive(Default)]
struct State {
    client: Option<Arc<OauthClient>>,
    token: Option<Token>,
    failed: Option<Failed>,
    /// When a token was last replaced after a 401.
    replaced: Option<Instant>,
}

struct Token {
    bearer: Bearer,
    until: Instant,
}

struct Failed {
    failure: Failure,
    pause: Duration,
    until: Instant,
}

#[derive(Clone)]
pub(super) struct Bearer(Arc<Inner>);

struct Inner {
    /// The value of `Authorization`.
    value: Zeroizing<String>,
    is_refused: AtomicBool,
}

impl Bearer {
    pub(super) fn value(&self) -> &str {
        &self.0.value
    }

    pub(super) fn header(&self) -> Result<HeaderValue, Failure> {
        let mut value = HeaderValue::from_str(self.value()).map_err(|e| Failure::Request(Cause::of(&e)))?;
        value.set_sensitive(true);
        Ok(value)
    }

    pub(super) fn refuse(&self) {
        self.0.is_refused.store(true, Ordering::Relaxed);
    }
}

impl State {
    fn usable(&mut self) -> Option<Bearer> {
        let moment = now();
        let token = self.token.as_ref().filter(|token| moment < token.until)?;
        let is_refused = token.bearer.0.is_refused.load(Ordering::Relaxed);
        if is_refused && self.replaced.is_none_or(|before| before + PAUSE_MIN <= moment) {
            self.replaced = Some(moment);
            self.token = None;
            return None;
        }
        Some(token.bearer.clone())
    }
}

impl Tokens {
    pub(super) fn is_of_use(&self) -> bool {
        lock(&self.of_use_until).is_some_and(|until| now() < until)
    }

    /// Takes `room` only for a request to the token endpoint.
    pub(super) async fn get(
        &self,
        client: &Arc<OauthClient>,
        connector: &Connector,
        room: impl Future<Output = Option<Socket>>,
        until: Instant,
    ) -> Result<Bearer, Failure> {
        let until = until.checked_sub(SOONER).unwrap_or(until);
        let in_line = |_| failure(client, &Cause::from("the request for one is not answered yet"));
        let mut state = timeout_at(until, self.state.lock()).await.map_err(in_line)?;
        if state.client.as_ref() != Some(client) {
            *state = State { client: Some(Arc::clone(client)), ..State::default() };
        }
        if let Some(bearer) = state.usable() {
            return Ok(bearer);
        }
        if let Some(failed) = state.failed.as_ref().filter(|failed| now() < failed.until) {
            return Err(failed.failure.clone());
        }
        let fetched = timeout_at(until, self.fetch(client, connector, room, until)).await;
        let too_late = |_| Err(failure(client, &Cause::from("no answer in time")));
        match fetched.unwrap_or_else(too_late) {
            Ok(token) => {
                let bearer = token.bearer.clone();
                *lock(&self.of_use_until) = Some(token.until);
                (state.token, state.failed) = (Some(token), None);
                Ok(bearer)
            }
            Err(failure) if failure.is_ours() || failure.is_the_proxys() => Err(failure),
            Err(failure) => {
                let pause =
                    state.failed.as_ref().map_or(PAUSE_MIN, |before| (2 * before.pause).min(PAUSE_MAX));
                let until = after(pause);
                state.failed = Some(Failed { failure: failure.clone(), pause, until });
                *lock(&self.of_use_until) = Some(until);
                Err(failure)
            }
        }
    }

    async fn fetch(
        &self,
        client: &OauthClient,
        connector: &Connector,
        room: impl Future<Output = Option<Socket>>,
        until: Instant,
    ) -> Result<Token, Failure> {
        let fetched = now();
        let route = Route::to(&client.token_url, None)?;
        let wire = self.aside.open(connector, &route.origin, room, until).await;
        let wire = wire.map_err(|error| {
            if error.is_ours() || error.is_the_proxys() { error } else { failure(client, &Cause::of(&error)) }
        })?;
        let answer = ask(client, wire).await.map_err(|cause| failure(client, &cause))?;
        let (value, lifetime) = read(&answer).map_err(|cause| failure(client, &cause))?;
        let lifetime = lifetime.min(LIFETIME_MAX);
        let valid = (lifetime - (lifetime / 10).min(MARGIN_MAX)).max(PAUSE_MIN);
        let bearer = Bearer(Arc::new(Inner { value, is_refused: AtomicBool::new(false) }));
        Ok(Token { bearer, until: fetched + valid })
    }
}

fn failure(client: &OauthClient, cause: &Cause) -> Failure {
    let host = Excerpt::of(client.token_url.url().host_str().unwrap_or_default());
    Failure::Token { host, cause: cause.clone() }
}

async fn ask(client: &OauthClient, wire: Wire) -> Result<Answer, Cause> {
    let mut basic = HeaderValue::from_str(&client.basic()).map_err(|e| Cause::of(&e))?;
    basic.set_sensitive(true);
    let mut request = request_to(Method::POST, &client.token_url, Bytes::from(client.form()))?;
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    for (name, value) in
        [(AUTHORIZATION, basic), (ACCEPT, HeaderValue::from_static("application/json")), (CONTENT_TYPE, form)]
    {
        request.headers_mut().insert(name, value);
    }
    exchange(wire, request).await
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    token_type: Option<String>,
    expires_in: Option<Value>,
}

/// The value of `Authorization`, and how long it is valid.
fn read((status, body): &Answer) -> Result<(Zeroizing<String>, Duration), Cause> {
    if *status != StatusCode::OK {
        let said: Value = serde_json::from_slice(body).unwrap_or_default();
        let code = said["error"].as_str().map_or_else(String::new, |code| format!(": {}", Excerpt::of(code)));
        return Err(format!("it answered {}{code}", status.as_u16()).as_str().into());
    }
    // Its error could quote the token.
    let granted: Granted = serde_json::from_slice(body)
        .map_err(|_| Cause::from("its answer has no access_token, or is no JSON"))?;
    let Granted { access_token, token_type, expires_in } = granted;
    let token = Zeroizing::new(access_token);
    if token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err("its answer has a token_type other than Bearer".into());
    }
    let is_fit =
        (1..=TOKEN_BYTES_MAX).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_fit {
        return Err(format!("its access_token is not 1 to {TOKEN_BYTES_MAX} visible characters")
            .as_str()
            .into());
    }
    // Some write the number as text.
    let seconds = match &expires_in {
        Some(Value::String(text)) => text.parse().ok(),
        Some(number) => number.as_u64(),
        None => None,
    };
    let lifetime = seconds.map_or(LIFETIME_UNKNOWN, Duration::from_secs);
    Ok((Zeroizing::new(format!("Bearer {}", *token)), lifetime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_strictly_and_quotes_no_token() {
        let read = |status: u16, body: &str| {
            let answer = (StatusCode::from_u16(status).unwrap(), Zeroizing::new(body.as_bytes().to_vec()));
            read(&answer)
                .map(|(value, lifetime)| (value.to_string(), lifetime.as_secs()))
                .map_err(|e| e.to_string())
        };
        let granted = |seconds| Ok(("Bearer t0k3n".to_owned(), seconds));
        let refused = |text: &str| Err(text.to_owned());
        for (status, body, expected) in [
            (200, r#"{"access_token":"t0k3n","token_type":"bearer","expires_in":60}"#, granted(60)),
            (200, r#"{"access_token":"t0k3n","expires_in":"60"}"#, granted(60)),
            (200, r#"{"access_token":"t0k3n","token_type":"Bearer"}"#, granted(300)),
            (
                200,
                r#"{"access_token":"t0k3n","token_type":"mac"}"#,
                refused("its answer has a token_type other than Bearer"),
            ),
            (
                200,
                r#"{"access_token":"t0k3n\r\nx: y"}"#,
                refused("its access_token is not 1 to 8192 visible characters"),
            ),
            (200, "t0k3n", refused("its answer has no access_token, or is no JSON")),
            (400, r#"{"error":"invalid_scope"}"#, refused("it answered 400: \"invalid_scope\"")),
            (302, "", refused("it answered 302")),
        ] {
            assert_eq!(read(status, body), expected, "{status} {body}");
        }
    }
}
