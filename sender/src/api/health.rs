use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::App;
use super::problem::{Problem, ok};
use crate::engine::breaker::Standing;
use crate::operate::json_forms::moment;
use crate::operate::readiness::unready;

/// `GET /healthz`: the process answers.
pub(super) async fn lives() -> Response {
    ok(&json!({ "status": "alive" }))
}

/// `GET /readyz`: nothing on the sender's side holds up deliveries.
pub(super) async fn works(State(app): State<App>) -> Result<Response, Problem> {
    let reasons = unready(app.sender()).await;
    if !reasons.is_empty() {
        let details: Vec<_> = reasons.into_iter().map(|reason| reason.detail).collect();
        return Err(Problem::unavailable("not_ready", details.join("; ")));
    }
    // Other subscribers are served. No names, since no token is needed.
    let mut answer = json!({ "status": "ready" });
    let mut details = Vec::new();
    let broken = app.sender().roster().broken().count();
    if broken > 0 {
        answer["broken_subscribers"] = json!(broken);
        details.push(format!("broken subscribers, which get no deliveries: {broken}; see /v1/status"));
    }
    let breakers = app.sender().views().await.into_iter().map(|view| view.holds.breaker);
    let open: Vec<Standing> = breakers.filter(|breaker| breaker.is_open()).collect();
    if !open.is_empty() {
        let until = open.iter().filter_map(|breaker| match breaker {
            Standing::Open { until, .. } => Some(*until),
            Standing::Probing { .. } | Standing::Closed => None,
        });
        let until =
            until.max().map_or_else(String::new, |until| format!(", the last until {}", moment(until)));
        answer["open_breakers"] = json!(open.len());
        details.push(format!("open circuit breakers: {}{until}; see /v1/status", open.len()));
    }
    if !details.is_empty() {
        answer["detail"] = json!(details.join("; "));
    }
    Ok(ok(&answer))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};

    use axum::Router;
    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use http_body_util::BodyExt as _;
    use tokio::task::JoinSet;
    use tower::ServiceExt as _;

    use crate::api::{Config, Tokens, router};
    use crate::engine::Nanos;
    use crate::event;
    use crate::guard::Guard;
    use crate::runtime::{Options, Retention, Sender};
    use crate::store::Durability;
    use crate::subscriber::RegionSecrets;

    async fn open(folder: &Path) -> (Sender, Router) {
        let options = Options {
            database: folder.join("hookproof.db").into(),
            durability: Durability::Process,
            guard: Guard::strict(),
            limits: event::Limits::default(),
            lease: Nanos::from_secs(10),
            retention: Retention::default(),
            regions: RegionSecrets::default(),
            name: None,
            address: None,
            delivers: true,
        };
        let sender = Sender::open(options).await.unwrap();
        let config = Config {
            guard: Guard::strict(),
            regions: RegionSecrets::default(),
            tokens: Tokens::default(),
            is_reachable: false,
            request_time_max: Config::REQUEST_TIME_MAX,
        };
        (sender.clone(), router(sender, config))
    }

    async fn get_readiness(router: &Router) -> (StatusCode, String) {
        let request = Request::get("/readyz").header("host", "localhost").body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_process_whose_dispatcher_has_ended_is_not_ready_and_says_so_to_whoever_runs_it() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, router) = open(folder.path()).await;
        assert_eq!(get_readiness(&router).await.0, StatusCode::OK);
        sender.break_shell();
        assert!(sender.breakdown().await.contains("the dispatcher has ended"));
        let (status, text) = get_readiness(&router).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(text.contains("the dispatcher has ended"), "{text}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_process_that_is_asked_more_than_it_can_answer_is_ready() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, router) = open(folder.path()).await;
        let (go_on, goes_on) = channel::<()>();
        let goes_on = Arc::new(Mutex::new(goes_on));
        let mut asked = JoinSet::new();
        // A refused query means that all threads are busy and the queue is full.
        loop {
            let (sender, goes_on) = (sender.clone(), Arc::clone(&goes_on));
            asked.spawn(async move { sender.read(move |_| goes_on.lock().unwrap().recv().is_ok()).await });
            tokio::task::yield_now().await;
            if asked.try_join_next().is_some() {
                break;
            }
        }
        let (status, text) = get_readiness(&router).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        drop(go_on);
        asked.join_all().await;
    }
}
