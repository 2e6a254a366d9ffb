//! Serves the latest page on loopback for `GET /`, and closes the connection. A client that sends no request
//! or reads no answer is cut off, and delays no other.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::clock::Clock;
use hookproof_judge::scenario::SECOND;

/// Concurrent connections; further ones are closed at once.
const CONNECTIONS_MAX: usize = 8;
/// The longest head of a request, in bytes.
const HEAD_MAX: usize = 8 << 10;
/// The time limit of a connection.
const WITHIN_NS: u64 = 5 * SECOND;
/// The pause after a failed accept: file descriptors may be short.
const PAUSE_NS: u64 = SECOND / 10;
/// The page may show itself and reload itself.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves until it is dropped.
pub(super) async fn serve(listener: std::net::TcpListener, page: watch::Receiver<Arc<str>>) {
    // The listener worked when it was opened; on an error the page is unavailable.
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let (clock, room) = (Clock::begun(), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            clock.pass(PAUSE_NS).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
        let (clock, page) = (clock.clone(), page.clone());
        tokio::spawn(async move {
            tokio::select! {
                // The client may be gone.
                _ = answer(stream, &page) => {}
                () = clock.pass(WITHIN_NS) => {}
            }
            drop(permit);
        });
    }
}

async fn answer(mut stream: TcpStream, page: &watch::Receiver<Arc<str>>) -> std::io::Result<()> {
    let mut head = Vec::with_capacity(1_024);
    let status = loop {
        match asked(&head) {
            Some(status) => break status,
            None if head.len() >= HEAD_MAX => break "431 Request Header Fields Too Large",
            None => {}
        }
        let mut some = [0; 1_024];
        match stream.read(&mut some).await? {
            0 => return Ok(()),
            length => head.extend_from_slice(&some[..length]),
        }
    };
    let page = page.borrow().clone();
    let body = if status == OK { &*page } else { status };
    let kind = if status == OK { "text/html" } else { "text/plain" };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}; charset=utf-8\r\ncontent-length: {length}\r\n\
         content-security-policy: {POLICY}\r\nx-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\n\
         cache-control: no-store\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

const OK: &str = "200 OK";

/// The status for the request with this head; none while the head is incomplete.
fn asked(head: &[u8]) -> Option<&'static str> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Partial) => return None,
        Err(_) => return Some("400 Bad Request"),
        Ok(httparse::Status::Complete(_)) => {}
    }
    let mut hosts = request.headers.iter().filter(|one| one.name.eq_ignore_ascii_case("host"));
    // Refuses other host names: a foreign name resolved to loopback would let its pages read this one (DNS
    // rebinding).
    let is_here = hosts.next().is_some_and(|host| is_loopback(host.value)) && hosts.next().is_none();
    Some(match (request.method, request.path) {
        _ if !is_here => "421 Misdirected Request",
        (Some("GET"), Some("/")) => OK,
        (Some("GET"), _) => "404 Not Found",
        _ => "405 Method Not Allowed",
    })
}

fn is_loopback(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    if let Ok(address) = host.parse::<std::net::SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let address = name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    address || name.eq_ignore_ascii_case("localhost") || host == "[::1]"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_request_of_this_machine_gets_the_page() {
        let rows = [
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1:4321\r\n\r\n", Some(OK)),
            ("GET / HTTP/1.1\r\nhost: localhost:4321\r\n\r\n", Some(OK)),
            ("GET / HTTP/1.1\r\nhost: [::1]:4321\r\n\r\n", Some(OK)),
            ("GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n", None),
            ("", None),
            ("GET / HTTP/1.1\r\n\r\n", Some("421 Misdirected Request")),
            ("GET / HTTP/1.1\r\nhost: evil.example:4321\r\n\r\n", Some("421 Misdirected Request")),
            (
                "GET / HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n",
                Some("421 Misdirected Request"),
            ),
            ("GET /trace HTTP/1.1\r\nhost: localhost\r\n\r\n", Some("404 Not Found")),
            ("POST / HTTP/1.1\r\nhost: localhost\r\n\r\n", Some("405 Method Not Allowed")),
            ("\u{1}\u{2} / HTTP/1.1\r\n\r\n", Some("400 Bad Request")),
        ];
        for (head, expected) in rows {
            assert_eq!(asked(head.as_bytes()), expected, "{head:?}");
        }
    }
}
