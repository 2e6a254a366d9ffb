//! The sender runs in the test's thread, so the test compares its processor time with and without the flood.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use hookproof_sender::transport::{ANSWER_BYTES_MAX, Transport};
use rustix::time::{ClockId, clock_gettime};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio::sync::mpsc;

use crate::transport::rig::{brief, check, post, transport};
use crate::transport::secure::{config, trusting};

const DELIVERIES: usize = 300;
/// Sent if the sender never ends the connection.
const FLOOD_BYTES: usize = 64 << 20;
/// A multiple of the deliveries' processor time.
const RATIO_MAX: u128 = 50;

const ALL_SENT: &str = "all was sent";

const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const SETTINGS_ACK: &[u8] = &[0, 0, 0, 4, 1, 0, 0, 0, 0];
const PING: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
const UNKNOWN: &[u8] = &[0, 0, 0, 0xfa, 0, 0, 0, 0, 0];
const WINDOW_UPDATE: &[u8] = &[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const EMPTY_DATA: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 1];

type Tls = StreamOwned<ServerConnection, TcpStream>;

type Script = Arc<dyn Fn(Line) -> io::Result<()> + Send + Sync>;

enum Line {
    Plain(TcpStream),
    Tls(Box<Tls>),
}

impl Read for Line {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.read(bytes),
            Self::Tls(tls) => tls.read(bytes),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(tcp) => tcp.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

impl Line {
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => &tls.sock,
        }
    }

    /// Fails once the sender ends the connection. It discards the sender's bytes, so that the sender can go on
    /// writing.
    fn flood(&mut self, bytes: &[u8], at_once: usize) -> io::Result<()> {
        let mut answers = self.tcp().try_clone()?;
        thread::spawn(move || io::copy(&mut answers, &mut io::sink()));
        let piece = bytes.repeat((at_once / bytes.len()).max(1));
        for _ in 0..FLOOD_BYTES.div_ceil(piece.len()) {
            self.write_all(&piece)?;
        }
        Err(io::Error::other(ALL_SENT))
    }

    fn request(&mut self) -> io::Result<()> {
        let mut request = Vec::new();
        while !request.ends_with(br#"{"id":"evt_1"}"#) {
            let mut piece = [0; 4_096];
            match self.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => request.extend_from_slice(&piece[..count]),
            }
        }
        Ok(())
    }

    fn requests(mut self, mut serve: impl FnMut(&mut Self, u32) -> io::Result<()>) -> io::Result<()> {
        self.read_exact(&mut [0; 24])?;
        self.write_all(SETTINGS)?;
        loop {
            let mut head = [0; 9];
            self.read_exact(&mut head)?;
            let [a, b, c, kind, flags, stream @ ..] = head;
            let length = u32::from_be_bytes([0, a, b, c]);
            io::copy(&mut (&mut self).take(length.into()), &mut io::sink())?;
            match kind {
                4 if flags == 0 => self.write_all(SETTINGS_ACK)?,
                0 | 1 if flags & 1 == 1 => serve(&mut self, u32::from_be_bytes(stream))?,
                _ => {}
            }
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

fn ok(stream: u32, is_whole: bool) -> Vec<u8> {
    frame(1, 4 | u8::from(is_whole), stream, &[0x88])
}

/// Returns the port, and how each connection ended.
fn endpoint(
    tls: Option<Arc<ServerConfig>>,
    script: Script,
) -> (u16, mpsc::UnboundedReceiver<io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = mpsc::unbounded_channel();
    thread::spawn(move || {
        while let Ok((tcp, _)) = listener.accept() {
            let (tls, script, tell) = (tls.clone(), Arc::clone(&script), tell.clone());
            thread::spawn(move || {
                tcp.set_nodelay(true).unwrap();
                let line = match tls {
                    None => Line::Plain(tcp),
                    Some(tls) => {
                        let session = ServerConnection::new(tls).unwrap();
                        Line::Tls(Box::new(StreamOwned::new(session, tcp)))
                    }
                };
                let _ = tell.send(script(line));
            });
        }
    });
    (port, told)
}

fn healthy() -> (String, mpsc::UnboundedReceiver<io::Result<()>>) {
    let script: Script = Arc::new(|mut line| {
        loop {
            line.request()?;
            line.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
        }
    });
    let (port, told) = endpoint(None, script);
    (format!("http://127.0.0.1:{port}"), told)
}

struct Came {
    first: String,
    says: String,
    next: String,
    is_refused: bool,
    /// In hundredths.
    ratio: u128,
}

fn spent() -> u128 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u128::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u128::try_from(time.tv_nsec).unwrap()
}

async fn deliveries(transport: &Transport, url: &str) {
    for _ in 0..DELIVERIES {
        assert_eq!(brief(&post(url).lane(1).through(transport).await), "answered 200");
    }
}

/// Makes an attempt beside healthy deliveries, and another after the flood.
async fn flooded(is_secure: bool, speaks: &[&str], tickets: usize, script: Script) -> Came {
    let (mut secure, pem) = config(speaks);
    secure.send_tls13_tickets = tickets;
    let secure = Arc::new(secure);
    let (transport, scheme) = if is_secure { (trusting(&pem), "https") } else { (transport(), "http") };
    let (port, mut told) = endpoint(is_secure.then(|| Arc::clone(&secure)), script);
    let (healthy, _told) = healthy();
    let url = format!("{scheme}://localhost:{port}");
    deliveries(&transport, &healthy).await;
    let began = spent();
    deliveries(&transport, &healthy).await;
    let calm = spent() - began;
    let began = spent();
    let hostile = post(&url).lane(2);
    let (first, ()) = tokio::join!(hostile.through(&transport), deliveries(&transport, &healthy));
    let is_refused = told.recv().await.unwrap().is_err_and(|error| error.kind() != io::ErrorKind::Other);
    let ratio = (spent() - began) * 100 / calm;
    let next = brief(&hostile.through(&transport).await);
    deliveries(&transport, &healthy).await;
    let says = first.failure().map(ToString::to_string).unwrap_or_default();
    Came { first: brief(&first), says, next, is_refused, ratio }
}

#[track_caller]
fn judge(rows: Vec<(&str, Came, &str, &str)>) {
    let mut wrong = Vec::new();
    for (name, came, first, next) in rows {
        let Came { first: was, says, next: then, is_refused, ratio } = &came;
        let line =
            format!("{name}: {was} {says:?}, then {then}; ended by the sender: {is_refused}; {ratio} %");
        eprintln!("{line}");
        if !was.contains(first) || !then.starts_with(next) || !is_refused || *ratio > 100 * RATIO_MAX {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

const TOLD: &str = "unsent hostile";

fn after_an_answer(bytes: Vec<u8>) -> Script {
    Arc::new(move |line: Line| {
        let bytes = bytes.clone();
        line.requests(move |line, stream| {
            line.write_all(&ok(stream, true))?;
            line.flood(&bytes, 16_384)
        })
    })
}

fn instead_of_an_answer(begins: bool, bytes: Vec<u8>) -> Script {
    Arc::new(move |line: Line| {
        let bytes = bytes.clone();
        line.requests(move |line, stream| {
            if begins {
                line.write_all(&ok(stream, false))?;
            }
            line.flood(&bytes, 16_384)
        })
    })
}

#[tokio::test]
async fn a_flood_of_frames_on_an_idle_connection_ends_it_and_costs_a_bounded_time() {
    let mut rows = Vec::new();
    for (name, bytes) in [
        ("unknown", UNKNOWN.to_vec()),
        ("ping", PING.to_vec()),
        ("settings", SETTINGS.to_vec()),
        ("window update", WINDOW_UPDATE.to_vec()),
        ("window update of a stream", frame(8, 0, 1, &[0, 0, 0, 1])),
        ("priority", frame(2, 0, 1, &[0, 0, 0, 0, 1])),
        ("reset", frame(3, 0, 1, &[0, 0, 0, 8])),
        ("empty data", EMPTY_DATA.to_vec()),
        ("headers", ok(1, true)),
    ] {
        let came = flooded(true, &["h2"], 2, after_an_answer(bytes)).await;
        // The library itself accepts 100 empty pieces on a connection.
        let next = if name == "empty data" { "answered 200" } else { TOLD };
        rows.push((name, came, "answered 200", next));
    }
    judge(rows);
}

#[tokio::test]
async fn a_flood_of_frames_in_place_of_an_answer_ends_its_connection_and_costs_a_bounded_time() {
    let mut rows = Vec::new();
    let going_away = frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]);
    let continued = [frame(1, 0, 1, &[0x88]), frame(9, 0, 1, &[]).repeat(1_000)].concat();
    for (name, begins, bytes, expected) in [
        ("unknown", false, UNKNOWN.to_vec(), "hostile"),
        ("ping", false, PING.to_vec(), "hostile"),
        ("going away", false, going_away, "hostile"),
        // These have their own bound, which ends the connection sooner.
        ("interim", false, frame(1, 4, 1, &[8, 3, b'1', b'0', b'3']), "not_http"),
        ("empty data", true, EMPTY_DATA.to_vec(), "half_answer"),
        ("continuation", false, continued, "broken"),
        ("promises", false, frame(5, 4, 1, &[0, 0, 0, 2, 0x82]), "broken"),
    ] {
        let came = flooded(true, &["h2"], 2, instead_of_an_answer(begins, bytes)).await;
        let next = if expected == "hostile" { TOLD } else { "" };
        rows.push((name, came, expected, next));
    }
    judge(rows);
}

#[tokio::test]
async fn a_flood_beneath_http_ends_its_connection_and_costs_a_bounded_time() {
    let keys: Script = Arc::new(|line: Line| {
        line.requests(|line, stream| {
            line.write_all(&ok(stream, true))?;
            let mut answers = line.tcp().try_clone()?;
            thread::spawn(move || io::copy(&mut answers, &mut io::sink()));
            let Line::Tls(tls) = line else { return Ok(()) };
            for _ in 0..FLOOD_BYTES / 256 {
                tls.conn.refresh_traffic_keys().map_err(io::Error::other)?;
                tls.conn.write_tls(&mut tls.sock)?;
            }
            Err(io::Error::other(ALL_SENT))
        })
    });
    let tickets = flooded(true, &["h2"], 100_000, after_an_answer(UNKNOWN.to_vec())).await;
    let keys = flooded(true, &["h2"], 2, keys).await;
    // The library accepts some of either. An answer may arrive before the keys change.
    judge(vec![("tickets", tickets, "silent broken", "silent broken"), ("keys", keys, "", "")]);
}

#[tokio::test]
async fn a_flood_over_http1_ends_its_connection_and_costs_a_bounded_time() {
    let script = |answer: &'static [u8], bytes: &'static [u8], at_once| -> Script {
        Arc::new(move |mut line: Line| {
            line.request()?;
            line.write_all(answer)?;
            line.flood(bytes, at_once)
        })
    };
    let whole: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let mut rows = Vec::new();
    for (name, answer, bytes, at_once, first, next) in [
        ("idle", whole, &b"x"[..], 16_384, "answered 200", "answered 200"),
        ("interim", b"", b"HTTP/1.1 103 Soon\r\n\r\n", 16_384, "silent not_http", "silent not_http"),
        // However the network groups the bytes.
        ("a head that trickles", b"HTTP/1.1 200 OK\r\nx: ", b"y", 1, "silent ", ""),
        ("a body that trickles", b"HTTP/1.1 200 OK\r\n\r\n", b"y", 1, "", ""),
    ] {
        let came = flooded(false, &[], 0, script(answer, bytes, at_once)).await;
        rows.push((name, came, first, next));
    }
    judge(rows);
}

#[tokio::test]
async fn an_endpoint_that_floods_each_of_its_connections_a_little_gets_no_more_of_them() {
    let (secure, pem) = config(&["h2"]);
    let (port, mut told) = endpoint(
        Some(Arc::new(secure)),
        Arc::new(|line: Line| {
            line.requests(|line, stream| {
                line.write_all(&ok(stream, true))?;
                line.write_all(&UNKNOWN.repeat(100_000))?;
                // A reset would discard bytes that the sender has not read.
                line.tcp().shutdown(Shutdown::Write)
            })
        }),
    );
    let transport = trusting(&pem);
    let hostile = post(format!("https://localhost:{port}")).lane(2);
    let mut answered = 0;
    while brief(&hostile.through(&transport).await) != TOLD {
        told.recv().await.unwrap().unwrap_err();
        answered += 1;
        assert!(answered < 10, "it is never told");
    }
    let began = spent();
    for _ in 0..DELIVERIES {
        check(&hostile.through(&transport).await, TOLD);
    }
    assert!(told.try_recv().is_err(), "it got another connection");
    let refused = spent() - began;
    let (healthy, _told) = healthy();
    let began = spent();
    deliveries(&transport, &healthy).await;
    let delivered = spent() - began;
    assert!(refused < delivered, "{refused} ns and {delivered} ns");
}

#[tokio::test]
async fn honest_endpoints_may_say_much_and_keep_their_connection() {
    let (secure, pem) = config(&["h2"]);
    // Over TLS each piece is a record. The total is the most that the sender reads of a body.
    let body = |line: &mut Line, stream, piece: usize| {
        line.write_all(&ok(stream, false))?;
        for _ in 0..ANSWER_BYTES_MAX / piece {
            line.write_all(&frame(0, 0, stream, &vec![b'x'; piece]))?;
        }
        line.write_all(&frame(0, 1, stream, b""))
    };
    let script: Script = Arc::new(move |line: Line| {
        let mut count = 0;
        line.requests(|line, stream| {
            count += 1;
            match count {
                // As many as in a quarter of an hour, at once.
                1 => (0..1_000).try_for_each(|_| line.write_all(PING))?,
                2 => (0..100).try_for_each(|_| {
                    line.write_all(SETTINGS).and_then(|()| line.write_all(WINDOW_UPDATE))
                })?,
                3 => return body(line, stream, 16),
                4..10 => return body(line, stream, 100),
                10..200 => return body(line, stream, 16_384),
                // A literal outside the table, 30,000 bytes long, in two frames.
                200..230 => {
                    let mut head = vec![0x88, 0, 1, b'x', 127];
                    head.extend([0xb1, 0xe9, 0x01]);
                    head.extend([b'y'; 30_000]);
                    line.write_all(&frame(1, 1, stream, &head[..16_000]))?;
                    return line.write_all(&frame(9, 4, stream, &head[16_000..]));
                }
                _ => {}
            }
            line.write_all(&ok(stream, true))
        })
    });
    let (port, mut told) = endpoint(Some(Arc::new(secure)), script);
    let transport = trusting(&pem);
    for number in 0..240 {
        let made = post(format!("https://localhost:{port}")).through(&transport).await;
        assert_eq!(brief(&made), "answered 200", "{number}");
    }
    assert!(told.try_recv().is_err(), "a connection ended");
}
