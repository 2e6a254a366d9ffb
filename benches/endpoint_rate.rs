//! Request rates of equal deliveries at a bare server and at the harness's endpoints, which record each request, with
//! signatures that they cannot check and with signatures that they verify.
//! `cargo bench -p hookproof-benches --bench endpoint_rate`.
//!
//! Each server answers on one thread, as in a run. The clients have two threads, write prepared requests, and read to
//! the end of a head. The trace is discarded, but has its thread. The servers take turns. The bench prints the median
//! of each turn's ratios: by the clock, where clients, server and trace share the cores, and by the processor time of
//! the server's threads, with the trace's.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]
#![expect(clippy::disallowed_methods, reason = "a bench measures time")]
#![expect(clippy::cast_precision_loss, reason = "nanoseconds are few enough")]

mod clients;

use std::future::pending;
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hookproof::clock::Clock;
use hookproof::endpoint::{Endpoints, Spec, Stage};
use hookproof_judge::scenario::{Duration, Range};
use hookproof_judge::signature::{Key, Profile, Secret};
use hookproof_judge::trace::Recorder;
use hookproof_judge::trace::{ClockKind, End, Ended, FORMAT, Header};
use hookproof_play::traffic::Tokens;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sha2::Sha256;
use tokio::net::TcpListener;

const KEY: &[u8; 32] = b"0123456789abcdef0123456789abcdef";
const TOKENS: Tokens = Tokens::new(7);
const CONNECTIONS: usize = 64;
const BODY_BYTES: usize = 300;
const REQUESTS: usize = 24_000;
const TURNS: usize = 11;

struct Server {
    name: &'static str,
    address: SocketAddr,
    threads: &'static [&'static str],
}

fn main() {
    let (recorder, writer) = Recorder::writing(std::io::sink()).expect("a thread");
    recorder.begin(header());
    let stage = Stage { clock: Clock::begun(), recorder, tokens: TOKENS, seed: 1, offered: None };
    let bare = start("bare", |tell| async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        tell.send(listener.local_addr().expect("an address")).expect("somebody listens");
        bare(listener).await;
    });
    let own = stage.clone();
    let addresses = start("endpoints", |tell| async move {
        let endpoints = Endpoints::open(vec![spec("recording"), spec("verifying")], &own).await;
        let endpoints = endpoints.expect("two free ports");
        let secret = Secret::parse(Profile::STANDARD_WEBHOOKS, &STANDARD.encode(KEY)).expect("a secret");
        endpoints.learn(1, vec![Key::from(secret)]);
        endpoints.addresses().into_iter().for_each(|address| tell.send(address).expect("somebody listens"));
        pending::<()>().await;
    });
    let [bare, recording, verifying] =
        [bare.recv(), addresses.recv(), addresses.recv()].map(|address| address.expect("all servers start"));
    let threads = &["endpoints", "trace"];
    let servers = [
        Server { name: "bare", address: bare, threads: &["bare"] },
        Server { name: "recording", address: recording, threads },
        Server { name: "verifying", address: verifying, threads },
    ];
    let client = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let client = client.expect("a runtime");
    for server in &servers {
        client.block_on(clients::rate(server.address, signed(0)));
    }
    let turns: Vec<_> =
        (1..=TURNS).map(|turn| servers.each_ref().map(|one| measure(one, turn, &client))).collect();
    for (place, server) in servers.iter().enumerate().skip(1) {
        let by_clock = median(turns.iter().map(|costs| costs[place].0 / costs[0].0));
        let by_time = median(turns.iter().map(|costs| costs[0].1 / costs[place].1));
        println!("{} ÷ bare: {by_clock:.0} % by the clock, {by_time:.0} % by processor time", server.name);
    }
    end(&stage, writer);
}

fn measure(server: &Server, turn: usize, client: &tokio::runtime::Runtime) -> (f64, f64) {
    let (requests, before) = (signed(turn), nanos(server.threads));
    let rate = client.block_on(clients::rate(server.address, requests));
    let micros = (nanos(server.threads) - before) as f64 / 1e3 / REQUESTS as f64;
    println!("turn {turn}: {:<9} {rate:>7.0}/s by the clock, {micros:>4.1} µs each", server.name);
    (rate, micros)
}

fn median(ratios: impl Iterator<Item = f64>) -> f64 {
    let mut ratios: Vec<f64> = ratios.collect();
    ratios.sort_by(f64::total_cmp);
    100.0 * ratios[ratios.len() / 2]
}

/// 0 where the system does not report it.
fn nanos(names: &[&str]) -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of = |task: std::fs::DirEntry| {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let counts = names.contains(&read("comm").trim());
        counts.then(|| read("schedstat").split(' ').next()?.parse::<u64>().ok()).flatten()
    };
    tasks.filter_map(of).sum()
}

fn start<F: Future<Output = ()>>(
    name: &str,
    serve: impl FnOnce(Sender<SocketAddr>) -> F + Send + 'static,
) -> std::sync::mpsc::Receiver<SocketAddr> {
    let (tell, told) = channel();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(serve(tell));
    });
    thread.expect("a thread");
    told
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

fn spec(name: &str) -> Spec {
    Spec {
        name: name.to_owned(),
        path: "/hook".to_owned(),
        behaviours: Vec::new(),
        answers: Range::just(Duration(0)),
        permission: None,
        scheme: Profile::STANDARD_WEBHOOKS.into(),
    }
}

fn header() -> Header {
    Header {
        format: FORMAT,
        version: String::new(),
        scenario: String::new(),
        scenario_sha256: String::new(),
        schedule_sha256: String::new(),
        seed: 1,
        driver: String::new(),
        clock: ClockKind::Real,
        clock_resolution_ns: 1,
        began_unix_ns: 0,
        scenario_toml: String::new(),
    }
}

fn end(stage: &Stage, writer: JoinHandle<std::io::Result<std::io::Sink>>) {
    let (arrivals, dropped) = (stage.recorder.arrivals(), stage.recorder.dropped());
    assert_eq!((arrivals, dropped), (2 * (REQUESTS * (TURNS + 1)) as u64, 0), "all is recorded");
    let end = End { t: stage.clock.now(), ended: Ended::Done, dead_listed: false, late: 0, dropped };
    stage.recorder.end(end);
    writer.join().expect("it ends").expect("a trace that goes nowhere can be written");
}

/// Requests for each connection, each with its own token and id.
fn signed(turn: usize) -> Vec<Vec<Vec<u8>>> {
    let ready = Hmac::<Sha256>::new_from_slice(KEY).expect("hmac takes a key of any length");
    let request = |number: usize| {
        let token = (turn * REQUESTS + number) as u64;
        let body = format!("{{\"token\":\"{}\",\"filler\":\"", TOKENS.text(token));
        let body = format!("{body:0<0$}\"}}", BODY_BYTES - 2);
        let (id, at) = (format!("evt_{token}"), 1_700_000_000);
        let mut mac = ready.clone();
        mac.update(format!("{id}.{at}.{body}").as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        let request = format!(
            "POST /hook HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nuser-agent: bench\r\n\
             webhook-id: {id}\r\nwebhook-timestamp: {at}\r\nwebhook-signature: v1,{signature}\r\n\
             content-length: {BODY_BYTES}\r\n\r\n{body}"
        );
        request.into_bytes()
    };
    let each = REQUESTS / CONNECTIONS;
    (0..CONNECTIONS).map(|one| (0..each).map(|number| request(one * each + number)).collect()).collect()
}
