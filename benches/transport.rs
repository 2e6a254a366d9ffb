//! The cost of a client: requests against a bare hyper sink on loopback, 64 connections, a body of 300 bytes. Client
//! and sink have one thread each. Four clients take turns in one run, so that changes of the machine's load hit all;
//! each client's median round counts.
//!
//! `bare` is the ceiling: hyper alone, a task for each connection, no pool, no deadline, prepared requests. The
//! processor time is that of the client's thread for each request. It is valid even where the sink or another program
//! limits the rate.

#![expect(clippy::print_stdout, reason = "what a bench is for")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{fs, thread};

use bytes::Bytes;
use hookproof_sender::boot_clock::{BootClock, BootTime};
use hookproof_sender::engine::{LaneId, Nanos};
use hookproof_sender::guard::{Guard, Target};
use hookproof_sender::sign::Headers;
use hookproof_sender::store::command::Details;
use hookproof_sender::transport::{
    AttemptResult, CancellationToken, Destination, Lease, Request, SendPermit, Settings, Transport,
};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const CONNECTIONS: usize = 64;
const REQUESTS_EACH: usize = 1_000;
const ROUNDS: usize = 9;
const BODY: Bytes = Bytes::from_static(&[b'x'; 300]);
const DEADLINE: Duration = Duration::from_secs(8);

fn main() {
    let sink = sink();
    let runtime = runtime();
    let mut rounds: [(&str, Vec<Figures>); 4] =
        ["bare hyper", "hyper-util legacy", "reqwest", "hookproof"].map(|name| (name, Vec::new()));
    for _ in 0..ROUNDS {
        runtime.block_on(async {
            rounds[0].1.push(bare(sink).await);
            rounds[1].1.push(legacy(sink).await);
            rounds[2].1.push(reqwest(sink).await);
            rounds[3].1.push(hookproof(sink).await);
        });
    }
    let ceiling = median(&rounds[0].1).per_second;
    println!("client             requests/s   of bare    p50 us    p99 us    cpu us");
    for (name, rounds) in &rounds {
        let Figures { per_second, p50_us, p99_us, cpu_us } = median(rounds);
        let share = 100.0 * per_second / ceiling;
        println!("{name:<18}{per_second:>11.0}{share:>9.0}%{p50_us:>10.0}{p99_us:>10.0}{cpu_us:>10.1}");
    }
}

/// Of one round, or the medians of several.
struct Figures {
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us: f64,
}

fn median(rounds: &[Figures]) -> Figures {
    let of = |figure: fn(&Figures) -> f64| {
        let mut sorted: Vec<f64> = rounds.iter().map(figure).collect();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    Figures {
        per_second: of(|round| round.per_second),
        p50_us: of(|round| round.p50_us),
        p99_us: of(|round| round.p99_us),
        cpu_us: of(|round| round.cpu_us),
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts")
}

fn sink() -> SocketAddr {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        runtime().block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
            tell.send(listener.local_addr().expect("it is bound")).expect("main waits");
            loop {
                let (socket, _) = listener.accept().await.expect("a connection comes");
                socket.set_nodelay(true).expect("it is open");
                tokio::spawn(Builder::new().serve_connection(TokioIo::new(socket), service_fn(no_content)));
            }
        });
    });
    told.recv().expect("the sink starts")
}

async fn no_content(request: hyper::Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.expect("a body comes");
    assert_eq!(body.to_bytes().len(), BODY.len());
    let mut response = Response::new(Empty::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

#[expect(clippy::disallowed_methods, reason = "a bench is what measures time")]
fn now() -> Instant {
    Instant::now()
}

/// This thread's processor time, where the system reports it.
fn cpu() -> Duration {
    let told = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(told.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

/// Runs all workers at once; each returns its requests' times.
#[expect(clippy::cast_precision_loss, reason = "figures that are rounded anyway")]
async fn timed<W>(workers: Vec<W>) -> Figures
where
    W: Future<Output = Vec<Duration>> + Send + 'static,
{
    let (began, cpu_began) = (now(), cpu());
    let taken = workers.into_iter().collect::<JoinSet<_>>().join_all().await;
    let (whole, cpu_whole) = (now() - began, cpu() - cpu_began);
    let mut taken = taken.concat();
    taken.sort_unstable();
    let micros = |length: Duration| length.as_secs_f64() * 1e6;
    Figures {
        per_second: taken.len() as f64 / whole.as_secs_f64(),
        p50_us: micros(taken[taken.len() / 2]),
        p99_us: micros(taken[taken.len() * 99 / 100]),
        cpu_us: micros(cpu_whole) / taken.len() as f64,
    }
}

async fn pooled<F>(exchange: impl Fn() -> F + Clone + Send + 'static) -> Figures
where
    F: Future<Output = ()> + Send + 'static,
{
    (0..CONNECTIONS).map(|_| exchange()).collect::<JoinSet<_>>().join_all().await;
    let worker = |_| {
        let exchange = exchange.clone();
        async move {
            let mut taken = Vec::with_capacity(REQUESTS_EACH);
            for _ in 0..REQUESTS_EACH {
                let began = now();
                exchange().await;
                taken.push(now() - began);
            }
            taken
        }
    };
    timed((0..CONNECTIONS).map(worker).collect()).await
}

fn request(sink: SocketAddr, uri: &str) -> hyper::Request<Full<Bytes>> {
    let request = hyper::Request::post(uri).header("host", sink.to_string());
    let request = request.header("content-type", "application/json").header("user-agent", "bench");
    request.body(Full::new(BODY)).expect("it is well formed")
}

async fn bare(sink: SocketAddr) -> Figures {
    let mut workers = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let socket = TcpStream::connect(sink).await.expect("the sink listens");
        socket.set_nodelay(true).expect("it is open");
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(socket)).await.expect("nothing is asked");
        tokio::spawn(connection);
        let prepared = request(sink, "/");
        workers.push(async move {
            let mut taken = Vec::with_capacity(REQUESTS_EACH);
            for _ in 0..REQUESTS_EACH {
                let began = now();
                sender.ready().await.expect("the sink keeps connections");
                let answer = sender.send_request(prepared.clone()).await.expect("the sink answers");
                answer.into_body().collect().await.expect("it has no body");
                taken.push(now() - began);
            }
            taken
        });
    }
    timed(workers).await
}

async fn legacy(sink: SocketAddr) -> Figures {
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder.retry_canceled_requests(false).pool_max_idle_per_host(CONNECTIONS);
    let client: legacy::Client<_, Full<Bytes>> = builder.build_http();
    let url = format!("http://{sink}/");
    let exchange = move || {
        let asked = client.request(request(sink, &url));
        async {
            let answer = tokio::time::timeout(DEADLINE, async {
                asked.await.expect("the sink answers").into_body().collect().await
            });
            answer.await.expect("the sink is quick").expect("it has no body");
        }
    };
    pooled(exchange).await
}

async fn reqwest(sink: SocketAddr) -> Figures {
    let builder = reqwest::Client::builder().no_proxy().retry(reqwest::retry::never()).timeout(DEADLINE);
    let builder = builder.redirect(reqwest::redirect::Policy::none()).pool_max_idle_per_host(CONNECTIONS);
    let client = builder.build().expect("it is well formed");
    let url: reqwest::Url = format!("http://{sink}/").parse().expect("it is well formed");
    let exchange = move || {
        let asked = client.post(url.clone()).header("content-type", "application/json").body(BODY).send();
        async { drop(asked.await.expect("the sink answers").bytes().await.expect("it has no body")) }
    };
    pooled(exchange).await
}

async fn hookproof(sink: SocketAddr) -> Figures {
    let guard = Guard::strict().allow_private_targets();
    let url = Target::parse(&format!("http://{sink}/"), &guard).expect("it is well formed");
    let target =
        Arc::new(Destination { url, tls: None, oauth: None, permission: None, late_max: Nanos::MINUTE });
    let transport = Arc::new(Transport::new(Settings::default(), guard));
    let connections_max = u32::try_from(CONNECTIONS).ok().and_then(NonZeroU32::new).expect("it is 64");
    let (clock, body) = (BootClock::default(), Arc::<[u8]>::from(&BODY[..]));
    let (lease, cancelled) = (Lease::until(BootTime(u64::MAX)), CancellationToken::new());
    let exchange = move || {
        let (transport, target, body) = (Arc::clone(&transport), Arc::clone(&target), Arc::clone(&body));
        let deadline = clock.now().after(Nanos(u64::try_from(DEADLINE.as_nanos()).unwrap_or(u64::MAX)));
        let permit = SendPermit { deadline, lease: lease.clone(), cancelled: cancelled.clone() };
        async move {
            let request = Request {
                lane: LaneId(1),
                target: &target,
                headers: &Headers::default(),
                extra: &[],
                body: &body,
                deadline: DEADLINE,
                permit,
                connect_deadline: DEADLINE,
                connections_max,
            };
            let made = transport.attempt(&request, &mut Details::default()).await;
            assert!(matches!(made, AttemptResult::Answered(_)), "{made:?}");
        }
    };
    pooled(exchange).await
}
