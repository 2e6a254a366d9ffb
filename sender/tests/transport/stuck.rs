//! An endpoint stops reading: requests behind a large one must not be written.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use hookproof_sender::engine::{Outcome, StoreTime};
use hookproof_sender::transport::Transport;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::transport::rig::{LONG, SHORT, all_events_are_seen, brief, check, permit, poll_once, post};
use crate::transport::secure::Secure;

/// Exceeds the buffers of two sockets.
const LARGE: usize = 64 << 20;

/// Exceeds the receive buffer of an unread socket, and fits into a send buffer.
const MIDDLE: usize = 600_000;

async fn answer_at_its_end(mut body: RecvStream, mut respond: SendResponse<Bytes>) {
    while body.data().await.is_some_and(|data| data.is_ok()) {}
    let head = http::Response::builder().status(204).body(()).unwrap();
    let _ = respond.send_response(head, true);
}

struct Stuck {
    endpoint: Secure,
    transport: Arc<Transport>,
    large: JoinHandle<String>,
    go_on: oneshot::Sender<()>,
}

impl Stuck {
    async fn new() -> Self {
        let (stops, mut stopped) = mpsc::unbounded_channel();
        let (go_on, goes_on) = oneshot::channel();
        let goes_on = Arc::new(std::sync::Mutex::new(Some(goes_on)));
        let endpoint = Secure::start(&["h2"], move |tls| {
            let (stops, goes_on) = (stops.clone(), goes_on.lock().unwrap().take());
            async move {
                let window = u32::try_from(2 * LARGE).unwrap();
                let mut builder = h2::server::Builder::new();
                builder.initial_window_size(window).initial_connection_window_size(window);
                let mut connection = builder.handshake::<_, Bytes>(tls).await.unwrap();
                let mut number = 0;
                let mut goes_on = goes_on;
                while let Some(Ok((request, respond))) = connection.accept().await {
                    number += 1;
                    if number == 2 {
                        stops.send(()).unwrap();
                        goes_on.take().unwrap().await.unwrap();
                    }
                    // Readable while the connection continues.
                    tokio::spawn(answer_at_its_end(request.into_body(), respond));
                }
            }
        })
        .await;
        let transport = Arc::new(endpoint.transport());
        check(&post(endpoint.url()).through(&transport).await, "answered 204");
        let (large, through) = (post(endpoint.url()).body(vec![b'x'; LARGE]), Arc::clone(&transport));
        let large = tokio::spawn(async move { brief(&large.through(&through).await) });
        stopped.recv().await.unwrap();
        // By then the system has taken all that it can.
        for _ in 0..100 {
            all_events_are_seen().await;
        }
        Self { endpoint, transport, large, go_on }
    }

    /// The large request is answered, and no other request arrived.
    async fn goes_on(self) {
        self.go_on.send(()).unwrap();
        assert_eq!(self.large.await.unwrap(), "answered 204");
        assert_eq!(self.endpoint.connections(), 1);
    }
}

#[tokio::test]
async fn a_request_whose_lane_withdraws_its_consent_is_taken_back_and_the_others_go_on() {
    let stuck = Stuck::new().await;
    let (waiting, permit) = (post(stuck.endpoint.url()), permit(LONG));
    let mut attempt = Box::pin(waiting.with_permit(&stuck.transport, permit.clone()));
    assert!(poll_once(&mut attempt).await.is_pending());
    all_events_are_seen().await;
    permit.cancelled.cancel();
    let made = attempt.await;
    check(&made, "unsent withdrawn");
    assert!(matches!(made.outcome(StoreTime(0)), Outcome::Withheld));
    stuck.goes_on().await;
}

#[tokio::test]
async fn a_deadline_that_passes_before_the_endpoint_takes_a_byte_is_the_endpoints_affair() {
    let stuck = Stuck::new().await;
    let made = post(stuck.endpoint.url()).deadline(SHORT).through(&stuck.transport).await;
    check(&made, "unsent deadline");
    assert!(matches!(made.outcome(StoreTime(0)), Outcome::Unsent));
    stuck.goes_on().await;
}

/// The endpoint stops at its second request. Returns the event of the stop, the signal to read again, and the count of
/// body bytes after that.
async fn stops_reading()
-> (Secure, mpsc::UnboundedReceiver<()>, oneshot::Sender<()>, mpsc::UnboundedReceiver<usize>) {
    let (stops, stopped) = mpsc::unbounded_channel();
    let (go_on, goes_on) = oneshot::channel();
    let (tell, told) = mpsc::unbounded_channel();
    let goes_on = std::sync::Mutex::new(Some(goes_on));
    let endpoint = Secure::start(&["h2"], move |tls| {
        let (stops, tell, goes_on) = (stops.clone(), tell.clone(), goes_on.lock().unwrap().take());
        async move {
            let window = u32::try_from(2 * LARGE).unwrap();
            let mut builder = h2::server::Builder::new();
            builder.initial_window_size(window).initial_connection_window_size(window);
            let mut connection = builder.handshake::<_, Bytes>(tls).await.unwrap();
            let (request, respond) = connection.accept().await.unwrap().unwrap();
            tokio::spawn(answer_at_its_end(request.into_body(), respond));
            let _unanswered = connection.accept().await.unwrap().unwrap();
            stops.send(()).unwrap();
            goes_on.unwrap().await.unwrap();
            let arrived = Arc::new(AtomicUsize::new(0));
            let mut held = Vec::new();
            while let Some(Ok((request, respond))) = connection.accept().await {
                held.push(respond);
                let (mut body, arrived) = (request.into_body(), Arc::clone(&arrived));
                tokio::spawn(async move {
                    while let Some(Ok(data)) = body.data().await {
                        arrived.fetch_add(data.len(), Ordering::SeqCst);
                    }
                });
            }
            all_events_are_seen().await;
            tell.send(arrived.load(Ordering::SeqCst)).unwrap();
        }
    })
    .await;
    (endpoint, stopped, go_on, told)
}

#[tokio::test]
async fn a_written_attempt_that_was_given_up_is_not_sent_later_on_a_shared_connection() {
    let (endpoint, mut stopped, go_on, mut arrived) = stops_reading().await;
    let transport = Arc::new(endpoint.transport());
    check(&post(endpoint.url()).through(&transport).await, "answered 204");
    let (patient, through) = (post(endpoint.url()).deadline(Duration::from_secs(3)), Arc::clone(&transport));
    let mut patient = tokio::spawn(async move { patient.through(&through).await });
    stopped.recv().await.unwrap();
    // The system takes all of it.
    let given_up = post(endpoint.url()).body(vec![b'x'; MIDDLE]).deadline(SHORT).late_max(2 * SHORT);
    check(&given_up.through(&transport).await, "silent deadline");
    let made = timeout(10 * SHORT, &mut patient).await;
    go_on.send(()).unwrap();
    let arrived = arrived.recv().await.unwrap();
    assert!(arrived < MIDDLE, "all of it came after its time");
    let made = made.unwrap().unwrap();
    check(&made, "silent cut_off");
    assert!(matches!(made.outcome(StoreTime(0)), Outcome::CutOff));
}

#[tokio::test]
async fn a_connection_ends_with_the_only_request_on_it_if_that_is_given_up() {
    let (tell, mut ended) = mpsc::unbounded_channel();
    let endpoint = Secure::start(&["h2"], move |tls| {
        let tell = tell.clone();
        async move {
            let mut connection = h2::server::handshake(tls).await.unwrap();
            let mut unanswered = Vec::new();
            while let Some(Ok(asked)) = connection.accept().await {
                unanswered.push(asked);
            }
            tell.send(unanswered.len()).unwrap();
        }
    })
    .await;
    let transport = endpoint.transport();
    check(&post(endpoint.url()).deadline(SHORT).through(&transport).await, "silent deadline");
    assert_eq!(timeout(10 * SHORT, ended.recv()).await, Ok(Some(1)));
}
