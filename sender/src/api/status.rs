use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Value, json};

use super::input::{Query, Segment, nothing_left, object_or_nothing};
use super::problem::{Problem, ok};
use super::token::Caller;
use super::{App, input};
use crate::engine::{LaneId, LaneView, Shift, StoreTime, UnderWay, Why};
use crate::operate::flow::{Flow, Flows, HELD_UP_MAX, HeldUp, Present};
use crate::operate::json_forms;
use crate::operate::nodes::{NodeStatus, WhichNode, find};
use crate::operate::readiness::{Unready, unready};
use crate::runtime::clock::wall;
use crate::store::Reply;
use crate::store::command::{Command, Drain};
use crate::store::lane::LaneState;
use crate::store::latency::Measured;
use crate::store::paging::{Cursor, Page};
use crate::store::read::{LaneStatus, LastHour, Nodes, Over, ReadError, Reader, Status};
use crate::store::thread::Health;

/// `GET /v1/status`
pub(super) async fn status(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let query = Query::read(uri.query(), &["limit", "cursor"])?;
    let (cursor, limit) = (query.cursor()?, query.limit()?);
    let Present { roster, views, now } = Present::of(app.sender()).await;
    let (seen, known) = (views.clone(), Arc::clone(&roster));
    let found = app.sender().read(move |reader| {
        let flows = Flows::read(reader, known, seen, now)?;
        Figures::read(reader, &flows, now, cursor, limit)
    });
    let Figures { status, nodes, page, flows, latencies, hours, held_up } = found.await??;
    let here = json_forms::under_way(&UnderWay::of(&views));
    let views: BTreeMap<LaneId, LaneView> = views.into_iter().map(|view| (view.lane, view)).collect();
    let lanes: Vec<_> = page
        .items
        .iter()
        .zip(&flows)
        .map(|(lane, flow)| {
            let (view, hour) = (views.get(&lane.lane), hours.get(&lane.lane));
            lane_shown(lane, flow, view, latencies.get(&lane.lane), hour)
        })
        .collect();
    let mut value = json_forms::totals(&status);
    value["node"] = json!(json_forms::node_id(app.sender().owner()));
    value["here"] = here;
    value["nodes"] = json_forms::nodes(&nodes, now);
    value["now"] = input::time_text(now);
    value["broken"] = json_forms::broken(&roster);
    value["held_up"] = held_up.iter().take(HELD_UP_MAX).map(HeldUp::to_json).collect();
    value["store"] = store(&app.sender().health());
    value["clock"] = json_forms::clock(now, wall(), None);
    value["unready"] = unready(app.sender()).await.iter().map(Unready::to_json).collect();
    value["lanes"] = json!({ "items": lanes, "next": page.next.map(|next| next.to_string()) });
    Ok(ok(&value))
}

struct Figures {
    status: Status,
    nodes: Nodes,
    page: Page<LaneStatus>,
    flows: Vec<Flow>,
    latencies: BTreeMap<LaneId, Measured>,
    hours: BTreeMap<LaneId, LastHour>,
    held_up: Vec<HeldUp>,
}

impl Figures {
    fn read(
        reader: &dyn Reader,
        flows: &Flows,
        now: StoreTime,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Self, ReadError> {
        let (status, nodes, mut page) = (reader.status(now)?, reader.nodes()?, reader.lanes(cursor, limit)?);
        // Operators cannot act on removed lanes.
        page.items.retain(|lane| lane.state != LaneState::Removed);
        let lanes: Vec<_> = page.items.iter().map(|lane| lane.lane).collect();
        let latencies = reader.latencies(&lanes, Over::Day { until: now })?;
        let hours = reader.last_hour(&lanes, now)?.into_iter().map(|hour| (hour.lane, hour)).collect();
        let held_up = flows.held_up(reader)?;
        let flows = flows.of(reader, &page.items)?;
        let latencies = latencies.into_iter().collect();
        Ok(Self { status, nodes, page, flows, latencies, hours, held_up })
    }
}

fn store(health: &Health) -> Value {
    let failing = health.failing.as_ref();
    json!({
        "failing": failing.map(|(since, error)| json!({ "since": input::time_text(*since), "error": error.to_string() })),
        "reserve_left_bytes": health.reserve_left,
        "log_bytes": health.log_bytes,
        "requests_waiting": health.requests,
        "bytes_waiting": health.bytes,
        "commits": health.written.commits,
        "rows_written": health.written.rows,
        "shed": health.written.shed,
        "refused": health.written.refused,
        "dead_forgotten": health.written.forgotten,
    })
}

fn shift_shown(shift: Shift) -> Value {
    let Shift { at, from, to, why } = shift;
    let mut shown = json!({
        "at": input::time_text(at),
        "from_percent": from,
        "to_percent": to,
        "reason": why.word(),
        "text": why.to_string(),
    });
    match why {
        Why::Latency { lately, target } => {
            shown["latency_us"] = json!(lately.0 / 1_000);
            shown["target_us"] = json!(target.0 / 1_000);
        }
        Why::Failures { percent } => shown["failures_percent"] = json!(percent),
        Why::Refused | Why::Recovered | Why::Asked => {}
    }
    shown
}

/// `view` is present if this process owns the lane.
fn lane_shown(
    lane: &LaneStatus,
    flow: &Flow,
    view: Option<&LaneView>,
    measured: Option<&Measured>,
    hour: Option<&LastHour>,
) -> Value {
    let mut shown = json!({
        "subscriber": &*lane.id,
        "name": &*lane.name,
        "state": lane.state.name(),
        "flow": flow.to_json(),
        "deliveries": json_forms::counts(&lane.counts),
        "rows_max": lane.bounds.rows_max,
        "bytes_max": lane.bounds.bytes_max,
        "next_due": lane.next.map(input::time_text),
        "last_hour": hour.map(|hour| json!({ "delivered": hour.delivered, "failed_attempts": hour.failed })),
        "owned": lane.owner.is_some(),
        "here": view.map(|view| json!({
            "in_flight": view.in_flight,
            "in_doubt": view.holds.in_doubt,
            "in_doubt_until": view.holds.in_doubt_until.map(input::time_text),
            "bucket_level": view.level,
            "share_percent": view.share_percent,
            "share_changed": view.shift.map(shift_shown),
            "latency_target_us": view.target.map(|target| target.0 / 1_000),
            "latency_usual_us": view.usual.map(|usual| usual.0 / 1_000),
            "breaker_open": view.holds.breaker.is_open(),
            "endpoint_pauses_ms": view.paused_for.0 / 1_000_000,
            "held": view.held,
        })),
    });
    json_forms::measured(&mut shown, measured);
    shown
}

/// `GET /v1/nodes`
pub(super) async fn list(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    Query::read(uri.query(), &[])?;
    let now = app.sender().clock().now();
    let nodes = app.sender().read(move |reader| NodeStatus::all(reader, now)).await??;
    let items: Vec<Value> = nodes.iter().map(NodeStatus::to_json).collect();
    Ok(ok(&json!({ "items": items })))
}

/// `POST /v1/nodes/{name}/drain`
pub(super) async fn drain(
    State(app): State<App>,
    Segment(whom): Segment,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    set(&app, (&whom, true), &caller, request).await
}

/// `POST /v1/nodes/{name}/resume`
pub(super) async fn resume(
    State(app): State<App>,
    Segment(whom): Segment,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    set(&app, (&whom, false), &caller, request).await
}

async fn set(
    app: &App,
    (whom, draining): (&str, bool),
    caller: &Caller,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    nothing_left(&object_or_nothing(request).await?, &[])?;
    let now = app.sender().clock().now();
    let nodes = app.sender().read(|reader: &dyn Reader| reader.nodes()).await??;
    let owner = find(&nodes, whom, now)?;
    let drain = Command::Drain(Drain { owner, draining }).by(&caller.by(), Some(whom));
    match app.sender().command(drain).await? {
        Reply::Done => {}
        Reply::Refused(refusal) => return Err(refusal.into()),
        other => return Err(Problem::unexpected("drain a node", &other)),
    }
    let nodes = app.sender().read(move |reader| NodeStatus::all(reader, now)).await??;
    let node = nodes.iter().find(|status| status.node.owner == owner);
    // The node may just have ended.
    node.map(|node| ok(&node.to_json())).ok_or_else(|| WhichNode::Unknown.into())
}

impl From<WhichNode> for Problem {
    fn from(which: WhichNode) -> Self {
        let message = which.to_string();
        match which {
            WhichNode::Unknown => Self::not_found("unknown_node", message),
            WhichNode::Several(_) => Self::conflict("ambiguous_node", message),
        }
    }
}
