use std::net::SocketAddr;

use hookproof_sender::api::{BindError, Token, bind, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::api::world::{FOREVER, World, listen};

const TOKEN: &str = "a-token-that-nobody-guesses";

#[tokio::test]
async fn without_a_token_nobody_listens_where_others_can_reach() {
    for (address, open) in [("0.0.0.0:0", true), ("[::]:0", true), ("127.0.0.1:0", false)] {
        let address = address.parse().unwrap();
        let refused = matches!(bind(address, false).await, Err(BindError::Open { .. }));
        assert_eq!(refused, open, "{address}");
    }
    assert!(bind("0.0.0.0:0".parse().unwrap(), true).await.is_ok());
}

async fn exchange(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // The answer may end in a reset.
    let ended = timeout(FOREVER, stream.read_to_end(&mut answer)).await.unwrap();
    assert!(ended.is_ok() || answer.starts_with(b"HTTP/1.1 "), "{ended:?}");
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
        // The server may answer and close before it has read everything.
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
    let listener = bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
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

async fn request(address: SocketAddr, line: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let answer = exchange(&mut stream, &format!("{line}\r\n{headers}connection: close\r\n\r\n")).await;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{answer:?}")), answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_names_no_host_or_another_one_is_refused() {
    let world = World::new().await;
    let address = listen(world.router.clone(), std::future::pending()).await;
    let plain = "GET /v1/status HTTP/1.1";
    let rows: [(&str, &str, u16, &str); 24] = [
        (plain, "host: localhost\r\n", 200, ""),
        (plain, "host: LocalHost:7411\r\n", 200, ""),
        (plain, "host: [::1]:7411\r\n", 200, ""),
        (plain, "host: 127.0.0.1\r\norigin: http://127.0.0.1\r\n", 200, ""),
        ("GET /v1/status HTTP/1.0", "", 200, ""),
        (plain, "", 400, "bad_host"),
        (plain, "host: \r\n", 400, "bad_host"),
        (plain, "host: localhost\r\nhost: localhost\r\n", 400, "bad_host"),
        (plain, "host: localhost\r\nhost: evil.example\r\n", 400, "bad_host"),
        (plain, "host: evil.example\r\nhost: localhost\r\n", 400, "bad_host"),
        (plain, "host: ev\u{ef}l.example\r\n", 400, "bad_host"),
        (plain, "host: evil.example@localhost\r\n", 400, "bad_host"),
        (plain, "host: localhost:evil\r\n", 400, "bad_host"),
        (plain, "host: local host\r\n", 400, "bad_host"),
        (plain, "host: evil.example\r\n", 421, "foreign_host"),
        ("GET /v1/status HTTP/1.0", "host: evil.example\r\n", 421, "foreign_host"),
        // RFC 9112, 3.2.2: the target's authority replaces the header.
        ("GET http://evil.example/v1/status HTTP/1.1", "host: localhost\r\n", 421, "foreign_host"),
        ("GET http://a@localhost/v1/status HTTP/1.1", "host: localhost\r\n", 400, "bad_host"),
        ("GET http://localhost/v1/status HTTP/1.1", "host: evil.example\r\n", 200, ""),
        ("GET http://localhost/v1/status HTTP/1.1", "host: ev il@\r\n", 400, "bad_host"),
        ("GET http://localhost/v1/status HTTP/1.1", "host: localhost:evil\r\n", 400, "bad_host"),
        (plain, "host: localhost\r\norigin: http://ev\u{ef}l.example\r\n", 403, "foreign_origin"),
        (plain, "host: a\r\norigin: http://a\r\n", 421, "foreign_host"),
        (
            plain,
            "host: localhost\r\norigin: http://localhost\r\norigin: http://evil.example\r\n",
            403,
            "foreign_origin",
        ),
    ];
    for (line, headers, status, code) in rows {
        let (found, answer) = request(address, line, headers).await;
        assert!(found == status && answer.contains(code), "{line} {headers:?}: {answer}");
    }
    // Any host is accepted, but one is required.
    let world_with_token = World::with(Some(Token::new(TOKEN).unwrap()), |_| {}).await;
    let address = listen(world_with_token.router.clone(), std::future::pending()).await;
    let token = format!("authorization: Bearer {TOKEN}\r\n");
    assert_eq!(request(address, plain, &format!("host: sender.internal\r\n{token}")).await.0, 200);
    assert_eq!(request(address, plain, &token).await.0, 400);
    assert_eq!(request(address, plain, &format!("host: a\r\nhost: a\r\n{token}")).await.0, 400);
    world.stop().await;
    world_with_token.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_in_a_coding_is_refused_and_the_answer_says_which_is_taken() {
    let world = World::new().await;
    let address = listen(world.router.clone(), std::future::pending()).await;
    let post = "POST /v1/events HTTP/1.1";
    let plain = "host: localhost\r\ncontent-type: application/json\r\n";
    let body = r#"{"type":"x","data":1}"#;
    let rows: [(&str, u16); 8] = [
        ("", 202),
        ("content-encoding: identity\r\n", 202),
        ("content-encoding: Identity\r\n", 202),
        ("content-encoding: gzip\r\n", 415),
        ("content-encoding: identity, gzip\r\n", 415),
        ("content-encoding: identity\r\ncontent-encoding: br\r\n", 415),
        ("content-encoding: \r\n", 415),
        ("content-encoding: gz\u{ef}p\r\n", 415),
    ];
    for (coding, status) in rows {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "{post}\r\n{plain}{coding}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = exchange(&mut stream, &request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{coding:?}: {answer}");
        let says = answer.contains("accept-encoding: identity\r\n") && answer.contains("content-encoding");
        assert_eq!(says, status == 415, "{coding:?}: {answer}");
    }
    for coding in ["gzip, chunked", "chunked\r\ntransfer-encoding: chunked"] {
        let transfer = format!("{plain}transfer-encoding: {coding}\r\nconnection: close\r\n\r\n0\r\n\r\n");
        let mut stream = TcpStream::connect(address).await.unwrap();
        let answer = exchange(&mut stream, &format!("{post}\r\n{transfer}")).await;
        assert!(answer.starts_with("HTTP/1.1 501 "), "{coding:?}: {answer}");
    }
    world.stop().await;
}

const WAITS: &str =
    "expect: 100-continue\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn as_many_slow_bodies_as_there_may_be_connections_keep_nobody_out() {
    const CONNECTIONS_MAX: usize = 1_024;
    let world = World::new().await;
    let address = listen(world.router.clone(), std::future::pending()).await;
    let mut slow = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("POST /v1/events HTTP/1.1\r\nhost: localhost\r\n{WAITS}");
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    for stream in &mut slow {
        let mut goes_on = [0; 25];
        timeout(FOREVER, stream.read_exact(&mut goes_on)).await.unwrap().unwrap();
        assert_eq!(&goes_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(b"{").await.unwrap();
    }
    for _ in 0..3 {
        let (status, answer) = request(address, "GET /v1/status HTTP/1.1", "host: localhost\r\n").await;
        assert_eq!(status, 200, "{answer}");
    }
    // The server dropped this request to make room, or on a slow machine refused it as too slow.
    let mut answer = Vec::new();
    let _ = timeout(FOREVER, slow[0].read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_no_body_is_read_of_a_request_without_it() {
    let world = World::with(Some(Token::new(TOKEN).unwrap()), |_| {}).await;
    let address = listen(world.router.clone(), std::future::pending()).await;
    for path in ["/v1/events", "/v1/subscribers", "/v1/nothing"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{WAITS}");
        // If the server had read the body, its answer would begin with 100.
        let answer = exchange(&mut stream, &head).await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    }
    world.stop().await;
}
