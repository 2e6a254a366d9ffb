use std::io::{Read, Write};
use std::net::TcpStream;

use crate::binary::endpoint::Endpoint;
use crate::input::bystander::Bystander;

type Answer = Box<dyn Fn(&mut TcpStream) -> std::io::Result<()> + Send + Sync>;

fn bytes(bytes: &'static [u8]) -> Answer {
    Box::new(move |stream| {
        stream.write_all(bytes)?;
        Err(std::io::ErrorKind::ConnectionAborted.into())
    })
}

fn endless(head: &'static [u8], again: &'static [u8]) -> Answer {
    Box::new(move |stream| {
        stream.write_all(head)?;
        let again = again.repeat(1_000);
        loop {
            stream.write_all(&again)?;
        }
    })
}

fn hostile() -> Vec<Answer> {
    vec![
        bytes(b""),
        bytes(b"\x00\x01\x02\xff\xfe\r\n\r\n"),
        bytes(b"HTTP/1.1 999999999999 x\r\n\r\n"),
        bytes(b"HTTP/9.7 200 OK\r\n\r\n"),
        bytes(b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n"),
        bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n"),
        bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello"),
        bytes(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n"),
        bytes(b"HTTP/1.1 503 x\r\nretry-after: 99999999999999999999999999\r\ncontent-length: 0\r\n\r\n"),
        bytes(b"HTTP/1.1 429 x\r\nretry-after: -1\r\ncontent-length: 0\r\n\r\n"),
        bytes(b"HTTP/1.1 429 x\r\nretry-after: 1e9\r\ncontent-length: 0\r\n\r\n"),
        bytes(b"HTTP/1.1 503 x\r\nretry-after: Fri, 31 Dec 9999 23:59:59 GMT\r\ncontent-length: 0\r\n\r\n"),
        bytes(b"HTTP/1.1 503 x\r\nretry-after: Thu, 01 Jan 1970 00:00:00 GMT\r\ncontent-length: 0\r\n\r\n"),
        bytes(b"HTTP/1.1 503 x\r\nretry-after: \xff\xfe\r\ndate: yesterday\r\ncontent-length: 0\r\n\r\n"),
        bytes(b"HTTP/1.1 301 x\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n"),
        bytes(b"HTTP/1.1 307 x\r\nlocation: /hook\r\ncontent-length: 0\r\n\r\n"),
        bytes(b"HTTP/1.1 101 x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n"),
        endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        endless(b"HTTP/1.1 200 OK\r\n", b"x-flood: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n"),
        endless(b"HTTP/1.1 200 OK\r\nx: ", b"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"),
        endless(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"5\r\nhello\r\n"),
        endless(b"HTTP/1.1 500 OK\r\ncontent-length: 999999999999\r\n\r\n", b"endless "),
        Box::new(|stream| stream.read_to_end(&mut Vec::new()).map(|_| ())),
    ]
}

#[test]
fn endpoints_that_answer_as_none_should_are_attempted_and_disturb_no_other_lane() {
    let (database, serving, bystander) = Bystander::beside();
    let endpoints: Vec<Endpoint> =
        hostile().into_iter().map(|answer| Endpoint::scripted(move |_, stream| answer(stream))).collect();
    let hasty = ["--events", "x", "timeout=1s", "retry.base=10ms", "retry.cap=20ms", "limit.quarantine=10ms"];
    for (number, endpoint) in endpoints.iter().enumerate() {
        database.subscribe(&format!("hostile{number}"), &endpoint.url, &hasty);
    }
    serving.until("/v1/subscribers", |page| page["items"].as_array().unwrap().len() == endpoints.len() + 1);
    for number in 0..5 {
        let event = format!(r#"{{"type":"x","data":{number}}}"#);
        assert_eq!(serving.post("/v1/events", &event).status, 202);
    }
    for (number, endpoint) in endpoints.iter().enumerate() {
        // The endpoint may ask for so long a pause that no second request comes.
        let arrivals = endpoint.wait_for(1);
        assert!(arrivals.iter().all(|arrival| arrival.json()["type"] == "x"), "{number}");
    }
    bystander.did_not_notice(serving);
}
