use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use crate::transport::endpoint::{Connection, Endpoint};
use crate::transport::rig::{LONG, SHORT, brief, check, post, transport};

#[tokio::test]
async fn an_endpoint_that_says_nothing_is_silent_at_the_deadline() {
    let endpoint = Endpoint::start(|mut connection| async move {
        connection.request().await.unwrap();
        let _ = connection.end().await;
    })
    .await;
    check(&post(endpoint.url()).deadline(SHORT).through(&transport()).await, "silent deadline");
    assert_eq!(endpoint.requests(), 1);
}

async fn drip(connection: &mut Connection, text: &str) {
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    for byte in text.chars().cycle() {
        ticks.tick().await;
        let mut buffer = [0; 4];
        let written = tokio::io::AsyncWriteExt::write_all(
            &mut connection.socket,
            byte.encode_utf8(&mut buffer).as_bytes(),
        );
        if written.await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn an_endpoint_that_drips_is_silent_at_the_deadline() {
    for begun in [
        "",
        "HTTP/1.1 200 OK\r\nx: ",
        "HTTP/1.1 200 OK\r\ncontent-length: 60000\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;x=",
    ] {
        let endpoint = Endpoint::start(move |mut connection| async move {
            connection.request().await.unwrap();
            connection.write(begun).await;
            drip(&mut connection, if begun.is_empty() { "HTTP/1.1 100 Continue\r\n\r\n" } else { "x" }).await;
        })
        .await;
        let made = post(endpoint.url()).deadline(SHORT).through(&transport()).await;
        assert_eq!(brief(&made), "silent deadline", "{begun:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_whole_is_no_answer() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(500));
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(100_000));
    let rows = [
        ("", "silent closed"),
        ("H", "silent closed"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n", "silent closed"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "silent half_answer"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhalf", "silent half_answer"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzzz\r\n", "silent half_answer"),
        ("HTTP/1.1 200 OK\r\ncontent-length: one\r\n\r\n", "silent not_http"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", "silent not_http"),
        ("SSH-2.0-OpenSSH_9.6\r\n", "silent not_http"),
        ("\u{16}\u{3}\u{1}\0\0\0\0\0\0\0\0\0\0\0\0\0", "silent not_http"),
        (many.leak(), "silent not_http"),
        (long.leak(), "silent not_http"),
    ];
    for (answer, expected) in rows {
        let endpoint = Endpoint::start(move |mut connection| async move {
            connection.request().await.unwrap();
            connection.write(answer).await;
        })
        .await;
        let made = post(endpoint.url()).through(&transport()).await;
        assert_eq!(brief(&made), expected, "{answer:.60?}");
        assert_eq!((endpoint.connections(), endpoint.requests()), (1, 1), "{answer:.60?}");
    }
}

#[tokio::test]
async fn a_reset_after_reading_is_silent() {
    let endpoint = Endpoint::start(|mut connection| async move {
        connection.request().await.unwrap();
        connection.reset();
    })
    .await;
    check(&post(endpoint.url()).through(&transport()).await, "silent broken");
    assert_eq!((endpoint.connections(), endpoint.requests()), (1, 1));
}

#[tokio::test]
async fn a_reset_before_reading_is_silent_for_bytes_have_left() {
    let endpoint = Endpoint::start(|connection| async move {
        connection.socket.readable().await.unwrap();
        connection.reset();
    })
    .await;
    check(&post(endpoint.url()).through(&transport()).await, "silent broken");
    assert_eq!(endpoint.connections(), 1);
}

#[tokio::test]
async fn a_request_that_was_given_up_does_not_arrive_later() {
    let (give, mut given) = mpsc::unbounded_channel();
    let endpoint = Endpoint::start(move |connection| {
        let give = give.clone();
        async move { give.send(connection).unwrap() }
    })
    .await;
    // A part is unsent at the deadline.
    let body = vec![b'x'; 64 << 20];
    let made = post(endpoint.url()).body(body.clone()).deadline(SHORT).through(&transport()).await;
    check(&made, "silent deadline");
    let mut connection = given.recv().await.unwrap();
    let mut arrived = Vec::new();
    let ended = connection.socket.read_to_end(&mut arrived).await;
    assert!(ended.is_err(), "the endpoint must see that the request was broken off, after {}", arrived.len());
    assert!(arrived.len() < body.len());
}

#[tokio::test]
async fn a_dropped_attempt_closes_its_connection() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let endpoint = Endpoint::start(move |mut connection| {
        let tell = tell.clone();
        async move {
            connection.request().await.unwrap();
            tell.send("came").unwrap();
            tell.send(if connection.end().await.is_err() { "was reset" } else { "ended" }).unwrap();
        }
    })
    .await;
    let transport = transport();
    let post = post(endpoint.url());
    let attempt = tokio::spawn(async move {
        let _ = post.through(&transport).await;
        transport
    });
    assert_eq!(told.recv().await, Some("came"));
    attempt.abort();
    assert_eq!(told.recv().await, Some("was reset"));
}

#[tokio::test]
async fn an_early_answer_to_a_long_request_is_an_answer_or_silence_but_never_unsent() {
    let endpoint = Endpoint::start(|mut connection| async move {
        connection.socket.readable().await.unwrap();
        connection.write("HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        let _ = connection.end().await;
    })
    .await;
    let made = post(endpoint.url()).body(vec![b'x'; 16 << 20]).deadline(LONG).through(&transport()).await;
    check(&made, "answered 413");
}
