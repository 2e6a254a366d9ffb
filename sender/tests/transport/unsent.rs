use std::net::SocketAddr;

use hookproof_sender::guard::{Guard, Target, TargetError};
use hookproof_sender::transport::{Settings, Transport};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::transport::endpoint::Endpoint;
use crate::transport::rig::{SHORT, check, lenient, post, transport};

#[tokio::test]
async fn a_port_where_nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let made = post(format!("http://{address}")).through(&transport()).await;
    check(&made, "unsent connect");
    let says = made.failure().unwrap().to_string();
    assert!(says.starts_with(&format!("cannot connect to {address}: ")), "{says}");
}

#[tokio::test]
async fn a_name_that_does_not_exist() {
    let made = post("http://does-not-exist.invalid").through(&transport()).await;
    check(&made, "unsent unresolved");
    let says = made.failure().unwrap().to_string();
    assert!(says.starts_with("cannot resolve \"does-not-exist.invalid\": "), "{says}");
}

#[tokio::test]
async fn an_address_that_the_guard_refuses() {
    let endpoint = Endpoint::answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    // Private targets were allowed when the target was set.
    let strict = Transport::new(Settings::default(), Guard::strict());
    check(&post(endpoint.url()).through(&strict).await, "unsent address_refused");
    let port = endpoint.address.port();
    check(
        &post(format!("http://[::ffff:127.0.0.1]:{port}")).through(&strict).await,
        "unsent address_refused",
    );
    check(&post(format!("http://localhost:{port}")).through(&strict).await, "unsent address_refused");
    assert_eq!(endpoint.connections(), 0);
}

#[tokio::test]
async fn an_address_without_tls_is_refused_where_https_alone_is_allowed() {
    let endpoint = Endpoint::answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    let guard = lenient().https_only();
    assert_eq!(Target::parse(&endpoint.url(), &guard), Err(TargetError::Unencrypted));
    assert!(Target::parse("https://127.0.0.1/", &guard).is_ok());
    // Plain HTTP was allowed when the target was set.
    let strict = Transport::new(Settings::default(), guard);
    check(&post(endpoint.url()).through(&strict).await, "unsent unencrypted");
    assert_eq!(endpoint.connections(), 0);
}

async fn black_hole() -> (TcpListener, TcpStream) {
    black_hole_at("127.0.0.1:0".parse().unwrap()).await
}

/// Its queue holds only one connection, which fills it.
pub(crate) async fn black_hole_at(address: SocketAddr) -> (TcpListener, TcpStream) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(address).unwrap();
    let listener = socket.listen(0).unwrap();
    let filler = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (listener, filler)
}

#[tokio::test]
async fn an_endpoint_that_takes_no_connection_until_the_connect_deadline() {
    let (listener, _filler) = black_hole().await;
    let url = format!("http://{}", listener.local_addr().unwrap());
    let made = post(&url).connect_deadline(SHORT).through(&transport()).await;
    check(&made, "unsent connect_deadline");
}

#[tokio::test]
async fn an_endpoint_that_takes_no_connection_until_the_total_deadline() {
    let (listener, _filler) = black_hole().await;
    let url = format!("http://{}", listener.local_addr().unwrap());
    check(&post(&url).deadline(SHORT).through(&transport()).await, "unsent connect_deadline");
}

#[tokio::test]
async fn tls_with_an_endpoint_that_does_not_speak_it() {
    let endpoint = Endpoint::start(|mut connection| async move {
        connection.socket.readable().await.unwrap();
        connection.write("HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    let made = post(format!("https://{}", endpoint.address)).through(&transport()).await;
    check(&made, "unsent tls");
}

#[tokio::test]
async fn tls_with_an_endpoint_that_says_nothing() {
    let endpoint = Endpoint::start(|mut connection| async move {
        let _ = connection.end().await;
    })
    .await;
    let url = format!("https://{}", endpoint.address);
    check(&post(url).connect_deadline(SHORT).through(&transport()).await, "unsent connect_deadline");
}
