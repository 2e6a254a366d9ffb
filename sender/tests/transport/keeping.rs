use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use hookproof_sender::engine::LaneId;
use hookproof_sender::transport::{AttemptResult, Settings, Transport};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use crate::transport::endpoint::Endpoint;
use crate::transport::rig::{all_events_are_seen, brief, check, lenient, post, transport};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn a_connection_serves_one_request_after_another() {
    let endpoint = Endpoint::answering(OK).await;
    let transport = transport();
    for _ in 0..5 {
        check(&post(endpoint.url()).through(&transport).await, "answered 200");
    }
    assert_eq!((endpoint.connections(), endpoint.requests()), (1, 5));
    assert_eq!(transport.connections(LaneId(1)), 1);
}

#[tokio::test]
async fn a_connection_is_kept_whatever_form_its_answers_have() {
    for answer in [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n",
        "HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;x\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x\r\n\r\n2\r\nok\r\n0\r\nx: y\r\n\r\n",
    ] {
        for pieces in [answer.len(), 1] {
            let endpoint = Endpoint::start(move |mut connection| async move {
                while connection.request().await.is_some() {
                    for piece in answer.as_bytes().chunks(pieces) {
                        connection.socket.write_all(piece).await.unwrap();
                        tokio::task::yield_now().await;
                    }
                }
            })
            .await;
            let transport = transport();
            for _ in 0..3 {
                let made = post(endpoint.url()).through(&transport).await;
                assert!(matches!(made, AttemptResult::Answered(_)), "{answer:?} {made:?}");
            }
            assert_eq!((endpoint.connections(), endpoint.requests()), (1, 3), "{answer:?} in {pieces}");
        }
    }
}

#[tokio::test]
async fn a_connection_is_not_kept_against_its_endpoints_will() {
    for answer in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        // Surplus bytes must not count as the answer to the next request.
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 500 Not Yours\r\ncontent-length: 0\r\n\r\n",
    ] {
        let endpoint = Endpoint::answering(answer).await;
        let transport = transport();
        for _ in 0..2 {
            check(&post(endpoint.url()).through(&transport).await, "answered 200");
        }
        assert_eq!((endpoint.connections(), endpoint.requests()), (2, 2), "{answer}");
    }
}

/// The runtime has no time to notice. After one lost request, the transport checks the socket itself.
#[tokio::test]
async fn an_endpoint_that_ends_its_connections_unseen_costs_one_request() {
    const LIVES: usize = 4;

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (go_on, told) = std::sync::mpsc::channel();
    let (tell, done) = std::sync::mpsc::channel();
    let endpoint = std::thread::spawn(move || {
        for _ in 0..LIVES {
            let (mut socket, _) = listener.accept().unwrap();
            assert!(socket.read(&mut [0; 4096]).unwrap() > 0);
            socket.write_all(OK.as_bytes()).unwrap();
            told.recv().unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
            tell.send(()).unwrap();
        }
    });
    let transport = transport();
    for life in 0..LIVES {
        check(&post(&url).through(&transport).await, "answered 200");
        // No other task runs meanwhile.
        go_on.send(()).unwrap();
        done.recv().unwrap();
        if life == 0 {
            let made = brief(&post(&url).through(&transport).await);
            assert!(made.starts_with("silent "), "{made}");
        }
    }
    endpoint.join().unwrap();
}

/// Surplus bytes come with the answer, then later, when the runtime has no time to notice.
#[tokio::test]
async fn an_unsolicited_answer_is_no_answer_once_detected() {
    const UNASKED: &str = "HTTP/1.1 500 Not Yours\r\ncontent-length: 0\r\n\r\n";

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (go_on, told) = std::sync::mpsc::channel();
    let (tell, done) = std::sync::mpsc::channel();
    let endpoint = std::thread::spawn(move || {
        for at_once in [true, false, false] {
            let (mut socket, _) = listener.accept().unwrap();
            assert!(socket.read(&mut [0; 4096]).unwrap() > 0);
            if at_once {
                socket.write_all(format!("{OK}{UNASKED}").as_bytes()).unwrap();
            } else {
                socket.write_all(OK.as_bytes()).unwrap();
                told.recv().unwrap();
                socket.write_all(UNASKED.as_bytes()).unwrap();
                tell.send(()).unwrap();
            }
        }
    });
    let transport = transport();
    check(&post(&url).through(&transport).await, "answered 200");
    for _ in 0..2 {
        check(&post(&url).through(&transport).await, "answered 200");
        go_on.send(()).unwrap();
        done.recv().unwrap();
    }
    endpoint.join().unwrap();
}

#[tokio::test]
async fn a_kept_connection_that_died_unused_costs_no_attempt() {
    for with_reset in [false, true] {
        let (tell, mut told) = mpsc::unbounded_channel();
        let endpoint = Endpoint::start(move |mut connection| {
            let tell = tell.clone();
            async move {
                connection.request().await.unwrap();
                connection.write(OK).await;
                if with_reset {
                    connection.reset();
                } else {
                    drop(connection);
                }
                tell.send(()).unwrap();
            }
        })
        .await;
        let transport = transport();
        for requests in 1..4 {
            check(&post(endpoint.url()).through(&transport).await, "answered 200");
            told.recv().await.unwrap();
            all_events_are_seen().await;
            assert_eq!((endpoint.connections(), endpoint.requests()), (requests, requests));
        }
    }
}

#[tokio::test]
async fn a_request_that_meets_the_endpoints_closing_is_silent_and_not_sent_again() {
    for with_reset in [false, true] {
        let endpoint = Endpoint::start(move |mut connection| async move {
            connection.request().await.unwrap();
            connection.write(OK).await;
            // As if it had closed the moment before.
            if with_reset {
                connection.socket.readable().await.unwrap();
                connection.reset();
            } else {
                connection.request().await.unwrap();
            }
        })
        .await;
        let transport = transport();
        check(&post(endpoint.url()).through(&transport).await, "answered 200");
        let made = post(endpoint.url()).through(&transport).await;
        check(&made, if with_reset { "silent broken" } else { "silent closed" });
        assert_eq!(endpoint.connections(), 1);
        assert_eq!(endpoint.requests(), if with_reset { 1 } else { 2 });
    }
}

async fn reporting() -> (Endpoint, mpsc::UnboundedReceiver<(usize, bool)>) {
    let (tell, told) = mpsc::unbounded_channel();
    let endpoint = Endpoint::start(move |mut connection| {
        let tell = tell.clone();
        async move {
            let number = connection.number;
            while connection.request().await.is_some() {
                connection.write(OK).await;
            }
            tell.send((number, connection.end().await.is_ok())).unwrap();
        }
    })
    .await;
    (endpoint, told)
}

#[tokio::test]
async fn an_idle_connection_is_closed_in_order_after_a_while() {
    let (endpoint, mut ended) = reporting().await;
    let settings = Settings { idle_max: Duration::from_millis(50), ..Settings::default() };
    let transport = Transport::new(settings, lenient());
    check(&post(endpoint.url()).through(&transport).await, "answered 200");
    assert_eq!(ended.recv().await, Some((0, true)));
    assert_eq!(transport.connections(LaneId(1)), 0);
}

#[tokio::test]
async fn a_connection_that_has_been_idle_for_too_long_is_not_used_even_if_it_is_still_there() {
    let (endpoint, mut ended) = reporting().await;
    let settings = Settings { idle_max: Duration::ZERO, ..Settings::default() };
    let transport = Transport::new(settings, lenient());
    for number in 0..3 {
        check(&post(endpoint.url()).through(&transport).await, "answered 200");
        assert_eq!(ended.recv().await, Some((number, true)));
    }
}

#[tokio::test]
async fn connections_end_with_their_lane_and_with_the_transport() {
    let (endpoint, mut ended) = reporting().await;
    let transport = transport();
    for lane in [1, 2] {
        check(&post(endpoint.url()).lane(lane).through(&transport).await, "answered 200");
    }
    transport.close(LaneId(1));
    assert_eq!(ended.recv().await, Some((0, true)));
    drop(transport);
    assert_eq!(ended.recv().await, Some((1, true)));
}

#[tokio::test]
async fn a_target_that_moves_leaves_no_connection_behind() {
    let (before, mut ended) = reporting().await;
    let after = Endpoint::answering(OK).await;
    let transport = transport();
    check(&post(before.url()).through(&transport).await, "answered 200");
    check(&post(after.url()).through(&transport).await, "answered 200");
    assert_eq!(ended.recv().await, Some((0, true)));
    assert_eq!((before.requests(), after.requests()), (1, 1));
    assert_eq!(transport.connections(LaneId(1)), 1);
}

#[tokio::test]
async fn an_attempt_that_outlasts_a_move_of_its_target_leaves_no_connection_behind_either() {
    let (give, mut given) = mpsc::unbounded_channel();
    let before = Endpoint::start(move |mut connection| {
        let give = give.clone();
        async move {
            connection.request().await.unwrap();
            give.send(connection).unwrap();
        }
    })
    .await;
    let after = Endpoint::answering(OK).await;
    let transport = Arc::new(transport());
    let (through, outlasting) = (Arc::clone(&transport), post(before.url()));
    let outlasting = tokio::spawn(async move { brief(&outlasting.through(&through).await) });
    let mut connection = given.recv().await.unwrap();
    check(&post(after.url()).through(&transport).await, "answered 200");
    connection.write(OK).await;
    assert_eq!(outlasting.await.unwrap(), "answered 200");
    assert!(connection.request().await.is_none(), "the connection must be closed");
    check(&post(after.url()).through(&transport).await, "answered 200");
    assert_eq!((after.connections(), after.requests()), (1, 2));
}

#[tokio::test]
async fn another_path_of_the_same_endpoint_shares_its_connections() {
    let endpoint = Endpoint::answering(OK).await;
    let transport = transport();
    check(&post(endpoint.url()).through(&transport).await, "answered 200");
    check(&post(format!("{}/other", endpoint.url())).through(&transport).await, "answered 200");
    assert_eq!(endpoint.connections(), 1);
}
