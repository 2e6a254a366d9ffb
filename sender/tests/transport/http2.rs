use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use hookproof_sender::engine::{Outcome, StoreTime};
use hookproof_sender::sign::Profile;
use hookproof_sender::store::command::{Details, KeptAnswer};
use hookproof_sender::transport::{Roots, RootsError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

use crate::transport::endpoint::Endpoint;
use crate::transport::rig::{
    LONG, SHORT, TOKEN, all_events_are_seen, brief, check, permit, poll_once, post, transport,
};
use crate::transport::secure::Secure;

type Http2Request = (http::Request<RecvStream>, SendResponse<Bytes>);

async fn handing_over(at_once: u32) -> (Secure, mpsc::UnboundedReceiver<Http2Request>) {
    let (give, given) = mpsc::unbounded_channel();
    let endpoint = Secure::start(&["h2"], move |tls| {
        let give = give.clone();
        async move {
            let mut builder = h2::server::Builder::new();
            let mut connection = builder.max_concurrent_streams(at_once).handshake(tls).await.unwrap();
            while let Some(Ok(asked)) = connection.accept().await {
                give.send(asked).unwrap();
            }
        }
    })
    .await;
    (endpoint, given)
}

fn answer(status: u16, (_, mut respond): Http2Request) {
    let head = http::Response::builder().status(status).body(()).unwrap();
    respond.send_response(head, true).unwrap();
}

async fn break_off((_, mut respond): Http2Request) {
    let mut stream = respond.send_response(http::Response::new(()), false).unwrap();
    stream.send_data(Bytes::from(vec![b'x'; 40_000]), false).unwrap();
    // Capacity returns once the peer has read the data.
    stream.reserve_capacity(40_000);
    while stream.capacity() < 40_000 {
        poll_fn(|cx| stream.poll_capacity(cx)).await.unwrap().unwrap();
    }
    stream.send_reset(Reason::INTERNAL_ERROR);
}

async fn answering() -> Secure {
    let (endpoint, mut given) = handing_over(100).await;
    tokio::spawn(async move {
        while let Some(asked) = given.recv().await {
            answer(204, asked);
        }
    });
    endpoint
}

#[tokio::test]
async fn http2_is_spoken_with_whom_knows_it_and_carries_the_same() {
    let (endpoint, mut given) = handing_over(100).await;
    let transport = endpoint.transport();
    let body = vec![b'x'; 300_000];
    let post = post(endpoint.url()).extra(&["X-Team: orders"]).body(body.clone());
    let serve = async {
        let (request, respond) = given.recv().await.unwrap();
        let (head, mut stream) = request.into_parts();
        let mut arrived = Vec::new();
        while let Some(data) = stream.data().await {
            let data = data.unwrap();
            stream.flow_control().release_capacity(data.len()).unwrap();
            arrived.extend_from_slice(&data);
        }
        assert!(arrived == body);
        answer(202, (http::Request::new(stream), respond));
        head
    };
    let (made, head) = tokio::join!(post.through(&transport), serve);
    check(&made, "answered 202");
    assert_eq!(
        (head.method.as_str(), head.uri.to_string()),
        ("POST", format!("{}/hooks?token={TOKEN}", endpoint.url()))
    );
    let header = |name: &str| head.headers[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "application/json");
    assert_eq!(header("content-length"), "300000");
    assert_eq!(header("user-agent"), concat!("Hookproof/", env!("CARGO_PKG_VERSION")));
    assert_eq!(header("x-team"), "orders");
    assert_eq!(header("x-github-event"), "video.trending");
}

#[tokio::test]
async fn the_end_of_a_query_that_only_this_request_has_is_sent_over_both_protocols() {
    const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let path = format!("/hooks?token={TOKEN}&bodySHA256={NOTHING}");
    let (endpoint, mut given) = handing_over(100).await;
    let asked = post(endpoint.url()).signed_as(Profile::Twilio);
    let serve = async {
        let asked = given.recv().await.unwrap();
        let uri = asked.0.uri().to_string();
        answer(204, asked);
        uri
    };
    let secure = endpoint.transport();
    let (_, uri) = tokio::join!(asked.through(&secure), serve);
    assert_eq!(uri, format!("{}{path}", endpoint.url()));
    let (tell, mut told) = mpsc::unbounded_channel();
    let plain = Endpoint::start(move |mut connection| {
        let tell = tell.clone();
        async move {
            tell.send(connection.request().await.unwrap()).unwrap();
            connection.write("HTTP/1.1 204 No Content\r\n\r\n").await;
        }
    })
    .await;
    let asked = post(plain.url()).signed_as(Profile::Twilio);
    check(&asked.through(&transport()).await, "answered 204");
    let request = String::from_utf8(told.recv().await.unwrap()).unwrap();
    assert!(request.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{request}");
}

#[tokio::test]
async fn interim_answers_are_read_up_to_a_bound() {
    for (interim, expected) in [(100, "answered 204"), (101, "silent not_http")] {
        let (endpoint, mut given) = handing_over(100).await;
        tokio::spawn(async move {
            while let Some((request, mut respond)) = given.recv().await {
                for _ in 0..interim {
                    let head = http::Response::builder().status(103).header("link", "x").body(()).unwrap();
                    respond.send_informational(head).unwrap();
                }
                answer(204, (request, respond));
            }
        });
        check(&post(endpoint.url()).through(&endpoint.transport()).await, expected);
    }
}

#[tokio::test]
async fn a_kept_connection_outlives_what_is_for_tls_alone() {
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

    for (unasked, connections) in
        [(None, 1), (Some(&b"HTTP/1.1 500 Not Yours\r\ncontent-length: 0\r\n\r\n"[..]), 3)]
    {
        let (tell, mut told) = mpsc::unbounded_channel();
        let answered = Arc::new(Notify::new());
        let heard = Arc::clone(&answered);
        let endpoint = Secure::start(&["http/1.1"], move |mut tls| {
            let (tell, heard) = (tell.clone(), Arc::clone(&heard));
            async move {
                // One read holds a whole request.
                while tls.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {
                    tls.write_all(OK).await.unwrap();
                    heard.notified().await;
                    tls.get_mut().1.refresh_traffic_keys().unwrap();
                    tls.write_all(unasked.unwrap_or_default()).await.unwrap();
                    tls.flush().await.unwrap();
                    tell.send(()).unwrap();
                }
            }
        })
        .await;
        let transport = endpoint.transport();
        // From here on the lane checks its connections before use.
        let cuts = Endpoint::start(|mut connection| async move { drop(connection.request().await) }).await;
        check(&post(cuts.url()).through(&transport).await, "silent closed");
        for _ in 0..3 {
            check(&post(endpoint.url()).through(&transport).await, "answered 200");
            answered.notify_one();
            told.recv().await.unwrap();
        }
        assert_eq!(endpoint.connections(), connections);
    }
}

#[tokio::test]
async fn attempts_share_a_connection() {
    let endpoint = answering().await;
    let transport = Arc::new(endpoint.transport());
    check(&post(endpoint.url()).through(&transport).await, "answered 204");
    let mut attempts = JoinSet::new();
    for _ in 0..50 {
        let (transport, post) = (Arc::clone(&transport), post(endpoint.url()));
        attempts.spawn(async move { brief(&post.through(&transport).await) });
    }
    assert_eq!(attempts.join_all().await, ["answered 204"; 50]);
    assert_eq!(endpoint.connections(), 1);
}

#[tokio::test]
async fn as_many_requests_share_a_connection_as_the_endpoint_allows() {
    let (endpoint, mut given) = handing_over(2).await;
    let transport = Arc::new(endpoint.transport());
    let mut attempts = JoinSet::new();
    let mut attempt = |connections_max| {
        let (transport, post) =
            (Arc::clone(&transport), post(endpoint.url()).connections_max(connections_max));
        attempts.spawn(async move { brief(&post.through(&transport).await) });
    };
    attempt(2);
    answer(204, given.recv().await.unwrap());
    // It reveals how many streams the endpoint allows.
    let mut held = Vec::new();
    for _ in 0..4 {
        attempt(2);
        held.push(given.recv().await.unwrap());
    }
    assert_eq!(endpoint.connections(), 2);
    attempt(2);
    answer(204, held.pop().unwrap());
    held.push(given.recv().await.unwrap());
    held.into_iter().for_each(|asked| answer(204, asked));
    assert_eq!(attempts.join_all().await, ["answered 204"; 6]);
    assert_eq!(endpoint.connections(), 2);
}

#[tokio::test]
async fn a_connection_on_which_one_request_met_silence_takes_no_further_one() {
    let (endpoint, mut given) = handing_over(100).await;
    let transport = endpoint.transport();
    check(&post(endpoint.url()).deadline(SHORT).through(&transport).await, "silent deadline");
    let _held = given.recv().await.unwrap();
    let next = post(endpoint.url());
    let (made, ()) =
        tokio::join!(next.through(&transport), async { answer(204, given.recv().await.unwrap()) });
    check(&made, "answered 204");
    assert_eq!(endpoint.connections(), 2);
}

#[tokio::test]
async fn a_request_that_was_given_up_does_not_arrive_later_even_while_others_share_its_connection() {
    let (endpoint, mut given) = handing_over(100).await;
    let transport = Arc::new(endpoint.transport());
    let (patient, through) = (post(endpoint.url()), Arc::clone(&transport));
    let patient = tokio::spawn(async move { brief(&patient.through(&through).await) });
    let held = given.recv().await.unwrap();
    let long = post(endpoint.url()).body(vec![b'x'; 1 << 20]).deadline(SHORT);
    check(&long.through(&transport).await, "silent deadline");
    let (request, _respond) = given.recv().await.unwrap();
    let mut body = request.into_body();
    let mut arrived = 0;
    let ended = loop {
        match body.data().await {
            Some(Ok(data)) => {
                arrived += data.len();
                body.flow_control().release_capacity(data.len()).unwrap();
            }
            Some(Err(error)) => break error,
            None => panic!("the request came whole"),
        }
    };
    assert_eq!(ended.reason(), Some(Reason::CANCEL));
    assert!(arrived < 100_000, "{arrived} bytes are more than were under way");
    answer(204, held);
    assert_eq!(patient.await.unwrap(), "answered 204");
    assert_eq!(endpoint.connections(), 1);
}

#[tokio::test]
async fn an_answer_before_the_end_of_the_request_ends_the_request() {
    let (endpoint, mut given) = handing_over(100).await;
    let transport = endpoint.transport();
    for _ in 0..3 {
        let serve = async {
            let (request, mut respond) = given.recv().await.unwrap();
            let refusal = http::Response::builder().status(413).body(()).unwrap();
            respond.send_response(refusal, true).unwrap();
            let mut body = request.into_body();
            // Never released, so the rest waits in the sender.
            while let Some(Ok(_)) = body.data().await {}
            poll_fn(|cx| respond.poll_reset(cx)).await.unwrap()
        };
        let post = post(endpoint.url()).body(vec![b'x'; 1 << 20]);
        let (made, reason) = tokio::join!(post.through(&transport), serve);
        check(&made, "answered 413");
        assert_eq!(reason, Reason::CANCEL);
    }
    assert_eq!(endpoint.connections(), 1);
}

#[tokio::test]
async fn a_stream_that_the_endpoint_resets_is_silent_even_if_it_says_that_it_did_nothing() {
    let (endpoint, mut given) = handing_over(100).await;
    let transport = endpoint.transport();
    for reason in [Reason::REFUSED_STREAM, Reason::INTERNAL_ERROR, Reason::NO_ERROR] {
        let serve = async { given.recv().await.unwrap().1.send_reset(reason) };
        let post = post(endpoint.url());
        let (made, ()) = tokio::join!(post.through(&transport), serve);
        check(&made, "silent broken");
    }
}

#[tokio::test]
async fn a_stream_that_the_endpoint_resets_costs_the_others_on_its_connection_nothing() {
    for (begins_to_answer, expected) in [(false, "silent broken"), (true, "silent half_answer")] {
        let (endpoint, mut given) = handing_over(100).await;
        let transport = Arc::new(endpoint.transport());
        let (patient, through) = (post(endpoint.url()), Arc::clone(&transport));
        let patient = tokio::spawn(async move { brief(&patient.through(&through).await) });
        let held = given.recv().await.unwrap();
        // A request that could still leave would end its connection at once.
        let reset = post(endpoint.url()).late_max(Duration::ZERO);
        let serve = async {
            let mut asked = given.recv().await.unwrap();
            if begins_to_answer {
                break_off(asked).await;
            } else {
                asked.1.send_reset(Reason::INTERNAL_ERROR);
            }
        };
        let (made, ()) = tokio::join!(reset.through(&transport), serve);
        check(&made, expected);
        answer(204, held);
        assert_eq!(patient.await.unwrap(), "answered 204", "{expected}");
        assert_eq!(endpoint.connections(), 1);
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_silent() {
    let (endpoint, mut given) = handing_over(100).await;
    let transport = endpoint.transport();
    let post = post(endpoint.url());
    let (made, ()) =
        tokio::join!(post.through(&transport), async { break_off(given.recv().await.unwrap()).await });
    check(&made, "silent half_answer");
}

#[tokio::test]
async fn of_a_huge_answer_the_status_counts_and_the_connection_goes_on() {
    let (endpoint, mut given) = handing_over(100).await;
    let transport = endpoint.transport();
    for _ in 0..3 {
        let serve = async {
            let (_, mut respond) = given.recv().await.unwrap();
            let head = http::Response::builder().status(500).header("server", "a").body(()).unwrap();
            let mut stream = respond.send_response(head, false).unwrap();
            stream.send_data(Bytes::from(vec![b'x'; 16 << 20]), true).unwrap();
        };
        let (post, mut details) = (post(endpoint.url()), Details::default());
        let request = post.request(permit(LONG));
        let (made, ()) = tokio::join!(transport.attempt(&request, &mut details), serve);
        check(&made, "answered 500 cut");
        assert!(details.first_byte > details.connect, "{details:?}");
        let expected = KeptAnswer { head: "server: a\n".to_owned(), body: vec![b'x'; 2_048], cut: true };
        assert_eq!(details.answer.as_deref(), Some(&expected));
    }
    assert_eq!(endpoint.connections(), 1);
}

#[tokio::test]
async fn a_connection_that_its_endpoint_ends_between_requests_costs_no_attempt() {
    let endpoint = Secure::start(&["h2"], |tls| async move {
        let mut connection = h2::server::handshake(tls).await.unwrap();
        let asked = connection.accept().await.unwrap().unwrap();
        answer(204, asked);
        connection.graceful_shutdown();
        while let Some(Ok(_)) = connection.accept().await {}
    })
    .await;
    let transport = endpoint.transport();
    for connections in 1..4 {
        check(&post(endpoint.url()).through(&transport).await, "answered 204");
        assert_eq!(endpoint.connections(), connections);
        // The last connection ends once all its streams are free.
        while transport.connections(hookproof_sender::engine::LaneId(1)) > 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_connection_that_its_endpoint_is_about_to_end_finishes_what_it_has_and_takes_nothing_more() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let endpoint = Secure::start(&["h2"], move |tls| {
        let tell = tell.clone();
        async move {
            let mut connection = h2::server::handshake(tls).await.unwrap();
            let asked = connection.accept().await.unwrap().unwrap();
            connection.graceful_shutdown();
            tell.send(asked).unwrap();
            while let Some(Ok(_)) = connection.accept().await {}
        }
    })
    .await;
    let transport = Arc::new(endpoint.transport());
    let (first, through) = (post(endpoint.url()), Arc::clone(&transport));
    let first = tokio::spawn(async move { brief(&first.through(&through).await) });
    let held = told.recv().await.unwrap();
    all_events_are_seen().await;
    let second = post(endpoint.url());
    let (made, ()) =
        tokio::join!(second.through(&transport), async { answer(204, told.recv().await.unwrap()) });
    check(&made, "answered 204");
    assert_eq!(endpoint.connections(), 2);
    answer(202, held);
    assert_eq!(first.await.unwrap(), "answered 202");
}

#[tokio::test]
async fn connections_that_their_endpoint_is_about_to_end_cost_no_attempt_however_many_there_are() {
    let (give, mut given) = mpsc::unbounded_channel();
    let (end, ends) = watch::channel(());
    let endpoint = Secure::start(&["h2"], move |tls| {
        let (give, mut ends) = (give.clone(), ends.clone());
        async move {
            ends.mark_unchanged();
            let mut builder = h2::server::Builder::new();
            let mut connection = builder.max_concurrent_streams(2).handshake(tls).await.unwrap();
            loop {
                tokio::select! {
                    asked = connection.accept() => match asked {
                        Some(Ok(asked)) => give.send(asked).unwrap(),
                        Some(Err(_)) | None => return,
                    },
                    Ok(()) = ends.changed() => connection.graceful_shutdown(),
                }
            }
        }
    })
    .await;
    let transport = Arc::new(endpoint.transport());
    let mut attempts = JoinSet::new();
    let attempt = |attempts: &mut JoinSet<String>| {
        let (transport, post) = (Arc::clone(&transport), post(endpoint.url()));
        attempts.spawn(async move { brief(&post.through(&transport).await) });
    };
    attempt(&mut attempts);
    answer(204, given.recv().await.unwrap());
    let mut held = Vec::new();
    for _ in 0..4 {
        attempt(&mut attempts);
        held.push(given.recv().await.unwrap());
    }
    assert_eq!(endpoint.connections(), 2);
    // Each of the two connections has one free stream.
    answer(204, held.remove(2));
    answer(204, held.remove(0));
    for _ in 0..3 {
        assert_eq!(attempts.join_next().await.unwrap().unwrap(), "answered 204");
    }
    end.send(()).unwrap();
    for _ in 0..10 {
        all_events_are_seen().await;
    }
    attempt(&mut attempts);
    tokio::select! {
        made = attempts.join_next() => panic!("{made:?}"),
        asked = given.recv() => answer(204, asked.unwrap()),
    }
    held.into_iter().for_each(|asked| answer(204, asked));
    assert_eq!(attempts.join_all().await, ["answered 204"; 3]);
    assert_eq!(endpoint.connections(), 3);
}

#[tokio::test]
async fn a_request_that_is_taken_back_as_it_is_written_cuts_off_the_others_and_the_endpoint_is_not_to_blame()
{
    let (endpoint, mut given) = handing_over(100).await;
    let transport = Arc::new(endpoint.transport());
    let (patient, through) = (post(endpoint.url()), Arc::clone(&transport));
    let patient = tokio::spawn(async move { patient.through(&through).await });
    let _held = given.recv().await.unwrap();
    let (taken_back, permit) = (post(endpoint.url()), permit(LONG));
    {
        // The connection's task has not run yet.
        let mut attempt = pin!(taken_back.with_permit(&transport, permit.clone()));
        assert!(poll_once(&mut attempt).await.is_pending());
        permit.cancelled.cancel();
        check(&attempt.await, "unsent withdrawn");
    }
    let made = patient.await.unwrap();
    check(&made, "silent cut_off");
    assert!(matches!(made.outcome(StoreTime(0)), Outcome::CutOff));
}

#[tokio::test]
async fn bytes_that_are_no_http2_are_silent() {
    let endpoint = Secure::start(&["h2"], |mut tls| async move {
        tls.write_all(&[0xff; 1_000]).await.unwrap();
        let _ = tls.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let made = post(endpoint.url()).through(&endpoint.transport()).await;
    assert!(brief(&made).starts_with("silent "), "{made:?}");
}

#[tokio::test]
async fn http1_is_spoken_over_tls_with_whom_knows_no_better() {
    for speaks in [&["http/1.1"][..], &[]] {
        let endpoint = Secure::start(speaks, |mut tls| async move {
            let mut buffer = [0; 4_096];
            while matches!(tls.read(&mut buffer).await, Ok(1..)) {
                tls.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
            }
        })
        .await;
        let transport = endpoint.transport();
        for _ in 0..3 {
            check(&post(endpoint.url()).through(&transport).await, "answered 204");
        }
        assert_eq!(endpoint.connections(), 1);
    }
}

#[tokio::test]
async fn an_endpoint_may_close_without_a_farewell() {
    for (answer, expected) in [
        (&b"HTTP/1.1 200 OK\r\n\r\nuntil the end"[..], "answered 200"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "silent half_answer"),
        (b"", "silent closed"),
    ] {
        let endpoint = Secure::start(&[], move |mut tls| async move {
            assert!(tls.read(&mut [0; 4_096]).await.unwrap() > 0);
            tls.write_all(answer).await.unwrap();
            // Closes the socket without TLS's closing message.
            let (socket, _) = tls.into_inner();
            drop(socket);
        })
        .await;
        check(&post(endpoint.url()).through(&endpoint.transport()).await, expected);
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_or_of_somebody_else_is_refused() {
    let endpoint = answering().await;
    check(&post(endpoint.url()).through(&transport()).await, "unsent tls");
    let made = post(format!("https://{}", endpoint.address)).through(&endpoint.transport()).await;
    check(&made, "unsent tls");
    let says = made.failure().unwrap().to_string();
    assert!(says.starts_with("cannot agree on TLS with \"127.0.0.1\": invalid peer certificate"), "{says}");
}

#[test]
fn extra_roots_that_are_none_are_refused() {
    let with = |text: &str| Roots::default().with_pem(text.as_bytes()).unwrap_err();
    assert_eq!(with("no certificate"), RootsError::None);
    let unfit = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(matches!(with(unfit), RootsError::Unfit { number: 1, .. }));
    assert!(matches!(
        with("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"),
        RootsError::Unfit { .. }
    ));
}
