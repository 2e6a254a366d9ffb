//! Events in: one, or many, one on each line.

use std::fmt::{self, Write};

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::App;
use super::input::{Query, media_type, unsupported};
use super::problem::{Problem, answer};
use crate::event::{Batch, Offer, Refusal};
use crate::runtime::{Accepted, EmitError, FAILING_MAX};

const ONE: &str = "application/json";
const MANY: &str = "application/x-ndjson";

/// `POST /v1/events`
pub(super) async fn post(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    match media_type(request.headers()).as_deref() {
        Some(ONE) => one(&app, request).await,
        Some(MANY) => many(&app, request).await,
        _ => Err(unsupported(&format!("{ONE}, or {MANY} for many"))),
    }
}

async fn one(app: &App, request: Request) -> Result<Response, Problem> {
    let limits = *app.sender().limits();
    // With room for blanks around the event, which count as its length all the same.
    let events = app.room().read(request.into_body(), limits.event_bytes_max.saturating_add(1)).await?;
    let offer = Offer::parse(events.bytes.trim_ascii(), &limits)?;
    refuse_if_failing(app)?;
    let results = app.sender().emit(std::slice::from_ref(&offer)).await;
    // One offer has one answer; the sender is stopping if there is none.
    let result = results.into_iter().next();
    let accepted = result.unwrap_or_else(|| Err(EmitError::Store("the sender is stopping".to_owned())));
    let accepted = accepted.map_err(|error| explain(app, error))?;
    app.count_shed(accepted.shed);
    Ok(answer(StatusCode::ACCEPTED, &Shown { accepted: &accepted, line: None }))
}

/// Every line is an event of its own: one that is refused spoils no other. The answer has a line for each, in their
/// order, and its status says at a glance whether all were taken (202) or some were not (207).
async fn many(app: &App, request: Request) -> Result<Response, Problem> {
    let limits = *app.sender().limits();
    let events = app.room().read(request.into_body(), limits.batch_bytes_max).await?;
    let batch = Batch::new(&events.bytes, &limits)?;
    let (mut offers, mut lines) = (Vec::new(), Vec::new());
    for (number, offer) in batch.offers() {
        lines.push((number, offer.map(|offer| offers.push(offer)).err()));
    }
    refuse_if_failing(app)?;
    let results = app.sender().emit(&offers).await;
    Ok(lines_shown(app, lines, results))
}

/// A store that has failed for a while will not be mended within this request: whoever emits should know at once, rather
/// than wait, and not know in the end.
fn refuse_if_failing(app: &App) -> Result<(), Problem> {
    match app.sender().health().failing {
        Some((since, error)) if app.sender().clock().now().since(since) > FAILING_MAX => {
            let message = format!("the event is not recorded: the store does not write: {error}");
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
            None => {
                results.next().unwrap_or_else(|| Err(EmitError::Store("the sender is stopping".to_owned())))
            }
        };
        // Writing to a string cannot fail.
        let _ = match result {
            Ok(accepted) => {
                app.count_shed(accepted.shed);
                writeln!(text, "{}", Shown { accepted: &accepted, line: Some(number) })
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
    if let Some(secs) = retry_after_secs {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(secs));
    }
    response
}

/// What was recorded, as JSON. Written out, as a batch has thousands of these; an id has no letter to be escaped.
struct Shown<'a> {
    accepted: &'a Accepted,
    line: Option<usize>,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Accepted { id, deliveries, duplicates, shed } = self.accepted;
        write!(f, r#"{{"deliveries":{deliveries},"duplicates":{duplicates},"id":"{id}""#)?;
        if let Some(line) = self.line {
            write!(f, r#","line":{line}"#)?;
        }
        write!(f, r#","shed":{shed}}}"#)
    }
}

/// The refusal in the words of whoever knows subscribers by name, not by lane.
fn explain(app: &App, error: EmitError) -> Problem {
    let first = if let EmitError::Full(full) = &error { full.first().copied() } else { None };
    let problem = Problem::from(error);
    let roster = app.sender().roster();
    match first.and_then(|full| roster.get(full.lane)) {
        Some(subscriber) => problem.about(subscriber.name()),
        None => problem,
    }
}
