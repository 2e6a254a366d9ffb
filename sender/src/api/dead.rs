use axum::Extension;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::deliveries::{self, Names};
use super::form::take_events;
use super::input::{Query, Segment, bad, nothing_left, object, subscriber, take_text};
use super::jobs::start;
use super::problem::{Problem, ok};
use super::token::Caller;
use super::{App, input};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::event::timestamp::{TIME_FORM, parse_time};
use crate::excerpt::Excerpt;
use crate::operate::dead::{GROUPS_MAX, LOOK_BACK_DAYS, analyse};
use crate::operate::jobs::{Letters, Replay, shed_task};
use crate::operate::shed::Plan;
use crate::store::command::Dead;
use crate::store::job::{JOB_IDS_MAX, JobKind};

/// An analysis covers at most the time for which dead letters are kept.
const HOURS_MAX: u64 = 24 * 30;

/// `GET /v1/dead`
pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(uri.query(), &["subscriber", "limit", "cursor"])?;
    let (cursor, limit) = (query.cursor()?, query.limit()?);
    let lanes = query.lanes(&app, &caller).await?;
    let page = app.sender().read(move |reader| reader.dead(&lanes, cursor, limit)).await??;
    let names = Names::now(&app).await?;
    let items = page.items.iter().map(|letter| {
        let mut value = deliveries::to_json(&letter.delivery, &names);
        value["status"] = Value::from(letter.status);
        value["error"] = Value::from(letter.error.as_deref());
        value
    });
    let items: Vec<_> = items.collect();
    Ok(ok(&json!({ "items": items, "next": page.next.map(|next| next.to_string()) })))
}

/// `GET /v1/dead/analysis`
pub(super) async fn analysis(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let query = Query::read(uri.query(), &["hours"])?;
    let hours = match query.get("hours") {
        None => LOOK_BACK_DAYS * 24,
        Some(text) => text
            .parse()
            .ok()
            .filter(|hours| (1..=HOURS_MAX).contains(hours))
            .ok_or_else(|| bad("hours", text, &format!("a whole number from 1 to {HOURS_MAX}")))?,
    };
    let now = app.sender().clock().now();
    let since = StoreTime(now.0.saturating_sub(Nanos::HOUR.times(hours).0));
    let groups = app.sender().read(move |reader| reader.dead_groups(since, GROUPS_MAX)).await??;
    let truncated = groups.len() >= GROUPS_MAX as usize;
    let roster = app.sender().roster();
    let lanes = analyse(&groups);
    let lanes: Vec<_> = lanes
        .iter()
        .map(|(lane, found)| found.to_json(roster.get(*lane).map(|known| &**known.id())))
        .collect();
    Ok(ok(&json!({ "since": input::time_text(since), "subscribers": lanes, "truncated": truncated })))
}

/// `POST /v1/dead/redrive` and `/purge`
pub(super) async fn letters(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
    kind: JobKind,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    let mut object = object(request).await?;
    let (plan, since) = (take_plan(&mut object)?, take_moment(&mut object, "since")?.unwrap_or(StoreTime(0)));
    let letters = Letters { kind, which: parse_selection(&app, &caller, object).await?, since };
    let (now, by) = (app.sender().clock().now(), caller.by());
    if plan {
        let roster = app.sender().roster();
        let plan = app.sender().read(move |reader| letters.plan(reader, &roster, now)).await??;
        return Ok(ok(&plan.to_json()));
    }
    let task = app.sender().read(move |reader| letters.task(reader, now, by)).await??;
    start(&app, task).await
}

fn take_plan(object: &mut Map<String, Value>) -> Result<bool, Problem> {
    match object.remove("plan") {
        None => Ok(false),
        Some(Value::Bool(plan)) => Ok(plan),
        Some(_) => Err(Problem::unprocessable("bad_plan", "`plan` must be true or false").field("plan")),
    }
}

fn take_moment(object: &mut Map<String, Value>, field: &'static str) -> Result<Option<StoreTime>, Problem> {
    let Some(text) = take_text(object, field)? else { return Ok(None) };
    parse_time(&text).map(Some).ok_or_else(|| {
        let message = format!("`{field}` is {}; expected {TIME_FORM}", Excerpt::of(&text));
        Problem::unprocessable("bad_moment", message).field(field)
    })
}

/// Exactly one of the three, so that no letter is affected by oversight.
async fn parse_selection(
    app: &App,
    caller: &Caller,
    mut object: Map<String, Value>,
) -> Result<Dead, Problem> {
    const FIELDS: [&str; 3] = ["all", "subscriber", "ids"];
    let unclear = || {
        let message = "the selection of dead letters is not clear; expected exactly one of \"all\": true, \"subscriber\" and \"ids\"";
        Problem::unprocessable("unclear", message)
    };
    if FIELDS.iter().filter(|field| object.contains_key(**field)).count() != 1 {
        return Err(unclear());
    }
    let all = object.remove("all");
    let ids = object.remove("ids");
    let whom = take_text(&mut object, "subscriber")?;
    nothing_left(&object, &["all", "subscriber", "ids", "since", "plan"])?;
    if whom.is_none() && caller.is_restricted() {
        return Err(Problem::restricted("it names no `subscriber`"));
    }
    match (all, whom, ids) {
        (Some(Value::Bool(true)), None, None) => Ok(Dead::All),
        (None, Some(whom), None) => Ok(Dead::Of(subscriber(app, caller, &whom).await?.lane)),
        (None, None, Some(Value::Array(ids))) if (1..=JOB_IDS_MAX).contains(&ids.len()) => {
            let names = Names::now(app).await?;
            let ids = ids.iter().map(|id| one_id(&names, id)).collect::<Result<_, _>>()?;
            Ok(Dead::These(ids))
        }
        (None, None, Some(_)) => {
            let message = format!("`ids` must be a list of 1 to {JOB_IDS_MAX} delivery ids");
            Err(Problem::unprocessable("bad_ids", message).field("ids"))
        }
        _ => Err(unclear()),
    }
}

fn one_id(names: &Names, id: &Value) -> Result<DeliveryId, Problem> {
    id.as_str().and_then(|id| names.decode(id)).ok_or_else(|| {
        let message = "an item of `ids` is not the id of a delivery of this database";
        Problem::unprocessable("bad_ids", message).field("ids")
    })
}

struct ShedRequest {
    max: u64,
    plan: bool,
}

/// `POST /v1/subscribers/{id}/shed`
pub(super) async fn shed(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Segment(whom): Segment,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    let ShedRequest { max, plan } = ShedRequest::take(object(request).await?)?;
    let lane = subscriber(&app, &caller, &whom).await?.lane;
    let (claimed, now) = (claimed_here(&app, lane).await, app.sender().clock().now());
    let found = app.sender().read(move |reader| Plan::read(reader, now, lane, claimed, max)).await??;
    if plan {
        return Ok(ok(&found.to_json()));
    }
    start(&app, shed_task(lane, &found, caller.by())).await
}

/// `POST /v1/subscribers/{id}/replay`
pub(super) async fn replay(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Segment(whom): Segment,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    let mut object = object(request).await?;
    let (plan, events) = (take_plan(&mut object)?, take_events(&mut object)?);
    let (since, before) = (take_moment(&mut object, "since")?, take_moment(&mut object, "before")?);
    let since = since.ok_or_else(|| {
        Problem::unprocessable("no_since", "`since` is missing; expected a moment").field("since")
    })?;
    let now = app.sender().clock().now();
    nothing_left(&object, &["since", "before", "events", "plan"])?;
    let lane = subscriber(&app, &caller, &whom).await?.lane;
    let replay = Replay::new(lane, since, before.unwrap_or(now), events, now)
        .map_err(|problem| Problem::unprocessable("bad_span", problem).field("since"))?;
    if plan {
        let roster = app.sender().roster();
        let plan = app.sender().read(move |reader| replay.plan(reader, &roster)).await??;
        return Ok(ok(&plan.to_json()));
    }
    let task = app.sender().read(move |reader| replay.task(reader, caller.by())).await??;
    start(&app, task).await
}

async fn claimed_here(app: &App, lane: LaneId) -> u64 {
    let views = app.sender().views().await;
    let claimed = views.iter().find(|view| view.lane == lane).map_or(0, |view| {
        let under_way = view.in_flight.saturating_sub(view.holds.in_doubt);
        view.held.saturating_add(usize::try_from(under_way).unwrap_or(usize::MAX))
    });
    u64::try_from(claimed).unwrap_or(u64::MAX)
}

impl ShedRequest {
    /// Exactly one of the two, so that nothing is shed by oversight.
    fn take(mut object: Map<String, Value>) -> Result<Self, Problem> {
        let plan = take_plan(&mut object)?;
        let (all, max) = (object.remove("all"), object.remove("max"));
        nothing_left(&object, &["all", "max", "plan"])?;
        let max = match (all, max) {
            (Some(Value::Bool(true)), None) => u64::MAX,
            (None, Some(max)) => max.as_u64().filter(|max| *max > 0).ok_or_else(|| {
                Problem::unprocessable("bad_max", "`max` must be a whole number, at least 1").field("max")
            })?,
            _ => {
                let message = "the number of deliveries is not clear; expected exactly one of \"all\": true and \"max\"";
                return Err(Problem::unprocessable("unclear", message));
            }
        };
        Ok(Self { max, plan })
    }
}
