use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::Value;

use super::App;
use super::deliveries::{self, Names, unknown};
use super::input::{Query, Segment, nothing_left, object_or_nothing, subscriber};
use super::problem::{Problem, ok};
use super::subscribers::wait_until_known;
use super::token::Caller;
use crate::engine::Nanos;
use crate::operate::retry::Steps;
use crate::runtime::clock::rest;
use crate::runtime::jobs::rest_after;
use crate::store::command::{Command, ToRetry};
use crate::store::{Refusal, Reply};

const WITHIN: Nanos = Nanos::from_secs(10);

/// `POST /v1/subscribers/{id}/retry`
pub(super) async fn of_subscriber(
    State(app): State<App>,
    Segment(whom): Segment,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let insist = insist(request).await?;
    let lane = subscriber(&app, &caller, &whom).await?.lane;
    retry(&app, (ToRetry::Of(lane), None), insist, &caller).await
}

/// `POST /v1/deliveries/{id}/retry`
pub(super) async fn of_delivery(
    State(app): State<App>,
    Segment(id): Segment,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let insist = insist(request).await?;
    let delivery = Names::now(&app).await?.find(&app, &caller, &id).await?;
    retry(&app, (ToRetry::This(delivery), Some(&id)), insist, &caller).await
}

/// `POST /v1/deliveries/{id}/resend`
pub(super) async fn resend(
    State(app): State<App>,
    Segment(id): Segment,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    nothing_left(&object_or_nothing(request).await?, &["no fields"])?;
    let names = Names::now(&app).await?;
    let delivery = names.find(&app, &caller, &id).await?;
    let resend = Command::Resend(delivery).by(&caller.by(), Some(&id));
    match app.sender().command(resend).await? {
        Reply::Resent => {}
        Reply::Refused(Refusal::UnknownDelivery(_)) => return Err(unknown(&id)),
        Reply::Refused(refusal) => return Err(refusal.into()),
        other => return Err(Problem::unexpected("send a delivery again", &other)),
    }
    let found = app.sender().read(move |reader| reader.delivery(delivery)).await??;
    Ok(ok(&deliveries::to_json(&found.ok_or_else(|| unknown(&id))?, &names)))
}

async fn insist(request: Request) -> Result<bool, Problem> {
    Query::read(request.uri().query(), &[])?;
    let mut object = object_or_nothing(request).await?;
    let insist = match object.remove("ignore_retry_after") {
        None => false,
        Some(Value::Bool(insist)) => insist,
        Some(_) => {
            let message = "`ignore_retry_after` must be true or false";
            return Err(Problem::unprocessable("bad_ignore_retry_after", message).field("ignore_retry_after"));
        }
    };
    nothing_left(&object, &["ignore_retry_after"])?;
    Ok(insist)
}

async fn retry(
    app: &App,
    (which, delivery): (ToRetry, Option<&str>),
    insist: bool,
    caller: &Caller,
) -> Result<Response, Problem> {
    let clock = app.sender().clock();
    let began = clock.now();
    let steps = app.sender().read(move |reader| Steps::read(reader, which, insist, began)).await?;
    let (mut steps, by) = (steps?, caller.by());
    loop {
        let begins = clock.now();
        let more = match app.sender().command(steps.command(&by, delivery)).await? {
            Reply::Retried { rows, more, .. } => steps.done(rows, more),
            Reply::Refused(refusal) => return Err(refusal.into()),
            other => return Err(Problem::unexpected("retry deliveries", &other)),
        };
        let now = clock.now();
        if !more || now.since(began) >= WITHIN {
            break;
        }
        rest(rest_after(now.since(begins))).await;
    }
    wait_until_known(app).await?;
    Ok(ok(&steps.result().to_json()))
}
