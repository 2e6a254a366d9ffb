//! A relay's upstream: gives scripted answers, and records requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// The rest of an answer never comes, and the connection stays open.
pub(crate) const STALLS: char = '…';

/// Answers one connection after another, and then stops listening. An empty answer sends nothing, and waits until the
/// relay closes the connection.
pub(crate) fn upstream<A>(answers: A) -> (SocketAddr, Receiver<Request>)
where
    A: IntoIterator<Item = &'static str> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (came, requests) = channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(&stream);
            let mut lines = reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty());
            let line = lines.next().unwrap();
            let headers: Vec<_> = lines
                .map(|line| {
                    line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap()
                })
                .collect();
            let length = headers.iter().find(|(name, _)| name == "content-length");
            let mut body = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap())];
            reader.read_exact(&mut body).unwrap();
            let _ = came.send(Request { line, headers, body });
            (&stream).write_all(answer.trim_end_matches(STALLS).as_bytes()).unwrap();
            if answer.is_empty() || answer.ends_with(STALLS) {
                let _ = reader.read(&mut [0]);
            }
        }
    });
    (address, requests)
}
