use std::collections::VecDeque;
use std::io::ErrorKind;
use std::time::Duration as Length;

use hookproof::clock::Clock;
use hookproof::endpoint::{Endpoints, Spec, Stage};
use hookproof_judge::scenario::{Answer, Behaviour, Duration, Millionths, Range};
use hookproof_judge::signature::{Key, Profile, Secret};
use hookproof_judge::trace::Record;
use hookproof_judge::trace::{Recorder, Records};
use hookproof_play::traffic::Tokens;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) const BODY: &str = "{\"token\":\"hptoken-00000000-0000000000000007\"}";

const PATIENCE: Length = Length::from_millis(600);

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    Answered(u16, String),
    Refused,
    Reset,
    /// The connection was closed after this text.
    Closed(String),
    Silence,
}

impl Exchange {
    pub(crate) fn status(&self) -> Option<u16> {
        if let Self::Answered(status, _) = self { Some(*status) } else { None }
    }
}

pub(crate) fn behaviour(answer: Answer) -> Behaviour {
    Behaviour {
        at: Duration(0),
        lasts: None,
        answer,
        share: Millionths::ONE,
        attempts: None,
        latency: None,
        serves: None,
    }
}

pub(crate) fn during(answer: Answer, from: u64, lasts: u64) -> Behaviour {
    let (at, lasts) = (Duration::from_millis(from), Some(Duration::from_millis(lasts)));
    Behaviour { at, lasts, ..behaviour(answer) }
}

pub(crate) struct Set {
    pub(crate) endpoints: Endpoints,
    pub(crate) clock: Clock,
    records: Records,
    taken: VecDeque<Record>,
}

pub(crate) async fn set(count: usize, behaviours: &[Behaviour]) -> Set {
    let clock = Clock::begun();
    let (recorder, records) = Recorder::new(10_000);
    let stage = Stage { clock: clock.clone(), recorder, tokens: Tokens::new(0), seed: 1, offered: None };
    let spec = Spec {
        name: "a".to_owned(),
        path: "/".to_owned(),
        behaviours: behaviours.to_vec(),
        answers: Range::just(Duration(0)),
        permission: None,
        scheme: Profile::STANDARD_WEBHOOKS.into(),
    };
    let endpoints = Endpoints::open(vec![spec; count], &stage).await.unwrap();
    Set { endpoints, clock, records, taken: VecDeque::new() }
}

impl Set {
    pub(crate) async fn next(&mut self) -> Record {
        loop {
            if let Some(record) = self.taken.pop_front() {
                return record;
            }
            tokio::task::yield_now().await;
            self.taken.extend(self.records.take());
        }
    }

    pub(crate) async fn end(self) -> Vec<Record> {
        self.endpoints.close().await;
        self.taken.into_iter().chain(self.records.take()).collect()
    }
}

pub(crate) async fn play(behaviours: &[Behaviour], requests: usize) -> (Vec<Exchange>, Vec<Record>) {
    // A listener that refuses from the start needs a moment to close.
    let at_ms = if behaviours.iter().any(|one| one.answer == Answer::Refuse) { 50 } else { 0 };
    play_at(behaviours, requests, at_ms).await
}

pub(crate) async fn play_at(
    behaviours: &[Behaviour],
    requests: usize,
    at_ms: u64,
) -> (Vec<Exchange>, Vec<Record>) {
    let set = set(1, behaviours).await;
    set.clock.until(at_ms * 1_000_000).await;
    let (mut stream, mut met) = (None, Vec::new());
    for _ in 0..requests {
        let exchange = exchange(&mut stream, set.endpoints.addresses()[0]).await;
        if !matches!(exchange, Exchange::Answered(..)) {
            stream = None;
        }
        met.push(exchange);
    }
    drop(stream);
    if met.contains(&Exchange::Silence) {
        // The end of the peer is noticed a little later.
        set.clock.pass(50_000_000).await;
    }
    (met, set.end().await)
}

pub(crate) async fn abandon(behaviours: &[Behaviour]) -> Vec<Record> {
    let mut set = set(1, behaviours).await;
    let mut stream = TcpStream::connect(set.endpoints.addresses()[0]).await.unwrap();
    stream.write_all(request().as_bytes()).await.unwrap();
    assert!(matches!(set.next().await, Record::Arrival(_)));
    set.end().await
}

pub(crate) async fn write_at_once(behaviours: &[Behaviour], bytes: &[u8]) -> Vec<Record> {
    let set = set(1, behaviours).await;
    let mut stream = TcpStream::connect(set.endpoints.addresses()[0]).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers).await;
    set.end().await
}

pub(crate) async fn with_one_secret(count: usize) -> Vec<Record> {
    let clock = Clock::begun();
    let (recorder, records) = Recorder::new(100);
    let stage = Stage { clock: clock.clone(), recorder, tokens: Tokens::new(0), seed: 1, offered: None };
    let spec = |name: char| Spec {
        name: name.to_string(),
        path: "/".to_owned(),
        behaviours: Vec::new(),
        answers: Range::just(Duration(0)),
        permission: None,
        scheme: Profile::STANDARD_WEBHOOKS.into(),
    };
    let specs: Vec<Spec> = ('a'..).take(count).map(spec).collect();
    let endpoints = Endpoints::open(specs, &stage).await.unwrap();
    let secret = |text: &str| Key::from(Secret::parse(Profile::STANDARD_WEBHOOKS, text).unwrap());
    for at in 0..count {
        endpoints.learn(
            at,
            vec![secret("whsec_c2FtZSBzZWNyZXQ="), secret(&format!("whsec_b3du{at}{at}{at}{at}"))],
        );
    }
    Set { endpoints, clock, records, taken: VecDeque::new() }.end().await
}

/// Returns the records, and a time before the close.
pub(crate) async fn read_a_part(behaviours: &[Behaviour], bytes: usize) -> (Vec<Record>, u64) {
    let mut set = set(1, behaviours).await;
    let mut stream = TcpStream::connect(set.endpoints.addresses()[0]).await.unwrap();
    stream.write_all(request().as_bytes()).await.unwrap();
    let mut part = vec![0; bytes];
    stream.read_exact(&mut part).await.unwrap();
    let here = set.clock.now();
    drop(stream);
    let mut seen = Vec::new();
    while !seen.iter().any(|record| matches!(record, Record::Answer(_) | Record::Cut(_))) {
        seen.push(set.next().await);
    }
    set.endpoints.close().await;
    (seen, here)
}

pub(crate) async fn many(count: usize) -> usize {
    let set = set(count, &[]).await;
    let mut answered = 0;
    for address in set.endpoints.addresses() {
        answered += usize::from(exchange(&mut None, address).await.status() == Some(204));
    }
    assert_eq!(set.end().await.len(), 2 * count);
    answered
}

pub(crate) fn request() -> String {
    format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len())
}

async fn exchange(stream: &mut Option<TcpStream>, address: std::net::SocketAddr) -> Exchange {
    if stream.is_none() {
        match TcpStream::connect(address).await {
            Ok(connected) => *stream = Some(connected),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Exchange::Refused,
            Err(error) => panic!("{error}"),
        }
    }
    let Some(stream) = stream else { return Exchange::Refused };
    if stream.write_all(request().as_bytes()).await.is_err() {
        return Exchange::Reset;
    }
    tokio::time::timeout(PATIENCE, answer(stream)).await.unwrap_or(Exchange::Silence)
}

pub(crate) async fn answer(stream: &mut (impl AsyncRead + Unpin)) -> Exchange {
    let mut text = Vec::new();
    loop {
        if let Some(exchange) = whole(&text) {
            return exchange;
        }
        match stream.read_buf(&mut text).await {
            Ok(0) => return Exchange::Closed(String::from_utf8(text).unwrap()),
            Ok(_) => {}
            Err(_) => return Exchange::Reset,
        }
    }
}

fn whole(bytes: &[u8]) -> Option<Exchange> {
    let text = std::str::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status: u16 = head.get(9..12)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    if status == 204 {
        return Some(Exchange::Answered(status, String::new()));
    }
    (body.len() >= length).then(|| Exchange::Answered(status, format!("{head}\n{body}")))
}
