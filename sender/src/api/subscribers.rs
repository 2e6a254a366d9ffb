use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use tracing::warn;

use super::App;
use super::form::{self, Rotation, Written, agree, keys, required};
use super::input::time_text;
use super::input::{Query, Segment, nothing_left, object, object_or_nothing, subscriber, take_text};
use super::problem::{Problem, answer, ok};
use super::token::{Caller, Scope};
use crate::engine::{LaneId, Nanos, StoreTime};
use crate::event::timestamp::{TIME_FORM, parse_time};
use crate::event::{EventPatterns, EventType, Kind, PublicId};
use crate::operate::flow::{Flow, Present};
use crate::operate::json_forms;
use crate::operate::pause::{self, End, Unfit};
use crate::operate::trial::{self, Trial, TrialError, Tried};
use crate::runtime::clock::{random, wall};
use crate::sign::{Keys, Secret};
use crate::store::command::{Change, Command, Rotate, Subscribe};
use crate::store::lane::{self, LaneState, Pause};
use crate::store::read::{self, Lanes, Over, ReadError, SubscriberRef};
use crate::store::{Refusal, Reply, StoreError};
use crate::subscriber::{Agreement, SettingsText};
use crate::tls_files::TlsFiles;

const CHANGES_MAX: u32 = 8;
/// How long an answer waits for this process to apply a change: milliseconds, unless the store is locked.
const KNOWN_WITHIN: Duration = Duration::from_secs(5);

/// Less than a request's time limit.
const TRIAL_WAIT: Nanos = Nanos::from_secs(1);
const TRIAL_WAIT_MAX: Nanos = Nanos::from_secs(20);

/// `GET /v1/subscribers`
pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(uri.query(), &["limit", "cursor"])?;
    let (cursor, limit) = (query.cursor()?, query.limit()?);
    let present = Present::of(app.sender()).await;
    let seen = caller.lanes(&app.sender().roster());
    let found = app.sender().read(move |reader| {
        let mut page = match seen {
            Lanes::These(lanes) => reader.subscribers_with(&lanes, cursor, limit)?,
            Lanes::All | Lanes::One(_) => reader.subscribers(cursor, limit)?,
        };
        page.items.retain(|subscriber| caller.sees(&subscriber.name));
        let lanes: Vec<LaneId> = page.items.iter().map(|subscriber| subscriber.lane).collect();
        Ok::<_, ReadError>((page, present.flows(reader, &lanes)?))
    });
    let (page, flows) = found.await??;
    let roster = app.sender().roster();
    let shown = |subscriber: &read::Subscriber| {
        let mut value = form::subscriber(subscriber, &roster);
        value["flow"] = flows.get(&subscriber.lane).map_or(Value::Null, Flow::to_json);
        value
    };
    let items: Vec<_> = page.items.iter().map(shown).collect();
    Ok(ok(&json!({ "items": items, "next": page.next.map(|next| next.to_string()) })))
}

/// `POST /v1/subscribers`
pub(super) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    let mut object = object(request).await?;
    let secret = take_text(&mut object, "secret")?;
    let written = Written::take(object, &app.config().guard)?;
    let settings = SettingsText::read(&written.settings)?;
    let secret = match secret {
        Some(text) => Secret::parse(&text)?,
        None => Secret::generate(settings.sign.unwrap_or_default(), &random()),
    };
    let id = PublicId::new(Kind::Subscriber, wall(), random());
    let agreement = agree(&settings, &id, &Keys::new(secret.clone()), &app.config().regions)?;
    let url = required(written.url, "url")?;
    check_files(&app, agreement.tls.as_ref(), &url).await?;
    let subscribe = Subscribe {
        id: id.as_str().into(),
        name: required(written.name, "name")?,
        url,
        patterns: patterns_text(&written.events.unwrap_or_else(EventPatterns::all))?,
        settings: settings.to_json().into(),
        bounds: agreement.bounds,
        secret: lane::Secret::new(secret.reveal()),
    };
    let lane = match app.sender().command(caller.makes(Command::Subscribe(subscribe))).await? {
        Reply::Subscribed { lane } => lane,
        Reply::Refused(refusal) => return Err(refusal.into()),
        other => return Err(Problem::unexpected("add the subscriber", &other)),
    };
    wait_until_known(&app).await?;
    let mut value = shown_now(&app, lane).await?;
    json_forms::add_secret(&mut value, &secret, agreement.profile);
    let location = [(header::LOCATION, format!("/v1/subscribers/{}", id.as_str()))];
    Ok((location, answer(StatusCode::CREATED, &value)).into_response())
}

/// `GET /v1/subscribers/{id}`
pub(super) async fn show(
    State(app): State<App>,
    Segment(whom): Segment,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(uri.query(), &[])?;
    let subscriber = subscriber(&app, &caller, &whom).await?;
    let present = Present::of(app.sender()).await;
    let (lanes, over) = ([subscriber.lane], Over::Day { until: present.now });
    let (roster, url) = (app.sender().roster(), Arc::clone(&subscriber.url));
    let ready = roster.get(subscriber.lane).and_then(|known| known.ready().ok());
    let files = ready.and_then(|ready| ready.agreement().tls.clone());
    let profile = ready.map(|ready| ready.agreement().profile);
    let found = app.sender().read(move |reader| {
        let unusable = files.and_then(|files| files.check(&url).err());
        Ok::<_, StoreError>((reader.latencies(&lanes, over)?, present.flows(reader, &lanes)?, unusable))
    });
    let (latencies, flows, unusable) = found.await??;
    let mut value = form::subscriber(&subscriber, &roster);
    if let Some(unusable) = unusable {
        value["fault"] = Value::from(unusable.to_string());
    }
    if let Some(profile) = profile
        && let Some(key) = live_keys(&app, subscriber.lane).await?.current().public_key(profile)
    {
        value["public_key"] = key.into();
    }
    value["flow"] = flows.get(&subscriber.lane).map_or(Value::Null, Flow::to_json);
    json_forms::measured(&mut value, latencies.first().map(|(_, measured)| measured));
    Ok(ok(&value))
}

/// `PATCH /v1/subscribers/{id}`
pub(super) async fn change(
    State(app): State<App>,
    Segment(whom): Segment,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let (version, written) = read_change(&app, request).await?;
    for _ in 0..CHANGES_MAX {
        let before = subscriber(&app, &caller, &whom).await?;
        let change =
            Change { version: version.or(Some(before.version)), ..prepare(&app, &before, &written).await? };
        match app.sender().command(caller.makes(Command::Change(change))).await? {
            Reply::Done => {
                wait_until_known(&app).await?;
                return Ok(ok(&shown_now(&app, before.lane).await?));
            }
            Reply::Refused(Refusal::VersionConflict { .. }) if version.is_none() => {}
            Reply::Refused(refusal) => return Err(refusal.into()),
            other => return Err(Problem::unexpected("change the subscriber", &other)),
        }
    }
    Err(Problem::conflict("changed_meanwhile", "other processes keep changing the subscriber; try again"))
}

pub(super) async fn read_change(app: &App, request: Request) -> Result<(Option<u64>, Written), Problem> {
    Query::read(request.uri().query(), &[])?;
    let mut object = object(request).await?;
    let version = expected_version(&mut object)?;
    Ok((version, Written::take(object, &app.config().guard)?))
}

async fn prepare(app: &App, before: &read::Subscriber, written: &Written) -> Result<Change, Problem> {
    let (settings, agreement) = agreed(app, before, written).await?;
    let files = settings.files_to_check(&agreement, &before.settings, written.url.is_some());
    check_files(app, files, written.url.as_ref().unwrap_or(&before.url)).await?;
    Ok(Change {
        name: written.name.clone(),
        url: written.url.clone(),
        patterns: written.events.as_ref().map(patterns_text).transpose()?,
        settings: Some(settings.to_json().into()),
        bounds: Some(agreement.bounds),
        ..Change::of(before.lane)
    })
}

pub(super) async fn agreed(
    app: &App,
    before: &read::Subscriber,
    written: &Written,
) -> Result<(SettingsText, Agreement), Problem> {
    let settings = SettingsText::patched_json(&before.settings, &written.settings)?;
    let id: PublicId = before.id.parse().map_err(|error| {
        Problem::conflict("broken_id", format!("the subscriber's id cannot be read: {error}"))
    })?;
    let agreement = agree(&settings, &id, &live_keys(app, before.lane).await?, &app.config().regions)?;
    Ok((settings, agreement))
}

/// `DELETE /v1/subscribers/{id}`
pub(super) async fn remove(
    State(app): State<App>,
    Segment(whom): Segment,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(uri.query(), &[])?;
    let lane = subscriber(&app, &caller, &whom).await?.lane;
    carry_out(&app, caller.makes(Command::Remove(lane)), "remove the subscriber").await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /v1/subscribers/{id}/pause`
pub(super) async fn pause(
    State(app): State<App>,
    Segment(whom): Segment,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    let wanted = read_pause(object_or_nothing(request).await?)?;
    let before = subscriber(&app, &caller, &whom).await?;
    if (before.state, &before.pause) != (LaneState::Paused, &wanted) {
        let change = Change { state: Some(LaneState::Paused), pause: wanted, ..Change::of(before.lane) };
        carry_out(&app, caller.makes(Command::Change(change)), "pause the subscriber").await?;
    }
    Ok(ok(&shown_now(&app, before.lane).await?))
}

/// `POST /v1/subscribers/{id}/resume`
pub(super) async fn resume(
    State(app): State<App>,
    Segment(whom): Segment,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    nothing_left(&object_or_nothing(request).await?, &["no fields"])?;
    let before = subscriber(&app, &caller, &whom).await?;
    if before.state != LaneState::Active {
        let change = Change { state: Some(LaneState::Active), ..Change::of(before.lane) };
        carry_out(&app, caller.makes(Command::Change(change)), "resume the subscriber").await?;
    }
    Ok(ok(&shown_now(&app, before.lane).await?))
}

fn read_pause(mut object: Map<String, Value>) -> Result<Pause, Problem> {
    let unfit = |unfit: Unfit| Problem::unprocessable("bad_pause", unfit.problem).field(unfit.field);
    let reason = take_text(&mut object, "reason")?;
    let length = if object.contains_key("for") {
        Some(form::length(&mut object, "for", Nanos::HOUR, pause::LENGTH_MAX)?)
    } else {
        None
    };
    let until = take_text(&mut object, "until")?;
    nothing_left(&object, &["reason", "for", "until"])?;
    let end = match (length, until) {
        (None, None) => End::ByOperator,
        (Some(length), None) => End::After(length),
        (None, Some(text)) => End::At(parse_time(&text).ok_or_else(|| {
            unfit(Unfit { field: "until", problem: format!("until cannot be read; expected {TIME_FORM}") })
        })?),
        (Some(_), Some(_)) => {
            let problem = "for and until exclude each other; expected one of them".to_owned();
            return Err(unfit(Unfit { field: "until", problem }));
        }
    };
    pause::pause(reason.as_deref(), end, wall()).map_err(unfit)
}

/// `POST /v1/subscribers/{id}/rotate`
pub(super) async fn rotate(
    State(app): State<App>,
    Segment(whom): Segment,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    let Rotation { secret, overlap } = Rotation::take(object_or_nothing(request).await?)?;
    let subscriber = subscriber(&app, &caller, &whom).await?;
    let settings = SettingsText::from_json(&subscriber.settings)?;
    let lane = subscriber.lane;
    let secret = match secret {
        Some(text) => Secret::parse(&text)?,
        None => {
            let live = app.sender().read(move |reader| reader.secrets(lane, wall())).await??;
            let old = live.first().map(|live| live.secret.reveal());
            Secret::after(old, settings.sign.unwrap_or_default(), &random())?
        }
    };
    let id: PublicId = PublicId::new(Kind::Subscriber, wall(), random());
    // Only the kind of secret can be wrong here.
    let agreement = agree(&settings, &id, &Keys::new(secret.clone()), &app.config().regions)?;
    let now = wall();
    let retire = StoreTime(now.0.saturating_add(overlap.0));
    let rotate = Rotate { lane, secret: lane::Secret::new(secret.reveal()), retire, now };
    carry_out(&app, caller.makes(Command::Rotate(rotate)), "rotate the secret").await?;
    let mut value = json!({ "id": &*subscriber.id, "old_secrets_retire": time_text(retire) });
    json_forms::add_secret(&mut value, &secret, agreement.profile);
    Ok(ok(&value))
}

/// `POST /v1/subscribers/{id}/test` reports the first attempt if it comes soon.
pub(super) async fn test(
    State(app): State<App>,
    Segment(whom): Segment,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    let mut object = object_or_nothing(request).await?;
    if object.contains_key("type") || object.contains_key("data") {
        // Such a test is an event like any other to its endpoint.
        caller.check(Scope::Emit)?;
    }
    let event_type = take_text(&mut object, "type")?.map(|text| text.parse::<EventType>()).transpose();
    let event_type =
        event_type.map_err(|error| Problem::unprocessable("bad_type", error.to_string()).field("type"))?;
    let data = object.remove("data").map_or_else(|| trial::DATA.to_owned(), |data| data.to_string());
    let wait = form::length(&mut object, "wait", TRIAL_WAIT, TRIAL_WAIT_MAX)?;
    nothing_left(&object, &["type", "data", "wait"])?;
    let lane = subscriber(&app, &caller, &whom).await?.lane;
    let trial = Trial { lane, event_type: event_type.as_ref(), data: &data };
    let delivery = trial.record(app.sender(), &caller.by()).await?;
    let tried = Tried::within(Duration::from_nanos(wait.0), app.sender(), delivery).await?;
    let id = app.delivery_ids().await?.name(tried.delivery.received, tried.delivery.delivery);
    let mut value = tried.to_json(&id);
    if tried.attempted.is_none() {
        let present = Present::of(app.sender()).await;
        let flows = app.sender().read(move |reader| present.flows(reader, &[lane])).await??;
        value["flow"] = flows.get(&lane).map_or(Value::Null, Flow::to_json);
    }
    let status = if tried.attempted.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
    let location = [(header::LOCATION, format!("/v1/deliveries/{}", id.as_str()))];
    Ok((location, answer(status, &value)).into_response())
}

impl From<TrialError> for Problem {
    fn from(error: TrialError) -> Self {
        match error {
            TrialError::Offer(refusal) => refusal.into(),
            TrialError::Subscriber(message) => Self::conflict("not_to_be_tested", message),
            TrialError::Refused(refusal) => refusal.into(),
            TrialError::Failed(failed) => failed.into(),
        }
    }
}

fn patterns_text(patterns: &EventPatterns) -> Result<Arc<str>, Problem> {
    let text = serde_json::to_string(patterns);
    text.map(Into::into)
        .map_err(|error| Problem::unprocessable("bad_events", error.to_string()).field("events"))
}

fn expected_version(object: &mut Map<String, Value>) -> Result<Option<u64>, Problem> {
    let Some(given) = object.remove("version") else { return Ok(None) };
    given.as_u64().map(Some).ok_or_else(|| {
        Problem::unprocessable("bad_version", "`version` must be the whole number that was read")
            .field("version")
    })
}

async fn check_files(app: &App, files: Option<&Arc<TlsFiles>>, url: &Arc<str>) -> Result<(), Problem> {
    let Some(files) = files.cloned() else { return Ok(()) };
    let url = Arc::clone(url);
    // A thread of operators may wait for a disk.
    Ok(app.sender().read(move |_| files.check(&url)).await??)
}

async fn live_keys(app: &App, lane: LaneId) -> Result<Keys, Problem> {
    keys(&app.sender().read(move |reader| reader.secrets(lane, wall())).await??)
}

pub(super) async fn carry_out(app: &App, command: Command, doing: &'static str) -> Result<(), Problem> {
    match app.sender().command(command).await? {
        Reply::Done => wait_until_known(app).await,
        Reply::Refused(refusal) => Err(refusal.into()),
        other => Err(Problem::unexpected(doing, &other)),
    }
}

/// Waits until this process applies all changes so far, so that later requests see them.
pub(super) async fn wait_until_known(app: &App) -> Result<(), Problem> {
    let glance = app.sender().read(|reader| reader.glance()).await??;
    let known = app.sender().wait_for_roster_after(glance.roster.saturating_sub(1));
    if timeout(KNOWN_WITHIN, known).await.is_err() {
        warn!(
            roster = glance.roster,
            "a change of a subscriber or a token is recorded, but not in use here yet"
        );
    }
    Ok(())
}

async fn shown_now(app: &App, lane: LaneId) -> Result<Value, Problem> {
    let found = app.sender().read(move |reader| reader.subscriber(&SubscriberRef::Lane(lane))).await??;
    let subscriber = found.ok_or_else(|| {
        Problem::not_found("unknown_subscriber", "the subscriber was removed in the meantime")
    })?;
    Ok(form::subscriber(&subscriber, &app.sender().roster()))
}
