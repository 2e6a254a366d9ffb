use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::HOST;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode};
use hookproof_sender::api::{Caller, Config, Scope, Token, Tokens, bind, router, serve};
use hookproof_sender::engine::Nanos;
use hookproof_sender::event;
use hookproof_sender::guard::Guard;
use hookproof_sender::runtime::{Options, Retention, Sender};
use hookproof_sender::store::{Database, Durability};
use hookproof_sender::subscriber::RegionSecrets;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tower::ServiceExt;

/// Far longer than any step takes.
pub(crate) const FOREVER: Duration = Duration::from_secs(60);

pub(crate) struct World {
    folder: TempDir,
    pub(crate) sender: Sender,
    pub(crate) router: Router,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    #[track_caller]
    pub(crate) fn refuses(&self, status: u16, code: &str, field: Option<&str>) {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/json");
        let error = &self.json()["error"];
        assert_eq!((error["code"].as_str(), error["field"].as_str()), (Some(code), field), "{error}");
        assert!(error["message"].as_str().is_some_and(|message| message.len() > 10), "{error}");
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(None, |_| {}).await
    }

    pub(crate) async fn with(token: Option<Token>, change: impl FnOnce(&mut Options)) -> Self {
        Self::with_tokens(token.map(|token| (token, Scope::Admin)), change).await
    }

    pub(crate) async fn with_tokens(
        tokens: impl IntoIterator<Item = (Token, Scope)>,
        change: impl FnOnce(&mut Options),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let guard = Guard::strict().allow_private_targets();
        let mut options = Options {
            database: folder.path().join("hookproof.db").into(),
            durability: Durability::Process,
            guard: guard.clone(),
            limits: event::Limits::default(),
            lease: Nanos::from_secs(10),
            retention: Retention::default(),
            regions: RegionSecrets::default(),
            name: None,
            address: None,
            delivers: true,
        };
        change(&mut options);
        let regions = options.regions.clone();
        let sender = Sender::open(options).await.unwrap();
        let caller = |scope| Caller { name: None, scope, subscribers: None };
        let tokens = tokens.into_iter().map(|(token, scope)| (token, caller(scope)));
        let config = Config {
            guard,
            regions,
            tokens: Tokens::new(tokens.collect()).unwrap(),
            is_reachable: false,
            request_time_max: Config::REQUEST_TIME_MAX,
        };
        let router = router(sender.clone(), config);
        Self { folder, sender, router }
    }

    /// As `new`, on a PostgreSQL server; `None` without one.
    pub(crate) async fn on_postgres(test: &'static str) -> Option<Self> {
        let address = postgres_address(test).await?;
        Some(Self::with(None, |options| options.database = server(&address)).await)
    }

    /// The request goes to `localhost` unless it names another host.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Answer {
        request.headers_mut().entry(HOST).or_insert(HeaderValue::from_static("localhost"));
        self.send_as_it_is(request).await
    }

    pub(crate) async fn send_as_it_is(&self, request: Request<Body>) -> Answer {
        let response = timeout(FOREVER, self.router.clone().oneshot(request)).await.unwrap().unwrap();
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer {
            status: head.status,
            headers: head.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: impl Into<Body>) -> Answer {
        self.call_with(method, path, "application/json", body).await
    }

    pub(crate) async fn call_with(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: impl Into<Body>,
    ) -> Answer {
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        self.send(request.body(body.into()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", path, body.to_string()).await
    }

    /// Starts a job, and returns it at its end.
    pub(crate) async fn job(&self, path: &str, body: Value) -> Value {
        let started = self.post(path, body).await.expect(202);
        self.until(&format!("/v1/jobs/{}", started["id"]), |job| job["ended"].is_string()).await
    }

    pub(crate) async fn subscribe(&self, name: &str, url: &str, settings: Value) -> String {
        let mut body = json!({ "name": name, "url": url });
        body.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let added = self.post("/v1/subscribers", body).await.expect(201);
        added["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let asked = async {
            loop {
                let value = self.get(path).await.expect(200);
                if wanted(&value) {
                    return value;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(FOREVER, asked).await.unwrap()
    }

    pub(crate) async fn stop(self) {
        assert!(self.sender.stop(FOREVER).await);
        drop(self.folder);
    }
}

/// The look-up blocks, so it gets its own thread.
pub(crate) async fn postgres_address(test: &'static str) -> Option<String> {
    tokio::task::spawn_blocking(move || crate::postgres_server::new_schema(test)).await.unwrap()
}

pub(crate) fn server(address: &str) -> Database {
    Database::parse(address.as_ref()).unwrap()
}

pub(crate) struct Endpoint {
    pub(crate) url: String,
    pub(crate) arrived: mpsc::UnboundedReceiver<(HeaderMap, Bytes)>,
}

impl Endpoint {
    pub(crate) async fn answering(status: u16) -> Self {
        let (tell, arrived) = mpsc::unbounded_channel();
        let status = StatusCode::from_u16(status).unwrap();
        let router = Router::new().fallback(async move |headers: HeaderMap, body: Bytes| {
            let _ = tell.send((headers, body));
            status
        });
        Self { url: format!("http://{}/hook", listen(router, std::future::pending()).await), arrived }
    }

    pub(crate) async fn next(&mut self) -> (HeaderMap, Bytes) {
        timeout(FOREVER, self.arrived.recv()).await.unwrap().unwrap()
    }
}

pub(crate) async fn listen(router: Router, stop: impl Future<Output = ()> + Send + 'static) -> SocketAddr {
    let listener = bind((Ipv4Addr::LOCALHOST, 0).into(), false).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, router, stop, FOREVER));
    address
}
