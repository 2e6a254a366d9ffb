//! Minimal clients: they write prepared requests, and read no more of each answer than necessary.

use std::net::SocketAddr;
use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) async fn rate(server: SocketAddr, requests: Vec<Vec<Vec<u8>>>) -> f64 {
    let count: usize = requests.iter().map(Vec::len).sum();
    let mut streams = Vec::new();
    for requests in requests {
        streams.push((TcpStream::connect(server).await.expect("it listens"), requests));
    }
    let begun = Instant::now();
    let clients: Vec<_> =
        streams.into_iter().map(|(stream, requests)| tokio::spawn(talk(stream, requests))).collect();
    for client in clients {
        client.await.expect("every request is answered well");
    }
    count as f64 / begun.elapsed().as_secs_f64()
}

async fn talk(mut stream: TcpStream, requests: Vec<Vec<u8>>) {
    stream.set_nodelay(true).expect("a socket has that option");
    let mut answer = [0; 1_024];
    for request in requests {
        stream.write_all(&request).await.expect("it reads");
        let mut length = 0;
        while !answer[..length].ends_with(b"\r\n\r\n") {
            let read = stream.read(&mut answer[length..]).await.expect("it answers");
            assert!(read > 0, "it hung up");
            length += read;
        }
        assert!(answer.starts_with(b"HTTP/1.1 204"), "it refused: {}", String::from_utf8_lossy(&answer));
    }
}
