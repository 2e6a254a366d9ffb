use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::deliveries::{self, Names};
use super::input::{Query, Segment, bad, nothing_left, object, subscriber, take_text};
use super::problem::{Problem, ok};
use super::{App, input};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::operate::dead::{GROUPS_MAX, LOOK_BACK_DAYS, analyse};
use crate::operate::shed::{Plan, STEP_ROWS, rest, rest_after};
use crate::store::Reply;
use crate::store::command::{Command, Dead, Forget, Redrive, Shed};

const STEPS_MAX: u32 = 200;
const IDS_MAX: usize = 10_000;
/// An analysis covers at most the time for which dead letters are kept.
const HOURS_MAX: u64 = 24 * 30;

/// `GET /v1/dead`
pub(super) async fn list(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let query = Query::read(uri.query(), &["subscriber", "limit", "cursor"])?;
    let (cursor, limit) = (query.cursor()?, query.limit()?);
    let lane = query.lane(&app).await?;
    let page = app.sender().read(move |reader| reader.dead(lane, cursor, limit)).await??;
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

/// `POST /v1/dead/redrive`
pub(super) async fn redrive(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    let mut object = object(request).await?;
    let mut after = object.remove("after").map(|after| place(&after)).transpose()?;
    let which = parse_selection(&app, object).await?;
    let (mut redriven, mut kept) = (0, 0);
    for _ in 0..STEPS_MAX {
        let command = Redrive { which: which.clone(), after, max: STEP_ROWS };
        match app.sender().command(Command::Redrive(command)).await? {
            Reply::Redriven(step) => {
                redriven += step.rows.len();
                kept += step.kept;
                after = step.last;
            }
            Reply::Refused(refusal) => return Err(refusal.into()),
            other => return Err(Problem::unexpected("redrive dead letters", &other)),
        }
        if after.is_none() {
            break;
        }
    }
    Ok(ok(&json!({ "redriven": redriven, "kept": kept, "after": after.map(|after| after.0) })))
}

/// `POST /v1/dead/purge`
pub(super) async fn purge(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    let which = parse_selection(&app, object(request).await?).await?;
    let (mut purged, mut after) = (0, None);
    for _ in 0..STEPS_MAX {
        let command = Forget { which: which.clone(), after, max: STEP_ROWS };
        match app.sender().command(Command::Forget(command)).await? {
            Reply::Forgotten { rows, last } => {
                purged += rows;
                after = last;
            }
            Reply::Refused(refusal) => return Err(refusal.into()),
            other => return Err(Problem::unexpected("purge dead letters", &other)),
        }
        if after.is_none() {
            break;
        }
    }
    Ok(ok(&json!({ "purged": purged, "more": after.is_some() })))
}

/// Exactly one of the three, so that no letter is affected by oversight.
async fn parse_selection(app: &App, mut object: Map<String, Value>) -> Result<Dead, Problem> {
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
    nothing_left(&object, &FIELDS)?;
    match (all, whom, ids) {
        (Some(Value::Bool(true)), None, None) => Ok(Dead::All),
        (None, Some(whom), None) => Ok(Dead::Of(subscriber(app, &whom).await?.lane)),
        (None, None, Some(Value::Array(ids))) if (1..=IDS_MAX).contains(&ids.len()) => {
            let names = Names::now(app).await?;
            let ids = ids.iter().map(|id| one_id(&names, id)).collect::<Result<_, _>>()?;
            Ok(Dead::These(ids))
        }
        (None, None, Some(_)) => {
            let message = format!("`ids` must be a list of 1 to {IDS_MAX} delivery ids");
            Err(Problem::unprocessable("bad_ids", message).field("ids"))
        }
        _ => Err(unclear()),
    }
}

fn one_id(names: &Names, id: &Value) -> Result<DeliveryId, Problem> {
    id.as_str().and_then(|id| names.find(id)).ok_or_else(|| {
        let message = "an item of `ids` is not the id of a delivery of this database";
        Problem::unprocessable("bad_ids", message).field("ids")
    })
}

fn place(after: &Value) -> Result<DeliveryId, Problem> {
    let number = after.as_i64().and_then(|number| u64::try_from(number).ok());
    number.map(DeliveryId).ok_or_else(|| {
        Problem::unprocessable(
            "bad_after",
            "`after` must be the value of `after` from the last answer of a redrive",
        )
        .field("after")
    })
}

const WITHIN: Nanos = Nanos::from_secs(10);

struct ShedRequest {
    max: u64,
    plan: bool,
}

/// `POST /v1/subscribers/{id}/shed`
pub(super) async fn shed(
    State(app): State<App>,
    Segment(whom): Segment,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    let ShedRequest { max, plan } = ShedRequest::take(object(request).await?)?;
    let lane = subscriber(&app, &whom).await?.lane;
    if plan {
        let (claimed, now) = (claimed_here(&app, lane).await, app.sender().clock().now());
        let plan = app.sender().read(move |reader| Plan::read(reader, now, lane, claimed, max)).await??;
        return Ok(ok(&plan.to_json()));
    }
    let (shed, more) = in_steps(&app, lane, max).await?;
    Ok(ok(&json!({ "shed": shed, "more": more })))
}

/// Returns the number of shed deliveries, and whether more may be left.
async fn in_steps(app: &App, lane: LaneId, max: u64) -> Result<(u64, bool), Problem> {
    let clock = app.sender().clock();
    let (began, mut shed) = (clock.now(), 0);
    loop {
        let (begins, left) = (clock.now(), max - shed);
        let step = Shed { lane, max: u32::try_from(left).unwrap_or(u32::MAX).min(STEP_ROWS) };
        let more = match app.sender().command(Command::Shed(step)).await? {
            Reply::Dropped { rows, more } => {
                shed += rows;
                more && rows > 0 && shed < max
            }
            Reply::Refused(refusal) => return Err(refusal.into()),
            other => return Err(Problem::unexpected("shed waiting deliveries", &other)),
        };
        let now = clock.now();
        if !more || now.since(began) >= WITHIN {
            return Ok((shed, more));
        }
        rest(rest_after(now.since(begins))).await;
    }
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
        let (all, max, plan) = (object.remove("all"), object.remove("max"), object.remove("plan"));
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
        let plan = match plan {
            None => false,
            Some(Value::Bool(plan)) => plan,
            Some(_) => {
                return Err(Problem::unprocessable("bad_plan", "`plan` must be true or false").field("plan"));
            }
        };
        Ok(Self { max, plan })
    }
}
