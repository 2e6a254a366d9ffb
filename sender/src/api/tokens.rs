use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tracing::warn;

use super::App;
use super::input::{Query, Segment, nothing_left, object, take_text};
use super::problem::{Problem, answer, ok};
use super::subscribers::{carry_out, wait_until_known};
use super::token::{Caller, Scope};
use crate::operate::tokens::{life, make, names, to_json};
use crate::runtime::clock::wall;
use crate::store::token::SubscriberNames;
use crate::store::{Command, Refusal, Reply};
use crate::subscriber::checked_name;

/// `GET /v1/tokens`
pub(super) async fn list(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    Query::read(uri.query(), &[])?;
    let (tokens, now) = (app.sender().read(|reader| reader.tokens()).await??, wall());
    let items: Vec<_> = tokens.iter().map(|token| to_json(token, now)).collect();
    Ok(ok(&json!({ "items": items })))
}

/// `POST /v1/tokens`
pub(super) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    let mut object = object(request).await?;
    let [name, scope, expires_in] =
        ["name", "scope", "expires_in"].map(|field| take_text(&mut object, field));
    let (name, scope, expires_in) = (name?, scope?, expires_in?);
    let subscribers = take_subscribers(&mut object)?;
    nothing_left(&object, &["name", "scope", "expires_in", "subscribers"])?;
    let bad = |code, field: &str, problem: String| Problem::unprocessable(code, problem).field(field);
    let name = checked_name(name.as_deref().unwrap_or_default());
    let name = name.map_err(|problem| bad("bad_name", "name", problem))?;
    let scope = scope.as_deref().and_then(Scope::named).ok_or_else(|| {
        bad(
            "bad_scope",
            "scope",
            format!("expected a scope, one of {}", Scope::ALL.map(Scope::name).join(", ")),
        )
    })?;
    let life = expires_in.as_deref().map(life).transpose();
    let life = life.map_err(|problem| bad("bad_length", "expires_in", format!("expires_in: {problem}")))?;
    let (stored, token) = make(name.into(), scope, (life, subscribers), caller.by());
    let mut value = to_json(&stored, stored.created);
    value["token"] = token.into();
    match app.sender().command(caller.makes(Command::CreateToken(stored))).await? {
        // It is recorded, and cannot be shown later.
        Reply::Done => {
            if let Err(problem) = wait_until_known(&app).await {
                warn!(?problem, "a token is recorded, but may not be in use here yet");
            }
        }
        Reply::Refused(refusal) => return Err(refusal.into()),
        other => return Err(Problem::unexpected("make the token", &other)),
    }
    Ok(answer(StatusCode::CREATED, &value))
}

fn take_subscribers(object: &mut Map<String, Value>) -> Result<Option<SubscriberNames>, Problem> {
    let Some(given) = object.remove("subscribers") else { return Ok(None) };
    let given = serde_json::from_value(given).map_err(|_| "expected a list, such as [\"acme-*\"]".to_owned());
    given.and_then(names).map(Some).map_err(|problem| {
        Problem::unprocessable("bad_subscribers", format!("subscribers: {problem}")).field("subscribers")
    })
}

/// `DELETE /v1/tokens/{name}`
pub(super) async fn revoke(
    State(app): State<App>,
    Segment(name): Segment,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(uri.query(), &[])?;
    let name: Arc<str> = name.into();
    if checked_name(&name).is_err() {
        return Err(Refusal::UnknownToken(name).into());
    }
    carry_out(&app, caller.makes(Command::RevokeToken(name)), "revoke the token").await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
