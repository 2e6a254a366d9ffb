use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::App;
use super::deliveries::{Names, shown_page};
use super::input::{Query, nothing_left, object, take_text};
use super::problem::{Problem, ok};
use super::token::{Caller, Scope};
use crate::engine::Nanos;
use crate::operate::forget::{Audited, Forgetting, Subject};
use crate::runtime::clock::rest;
use crate::runtime::jobs::rest_after;
use crate::store::Reply;
use crate::store::paging::{Cursor, Page};

const WITHIN: Nanos = Nanos::from_secs(10);
/// A page of found ones ends after the step that reaches it.
const FOUND: usize = 100;

/// `POST /v1/find`. Not a `GET`, since logs of proxies would name the person.
pub(super) async fn find(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    let (subject, from) = take_subject(object(request).await?, &["key", "field", "cursor"])?;
    let clock = app.sender().clock();
    let (began, mut found) = (clock.now(), Page { items: Vec::new(), next: from });
    loop {
        let (begins, subject, from) = (clock.now(), subject.clone(), found.next);
        let page = app.sender().read(move |reader| subject.find(reader, from)).await??;
        found.items.extend(page.items);
        found.next = page.next;
        let now = clock.now();
        if found.next.is_none() || found.items.len() >= FOUND || now.since(began) >= WITHIN {
            return Ok(shown_page(&Names::now(&app).await?, &found));
        }
        rest(rest_after(now.since(begins))).await;
    }
}

/// `POST /v1/forget`
pub(super) async fn forget(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    let (forgetting, plan) = parse(object(request).await?, caller.by())?;
    if !plan {
        caller.check(Scope::Admin)?;
    }
    let mut audited = Audited(forgetting);
    let forgetting = &mut audited.0;
    in_steps(&app, forgetting, WITHIN).await?;
    let mut answer = forgetting.to_json();
    answer["cursor"] = json!(forgetting.next.map(|next| next.to_string()));
    answer["log_emptied"] = if plan { Value::Null } else { json!(app.sender().empty_log().await?) };
    Ok(ok(&answer))
}

async fn in_steps(app: &App, forgetting: &mut Forgetting, within: Nanos) -> Result<(), Problem> {
    let clock = app.sender().clock();
    let began = clock.now();
    loop {
        let begins = clock.now();
        let mut looking = forgetting.clone();
        let (read, looked) = app.sender().read(move |reader| (looking.read(reader), looking)).await?;
        *forgetting = looked;
        read?;
        while let Some(erase) = forgetting.command() {
            match app.sender().command(forgetting.attributed(erase)).await? {
                Reply::Refused(refusal) => return Err(refusal.into()),
                reply => forgetting
                    .add(reply)
                    .map_err(|other| Problem::unexpected("forget a data subject", &other))?,
            }
            if clock.now().since(began) >= within && forgetting.stop_after(erase) {
                return Ok(());
            }
        }
        let now = clock.now();
        if forgetting.is_over || now.since(began) >= within {
            return Ok(());
        }
        rest(rest_after(now.since(begins))).await;
    }
}

fn parse(mut object: Map<String, Value>, by: Arc<str>) -> Result<(Forgetting, bool), Problem> {
    let Some(Value::Bool(plan)) = object.remove("plan") else {
        let message = "`plan` must be given: true counts, false erases";
        return Err(Problem::unprocessable("bad_plan", message).field("plan"));
    };
    let (subject, cursor) = take_subject(object, &["key", "field", "plan", "cursor"])?;
    Ok((Forgetting::new(subject, by, plan, cursor), plan))
}

fn take_subject(
    mut object: Map<String, Value>,
    known: &[&str],
) -> Result<(Subject, Option<Cursor>), Problem> {
    let cursor = match object.remove("cursor") {
        None | Some(Value::Null) => None,
        Some(cursor) => {
            let cursor = cursor.as_str().and_then(|cursor| cursor.parse().ok());
            Some(cursor.ok_or_else(|| {
                let message = "`cursor` must be the value that the last answer gave to go on";
                Problem::unprocessable("bad_cursor", message).field("cursor")
            })?)
        }
    };
    let (key, field) = (take_text(&mut object, "key")?, take_text(&mut object, "field")?);
    nothing_left(&object, known)?;
    let field = field.map(|field| field.parse()).transpose();
    let field = field.map_err(|expected| {
        Problem::unprocessable("bad_field", format!("`field`: {expected}")).field("field")
    })?;
    if key.is_none() && field.is_none() {
        let message = "the data subject is not named; expected \"key\", \"field\", or both";
        return Err(Problem::unprocessable("unclear", message).field("key"));
    }
    Ok((Subject { key, field }, cursor))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;
    use crate::api::{Config, Tokens, routes};
    use crate::event::Limits;
    use crate::guard::Guard;
    use crate::runtime::{Options, Retention, Sender};
    use crate::store::Durability;
    use crate::subscriber::RegionSecrets;

    async fn post(app: &App, path: &str, body: Value) -> Value {
        let request = Request::post(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()));
        let answer = routes::router(app.clone()).oneshot(request.unwrap()).await.unwrap();
        assert!(answer.status().is_success(), "{path} {body}: {answer:?}");
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    #[tokio::test]
    async fn a_call_that_is_out_of_time_stops_after_a_command_and_the_next_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let guard = Guard::strict().allow_private_targets();
        let options = Options {
            database: folder.path().join("hookproof.db").into(),
            durability: Durability::Process,
            guard: guard.clone(),
            limits: Limits::default(),
            lease: Nanos::from_secs(10),
            retention: Retention::default(),
            regions: RegionSecrets::default(),
            name: None,
            address: None,
            delivers: false,
        };
        let sender = Sender::open(options).await.unwrap();
        let config = Config {
            guard,
            regions: RegionSecrets::default(),
            tokens: Tokens::default(),
            is_reachable: false,
            request_time_max: Config::REQUEST_TIME_MAX,
        };
        let app = App::new(sender.clone(), config);
        for name in ["one", "two"] {
            let subscriber = json!({ "name": name, "url": "http://127.0.0.1:9/" });
            post(&app, "/v1/subscribers", subscriber).await;
        }
        for _ in 0..3 {
            post(&app, "/v1/events", json!({ "type": "a", "key": "ann", "data": 1 })).await;
        }
        for plan in [true, false] {
            let (mut next, mut events) = (None, Vec::new());
            while events.len() < 9 {
                let subject = Subject { key: Some("ann".to_owned()), field: None };
                let mut forgetting = Forgetting::new(subject, "ann".into(), plan, next);
                assert!(in_steps(&app, &mut forgetting, Nanos(0)).await.is_ok());
                events.push(forgetting.to_json()["events"].as_u64().unwrap());
                next = forgetting.next;
                if next.is_none() {
                    break;
                }
            }
            assert_eq!(events, [1, 1, 1, 0], "{plan}");
        }
        sender.stop(Config::REQUEST_TIME_MAX).await;
    }
}
