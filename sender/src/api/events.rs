//! Accepts events: one, or many as NDJSON.

use std::fmt::{self, Write};

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::App;
use super::input::{Query, media_type, unsupported};
use super::problem::{FULL_SECS, Problem, answer};
use super::token::Caller;
use crate::event::{Batch, Offer, Refusal};
use crate::runtime::{Accepted, EmitError, FAILING_MAX, Refused};
use crate::spans::TraceParent;

const ONE: &str = "application/json";
const MANY: &str = "application/x-ndjson";

/// `POST /v1/events`
pub(super) async fn post(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    match media_type(request.headers()).as_deref() {
        Some(ONE) => one(&app, caller, request).await,
        Some(MANY) => many(&app, caller, request).await,
        _ => Err(unsupported(&format!("{ONE}, or {MANY} for a batch"))),
    }
}

async fn one(app: &App, caller: Caller, request: Request) -> Result<Response, Problem> {
    let limits = *app.sender().limits();
    let parent = parent(&request);
    // Leaves room for surrounding blanks.
    let events = app.room().read(request.into_body(), limits.event_bytes_max.saturating_add(1)).await?;
    let offer = Offer::parse(events.bytes.trim_ascii(), &limits)?;
    let offer = Offer { within: caller.subscribers, parent, ..offer };
    refuse_if_failing(app)?;
    let results = app.sender().emit(std::slice::from_ref(&offer)).await;
    // Only a stopping sender gives no answer.
    let result = results.into_iter().next();
    let accepted = result.unwrap_or_else(|| Err(EmitError::stopping()));
    let accepted = accepted.map_err(|error| explain(app, error))?;
    let shown = AcceptedJson::of(app, &accepted, None);
    let mut response = answer(shown.status(), &shown);
    set_retry_after(&mut response, shown.retry_after_secs());
    Ok(response)
}

/// A line for each event, in order. The status is 202 if all subscribers took all events, or else 207.
async fn many(app: &App, caller: Caller, request: Request) -> Result<Response, Problem> {
    let (limits, parent) = (*app.sender().limits(), parent(&request));
    let events = app.room().read(request.into_body(), limits.batch_bytes_max).await?;
    let batch = Batch::new(&events.bytes, &limits)?;
    let (mut offers, mut lines) = (Vec::new(), Vec::new());
    for (number, offer) in batch.offers() {
        let offer = offer.map(|offer| Offer { within: caller.subscribers.clone(), parent, ..offer });
        lines.push((number, offer.map(|offer| offers.push(offer)).err()));
    }
    refuse_if_failing(app)?;
    let results = app.sender().emit(&offers).await;
    Ok(lines_shown(app, lines, results))
}

fn parent(request: &Request) -> Option<TraceParent> {
    TraceParent::parse(request.headers().get(TraceParent::HEADER)?.to_str().ok()?)
}

/// Such a store will not recover within this request.
fn refuse_if_failing(app: &App) -> Result<(), Problem> {
    match app.sender().health().failing {
        Some((since, error)) if app.sender().clock().now().since(since) > FAILING_MAX => {
            let message =
                format!("the event was not recorded, since the database cannot be written: {error}");
            Err(Problem::unavailable("store", message))
        }
        _ => Ok(()),
    }
}

fn lines_shown(
    app: &App,
    lines: Vec<(usize, Option<Refusal>)>,
    results: Vec<Result<Accepted, EmitError>>,
) -> Response {
    let mut results = results.into_iter();
    let (mut text, mut all, mut retry_after_secs) = (String::new(), true, None);
    for (number, refusal) in lines {
        let result = match refusal {
            Some(refusal) => Err(refusal.into()),
            None => results.next().unwrap_or_else(|| Err(EmitError::stopping())),
        };
        let _ = match result {
            Ok(accepted) => {
                let shown = AcceptedJson::of(app, &accepted, Some(number));
                all &= shown.status() == StatusCode::ACCEPTED;
                retry_after_secs = retry_after_secs.max(shown.retry_after_secs());
                writeln!(text, "{shown}")
            }
            Err(error) => {
                let problem = explain(app, error);
                all = false;
                retry_after_secs = retry_after_secs.max(problem.retry_after_secs());
                let status = problem.status().as_u16();
                writeln!(text, "{}", json!({ "status": status, "error": problem.value(), "line": number }))
            }
        };
    }
    let status = if all { StatusCode::ACCEPTED } else { StatusCode::MULTI_STATUS };
    let mut response =
        (status, [(header::CONTENT_TYPE, HeaderValue::from_static(MANY))], text).into_response();
    set_retry_after(&mut response, retry_after_secs);
    response
}

fn set_retry_after(response: &mut Response, retry_after_secs: Option<u32>) {
    if let Some(secs) = retry_after_secs {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(secs));
    }
}

/// A batch has thousands, so they are formatted by hand.
struct AcceptedJson<'a> {
    accepted: &'a Accepted,
    refused: Vec<Value>,
    line: Option<usize>,
}

impl<'a> AcceptedJson<'a> {
    fn of(app: &App, accepted: &'a Accepted, line: Option<usize>) -> Self {
        let roster = (!accepted.refused.is_empty()).then(|| app.sender().roster());
        let one = |refused: &Refused| {
            let subscriber = roster
                .as_ref()
                .and_then(|roster| roster.get(refused.lane()))
                .map(|known| known.name().to_string());
            let retry_after = (!refused.never_fits()).then_some(FULL_SECS);
            json!({ "subscriber": subscriber, "why": refused.as_str(), "retry_after": retry_after })
        };
        Self { accepted, refused: accepted.refused.listed().iter().map(one).collect(), line }
    }

    fn status(&self) -> StatusCode {
        if self.accepted.refused.is_empty() { StatusCode::ACCEPTED } else { StatusCode::MULTI_STATUS }
    }

    fn retry_after_secs(&self) -> Option<u32> {
        self.accepted.refused.may_pass().then_some(FULL_SECS)
    }
}

impl fmt::Display for AcceptedJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Accepted { id, deliveries, duplicates, shed, refused } = self.accepted;
        write!(f, r#"{{"deliveries":{deliveries},"duplicates":{duplicates},"id":"{id}""#)?;
        if let Some(line) = self.line {
            write!(f, r#","line":{line}"#)?;
        }
        if !refused.is_empty() {
            write!(f, r#","refused":{}"#, Value::from(self.refused.as_slice()))?;
        }
        if refused.others() > 0 {
            write!(f, r#","refused_others":{}"#, refused.others())?;
        }
        write!(f, r#","shed":{shed}}}"#)
    }
}

fn explain(app: &App, error: EmitError) -> Problem {
    let first = match &error {
        EmitError::Full(refused) | EmitError::NeverFits(refused) => refused.listed().first().copied(),
        _ => None,
    };
    let problem = Problem::from(error);
    let roster = app.sender().roster();
    match first.and_then(|refused| roster.get(refused.lane())) {
        Some(subscriber) => problem.about(subscriber.name()),
        None => problem,
    }
}
