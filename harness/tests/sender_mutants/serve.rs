//! The small sender as a process of its own: its HTTP API, its signals, and a second worker beside it.

use std::rc::Rc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use hookproof::endpoint::http_date;

use crate::attempt::AHEAD_S;
use crate::sender::{Bug, Sender};

/// How long until it is tried again to write what could not be written.
const AGAIN_NS: u64 = 10_000_000;
/// How long a sender with a slow API takes to accept events.
const ACCEPTS_NS: u64 = 100_000_000;

/// Serves until it is asked to stop.
pub(crate) async fn serve(bug: Bug, port: u16, dir: String) {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let leads = leads(&dir, port);
    let home = if leads { dir.clone() } else { format!("{dir}/second") };
    std::fs::create_dir_all(&home).unwrap();
    if !leads {
        std::fs::write(format!("{dir}/peer"), port.to_string()).unwrap();
    }
    let sender = Sender::open(bug, &home);
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let (sender, dir) = (Rc::clone(&sender), dir.clone());
                tokio::task::spawn_local(async move {
                    let service = service_fn(move |request| answer(Rc::clone(&sender), dir.clone(), leads, request));
                    // A peer that breaks off has no answer to get.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        }
    }
    if sender.bug.is("walks-out-of-what-is-open") {
        return;
    }
    sender.stop().await;
    assert!(!sender.bug.is("panics-at-its-end"), "a bug");
}

/// The first process to come is the one that works; its port is written down, so that it is the same after a crash.
fn leads(dir: &str, port: u16) -> bool {
    let path = format!("{dir}/leader");
    match std::fs::read_to_string(&path) {
        Ok(leader) => leader == port.to_string(),
        Err(_) => {
            std::fs::write(path, port.to_string()).unwrap();
            true
        }
    }
}

async fn answer(
    sender: Rc<Sender>,
    dir: String,
    leads: bool,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let shares = leads && sender.bug.is("has-a-limiter-for-each-worker");
    if shares && path == "/subscribe" {
        share(&dir, &path, body.clone()).await;
    }
    let text = match path.as_str() {
        "/subscribe" => {
            let secret = sender.subscribe(&serde_json::from_slice(&body).unwrap_or_default());
            json!({ "secret": secret }).to_string()
        }
        "/emit" if !sender.is_able() => return Ok(not_now()),
        "/emit" => take(&sender, &dir, shares, &body).await,
        "/change" => {
            sender.change(&serde_json::from_slice(&body).unwrap_or_default());
            String::new()
        }
        "/stats" => sender.stats().to_string(),
        "/kept" => sender.kept_deliveries().to_string(),
        "/dead" => sender.dead().to_string(),
        _ => String::new(),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    if sender.bug.is("goes-by-a-clock-of-its-own") {
        let now = sender.clock.unix_ns(sender.clock.now()) / 1_000_000_000 + AHEAD_S;
        response.headers_mut().insert(hyper::header::DATE, http_date(now).parse().unwrap());
    }
    Ok(response)
}

/// Takes events, and says of each what became of it.
async fn take(sender: &Sender, dir: &str, shares: bool, body: &[u8]) -> String {
    let events = String::from_utf8_lossy(body).into_owned();
    let (mut lines, mut others) = (String::new(), String::new());
    let together = sender.bug.is("sends-several-events-in-one-body");
    if together {
        let all: Vec<Value> =
            events.lines().map(|line| serde_json::from_str(line).unwrap_or_default()).collect();
        let taken = sender.emit_together(&all);
        taken.iter().for_each(|line| lines.push_str(&format!("{line}\n")));
    }
    for event in events.lines().filter(|_| !together) {
        if shares && event.len().is_multiple_of(2) {
            others.push_str(&format!("{event}\n"));
            lines.push_str("{\"deliveries\":1}\n");
            continue;
        }
        let event: Value = serde_json::from_str(event).unwrap_or_default();
        if let Some(status) = turned_away(sender, &event) {
            lines.push_str(&format!("{{\"status\":{status}}}\n"));
            continue;
        }
        lines.push_str(&format!("{}\n", sender.emit(&event)));
    }
    if !others.is_empty() {
        share(dir, "/emit", Bytes::from(others)).await;
    }
    sender.commit();
    // What was taken just before there was no room is acknowledged once there is.
    while !sender.is_written() {
        sender.clock.pass(AGAIN_NS).await;
        sender.commit();
    }
    if sender.bug.is("takes-long-to-accept") {
        sender.clock.pass(ACCEPTS_NS).await;
    }
    lines
}

/// The answer of a sender that can write nothing.
fn not_now() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = hyper::StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(hyper::header::RETRY_AFTER, hyper::header::HeaderValue::from_static("1"));
    response
}

/// The status for an event that is not taken, where a bug turns it away.
fn turned_away(sender: &Sender, event: &Value) -> Option<u16> {
    let ends = |end: &str| event["id"].as_str().is_some_and(|id| id.ends_with(end));
    match sender.bug.0.as_str() {
        "refuses-without-need" if ends("7") => Some(503),
        "turns-one-away-without-a-word" if ends("77") => Some(400),
        _ => None,
    }
}

/// Hands something to the other worker, which has a limiter of its own.
async fn share(dir: &str, path: &str, body: Bytes) {
    use hookproof::driver::{Call, Certificates, Client};

    let Ok(port) = std::fs::read_to_string(format!("{dir}/peer")) else { return };
    let call = Call {
        method: hyper::Method::POST,
        url: format!("http://127.0.0.1:{port}{path}"),
        headers: Vec::new(),
        body,
        within: std::time::Duration::from_secs(5),
    };
    Client::new(&Certificates::default()).unwrap().call(call).await.unwrap();
}
