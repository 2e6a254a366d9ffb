use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::App;
use super::input::{Query, Segment, nothing_left, object, subscriber};
use super::problem::{Problem, ok};
use crate::engine::{LaneId, Nanos};
use crate::operate::shed::{Plan, STEP_ROWS};
use crate::operate::steps::{rest, rest_after};
use crate::store::Reply;
use crate::store::command::{Command, Shed};

/// The answer says whether to ask again.
const WITHIN: Nanos = Nanos::from_secs(10);

struct Asked {
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
    let Asked { max, plan } = Asked::take(object(request).await?)?;
    let lane = subscriber(&app, &whom).await?.lane;
    if plan {
        let (claimed, now) = (claimed_here(&app, lane).await, app.sender().clock().now());
        let plan = app.sender().read(move |reader| Plan::read(reader, now, lane, claimed, max)).await??;
        return Ok(ok(&plan.shown()));
    }
    let (shed, more) = in_steps(&app, lane, max).await?;
    Ok(ok(&json!({ "shed": shed, "more": more })))
}

/// Returns how many were shed, and whether more may be left.
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
            other => return Err(Problem::unexpected("give up deliveries", &other)),
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
        let under_way = view.in_flight.saturating_sub(view.in_doubt);
        view.held.saturating_add(usize::try_from(under_way).unwrap_or(usize::MAX))
    });
    u64::try_from(claimed).unwrap_or(u64::MAX)
}

impl Asked {
    /// Requires exactly one of the two, so that nothing is shed by oversight.
    fn take(mut object: Map<String, Value>) -> Result<Self, Problem> {
        let (all, max, plan) = (object.remove("all"), object.remove("max"), object.remove("plan"));
        nothing_left(&object, &["all", "max", "plan"])?;
        let max = match (all, max) {
            (Some(Value::Bool(true)), None) => u64::MAX,
            (None, Some(max)) => max.as_u64().filter(|max| *max > 0).ok_or_else(|| {
                Problem::unprocessable("bad_max", "max is not a whole number from 1").field("max")
            })?,
            _ => {
                let message = "how many deliveries are meant is not clear; expected exactly one of \"all\": true and \"max\"";
                return Err(Problem::unprocessable("unclear", message));
            }
        };
        let plan = match plan {
            None => false,
            Some(Value::Bool(plan)) => plan,
            Some(_) => {
                return Err(
                    Problem::unprocessable("bad_plan", "plan is neither true nor false").field("plan")
                );
            }
        };
        Ok(Self { max, plan })
    }
}
