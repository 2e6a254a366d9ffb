//! No request leaves after its deadline, even if the machine was suspended between decision and write.

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hookproof_sender::boot_clock::{BootClock, BootTime};
use hookproof_sender::engine::{Nanos, Outcome, StoreTime};
use hookproof_sender::transport::{AttemptResult, Lease, Roots, SendPermit, Settings, Transport};
use tokio::io::AsyncReadExt as _;
use tokio::sync::{mpsc, oneshot};

use crate::transport::endpoint::Endpoint;
use crate::transport::rig::{LONG, check, lenient, permit, poll_once, post};
use crate::transport::secure::Secure;

const OK: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const LEASE: Nanos = Nanos::from_secs(30);

thread_local! {
    /// How long the machine was suspended. Each test has its own thread, which runs all its tasks.
    static SUSPENDED: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
}

fn machine() -> BootTime {
    BootClock::default().now().after(SUSPENDED.get())
}

/// Ends the lease, but no deadline of an attempt.
fn suspend() {
    SUSPENDED.set(Nanos(SUSPENDED.get().0 + LEASE.0 + 1));
}

fn transport(roots: Roots) -> Transport {
    Transport::new(Settings { clock: BootClock::new(machine), roots, ..Settings::default() }, lenient())
}

fn leased() -> SendPermit {
    SendPermit { lease: Lease::until(machine().after(LEASE)), ..permit(2 * LONG) }
}

/// No attempt was made, and the cause is this machine.
#[track_caller]
fn withheld(result: AttemptResult) {
    check(&result, "unsent withdrawn");
    assert!(matches!(result.outcome(StoreTime(0)), Outcome::Withheld));
}

#[tokio::test]
async fn a_request_that_was_about_to_use_a_kept_connection() {
    let endpoint = Endpoint::answering(OK).await;
    let transport = transport(Roots::default());
    let post = post(endpoint.url());
    check(&post.with_permit(&transport, leased()).await, "answered 204");
    let decided = leased();
    suspend();
    withheld(post.with_permit(&transport, decided).await);
    assert_eq!((endpoint.connections(), endpoint.requests()), (1, 1));
}

#[tokio::test]
async fn a_request_whose_lease_was_renewed_meanwhile_is_sent() {
    let endpoint = Endpoint::answering(OK).await;
    let transport = transport(Roots::default());
    let decided = leased();
    suspend();
    decided.lease.extend(machine().after(LEASE));
    check(&post(endpoint.url()).with_permit(&transport, decided).await, "answered 204");
}

/// Returns the bytes that the endpoint read of the request.
async fn suspended_in_tls(speaks: &'static [&'static str]) -> (AttemptResult, Vec<u8>) {
    let (agree, agreed) = oneshot::channel();
    let (connected, mut connections) = mpsc::unbounded_channel();
    let (endpoint, mut told) = Secure::reading(speaks, connected, agreed).await;
    let transport = transport(Roots::default().with_pem(endpoint.pem.as_bytes()).unwrap());
    let post = post(endpoint.url());
    let attempt = post.with_permit(&transport, leased());
    let suspend = async {
        connections.recv().await.unwrap();
        suspend();
        agree.send(()).unwrap();
        connections.recv().await.unwrap();
    };
    let (result, ()) = tokio::join!(attempt, suspend);
    drop((transport, endpoint));
    // Nothing arrives if TLS broke off with the connection.
    (result, told.recv().await.unwrap_or_default())
}

#[tokio::test]
async fn a_request_that_was_agreeing_on_tls() {
    let (result, read) = suspended_in_tls(&["http/1.1"]).await;
    withheld(result);
    assert!(read.is_empty(), "{read:?}");
}

#[tokio::test]
async fn a_request_that_was_agreeing_on_tls_for_http2() {
    let (result, read) = suspended_in_tls(&["h2"]).await;
    withheld(result);
    // Only HTTP/2's preface: a request would contain its path, and be longer.
    assert!(read.len() < 100, "{read:?}");
}

#[tokio::test]
async fn a_request_that_http2_had_taken_and_not_written() {
    let (endpoint, mut given) = Secure::counting().await;
    let transport = transport(Roots::default().with_pem(endpoint.pem.as_bytes()).unwrap());
    let post = post(endpoint.url());
    check(&post.with_permit(&transport, leased()).await, "answered 204");
    {
        // The connection's task has not run yet.
        let mut attempt = pin!(post.with_permit(&transport, leased()));
        assert!(poll_once(&mut attempt).await.is_pending());
        suspend();
        withheld(attempt.await);
    }
    drop(transport);
    assert_eq!(given.recv().await.unwrap(), 1);
}

#[tokio::test]
async fn a_request_that_http2_had_taken_and_not_written_when_its_deadline_passed() {
    let (endpoint, mut given) = Secure::counting().await;
    let transport = transport(Roots::default().with_pem(endpoint.pem.as_bytes()).unwrap());
    let post = post(endpoint.url());
    check(&post.with_permit(&transport, leased()).await, "answered 204");
    {
        let brief = SendPermit { deadline: machine().after(Nanos::from_secs(20)), ..leased() };
        let mut attempt = pin!(post.with_permit(&transport, brief));
        assert!(poll_once(&mut attempt).await.is_pending());
        SUSPENDED.set(Nanos::from_secs(21));
        withheld(attempt.await);
    }
    drop(transport);
    assert_eq!(given.recv().await.unwrap(), 1);
}

#[tokio::test]
async fn a_request_that_has_begun_is_not_written_on() {
    let (begun, mut begins) = mpsc::unbounded_channel();
    let (go_on, goes_on) = tokio::sync::watch::channel(false);
    let endpoint = Endpoint::start(move |mut connection| {
        let (begun, mut goes_on) = (begun.clone(), goes_on.clone());
        async move {
            let mut read = vec![0; 1_000];
            connection.socket.read_exact(&mut read).await.unwrap();
            begun.send(0).unwrap();
            goes_on.wait_for(|goes_on| *goes_on).await.unwrap();
            let _ = connection.socket.read_to_end(&mut read).await;
            begun.send(read.len()).unwrap();
        }
    })
    .await;
    let transport = Arc::new(transport(Roots::default()));
    let body = vec![b'x'; 64 << 20];
    let post = post(endpoint.url()).body(body).deadline(2 * LONG);
    let suspend = async {
        begins.recv().await.unwrap();
        suspend();
        go_on.send(true).unwrap();
    };
    let (result, ()) = tokio::join!(post.with_permit(&transport, leased()), suspend);
    assert!(matches!(result, AttemptResult::Silent(_)), "{result:?}");
    assert!(begins.recv().await.unwrap() < 64 << 20);
}

#[tokio::test]
async fn a_connect_timeout_of_a_suspended_process_is_not_the_endpoints_failure() {
    let endpoint = Endpoint::start(|mut connection| async move {
        // TLS never completes.
        let _ = connection.end().await;
    })
    .await;
    let transport = transport(Roots::default());
    let post = post(format!("https://{}", endpoint.address)).connect_deadline(Duration::from_millis(100));
    let mut attempt = pin!(post.with_permit(&transport, leased()));
    assert!(poll_once(&mut attempt).await.is_pending());
    suspend();
    withheld(attempt.await);
}

/// Also returns the signal that releases the answers, and the events "read" and "ended".
async fn held_back() -> (Endpoint, tokio::sync::watch::Sender<bool>, mpsc::UnboundedReceiver<&'static str>) {
    let (tell, told) = mpsc::unbounded_channel();
    let (answer, answers) = tokio::sync::watch::channel(false);
    let endpoint = Endpoint::start(move |mut connection| {
        let (tell, mut answers) = (tell.clone(), answers.clone());
        async move {
            connection.request().await.unwrap();
            tell.send("read").unwrap();
            let answered = tokio::select! {
                told = answers.wait_for(|answers| *answers) => told.is_ok(),
                _ = connection.end() => false,
            };
            if answered {
                connection.write(OK).await;
            } else {
                let _ = tell.send("ended");
            }
        }
    })
    .await;
    (endpoint, answer, told)
}

fn soon_over() -> SendPermit {
    SendPermit { lease: Lease::until(machine().after(Nanos::from_millis(200))), ..permit(2 * LONG) }
}

async fn reached(moment: BootTime) {
    while machine() < moment {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_request_under_way_is_closed_when_its_lease_is_over_and_the_endpoint_is_not_to_blame() {
    let (endpoint, _answer, mut told) = held_back().await;
    let transport = transport(Roots::default());
    let deadline = Duration::from_secs(5);
    let post = post(endpoint.url()).deadline(deadline);
    let leased = SendPermit { deadline: permit(deadline).deadline, ..soon_over() };
    let result = post.with_permit(&transport, leased).await;
    check(&result, "silent lease_over");
    assert!(matches!(result.outcome(StoreTime(0)), Outcome::CutOff));
    assert_eq!((told.recv().await, told.recv().await), (Some("read"), Some("ended")));
}

#[tokio::test]
async fn a_request_under_way_over_http2_is_closed_when_its_lease_is_over() {
    let (tell, mut ended) = mpsc::unbounded_channel();
    let endpoint = Secure::start(&["h2"], move |tls| {
        let tell = tell.clone();
        async move {
            let mut connection = h2::server::handshake(tls).await.unwrap();
            let mut unanswered = Vec::new();
            while let Some(Ok(request)) = connection.accept().await {
                unanswered.push(request);
            }
            tell.send(unanswered.len()).unwrap();
        }
    })
    .await;
    let transport = transport(Roots::default().with_pem(endpoint.pem.as_bytes()).unwrap());
    let deadline = Duration::from_secs(5);
    let post = post(endpoint.url()).deadline(deadline);
    let leased = SendPermit { deadline: permit(deadline).deadline, ..soon_over() };
    check(&post.with_permit(&transport, leased).await, "silent lease_over");
    assert_eq!(ended.recv().await, Some(1));
}

#[tokio::test]
async fn a_request_under_way_goes_on_for_as_long_as_its_lease_is_renewed() {
    let (endpoint, answer, mut told) = held_back().await;
    let transport = transport(Roots::default());
    let leased = soon_over();
    let (lease, first_end) = (leased.lease.clone(), leased.lease.end());
    let renew = async {
        assert_eq!(told.recv().await, Some("read"));
        lease.extend(machine().after(LEASE));
        reached(first_end.after(Nanos::from_millis(50))).await;
        answer.send(true).unwrap();
    };
    let post = post(endpoint.url());
    let (result, ()) = tokio::join!(post.with_permit(&transport, leased), renew);
    check(&result, "answered 204");
}

#[tokio::test]
async fn a_request_that_waits_for_a_connection_is_withheld_when_its_lease_is_over() {
    let (endpoint, _answer, mut told) = held_back().await;
    let transport = transport(Roots::default());
    let (endless, brief) = (post(endpoint.url()).connections_max(1), post(endpoint.url()).connections_max(1));
    let mut first = pin!(endless.with_permit(&transport, leased()));
    tokio::select! {
        result = &mut first => panic!("{result:?}"),
        read = told.recv() => assert_eq!(read, Some("read")),
    }
    let second = soon_over();
    let deadline = second.deadline;
    tokio::select! {
        result = &mut first => panic!("{result:?}"),
        result = brief.with_permit(&transport, second) => withheld(result),
    }
    assert!(machine() < deadline, "it waited on");
}

/// The timers of a suspended machine stand still.
async fn soon<T>(result: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3), result)
        .await
        .expect("it waits for as long as the machine was suspended")
}

#[tokio::test]
async fn a_request_under_way_ends_soon_after_the_machine_was_suspended_past_its_lease() {
    let (endpoint, _answer, mut told) = held_back().await;
    let transport = transport(Roots::default());
    let post = post(endpoint.url());
    let suspend = async {
        assert_eq!(told.recv().await, Some("read"));
        suspend();
        assert_eq!(soon(told.recv()).await, Some("ended"));
    };
    let (result, ()) = tokio::join!(post.with_permit(&transport, leased()), suspend);
    check(&result, "silent lease_over");
}

#[tokio::test]
async fn a_request_under_way_ends_soon_after_the_machine_was_suspended_past_its_deadline() {
    let (endpoint, _answer, mut told) = held_back().await;
    let transport = transport(Roots::default());
    let post = post(endpoint.url());
    let brief = SendPermit { deadline: machine().after(Nanos::from_secs(20)), ..leased() };
    let suspend = async {
        assert_eq!(told.recv().await, Some("read"));
        SUSPENDED.set(Nanos::from_secs(21));
        assert_eq!(soon(told.recv()).await, Some("ended"));
    };
    let (result, ()) = tokio::join!(post.with_permit(&transport, brief), suspend);
    check(&result, "silent deadline");
}

#[tokio::test]
async fn a_request_that_waits_for_a_connection_is_withheld_soon_after_the_machine_was_suspended() {
    for suspended in [Nanos::from_secs(21), Nanos::from_secs(31)] {
        SUSPENDED.set(Nanos::ZERO);
        let (endpoint, _answer, mut told) = held_back().await;
        let transport = transport(Roots::default());
        let (endless, waits) = (post(endpoint.url()), post(endpoint.url()).connections_max(1));
        let mut first = pin!(endless.with_permit(&transport, permit(2 * LONG)));
        tokio::select! {
            result = &mut first => panic!("{result:?}"),
            read = told.recv() => assert_eq!(read, Some("read")),
        }
        let brief = SendPermit { deadline: machine().after(Nanos::from_secs(20)), ..leased() };
        let mut second = pin!(waits.with_permit(&transport, brief));
        assert!(poll_once(&mut second).await.is_pending());
        SUSPENDED.set(suspended);
        tokio::select! {
            result = &mut first => panic!("{result:?}"),
            result = soon(second) => withheld(result),
        }
    }
}
