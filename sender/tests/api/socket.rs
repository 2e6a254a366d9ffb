//! What only a real connection shows.

use hookproof_sender::api::{BindError, Token, bind, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::world::{FOREVER, World, listen};

#[tokio::test]
async fn without_a_token_nobody_listens_where_others_can_reach() {
    let token = Token::new("a-token-that-nobody-guesses").unwrap();
    for (address, open) in [("0.0.0.0:0", true), ("[::]:0", true), ("127.0.0.1:0", false)] {
        let address = address.parse().unwrap();
        let refused = matches!(bind(address, None).await, Err(BindError::Open { .. }));
        assert_eq!(refused, open, "{address}");
    }
    assert!(bind("0.0.0.0:0".parse().unwrap(), Some(&token)).await.is_ok());
}

async fn exchange(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    timeout(FOREVER, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_taken_over_a_socket() {
    let world = World::new().await;
    let address = listen(world.router.clone(), std::future::pending()).await;
    let body = r#"{"type":"x","data":1}"#;
    let request = format!(
        "POST /v1/events HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json; charset=utf-8\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    let answer = exchange(&mut stream, &request).await;
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    assert!(answer.contains("\"deliveries\":0"), "{answer}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_long_or_no_http_is_refused_and_hurts_nobody() {
    let world = World::new().await;
    let address = listen(world.router.clone(), std::future::pending()).await;
    let long = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    let many = format!("GET /healthz HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(100));
    for (request, status) in [(&*long, "431"), (&*many, "431"), ("\x16\x03\x01 hello\r\n\r\n", "400")] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The server may answer and close before it has read all.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut head = [0; 12];
        timeout(FOREVER, stream.read_exact(&mut head)).await.unwrap().unwrap();
        assert_eq!(&head, format!("HTTP/1.1 {status}").as_bytes());
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    let well =
        exchange(&mut stream, "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
    assert!(well.starts_with("HTTP/1.1 200 "), "{well}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_told_to_stop_ends_idle_connections_and_takes_no_more() {
    let world = World::new().await;
    let listener = bind("127.0.0.1:0".parse().unwrap(), None).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = oneshot::channel::<()>();
    let stop = async { told.await.unwrap() };
    let server = tokio::spawn(serve(listener, world.router.clone(), stop, FOREVER));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut first = [0; 12];
    timeout(FOREVER, stream.read_exact(&mut first)).await.unwrap().unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    tell.send(()).unwrap();
    assert!(timeout(FOREVER, server).await.unwrap().unwrap(), "in order");
    assert!(TcpStream::connect(address).await.is_err());
    world.stop().await;
}
