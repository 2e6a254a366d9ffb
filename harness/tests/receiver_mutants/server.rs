//! A small receiver with at most one flaw. It shares no code with the suite. Files in its folder control it:
//!
//! - `restart`: it forgets its memory; `broken`: its work fails; `stopped`: it waits; `ended`: it ends.
//! - `particular`: it refuses data that it does not know; `lengths`: it answers 411 to chunks; `unimplemented`: it
//!   answers 501 to other methods than POST; `unencoded`: it ignores Content-Encoding; `falls`: after one 500 it answers
//!   500 to all.

use std::collections::{BTreeSet, VecDeque};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hookproof::wire::clock::Watch;

use crate::receiver_mutants::cache::{self, Connection};
use crate::receiver_mutants::flaw::Flaw;
use crate::receiver_mutants::inflate;
use crate::receiver_mutants::verify::{self, Verdict};

pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;
const BODY_BYTES_MAX: usize = 1_100_000;
const READ_LIMIT: Duration = Duration::from_secs(3);
/// No status: the process was killed before it answered.
const KILLED: u16 = 0;
const PERMITTED: &str = "ask by OPTIONS";
/// It reads so many bytes of a refused body.
const READ_ON_BYTES: usize = 64 * 1024;
/// For a marked delivery.
const STORING: Duration = Duration::from_millis(50);

pub(crate) struct Server {
    pub(crate) flaw: Option<Flaw>,
    /// In place of its own, which verifies by the default profile.
    check: Option<Check>,
    folder: PathBuf,
    pub(crate) state: Mutex<State>,
    open: AtomicUsize,
    deliveries: AtomicUsize,
}

#[derive(Default)]
pub(crate) struct State {
    /// Processed events, by id or by a flaw's substitute.
    seen: BTreeSet<String>,
    /// The newest of them, where a flaw forgets the others.
    newest_seen: VecDeque<String>,
    effects: Vec<String>,
    /// Answered but not yet recorded.
    promised: Vec<(String, String)>,
    newest: String,
    stamped: BTreeSet<(String, String)>,
    pub(crate) verified: BTreeSet<String>,
    restarts: u64,
    has_fallen: bool,
}

#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    /// The status that refuses it, if its body was not read.
    pub(crate) unread: Option<u16>,
}

pub(crate) type Answer = (u16, String);

pub(crate) type Check = Box<dyn Fn(&Request) -> u16 + Send + Sync>;

impl Server {
    pub(crate) fn start(flaw: Option<Flaw>, folder: PathBuf) -> SocketAddr {
        Self::start_with(flaw, folder, |_| None)
    }

    pub(crate) fn start_with(
        flaw: Option<Flaw>,
        folder: PathBuf,
        check: impl FnOnce(SocketAddr) -> Option<Check>,
    ) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Arc::new(Self {
            flaw,
            check: check(address),
            folder,
            state: Mutex::default(),
            open: AtomicUsize::new(0),
            deliveries: AtomicUsize::new(0),
        });
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if server.folder.join("ended").exists() {
                    return;
                }
                let server = Arc::clone(&server);
                if server.has(Flaw::OneAtATime) {
                    server.serve(stream);
                } else {
                    std::thread::spawn(move || server.serve(stream));
                }
            }
        });
        address
    }

    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn serve(&self, mut stream: TcpStream) {
        let _set = stream.set_nodelay(true);
        let (mut connection, mut kept) = (Connection::default(), Vec::new());
        loop {
            let (answer, whole) = match self.read(&mut stream, &mut kept) {
                Ok(Request { unread: Some(status), .. }) => ((status, String::new()), true),
                Ok(request) => (self.answer(&request, &mut connection), true),
                Err(Some(status)) => ((status, String::new()), false),
                Err(None) => return,
            };
            let (status, told) = answer;
            if status == KILLED {
                return;
            }
            let extra = match status {
                302 => "Location: /login\r\n",
                200 if self.has(Flaw::GreetsInHtml) => "Content-Type: text/html\r\n",
                200 => "Content-Type: application/json\r\n",
                _ => "",
            };
            let permitted = if told == PERMITTED { self.permitted() } else { "" };
            let stays = if whole { "keep-alive" } else { "close" };
            let text = format!(
                "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{extra}{permitted}Connection: {stays}\r\n\r\n{told}",
                told.len()
            );
            let gone = stream.write_all(text.as_bytes()).is_err();
            if gone || !whole {
                break;
            }
        }
        // Reads the client's remaining bytes briefly, so that a reset does not discard the answer.
        let _shut = stream.shutdown(std::net::Shutdown::Write);
        let _set = stream.set_read_timeout(Some(Duration::from_millis(200)));
        let mut rest = [0; 4096];
        for _ in 0..64 {
            if !matches!(stream.read(&mut rest), Ok(1..)) {
                break;
            }
        }
    }

    fn permitted(&self) -> &'static str {
        match self.flaw {
            Some(Flaw::PermitsByStatus) => "",
            Some(Flaw::PermitsAnother) => {
                "WebHook-Allowed-Origin: other.example\r\nWebHook-Allowed-Rate: 60\r\n"
            }
            Some(Flaw::PermitsNoRate) => "WebHook-Allowed-Origin: events.example\r\n",
            Some(Flaw::PermitsZero) => "WebHook-Allowed-Origin: *\r\nWebHook-Allowed-Rate: 0\r\n",
            _ => "WebHook-Allowed-Origin: events.example\r\nWebHook-Allowed-Rate: 60\r\n",
        }
    }

    /// The error is the status to refuse it with, or `None` if the peer closed. `kept` has the bytes of the connection
    /// that no request took.
    fn read(&self, stream: &mut TcpStream, kept: &mut Vec<u8>) -> Result<Request, Option<u16>> {
        let watch = Watch::start();
        let mut bytes = std::mem::take(kept);
        let head_max = if self.has(Flaw::EndlessHeaders) { usize::MAX } else { HEAD_BYTES_MAX };
        let mut searched = 0;
        let end = loop {
            if let Some(at) = bytes[searched..].windows(4).position(|four| four == b"\r\n\r\n") {
                break searched + at;
            }
            searched = bytes.len().saturating_sub(3);
            if bytes.len() > head_max {
                return Err(Some(431));
            }
            // Incremental parsers refuse such a prefix at once.
            if !may_begin(&bytes) {
                return Err(Some(400));
            }
            self.more(stream, &mut bytes, watch, self.has(Flaw::PatientWithHeads))?;
        };
        let (method, path, headers) = head(&bytes[..end]).ok_or(Some(400))?;
        let mut request = Request { method, path, headers, body: Vec::new(), unread: None };
        let mut rest = bytes.split_off(end + 4);
        request.unread = self.leaves_body(&request);
        if request.unread.is_some() {
            *kept = rest;
            return Ok(request);
        }
        let waits = rest.is_empty() && !self.has(Flaw::NeverContinues);
        if waits && request.header("expect").is_some_and(|value| value == "100-continue") {
            let interim = if self.has(Flaw::SendsHints) { "103 Early Hints" } else { "100 Continue" };
            stream.write_all(format!("HTTP/1.1 {interim}\r\n\r\n").as_bytes()).map_err(|_| None)?;
        }
        let limit = self.body_bytes_max();
        if request.header("transfer-encoding").is_some() && !self.has(Flaw::NeedsLength) {
            if self.folder.join("lengths").exists() {
                return Err(Some(411));
            }
            loop {
                match self.chunks(&rest) {
                    Chunks::Whole(body, length) => {
                        request.body = body;
                        *kept = rest.split_off(length);
                        return Ok(request);
                    }
                    Chunks::More if rest.len() > limit.saturating_mul(8) || payload(&rest) > limit => {
                        return Err(Some(413));
                    }
                    Chunks::More => self.more(stream, &mut rest, watch, false)?,
                    Chunks::Broken => return Err(Some(400)),
                }
            }
        }
        let length = request.header("content-length").unwrap_or_else(|| "0".to_owned());
        let length: usize = length.parse().map_err(|_| Some(400))?;
        let (length, unread) = self.bytes_to_read(&request, length)?;
        while rest.len() < length {
            self.more(stream, &mut rest, watch, false)?;
        }
        *kept = rest.split_off(length);
        Ok(Request { body: rest, unread, ..request })
    }

    /// Also the status that refuses a request whose further bytes are left.
    fn bytes_to_read(&self, request: &Request, length: usize) -> Result<(usize, Option<u16>), Option<u16>> {
        let is_signed = request.header("webhook-signature").is_some();
        match self.flaw {
            Some(Flaw::LeavesRest) if length > READ_ON_BYTES && !is_signed => Ok((READ_ON_BYTES, Some(401))),
            Some(Flaw::LeavesLongBody) if length > self.body_bytes_max() => Ok((0, Some(413))),
            _ if length > self.body_bytes_max() => Err(Some(413)),
            _ => Ok((length, None)),
        }
    }

    fn leaves_body(&self, request: &Request) -> Option<u16> {
        let is_signed = request.header("webhook-signature").is_some();
        match self.flaw? {
            Flaw::LeavesBody if request.method == "POST" && !is_signed => Some(401),
            Flaw::LeavesBodyOfPut if request.method == "PUT" => Some(405),
            _ => None,
        }
    }

    fn body_bytes_max(&self) -> usize {
        match self.flaw {
            Some(Flaw::SmallBodies) => 16_000,
            Some(Flaw::MediumBodies) => 512_000,
            Some(Flaw::EndlessBody) => usize::MAX,
            _ => BODY_BYTES_MAX,
        }
    }

    fn more(
        &self,
        stream: &mut TcpStream,
        bytes: &mut Vec<u8>,
        watch: Watch,
        is_patient: bool,
    ) -> Result<(), Option<u16>> {
        let left = READ_LIMIT.checked_sub(watch.passed()).filter(|left| !left.is_zero());
        let is_patient = is_patient || self.has(Flaw::Patient);
        let left = if is_patient { None } else { Some(left.ok_or(Some(408))?) };
        let _set = stream.set_read_timeout(left);
        let mut buffer = [0; 64 * 1024];
        match stream.read(&mut buffer) {
            Ok(0) => Err(None),
            Ok(count) => {
                bytes.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                Err(Some(408))
            }
            Err(_) => Err(None),
        }
    }

    fn answer(&self, request: &Request, connection: &mut Connection) -> Answer {
        if request.path == "/effects" {
            let mut state = self.state.lock().unwrap();
            state.write_down();
            return (200, serde_json::to_string(&state.effects).unwrap());
        }
        while self.folder.join("stopped").exists() {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        self.restart_if_asked();
        if self.state.lock().unwrap().has_fallen {
            return (500, String::new());
        }
        let also = match self.flaw {
            Some(Flaw::TakesGet) => "GET",
            Some(Flaw::TakesPut) => "PUT",
            Some(Flaw::TakesDelete) => "DELETE",
            _ => "POST",
        };
        if request.method == "OPTIONS" && request.header("webhook-request-origin").is_some() {
            return (200, PERMITTED.to_owned());
        }
        if request.method != "POST" && request.method != also {
            let status = if self.folder.join("unimplemented").exists() { 501 } else { 405 };
            return (status, String::new());
        }
        if also == "GET" && request.method == "GET" {
            return (200, "hello".to_owned());
        }
        let open = self.open.fetch_add(1, Ordering::SeqCst);
        let (breaks, drops) = (self.has(Flaw::BreaksUnderLoad), self.has(Flaw::DropsWhenBusy));
        let answer = if (breaks || drops) && open >= 40 {
            (if breaks { 500 } else { 204 }, String::new())
        } else {
            if breaks || drops {
                std::thread::park_timeout(Duration::from_millis(5));
            }
            self.deliver(request, connection)
        };
        if answer.0 == 500 && self.folder.join("falls").exists() {
            self.state.lock().unwrap().has_fallen = true;
        }
        self.open.fetch_sub(1, Ordering::SeqCst);
        answer
    }

    fn deliver(&self, request: &Request, connection: &mut Connection) -> Answer {
        if let Some(check) = &self.check {
            return (check(request), String::new());
        }
        if let Some(coding) = request.header("content-encoding")
            && !self.folder.join("unencoded").exists()
        {
            return (inflate::answer(self, &coding, &request.body), String::new());
        }
        if self.has(Flaw::Redirects) && request.header("accept").as_deref() == Some("text/html") {
            return (302, String::new());
        }
        if self.has(Flaw::ParsesFirst) && serde_json::from_slice::<serde_json::Value>(&request.body).is_err()
        {
            return (400, String::new());
        }
        if self.has(Flaw::DedupesBeforeVerifying)
            && let Some(id) = request.header("webhook-id")
            && !self.state.lock().unwrap().seen.insert(id)
        {
            return (204, String::new());
        }
        if self.has(Flaw::GreetsStrangers)
            && let Some(answer) = self.handshake(&request.body)
        {
            return answer;
        }
        match cache::remembered(self, request, connection).unwrap_or_else(|| verify::verify(self, request)) {
            Verdict::Good { id, timestamp } => {
                cache::remember(self, request, connection);
                if let Some(answer) = self.handshake(&request.body) {
                    return answer;
                }
                self.accept(request, &id, &timestamp)
            }
            Verdict::Bad(..)
                if self.has(Flaw::FailsAfterwards) && request.values("webhook-signature").is_empty() =>
            {
                self.accept(request, &request.header("webhook-id").unwrap_or_default(), "");
                (500, String::new())
            }
            Verdict::Bad(status, _)
                if self.has(Flaw::GreetsWhileRefusing)
                    && let Some((_, told)) = self.handshake(&request.body) =>
            {
                (status, told)
            }
            Verdict::Bad(status, why) => (status, why),
        }
    }

    fn handshake(&self, body: &[u8]) -> Option<Answer> {
        let event = serde_json::from_slice::<serde_json::Value>(body).ok()?;
        let is_found = self.has(Flaw::FindsHandshake) && String::from_utf8_lossy(body).contains("\"hello\"");
        if self.has(Flaw::StoresHandshake) || (event["event"] != "hello" && !is_found) {
            return None;
        }
        let challenge = event["challenge"].as_str().unwrap_or_default();
        let hmac =
            if self.has(Flaw::AnswersUnsigned) { challenge.to_owned() } else { verify::hmac(challenge) };
        Some((200, serde_json::json!({ "challenge": challenge, "hmac": hmac }).to_string()))
    }

    fn accept(&self, request: &Request, id: &str, timestamp: &str) -> Answer {
        let body = &request.body;
        if let Some(status) = self.odd_body(body) {
            return (status, String::new());
        }
        let text = String::from_utf8_lossy(body);
        let parsed = match self.flaw {
            Some(Flaw::VerifiesText) => text.as_bytes(),
            Some(Flaw::DropsMark) => body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body),
            _ => body.as_slice(),
        };
        let Ok(event) = serde_json::from_slice::<serde_json::Value>(parsed) else {
            return (400, String::new());
        };
        if let Some(refusal) = self.unwanted(&event) {
            return refusal;
        }
        self.work();
        let key = self.key(request, id);
        if self.has(Flaw::Races) {
            let known = self.state.lock().unwrap().seen.contains(&key);
            if known {
                return (204, String::new());
            }
            std::thread::park_timeout(Duration::from_millis(30));
        }
        let mut state = self.state.lock().unwrap();
        if self.has(Flaw::InOrderOnly) {
            let moment = event["timestamp"].as_str().unwrap_or_default().to_owned();
            if is_older(&moment, &state.newest) {
                return (409, "out of order".to_owned());
            }
            state.newest = moment;
        }
        let stamp = (id.to_owned(), timestamp.to_owned());
        if self.has(Flaw::RefusesRetries) && state.seen.contains(id) && !state.stamped.contains(&stamp) {
            return (409, "seen".to_owned());
        }
        state.stamped.insert(stamp);
        if self.has(Flaw::DuplicatesBreak) && state.seen.contains(id) {
            return (500, String::new());
        }
        let broken = self.folder.join("broken").exists();
        if self.has(Flaw::DedupesBeforeSuccess) && !state.seen.insert(key.clone()) {
            return (204, String::new());
        }
        if self.has(Flaw::MarksBeforeStoring) || self.has(Flaw::MarksInMemory) {
            drop(state);
            return self.mark_and_store(key, id, broken);
        }
        if broken {
            return (503, String::new());
        }
        let first = self.flaw.is_some_and(|flaw| {
            matches!(
                flaw,
                Flaw::NoDedupe | Flaw::Races | Flaw::DedupesBeforeSuccess | Flaw::DedupesBeforeVerifying
            )
        });
        if self.has(Flaw::AcksFirst) {
            state.promised.push((key, id.to_owned()));
            return (204, String::new());
        }
        if state.remember(key, self.flaw) || first {
            state.effects.push(id.to_owned());
        }
        (204, String::new())
    }

    fn work(&self) {
        if self.has(Flaw::SlowAck) && self.deliveries.fetch_add(1, Ordering::SeqCst) % 20 == 19 {
            std::thread::park_timeout(Duration::from_millis(1300));
        }
    }

    fn unwanted(&self, event: &serde_json::Value) -> Option<Answer> {
        if self.folder.join("particular").exists() && !event["data"]["video"].is_string() {
            return Some((422, "unknown data".to_owned()));
        }
        let refuses = self.has(Flaw::KnownTypesOnly) && event["type"] != "video.trending";
        refuses.then(|| (400, "unknown type".to_owned()))
    }

    /// By which a repeat is known.
    fn key(&self, request: &Request, id: &str) -> String {
        match self.flaw {
            Some(Flaw::DedupesBySignature) => request.header("webhook-signature").unwrap_or_default(),
            Some(Flaw::DedupesByIdAndBody) => format!("{id} {}", String::from_utf8_lossy(&request.body)),
            Some(Flaw::FoldsKeptIds) => id.to_lowercase(),
            Some(Flaw::CutsKeptIds) => id.chars().take(64).collect(),
            _ => id.to_owned(),
        }
    }

    fn mark_and_store(&self, key: String, id: &str, is_broken: bool) -> Answer {
        let restarts = {
            let mut state = self.state.lock().unwrap();
            if !state.seen.insert(key.clone()) {
                return (204, String::new());
            }
            state.restarts
        };
        std::thread::park_timeout(STORING);
        self.restart_if_asked();
        let mut state = self.state.lock().unwrap();
        if state.restarts > restarts {
            if self.has(Flaw::MarksInMemory) {
                state.seen.remove(&key);
            }
            return (KILLED, String::new());
        }
        if is_broken {
            state.seen.remove(&key);
            return (503, String::new());
        }
        state.effects.push(id.to_owned());
        (204, String::new())
    }

    fn odd_body(&self, body: &[u8]) -> Option<u16> {
        let depth = body.iter().take_while(|byte| **byte != b'[').count();
        let deep = body[depth..].iter().take_while(|byte| **byte == b'[').count() > 10_000;
        let json = || serde_json::from_slice::<serde_json::Value>(body).is_ok();
        match self.flaw? {
            Flaw::NotUtf8Breaks if std::str::from_utf8(body).is_err() => Some(500),
            Flaw::EmptyBreaks if body.is_empty() => Some(500),
            Flaw::ObjectsOnly if matches!(body, b"null" | b"[]" | b"1" | b"\"x\"") => Some(500),
            Flaw::NotJsonBreaks if body.starts_with(b"hello") && !json() => Some(500),
            Flaw::Recurses if deep => Some(500),
            Flaw::DuplicateKeys
                if body.windows(5).filter(|five| five == b"\"a\":1" || five == b"\"a\":3").count() == 2 =>
            {
                Some(400)
            }
            _ => None,
        }
    }

    fn restart_if_asked(&self) {
        if std::fs::remove_file(self.folder.join("restart")).is_err() {
            return;
        }
        let mut state = self.state.lock().unwrap();
        state.promised.clear();
        state.restarts += 1;
        if self.has(Flaw::ForgetsAtRestart) {
            state.seen.clear();
        }
    }
}

impl State {
    fn remember(&mut self, key: String, flaw: Option<Flaw>) -> bool {
        let most = match flaw {
            Some(Flaw::RemembersOne) => 1,
            Some(Flaw::RemembersSixteen) => 16,
            _ => return self.seen.insert(key),
        };
        let is_new = self.seen.insert(key.clone());
        if is_new {
            self.newest_seen.push_back(key);
        }
        if self.newest_seen.len() > most
            && let Some(oldest) = self.newest_seen.pop_front()
        {
            self.seen.remove(&oldest);
        }
        is_new
    }

    fn write_down(&mut self) {
        for (key, id) in std::mem::take(&mut self.promised) {
            if self.seen.insert(key) {
                self.effects.push(id);
            }
        }
    }
}

impl Request {
    pub(crate) fn values(&self, name: &str) -> Vec<&[u8]> {
        let named = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_slice()).collect()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.values(name).first().map(|value| String::from_utf8_lossy(value).into_owned())
    }
}

type Head = (String, String, Vec<(String, Vec<u8>)>);

/// Whether this prefix of a request line may still become one.
fn may_begin(bytes: &[u8]) -> bool {
    let is_whole = bytes.contains(&b'\n');
    let version = bytes.split(|byte| *byte == b' ').nth(2);
    is_whole || version.is_none_or(|version| b"HTTP/1.1\r".starts_with(version))
}

fn head(bytes: &[u8]) -> Option<Head> {
    let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = std::str::from_utf8(lines.next()?).ok()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let header = |line: &[u8]| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = std::str::from_utf8(&line[..colon]).ok()?;
        Some((name.to_owned(), line[colon + 1..].trim_ascii().to_vec()))
    };
    Some((method, path, lines.map(header).collect::<Option<_>>()?))
}

enum Chunks {
    /// The body, and the length of its framing.
    Whole(Vec<u8>, usize),
    More,
    Broken,
}

impl Server {
    fn chunks(&self, all: &[u8]) -> Chunks {
        let (mut body, mut bytes) = (Vec::new(), all);
        loop {
            let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") else { return Chunks::More };
            let Some(size) = std::str::from_utf8(&bytes[..end]).ok().and_then(|line| self.size(line)) else {
                return Chunks::Broken;
            };
            let rest = &bytes[end + 2..];
            if size == 0 {
                return self.trailers(body, rest, all.len());
            }
            if rest.len() < size + 2 {
                return Chunks::More;
            }
            body.extend_from_slice(&rest[..size]);
            bytes = &rest[size + 2..];
        }
    }

    fn size(&self, line: &str) -> Option<usize> {
        let size = if self.has(Flaw::BareChunks) { line } else { line.split(';').next()?.trim_end() };
        match self.flaw {
            Some(Flaw::DecimalChunks) => size.parse().ok(),
            Some(Flaw::SmallChunks) => usize::from_str_radix(size.get(..1)?, 16).ok(),
            Some(Flaw::LowerCaseChunks) if size.bytes().any(|byte| byte.is_ascii_uppercase()) => None,
            _ => usize::from_str_radix(size, 16).ok(),
        }
    }

    fn trailers(&self, body: Vec<u8>, mut rest: &[u8], total: usize) -> Chunks {
        loop {
            let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { return Chunks::More };
            rest = &rest[end + 2..];
            if end == 0 {
                return Chunks::Whole(body, total - rest.len());
            }
            if self.has(Flaw::NoTrailers) {
                return Chunks::Broken;
            }
        }
    }
}

fn payload(bytes: &[u8]) -> usize {
    bytes.len() / 8
}

/// Whether a time is at least half a minute before another. Event times are whole seconds, so a repeat must not look
/// older by chance.
fn is_older(moment: &str, newest: &str) -> bool {
    let second_of_day = |moment: &str| {
        let mut parts = moment.get(11..19)?.split(':').map(|part| part.parse::<u32>().ok());
        parts.try_fold(0, |seconds, part| Some(seconds * 60 + part?))
    };
    match (second_of_day(moment), second_of_day(newest)) {
        (Some(one), Some(other)) if moment[..10] == newest[..10] => one + 30 <= other,
        _ => moment < newest,
    }
}
