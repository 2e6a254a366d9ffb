//! Request rates of equal deliveries at three servers: a bare one, one that verifies, and one that also commits to
//! its inbox before it answers. `cargo bench -p hookproof-benches --bench receiver_rate`.
//!
//! Each server answers on one thread, and the client writes prepared requests. The processor time of that thread
//! decides, because a busy machine distorts the clock. The three take turns, and the bench prints the median of the
//! ratios. The inbox's writer and worker have their own threads and wait for the disk, so for them the clock says
//! more.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]
#![expect(clippy::disallowed_methods, reason = "a bench measures time")]
#![expect(clippy::cast_precision_loss, reason = "nanoseconds are few enough")]

mod clients;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hookproof_receiver::clock::{Clock, Millis};
use hookproof_receiver::inbox::{Counting, Inbox, Options};
use hookproof_receiver::layer::{Bounds, VerifyLayer};
use hookproof_receiver::server::{Limits, Receive, bind, serve};
use hookproof_verify::{Keys, Profile, Secret};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sha2::Sha256;
use tokio::net::TcpListener;

const KEY: &[u8; 32] = b"0123456789abcdef0123456789abcdef";
const NOW_MS: u64 = 1_700_000_000_000;
const CONNECTIONS: usize = 64;
const BODY_BYTES: usize = 300;
const REQUESTS: usize = 16_000;
const TURNS: usize = 9;

fn main() {
    let folder = tempfile::tempdir().expect("a directory");
    let clock = Clock::new(|| Millis(NOW_MS));
    let secret = Secret::new(format!("whsec_{}", STANDARD.encode(KEY))).expect("a secret of 32 bytes");
    let keys = Keys::new(Profile::StandardWebhooks, [&secret]).expect("one key is enough");
    let layer = VerifyLayer::new(keys, clock.clone(), Bounds::default());
    let inbox = Inbox::open(Options::new(folder.path().join("inbox.db")), clock, Arc::new(Counting));
    let inbox = inbox.expect("an inbox");
    let bare = start(|listener| async { bare(listener).await });
    let (behind, kept) = (layer.clone(), inbox.clone());
    let verifying = start(move |listener| async move {
        let service = tower_layer(&behind);
        serve(listener, service, Limits::default(), std::future::pending(), Duration::ZERO).await;
    });
    let durable = start(move |listener| async move {
        let service = Receive::new(&layer, kept);
        serve(listener, service, Limits::default(), std::future::pending(), Duration::ZERO).await;
    });
    let client = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut turns = Vec::new();
    for turn in 0..TURNS {
        let costs = [&bare, &verifying, &durable].map(|server| {
            let (requests, before) = (signed(turn), server.nanos());
            let rate = client.block_on(clients::rate(server.address, requests));
            let nanos = server.nanos() - before;
            (rate, nanos / REQUESTS as u64)
        });
        for (name, (rate, nanos)) in ["bare", "verifying", "durable"].iter().zip(costs) {
            println!(
                "turn {turn}: {name:<9} {rate:>7.0}/s by the clock, {:>4.1} µs each",
                nanos as f64 / 1e3
            );
        }
        turns.push(costs);
    }
    for (name, place) in [("verifying ÷ bare", 1), ("durable inbox ÷ bare", 2)] {
        let median = |mut ratios: Vec<f64>| {
            ratios.sort_by(f64::total_cmp);
            100.0 * ratios[TURNS / 2]
        };
        let by_time = median(turns.iter().map(|costs| costs[0].1 as f64 / costs[place].1 as f64).collect());
        let by_clock = median(turns.iter().map(|costs| costs[place].0 / costs[0].0).collect());
        println!(
            "{name}: {by_time:.0} % by processor time, {by_clock:.0} % by the clock (medians of {TURNS})"
        );
    }
    inbox.close();
}

struct Server {
    address: SocketAddr,
    schedule: PathBuf,
}

impl Server {
    /// 0 where the system does not report it.
    fn nanos(&self) -> u64 {
        let told = std::fs::read_to_string(&self.schedule).unwrap_or_default();
        told.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or_default()
    }
}

fn start<F: Future<Output = ()>>(answer: impl FnOnce(TcpListener) -> F + Send + 'static) -> Server {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = bind(([127, 0, 0, 1], 0).into(), Duration::ZERO).await.expect("a free port");
            let thread = std::fs::read_link("/proc/thread-self").unwrap_or_default();
            let schedule = PathBuf::from("/proc").join(thread).join("schedstat");
            let address = listener.local_addr().expect("an address");
            tell.send(Server { address, schedule }).expect("somebody listens");
            answer(listener).await;
        });
    });
    told.recv().expect("it starts")
}

/// hyper alone: reads the body and answers.
async fn bare(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).expect("a socket has that option");
        let service = service_fn(|request: Request<Incoming>| async move {
            request.into_body().collect().await?;
            let mut response = Response::new(Full::<Bytes>::default());
            *response.status_mut() = StatusCode::NO_CONTENT;
            Ok::<_, hyper::Error>(response)
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

#[derive(Clone)]
struct Content;

impl tower::Service<Request<Full<Bytes>>> for Content {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
        ready(Ok(hookproof_receiver::answer::received()))
    }
}

fn tower_layer(layer: &VerifyLayer) -> hookproof_receiver::layer::Verify<Content> {
    tower::Layer::layer(layer, Content)
}

/// Requests for each connection, each with its own id.
fn signed(turn: usize) -> Vec<Vec<Vec<u8>>> {
    let ready = Hmac::<Sha256>::new_from_slice(KEY).expect("hmac takes a key of any length");
    let body = [b'x'; BODY_BYTES];
    let request = |connection: usize, number: usize| {
        let (id, at) = (format!("evt_{turn}-{connection}-{number}"), NOW_MS / 1_000);
        let mut mac = ready.clone();
        mac.update(format!("{id}.{at}.").as_bytes());
        mac.update(&body);
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        let head = format!(
            "POST /hook HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nuser-agent: bench\r\n\
             webhook-id: {id}\r\nwebhook-timestamp: {at}\r\nwebhook-signature: v1,{signature}\r\n\
             content-length: {BODY_BYTES}\r\n\r\n"
        );
        [head.as_bytes(), &body].concat()
    };
    let connections = 0..CONNECTIONS;
    connections.map(|one| (0..REQUESTS / CONNECTIONS).map(|number| request(one, number)).collect()).collect()
}
