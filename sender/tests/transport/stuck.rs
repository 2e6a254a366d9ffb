//! A connection over HTTP/2 whose endpoint reads nothing for a while: what waits behind a large request is not written.

use std::sync::Arc;

use bytes::Bytes;
use hookproof_sender::engine::{Outcome, StoreTime};
use hookproof_sender::transport::Transport;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::rig::{LONG, SHORT, all_events_are_seen, brief, check, permit, poll_once, post};
use crate::secure::Secure;

/// More than the buffers of two sockets hold.
const LARGE: usize = 64 << 20;

/// A connection on which one request was answered and a large one is stuck.
struct Stuck {
    endpoint: Secure,
    transport: Arc<Transport>,
    large: JoinHandle<String>,
    /// The endpoint goes on reading.
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
                while let Some(Ok((_request, mut respond))) = connection.accept().await {
                    number += 1;
                    if number == 2 {
                        stops.send(()).unwrap();
                        goes_on.take().unwrap().await.unwrap();
                    }
                    let head = http::Response::builder().status(204).body(()).unwrap();
                    respond.send_response(head, true).unwrap();
                }
            }
        })
        .await;
        let transport = Arc::new(endpoint.transport());
        check(&post(endpoint.url()).through(&transport).await, "answered 204");
        let (large, through) = (post(endpoint.url()).body(vec![b'x'; LARGE]), Arc::clone(&transport));
        let large = tokio::spawn(async move { brief(&large.through(&through).await) });
        stopped.recv().await.unwrap();
        // Whatever of it the system takes, it has taken then.
        for _ in 0..100 {
            all_events_are_seen().await;
        }
        Self { endpoint, transport, large, go_on }
    }

    /// The large request is answered over the one connection, and nothing else came.
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
