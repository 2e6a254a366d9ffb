use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Value, json};

use super::App;
use super::form::Written;
use super::input::{Segment, subscriber};
use super::problem::{Problem, ok};
use super::subscribers::{agreed, read_change};
use super::token::Caller;
use crate::engine::LaneId;
use crate::operate::backlog::Clearing;
use crate::store::latency::Measured;
use crate::store::read::{Over, Reader};
use crate::store::{Refusal, StoreError};
use crate::subscriber::{Agreement, SettingsText};

/// `POST /v1/subscribers/{id}/plan`
pub(super) async fn plan(
    State(app): State<App>,
    Segment(whom): Segment,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let (expected, written) = read_change(&app, request).await?;
    let before = subscriber(&app, &caller, &whom).await?;
    let found = before.version;
    if let Some(expected) = expected.filter(|expected| *expected != found) {
        return Err(Refusal::VersionConflict { expected, found }.into());
    }
    let (changed, agreement) = agreed(&app, &before, &written).await?;
    let settings = SettingsText::from_json(&before.settings)?;
    // Settings that no longer validate still have limits to show.
    let present = agreed(&app, &before, &Written::nothing()).await.ok();
    let (lane, until) = (before.lane, app.sender().clock().now());
    let backlog = app.sender().read(move |reader| Backlog::read(reader, lane, Over::Day { until })).await??;
    Ok(ok(&json!({
        "version": found,
        "waiting": backlog.waiting,
        "now": backlog.under(&settings, present.as_ref().map(|(_, agreement)| agreement)),
        "then": backlog.under(&changed, Some(&agreement)),
    })))
}

struct Backlog {
    waiting: u64,
    measured: Option<Measured>,
}

impl Backlog {
    fn read(reader: &dyn Reader, lane: LaneId, over: Over) -> Result<Self, StoreError> {
        let waiting = reader.lane(lane)?.map_or(0, |lane| lane.counts.waiting);
        let measured = reader.latencies(&[lane], over)?.pop().map(|(_, measured)| measured);
        Ok(Self { waiting, measured })
    }

    fn under(&self, settings: &SettingsText, agreement: Option<&Agreement>) -> Value {
        let answers = self.measured.as_ref().map(|measured| &measured.answer);
        let clearing = agreement.map(|it| Clearing::of(self.waiting, it.lane.contract(), answers));
        let limit = serde_json::to_value(settings.shown().limit).unwrap_or_default();
        json!({ "limit": limit, "backlog": clearing.map(|it| it.to_json()) })
    }
}
