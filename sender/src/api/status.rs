//! The state of everything in one answer, and of each lane, page by page.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Value, json};

use super::App;
use super::form;
use super::input::Query;
use super::moment;
use super::problem::{Problem, ok};
use crate::engine::{LaneId, LaneView};
use crate::store::lane::Counts;
use crate::store::read::{LaneStatus, ReadError, Status};
use crate::store::thread::Health;

/// `GET /v1/status`
pub(super) async fn status(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let query = Query::read(uri.query(), &["limit", "cursor"])?;
    let (cursor, limit) = (query.cursor()?, query.limit()?);
    let now = app.sender().clock().now();
    let found = app
        .sender()
        .read(move |reader| Ok::<_, ReadError>((reader.status(now)?, reader.lanes(cursor, limit)?)));
    let (status, page) = found.await??;
    let views = app.sender().views().await;
    let views: BTreeMap<LaneId, LaneView> = views.into_iter().map(|view| (view.lane, view)).collect();
    let lanes: Vec<_> = page.items.iter().map(|lane| lane_shown(lane, views.get(&lane.lane))).collect();
    let mut value = total(&status);
    value["now"] = moment::shown(now);
    value["store"] = store(&app.sender().health());
    value["lanes"] = json!({ "items": lanes, "next": page.next.map(|next| next.to_string()) });
    Ok(ok(&value))
}

fn total(status: &Status) -> Value {
    let [active, paused, disabled] = status.subscribers;
    json!({
        "deliveries": counts(&status.counts),
        "last_hour": {
            "delivered": status.delivered_last_hour,
            "failed_attempts": status.failed_last_hour,
            "dead": status.dead_last_hour,
            "mean_latency_us": status.latency_last_hour.map(|latency| latency.0 / 1_000),
        },
        "oldest_due": status.oldest_due.map(moment::shown),
        "oldest_received": status.oldest_received.map(moment::shown),
        "subscribers": { "active": active, "paused": paused, "disabled": disabled },
        "outbox": { "waiting": status.outbox, "rejected": status.outbox_rejected },
    })
}

fn counts(counts: &Counts) -> Value {
    json!({
        "accepted": counts.accepted,
        "delivered": counts.delivered,
        "dead": counts.dead,
        "coalesced": counts.coalesced,
        "waiting": counts.waiting,
        "waiting_bytes": counts.waiting_bytes,
        "retrying": counts.retrying,
        "dead_kept": counts.dead_kept,
        "failed_attempts": counts.failed_attempts,
    })
}

fn store(health: &Health) -> Value {
    let failing = health.failing.as_ref();
    json!({
        "failing": failing.map(|(since, error)| json!({ "since": moment::shown(*since), "error": error.to_string() })),
        "requests_waiting": health.requests,
        "bytes_waiting": health.bytes,
        "commits": health.written.commits,
        "rows_written": health.written.rows,
    })
}

/// A lane in an answer; what only its owner knows, if that is this process.
fn lane_shown(lane: &LaneStatus, view: Option<&LaneView>) -> Value {
    json!({
        "subscriber": &*lane.id,
        "name": &*lane.name,
        "state": form::state(lane.state),
        "deliveries": counts(&lane.counts),
        "rows_max": lane.bounds.rows_max,
        "bytes_max": lane.bounds.bytes_max,
        "next_due": lane.next.map(moment::shown),
        "owned": lane.owner.is_some(),
        "here": view.map(|view| json!({
            "in_flight": view.in_flight,
            "bucket_level": view.level,
            "share_percent": view.share_percent,
            "breaker_open": view.breaker_open,
            "endpoint_pauses_ms": view.paused_for.0 / 1_000_000,
            "held": view.held,
        })),
    })
}
