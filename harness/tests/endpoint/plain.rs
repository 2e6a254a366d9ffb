//! The cheapest client there is, so that what is measured is the server: one write and one read for each request, and no
//! HTTP but what it takes to see an answer's end.

use std::net::SocketAddr;

use hookproof::run::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// How many requests a server answers on so many connections for so long.
pub(crate) async fn answered(address: SocketAddr, body: &str, connections: usize, lasts_ns: u64) -> u64 {
    let clock = Clock::begun();
    let request = format!(
        "POST / HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut clients = JoinSet::new();
    for _ in 0..connections {
        clients.spawn(client(address, request.clone(), clock.clone(), lasts_ns));
    }
    clients.join_all().await.into_iter().sum()
}

async fn client(address: SocketAddr, request: String, clock: Clock, until: u64) -> u64 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut answered, mut buffer) = (0, vec![0; 4 << 10]);
    while clock.now() < until {
        stream.write_all(request.as_bytes()).await.unwrap();
        // A 204 has no body: the end of its head is its end.
        let mut read = 0;
        while !buffer[..read].ends_with(b"\r\n\r\n") {
            let more = stream.read(&mut buffer[read..]).await.unwrap();
            assert!(more > 0, "the server closed the connection");
            read += more;
        }
        answered += 1;
    }
    answered
}
