use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any step takes; after this a test fails.
pub(crate) const HANGS: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        pairs.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    try_connect(address).unwrap()
}

fn try_connect(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect(address).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(HANGS)).ok()?;
    stream.set_write_timeout(Some(HANGS)).ok()?;
    Some(stream)
}

/// Reads until the connection ends; `None` without an answer.
pub(crate) fn answer(mut stream: TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

/// Without the empty line at its end.
pub(crate) fn head(method: &str, path: &str, headers: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n").into_bytes();
    for (name, value) in headers {
        head.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    head
}

pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, Vec<u8>)],
    body: &[u8],
) -> Answer {
    try_request(address, method, path, headers, body).expect("an answer")
}

pub(crate) fn try_request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, Vec<u8>)],
    body: &[u8],
) -> Option<Answer> {
    let mut bytes = head(method, path, headers);
    bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).into_bytes());
    bytes.extend(body);
    let mut stream = try_connect(address)?;
    stream.write_all(&bytes).ok()?;
    answer(stream)
}
