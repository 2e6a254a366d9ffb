use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Value, json};

use super::App;
use super::input::{Query, Segment, nothing_left, object_or_nothing};
use super::problem::{Problem, ok};
use crate::operate::nodes::{NodeStatus, WhichNode, find};
use crate::store::command::{Command, Drain};
use crate::store::{Reader, Reply};

/// `GET /v1/nodes`
pub(super) async fn list(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    Query::read(uri.query(), &[])?;
    let now = app.sender().clock().now();
    let nodes = app.sender().read(move |reader| NodeStatus::all(reader, now)).await??;
    let items: Vec<Value> = nodes.iter().map(NodeStatus::shown).collect();
    Ok(ok(&json!({ "items": items })))
}

/// `POST /v1/nodes/{name}/drain`
pub(super) async fn drain(
    State(app): State<App>,
    Segment(whom): Segment,
    request: Request,
) -> Result<Response, Problem> {
    set(&app, whom, request, true).await
}

/// `POST /v1/nodes/{name}/resume`
pub(super) async fn resume(
    State(app): State<App>,
    Segment(whom): Segment,
    request: Request,
) -> Result<Response, Problem> {
    set(&app, whom, request, false).await
}

async fn set(app: &App, whom: String, request: Request, draining: bool) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    nothing_left(&object_or_nothing(request).await?, &[])?;
    let now = app.sender().clock().now();
    let nodes = app.sender().read(|reader: &dyn Reader| reader.nodes()).await??;
    let owner = find(&nodes, &whom, now)?;
    match app.sender().command(Command::Drain(Drain { owner, draining })).await? {
        Reply::Done => {}
        Reply::Refused(refusal) => return Err(refusal.into()),
        other => return Err(Problem::unexpected("drain a node", &other)),
    }
    let nodes = app.sender().read(move |reader| NodeStatus::all(reader, now)).await??;
    let node = nodes.iter().find(|status| status.node.owner == owner);
    // The node may just have ended.
    node.map(|node| ok(&node.shown())).ok_or_else(|| WhichNode::Unknown.into())
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
