//! Whether the process lives, and whether it works.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use serde_json::json;
use tokio::time::timeout;

use super::App;
use super::problem::{Problem, ok};

/// How long a part may take to show that it lives. It takes microseconds.
const ALIVE_WITHIN: Duration = Duration::from_secs(2);

/// `GET /healthz`: this is answered, so the process lives.
pub(super) async fn lives() -> Response {
    ok(&json!({ "status": "alive" }))
}

/// `GET /readyz`: the store reads and writes, and the heart answers.
pub(super) async fn works(State(app): State<App>) -> Result<Response, Problem> {
    let not_ready = |what: String| Problem::unavailable("not_ready", what);
    if let Some((_, error)) = app.sender().health().failing {
        return Err(not_ready(format!("the store does not write: {error}")));
    }
    let glance = timeout(ALIVE_WITHIN, app.sender().read(|reader| reader.glance()));
    match glance.await {
        Err(_) => return Err(not_ready("the store does not answer".to_owned())),
        Ok(Err(error) | Ok(Err(error))) => {
            return Err(not_ready(format!("the store does not read: {error}")));
        }
        Ok(Ok(Ok(_))) => {}
    }
    if timeout(ALIVE_WITHIN, app.sender().views()).await.is_err() {
        return Err(not_ready("the heart does not answer".to_owned()));
    }
    Ok(ok(&json!({ "status": "ready" })))
}
