use std::rc::Rc;
use std::time::Duration;

use hookproof_judge::signature::{Profile, Signing, sign};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::sender_mutants::sender::{Bug, Sender};
use crate::sender_mutants::tls::{self, Wire};

const SECOND: u64 = 1_000_000_000;
pub(crate) const AHEAD_S: u64 = 8;

/// Small reads would make a long answer slow on a busy machine.
const READ_BYTES: usize = 64 << 10;

const JSON: &str = "content-type: application/json\r\n";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answered {
        status: u16,
        retry_after: Option<String>,
        location: Option<String>,
        allowed: Option<String>,
        unix_ns: u64,
    },
    /// The connection broke before the answer's end.
    Cut,
    /// The connection was closed in order before the answer's end.
    Closed,
    Refused,
    Late,
}

impl Outcome {
    pub(crate) fn pause(&self, luck: f64, bug: &Bug) -> Option<u64> {
        let Self::Answered { status, retry_after: Some(text), unix_ns, .. } = self else { return None };
        if !matches!(status, 429 | 503)
            || (*status == 429 && bug.is("ignores-retry-after"))
            || (*status == 503 && bug.is("honours-retry-after-on-429-only"))
        {
            return None;
        }
        let pause = match text.parse::<u64>() {
            Ok(seconds) => seconds * SECOND,
            Err(_) if bug.is("reads-retry-after-in-seconds-only") => return None,
            Err(_) if bug.is("stops-at-nonsense") && date(text).is_none() => 3_600 * SECOND,
            Err(_) => (date(text)? * SECOND).saturating_sub(*unix_ns),
        };
        if pause == 0 {
            return bug.is("loops-at-zero").then_some(0);
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "small figures of a test"
        )]
        // Early by at least a quarter, so that its only retry is early with any random number.
        let early = (pause as f64 * (0.5 + luck / 4.0)) as u64;
        match () {
            () if bug.is("jitters-retry-after-early") => Some(early),
            () if bug.is("clamps-retry-after") => Some(pause.min(SECOND / 2)),
            () => Some(pause),
        }
    }
}

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT` into seconds since 1970.
fn date(text: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let parts: Vec<&str> = text.split([' ', ':']).collect();
    let [_, day, month, year, hour, minute, second, "GMT"] = parts[..] else { return None };
    let number = |text: &str| text.parse::<u64>().ok();
    let (year, month) = (number(year)?, u64::try_from(MONTHS.find(month)? / 3).ok()? + 1);
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + number(day)? - 1 - 719_468;
    Some(days * 86_400 + number(hour)? * 3_600 + number(minute)? * 60 + number(second)?)
}

pub(crate) async fn attempt(sender: &Sender, at: usize, n: u64) -> Outcome {
    let Some((url, request, timeout)) = request(sender, at, n) else { return Outcome::Cut };
    let by_read = sender.bug.is("begins-its-deadline-anew-with-every-byte");
    let (whole, each) = if by_read { (Duration::from_secs(3_600), timeout) } else { (timeout, timeout) };
    if !is_permitted(sender, at, &url, &request, each).await {
        return Outcome::Refused;
    }
    let answer = tokio::time::timeout(whole, exchange(sender, &url, &request, each)).await;
    let outcome = answer.unwrap_or(Outcome::Late);
    if let Outcome::Answered { status: 300..=399, location: Some(location), .. } = &outcome
        && sender.bug.is("follows-redirects")
    {
        let (_, rest) = request.split_once(" HTTP/1.1").unwrap_or_default();
        let again = format!("POST {location} HTTP/1.1{rest}");
        return exchange(sender, &url, &again, each).await;
    }
    outcome
}

async fn is_permitted(sender: &Sender, at: usize, url: &str, request: &str, timeout: Duration) -> bool {
    let origin = sender.lanes.borrow()[at].target.origin.clone();
    if origin.is_empty() || sender.bug.is("asks-for-no-permission") {
        return true;
    }
    let head = request.split_once("\r\n").map_or(request, |(line, _)| line).replacen("POST", "OPTIONS", 1);
    let host = url.trim_start_matches("https://");
    let asking = format!("{head}\r\nhost: {host}\r\nwebhook-request-origin: {origin}\r\n\r\n");
    let answer = tokio::time::timeout(timeout, exchange(sender, url, &asking, timeout)).await;
    let is_granted =
        matches!(answer, Ok(Outcome::Answered { allowed: Some(allowed), .. }) if allowed == origin);
    is_granted || sender.bug.is("takes-any-answer-for-permission")
}

pub(crate) async fn again(sender: Rc<Sender>, at: usize, n: u64) {
    const LATER_NS: u64 = 8 * SECOND;
    let Some((url, request, timeout)) = request(&sender, at, n) else { return };
    sender.clock.pass(LATER_NS).await;
    let _ = exchange(&sender, &url, &request, timeout).await;
}

fn request(sender: &Sender, at: usize, n: u64) -> Option<(String, String, Duration)> {
    let lanes = sender.lanes.borrow();
    let lane = &lanes[at];
    let delivery = lane.delivery(n)?;
    let bug = &sender.bug;
    let mut id = format!("msg_{at}_{n}");
    if bug.is("makes-a-new-id-for-a-retry") {
        id.push_str(&format!("_{}", delivery.attempts));
    }
    if bug.is("writes-long-ids-with-blanks") {
        id.push_str(&" of a delivery".repeat(700));
    }
    let mut body = delivery.body.clone();
    if bug.is("rebuilds-the-body-for-a-retry") {
        body = body.replacen('{', &format!("{{\"attempt\":{},", delivery.attempts), 1);
    }
    let seconds = sender.clock.unix_ns(sender.clock.now()) / SECOND;
    let seconds = seconds + if bug.is("goes-by-a-clock-of-its-own") { AHEAD_S } else { 0 };
    let seconds = if bug.is("stamps-in-milliseconds") { seconds * 1_000 } else { seconds };
    let timestamp = seconds.to_string();
    let signing = Signing { id: &id, timestamp: &timestamp, body: body.as_bytes(), ..Signing::default() };
    let secret =
        if bug.is("signs-all-with-one-secret") { &lanes[0].target.secret } else { &lane.target.secret };
    let every: Vec<_> = lanes.iter().map(|lane| &lane.target.secret).collect();
    let own = [secret];
    let secrets = if bug.is("signs-with-every-secret") { every.as_slice() } else { &own };
    let mut headers = sign(Profile::STANDARD_WEBHOOKS, secrets, &signing);
    if bug.is("signs-the-body-alone") {
        let alone = Signing { id: "", timestamp: "", ..signing };
        headers = sign(Profile::STANDARD_WEBHOOKS, &[secret], &alone);
        headers
            .iter_mut()
            .filter(|(name, _)| name == "webhook-id")
            .for_each(|(_, value)| value.clone_from(&id));
        let stamped = headers.iter_mut().filter(|(name, _)| name == "webhook-timestamp");
        stamped.for_each(|(_, value)| value.clone_from(&timestamp));
    }
    let url = lane.target.url.trim_start_matches("http://");
    let (scheme, url) = url.strip_prefix("https://").map_or(("", url), |url| ("https://", url));
    let (host, path) = url.find('/').map_or((url, "/"), |at| url.split_at(at));
    let (host, path) = (host.to_owned(), if bug.is("forgets-the-path") { "/" } else { path });
    let named = if bug.is("names-no-host") { String::new() } else { format!("host: {host}\r\n") };
    let mut head = format!("POST {path} HTTP/1.1\r\n{named}connection: close\r\n");
    if !bug.is("names-no-content-type") {
        let again = delivery.attempts > 0 && bug.is("changes-its-content-type-for-a-retry");
        head.push_str(if again { "content-type: application/cloudevents+json\r\n" } else { JSON });
    }
    if bug.is("sends-a-hidden-second-request") {
        head.push_str(&format!("x-attempt: {}\r\n", delivery.attempts + 1));
    }
    if !lane.target.origin.is_empty() && !bug.is("hides-its-origin") {
        head.push_str(&format!("webhook-request-origin: {}\r\n", lane.target.origin));
    }
    if bug.is("shows-its-secret") {
        head.push_str(&format!("authorization: Bearer {}\r\n", lane.target.shown));
    }
    let prefix = if bug.is("names-its-headers-after-itself") { "svix-" } else { "webhook-" };
    for (name, value) in &headers {
        head.push_str(&format!("{}: {value}\r\n", name.replace("webhook-", prefix)));
    }
    let patience = if bug.is("waits-twice-as-long") { 2 } else { 1 };
    Some((
        format!("{scheme}{host}"),
        framed(&head, &body, bug),
        Duration::from_nanos(lane.target.timeout * patience),
    ))
}

/// Pieces of up to `bytes`, which cut no character.
fn pieces(mut text: &str, bytes: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let (piece, rest) = text.split_at(text.floor_char_boundary(bytes));
        pieces.push(piece);
        text = rest;
    }
    pieces
}

fn framed(head: &str, body: &str, bug: &Bug) -> String {
    let twice = bug.is("says-its-length-twice");
    if twice || bug.is("sends-its-bodies-in-chunks") {
        let length = if twice { format!("content-length: {}\r\n", body.len()) } else { String::new() };
        let pieces = pieces(body, 100).into_iter();
        let pieces: String = pieces.map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len())).collect();
        return format!("{head}{length}transfer-encoding: chunked\r\n\r\n{pieces}0\r\n\r\n");
    }
    let expect = if bug.is("asks-before-it-sends-a-body") { "expect: 100-continue\r\n" } else { "" };
    format!("{head}{expect}content-length: {}\r\n\r\n{body}", body.len())
}

/// Returns the bytes after the interim answer.
async fn send_first(stream: &mut (impl Wire + ?Sized), request: &str) -> std::io::Result<Vec<u8>> {
    let (head, body) = request.split_once("\r\n\r\n").unwrap_or((request, ""));
    stream.write_all(format!("{head}\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut answer).await? == 0 {
            return Ok(answer);
        }
    }
    if !answer.starts_with(b"HTTP/1.1 100") {
        return Ok(answer);
    }
    stream.write_all(body.as_bytes()).await?;
    let end = answer.windows(4).position(|end| end == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
    Ok(answer.split_off(end))
}

async fn begin_and_break_off(host: &str, request: &str) {
    for _ in 0..5 {
        if let Ok(mut stream) = TcpStream::connect(host).await {
            // A request that was not written did not begin.
            let _ = stream.write_all(&request.as_bytes()[..40]).await;
        }
    }
}

async fn exchange(sender: &Sender, host: &str, request: &str, each: Duration) -> Outcome {
    if sender.bug.is("begins-what-it-breaks-off") {
        begin_and_break_off(host, request).await;
    }
    if sender.bug.is("speaks-http-2-only") {
        return crate::sender_mutants::second::exchange(sender, host, request).await;
    }
    let Some(mut stream) = tls::connect(host, &sender.bug).await else { return Outcome::Refused };
    // The process may have been stopped past its lease.
    if !sender.is_its_own() {
        return Outcome::Refused;
    }
    let sent = if sender.bug.is("asks-before-it-sends-a-body") {
        send_first(&mut *stream, request).await
    } else {
        let written = stream.write_all(request.as_bytes()).await;
        written.and(stream.flush().await).map(|()| Vec::new())
    };
    let Ok(mut answer) = sent else { return Outcome::Cut };
    let mut dropped = 0;
    loop {
        if let Some(end) = answer.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4) {
            let head = Head(String::from_utf8_lossy(&answer[..end]).into_owned());
            dropped += answer.len() - end;
            if sender.bug.is("keeps-what-it-is-answered") {
                sender.kept.borrow_mut().extend_from_slice(&answer[end..]);
            }
            answer.truncate(end);
            if dropped >= head.field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0) {
                return head.outcome(sender.clock.unix_ns(sender.clock.now()));
            }
        }
        answer.reserve(READ_BYTES);
        match tokio::time::timeout(each, stream.read_buf(&mut answer)).await {
            Err(_) => return Outcome::Late,
            Ok(Ok(0)) => return Outcome::Closed,
            Ok(Err(_)) => return Outcome::Cut,
            Ok(Ok(_)) => {}
        }
    }
}

struct Head(String);

impl Head {
    fn field(&self, name: &str) -> Option<String> {
        let line = self.0.lines().find(|line| line.to_ascii_lowercase().starts_with(name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    }

    fn outcome(&self, unix_ns: u64) -> Outcome {
        Outcome::Answered {
            status: self.0.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0),
            retry_after: self.field("retry-after"),
            location: self.field("location"),
            allowed: self.field("webhook-allowed-origin"),
            unix_ns,
        }
    }
}
