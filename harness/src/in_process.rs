//! A sender inside of a test: a Rust sender without an API receives its subscribers and events by calls, and is
//! judged like any other. The calls come over loopback HTTP.

#![warn(missing_docs)]

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use hookproof_judge::check::{Judgement, Status, Strictness, judge};
use hookproof_judge::report::{self, Colours, Report};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::{Trace, TraceError};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::endpoint::Reach;
use crate::run::{Options, RunError, play};

const EVENT_BYTES_MAX: usize = 64 << 20;

/// A sender under test.
pub trait Sender: Send + Sync + 'static {
    /// Events are delivered to the subscriber from now on.
    fn subscribe(&self, subscriber: NewSubscriber) -> impl Future<Output = Result<(), String>> + Send;

    /// After `Ok` the sender is responsible for the event.
    fn emit(&self, event: NewEvent) -> impl Future<Output = Result<(), String>> + Send;
}

/// A subscriber of the scenario.
#[derive(Clone, Debug, Deserialize)]
pub struct NewSubscriber {
    /// Its name.
    pub name: String,
    /// Its endpoint.
    pub url: String,
    /// Its secret, as `whsec_…`.
    pub secret: String,
    /// Those that it is owed.
    pub types: Vec<String>,
    /// Requests per second.
    pub rate_per_second: f64,
    /// Requests at once, within the rate.
    pub burst: u32,
    /// The most open requests.
    pub in_flight: u32,
    /// The timeout of an attempt, in seconds.
    pub timeout_seconds: u64,
    /// Attempts of a delivery.
    pub attempts: u32,
}

/// An event.
#[derive(Clone, Debug, Deserialize)]
pub struct NewEvent {
    /// Its id, which the body or the data of its deliveries must contain.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its key.
    pub key: String,
    /// Its data, as JSON text with the harness's token.
    pub data: String,
}

/// A scenario for a sender in this process.
#[derive(Clone, Debug)]
pub struct Harness {
    scenario: String,
    sections: String,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Every check's verdict.
    pub judgement: Judgement,
    text: String,
}

/// A scenario that could not be played.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// The scenario is invalid.
    #[error("{0}")]
    Scenario(String),
    /// The run could not begin, or broke off.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The harness's own files or sockets failed.
    #[error("the harness could not go on: {0}")]
    Harness(#[from] std::io::Error),
    /// The trace is invalid.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl Judged {
    /// Whether every check passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.judgement.status == Status::Pass
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Harness {
    /// Reads a scenario's text.
    #[must_use]
    pub fn new(scenario: impl Into<String>) -> Self {
        Self { scenario: scenario.into(), sections: String::new() }
    }

    /// Adds sections of a driver file, such as `[sign]` and `[declares]`.
    #[must_use]
    pub fn driver(mut self, sections: &str) -> Self {
        self.sections.push_str(sections);
        self.sections.push('\n');
        self
    }

    /// Plays the scenario, and judges the trace.
    pub async fn judge<S: Sender>(self, sender: S) -> Result<Judged, HarnessError> {
        let scenario = Scenario::from_text(&self.scenario, "scenario").map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            HarnessError::Scenario(lines.join("\n"))
        })?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let folder = tempfile::tempdir()?;
        let driver = folder.path().join("driver.toml");
        std::fs::write(&driver, driver_file(listener.local_addr()?, &self.sections))?;
        let options = Options {
            seed: None,
            driver: Some(driver),
            out: folder.path().join("out"),
            program: PathBuf::new(),
            folder: PathBuf::from("."),
            show: false,
            live: None,
            reach: Reach::default(),
        };
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::new(sender)));
        let (_tell, interrupt) = watch::channel(false);
        let played = play(&scenario, &options, interrupt).await?;
        serving.shutdown().await;
        if let Some(failure) = played.failure {
            return Err(failure.into());
        }
        let trace = Trace::open(&played.trace)?;
        let judgement = judge(&scenario, &trace, Strictness::Usual);
        let report = Report::new(&scenario, &trace, judgement.clone(), "this test".to_owned());
        Ok(Judged { judgement, text: report::terminal(&report, Colours::No) })
    }
}

fn driver_file(address: SocketAddr, sections: &str) -> String {
    format!(
        r#"name = "in-process"
base = "http://{address}"
[subscribe]
request = "POST {{{{ base }}}}/subscribe"
body = '''{{"name": {{{{ name | tojson }}}}, "url": {{{{ url | tojson }}}}, "secret": {{{{ secret | tojson }}}},
 "types": {{{{ filter_types }}}}, "rate_per_second": {{{{ rate_per_second }}}}, "burst": {{{{ burst }}}},
 "in_flight": {{{{ in_flight }}}}, "timeout_seconds": {{{{ timeout_seconds }}}}, "attempts": {{{{ attempts }}}}}}'''
[emit]
request = "POST {{{{ base }}}}/emit"
body = '''{{"id": {{{{ token | tojson }}}}, "type": {{{{ type | tojson }}}}, "key": {{{{ key | tojson }}}},
 "data": {{{{ data | tojson }}}}}}'''
calls = 16
{sections}"#
    )
}

async fn serve<S: Sender>(listener: TcpListener, sender: Arc<S>) {
    let mut connections = JoinSet::new();
    // A connection that can't be accepted fails at the caller.
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(connection(stream, Arc::clone(&sender)));
        while connections.try_join_next().is_some() {}
    }
}

async fn connection<S: Sender>(stream: TcpStream, sender: Arc<S>) {
    let service = service_fn(|request| answer(request, Arc::clone(&sender)));
    let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let _ended = served.await;
}

async fn answer<S: Sender>(
    request: Request<Incoming>,
    sender: Arc<S>,
) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
    let path = request.uri().path().to_owned();
    let done = match Limited::new(request.into_body(), EVENT_BYTES_MAX).collect().await {
        Ok(body) => call(&path, &body.to_bytes(), &*sender).await,
        Err(error) => Err(error.to_string()),
    };
    let (status, text) = match done {
        Ok(()) => (StatusCode::ACCEPTED, "{}".to_owned()),
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, why),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    Ok(response)
}

async fn call<S: Sender>(path: &str, body: &[u8], sender: &S) -> Result<(), String> {
    fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
        serde_json::from_slice(body).map_err(|error| error.to_string())
    }
    match path {
        "/subscribe" => sender.subscribe(read(body)?).await,
        _ => sender.emit(read(body)?).await,
    }
}
