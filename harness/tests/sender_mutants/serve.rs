use std::cell::RefCell;
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

use hookproof::clock::Clock;
use hookproof::driver::{Call, CallError, Certificates, Client, Reply};
use hookproof_play::endpoint::http_date;

use crate::sender_mutants::attempt::AHEAD_S;
use crate::sender_mutants::lease::{Lease, Renewal, SAID_EVERY_NS};
use crate::sender_mutants::sender::{Bug, IGNORES_ITS_LEASE, Sender};

const AGAIN_NS: u64 = 10_000_000;
const ACCEPTS_NS: u64 = 100_000_000;

const FORWARD_WITHIN: std::time::Duration = std::time::Duration::from_secs(1);

struct Node {
    bug: Bug,
    dir: String,
    lease: Rc<Lease>,
    sender: RefCell<Option<Rc<Sender>>>,
}

impl Node {
    fn begin(bug: Bug, port: u16, dir: String) -> Rc<Self> {
        let clock = Clock::begun();
        let lease = Rc::new(Lease::open(&dir, port, clock));
        let node = Rc::new(Self { bug, dir, lease, sender: RefCell::default() });
        node.renew_or_take_lease();
        if node.sender().is_none() && node.bug.is("has-a-limiter-for-each-worker") {
            let home = format!("{}/second", node.dir);
            std::fs::create_dir_all(&home).unwrap();
            std::fs::write(format!("{}/peer", node.dir), port.to_string()).unwrap();
            *node.sender.borrow_mut() = Some(Sender::open(node.bug.clone(), &home, None));
        } else {
            tokio::task::spawn_local(Rc::clone(&node).poll_lease());
        }
        node
    }

    fn sender(&self) -> Option<Rc<Sender>> {
        self.sender.borrow().clone()
    }

    async fn poll_lease(self: Rc<Self>) {
        loop {
            self.lease.clock.pass(SAID_EVERY_NS).await;
            self.renew_or_take_lease();
        }
    }

    fn renew_or_take_lease(&self) {
        let Some(sender) = self.sender() else {
            if self.lease.take() {
                let sender = Sender::open(self.bug.clone(), &self.dir, Some(Rc::clone(&self.lease)));
                *self.sender.borrow_mut() = Some(sender);
            }
            return;
        };
        let is_over = self.lease.renew() == Renewal::Lost && !self.bug.is(IGNORES_ITS_LEASE);
        if is_over {
            sender.give_up();
            *self.sender.borrow_mut() = None;
        } else {
            sender.wake();
        }
    }

    /// An idle process forwards reads to the holder of the lease, and accepts no event.
    async fn pass_on(&self, path: &str, body: Bytes) -> Response<Full<Bytes>> {
        match path {
            "/ready" => return Response::default(),
            "/stats" | "/kept" | "/dead" => {}
            _ => return not_now(),
        }
        let Some(port) = self.lease.holder() else { return not_now() };
        match call(port, path, body, FORWARD_WITHIN).await {
            Ok(reply) if reply.status == 200 => Response::new(Full::new(reply.body)),
            _ => not_now(),
        }
    }
}

pub(crate) async fn serve(bug: Bug, port: u16, dir: String) {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let node = Node::begin(bug, port, dir);
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let node = Rc::clone(&node);
                tokio::task::spawn_local(async move {
                    let service = service_fn(move |request| answer(Rc::clone(&node), request));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        }
    }
    if node.bug.is("walks-out-of-what-is-open") {
        return;
    }
    if let Some(sender) = node.sender() {
        sender.stop().await;
    }
    assert!(!node.bug.is("panics-at-its-end"), "a bug");
}

async fn answer(node: Rc<Node>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let Some(sender) = node.sender() else { return Ok(node.pass_on(&path, body).await) };
    let shares = node.lease.is_held() && node.bug.is("has-a-limiter-for-each-worker");
    if shares && path == "/subscribe" {
        share(&node.dir, &path, body.clone()).await;
    }
    let text = match path.as_str() {
        "/subscribe" => {
            let secret = sender.subscribe(&serde_json::from_slice(&body).unwrap_or_default());
            json!({ "secret": secret }).to_string()
        }
        "/emit" if !sender.is_able() => return Ok(not_now()),
        "/emit" => match take(&sender, &node.dir, shares, &body).await {
            Some(lines) => lines,
            None => return Ok(not_now()),
        },
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

/// `None` if the events belong to another process by now.
async fn take(sender: &Sender, dir: &str, shares: bool, body: &[u8]) -> Option<String> {
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
    // They are acknowledged once there is space.
    while !sender.is_written() {
        if sender.has_given_up() {
            return None;
        }
        sender.clock.pass(AGAIN_NS).await;
        sender.commit();
    }
    if sender.bug.is("takes-long-to-accept") {
        sender.clock.pass(ACCEPTS_NS).await;
    }
    Some(lines)
}

fn not_now() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = hyper::StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(hyper::header::RETRY_AFTER, hyper::header::HeaderValue::from_static("1"));
    response
}

fn turned_away(sender: &Sender, event: &Value) -> Option<u16> {
    let ends = |end: &str| event["id"].as_str().is_some_and(|id| id.ends_with(end));
    match sender.bug.0.as_str() {
        "refuses-without-need" if ends("7") => Some(503),
        "turns-one-away-without-a-word" if ends("77") => Some(400),
        _ => None,
    }
}

/// The other worker has its own limiter.
async fn share(dir: &str, path: &str, body: Bytes) {
    let Ok(port) = std::fs::read_to_string(format!("{dir}/peer")) else { return };
    call(port.parse().unwrap(), path, body, std::time::Duration::from_secs(5)).await.unwrap();
}

async fn call(port: u16, path: &str, body: Bytes, within: std::time::Duration) -> Result<Reply, CallError> {
    let url = format!("http://127.0.0.1:{port}{path}");
    let call = Call { method: hyper::Method::POST, url, headers: Vec::new(), body, within };
    Client::new(&Certificates::default()).unwrap().call(call).await
}
