use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde_json::json;

use super::App;
use super::input::Query;
use super::problem::{Problem, ok};
use super::token::Caller;
use crate::operate::changes::{page, to_json};
use crate::store::read::ChangesOf;

/// `GET /v1/changes`
pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(uri.query(), &["subscriber", "by", "limit", "cursor"])?;
    let (cursor, limit) = (query.cursor()?, query.limit()?);
    let [subscriber, by] = ["subscriber", "by"].map(|name| query.get(name).map(Into::into));
    let of = ChangesOf { subscriber, by, within: caller.ids(&app.sender().roster()) };
    let found = app.sender().read(move |reader| page(reader, &of, cursor, limit)).await??;
    let items: Vec<_> = found.items.iter().map(to_json).collect();
    Ok(ok(&json!({ "items": items, "next": found.next.map(|next| next.to_string()) })))
}
