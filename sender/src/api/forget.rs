use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::App;
use super::input::{Query, nothing_left, object, take_text};
use super::problem::{Problem, ok};
use super::token::{Caller, Scope};
use crate::engine::Nanos;
use crate::operate::forget::{Forgetting, Subject};
use crate::operate::shed::{rest, rest_after};
use crate::store::{Command, Reply};

const WITHIN: Nanos = Nanos::from_secs(10);

/// `POST /v1/forget`
pub(super) async fn forget(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    let (mut forgetting, plan) = parse(object(request).await?)?;
    if !plan {
        caller.check(Scope::Admin)?;
    }
    let steps = in_steps(&app, &mut forgetting).await;
    if !plan {
        // Also of what was done before a failure.
        forgetting.log();
    }
    steps?;
    let mut answer = forgetting.to_json();
    answer["cursor"] = json!(forgetting.next.map(|next| next.to_string()));
    answer["log_emptied"] = if plan { Value::Null } else { json!(app.sender().empty_log().await?) };
    Ok(ok(&answer))
}

async fn in_steps(app: &App, forgetting: &mut Forgetting) -> Result<(), Problem> {
    let clock = app.sender().clock();
    let began = clock.now();
    loop {
        let begins = clock.now();
        let mut looking = forgetting.clone();
        let (commands, looked) = app.sender().read(move |reader| (looking.step(reader), looking)).await?;
        *forgetting = looked;
        for erase in commands? {
            let mut next = Some(erase);
            while let Some(erase) = next {
                next = match app.sender().command(Command::Erase(erase)).await? {
                    Reply::Refused(refusal) => return Err(refusal.into()),
                    reply => forgetting
                        .add(erase, reply)
                        .map_err(|other| Problem::unexpected("forget a data subject", &other))?,
                };
            }
        }
        let now = clock.now();
        if forgetting.is_over || now.since(began) >= WITHIN {
            return Ok(());
        }
        rest(rest_after(now.since(begins))).await;
    }
}

fn parse(mut object: Map<String, Value>) -> Result<(Forgetting, bool), Problem> {
    const FIELDS: [&str; 4] = ["key", "field", "plan", "cursor"];
    let Some(Value::Bool(plan)) = object.remove("plan") else {
        let message = "`plan` must be given: true counts, false erases";
        return Err(Problem::unprocessable("bad_plan", message).field("plan"));
    };
    let cursor = match object.remove("cursor") {
        None | Some(Value::Null) => None,
        Some(cursor) => {
            let cursor = cursor.as_str().and_then(|cursor| cursor.parse().ok());
            Some(cursor.ok_or_else(|| {
                let message = "`cursor` must be the value of `cursor` from the last answer";
                Problem::unprocessable("bad_cursor", message).field("cursor")
            })?)
        }
    };
    let (key, field) = (take_text(&mut object, "key")?, take_text(&mut object, "field")?);
    nothing_left(&object, &FIELDS)?;
    let field = field.map(|field| field.parse()).transpose();
    let field = field.map_err(|expected| {
        Problem::unprocessable("bad_field", format!("`field`: {expected}")).field("field")
    })?;
    if key.is_none() && field.is_none() {
        let message = "the data subject is not named; expected \"key\", \"field\", or both";
        return Err(Problem::unprocessable("unclear", message).field("key"));
    }
    Ok((Forgetting::new(Subject { key, field }, plan, cursor), plan))
}
