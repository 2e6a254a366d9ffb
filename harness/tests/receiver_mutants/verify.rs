use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookproof::wire::clock::unix_seconds;
use hookproof_play::endpoint::http_date;
use md5::{Digest as _, Md5};
use ring::hmac;

use crate::receiver_mutants::SECRET;
use crate::receiver_mutants::flaw::Flaw;
use crate::receiver_mutants::server::{Request, Server};

pub(crate) enum Verdict {
    Good { id: String, timestamp: String },
    Bad(u16, String),
}

pub(crate) fn verify(server: &Server, request: &Request) -> Verdict {
    match judge(server, request) {
        Ok((id, timestamp)) => Verdict::Good { id, timestamp },
        Err((status, why)) => Verdict::Bad(status, why),
    }
}

type Refused = (u16, String);

fn refused() -> Refused {
    (401, "unauthorized".to_owned())
}

fn judge(server: &Server, request: &Request) -> Result<(String, String), Refused> {
    if is_trusted(server, request) {
        let header = |name| request.header(name).unwrap_or_default();
        return Ok((header("webhook-id"), header("webhook-timestamp")));
    }
    let id = one(server, request, "webhook-id")?;
    let timestamp = one(server, request, "webhook-timestamp")?;
    if id.contains('.') && !server.has(Flaw::DotInId) {
        return Err(refused());
    }
    match server.flaw {
        Some(Flaw::AgeOfDate) if let Some(date) = request.header("date") => fresh_date(&date)?,
        _ => fresh(server, &timestamp)?,
    }
    signed(server, request, &id, &timestamp)?;
    Ok((id, timestamp))
}

/// Whether a flaw lets the request pass unverified.
fn is_trusted(server: &Server, request: &Request) -> bool {
    let is_local = |given: String| given.starts_with("127.0.0.1");
    server.has(Flaw::TrustsProxy) && request.header("x-forwarded-for").is_some_and(is_local)
}

fn one(server: &Server, request: &Request, name: &str) -> Result<String, Refused> {
    let values = request.values(name);
    let twice_the_same = name == "webhook-signature" && values.len() == 2 && values[0] == values[1];
    match values.as_slice() {
        [value] => text(server, value),
        [value, _] if twice_the_same => text(server, value),
        _ => Err(refused()),
    }
}

fn text(server: &Server, value: &[u8]) -> Result<String, Refused> {
    if server.has(Flaw::ThrowsOnEmpty) && value.is_empty() {
        return Err((500, String::new()));
    }
    if server.has(Flaw::NotAsciiBreaks) && !value.is_ascii() {
        return Err((500, String::new()));
    }
    let visible = !value.is_empty() && value.iter().all(|byte| *byte == b' ' || byte.is_ascii_graphic());
    let empty_is_fine = value.is_empty() && server.has(Flaw::EmptyIsFine);
    if visible || empty_is_fine { Ok(String::from_utf8_lossy(value).into_owned()) } else { Err(refused()) }
}

fn fresh(server: &Server, timestamp: &str) -> Result<(), Refused> {
    let seconds: i64 = timestamp.parse().map_err(|_| refused())?;
    if seconds < 0 || seconds.to_string() != timestamp {
        return Err(refused());
    }
    let tolerance = 300;
    let age = unix_seconds().saturating_sub(seconds);
    let old = age > tolerance && !server.has(Flaw::NoAgeCheck);
    let ahead = age < -tolerance && !server.has(Flaw::NoFutureCheck);
    if old || ahead { Err(refused()) } else { Ok(()) }
}

fn fresh_date(date: &str) -> Result<(), Refused> {
    let now = unix_seconds().unsigned_abs();
    if (now - 300..=now).any(|second| http_date(second) == date) { Ok(()) } else { Err(refused()) }
}

fn signed(server: &Server, request: &Request, id: &str, timestamp: &str) -> Result<(), Refused> {
    if server.has(Flaw::MissingIsFine) && request.values("webhook-signature").is_empty() {
        return Ok(());
    }
    let header = one(server, request, "webhook-signature")?;
    if server.has(Flaw::EmptyIsFine) && header.is_empty() {
        return Ok(());
    }
    let header = if server.has(Flaw::TrimsSignature) { header.replace(", ", ",") } else { header };
    let body = seen_body(server, &request.body);
    let signed_id = match serde_json::from_slice::<serde_json::Value>(&request.body) {
        Ok(event) if server.has(Flaw::IdFromBody) => event["id"].as_str().unwrap_or(id).to_owned(),
        _ => id.to_owned(),
    };
    let expected = expected_tags(server, &signed_id, timestamp, &body);
    let good = header.split(' ').any(|one| matches(server, one, &expected));
    match server.flaw {
        _ if good => Ok(()),
        Some(Flaw::TellsExpected) => Err((401, format!("expected v1,{}", STANDARD.encode(&expected[0])))),
        Some(Flaw::TellsTraceInJson) => Err((
            401,
            r#"{"error":"java.lang.IllegalStateException: no\n\tat com.example.Hooks.verify(Hooks.java:7)"}"#
                .to_owned(),
        )),
        Some(Flaw::TellsKey) => {
            let key = STANDARD.decode(SECRET.trim_start_matches("whsec_")).unwrap();
            let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            Err((401, format!("wrong signature by {key}")))
        }
        Some(Flaw::TellsTrace) => {
            Err((401, "Traceback (most recent call last):\n  File \"app.py\", line 7".to_owned()))
        }
        _ => Err(refused()),
    }
}

/// The right tag first, then those that a flaw accepts.
fn expected_tags(server: &Server, id: &str, timestamp: &str, body: &[u8]) -> Vec<Vec<u8>> {
    let content = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat();
    let also = server.has(Flaw::ReadsAlgorithm).then(|| md5_tag(&content));
    std::iter::once(tag(SECRET, &content)).chain(also).collect()
}

fn seen_body(server: &Server, body: &[u8]) -> Vec<u8> {
    match server.flaw {
        Some(Flaw::WritesJsonAgain) => serde_json::from_slice::<serde_json::Value>(body)
            .map_or_else(|_| body.to_vec(), |value| rewritten(&value)),
        Some(Flaw::DropsMark) => body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body).to_vec(),
        Some(Flaw::VerifiesText) => String::from_utf8_lossy(body).into_owned().into_bytes(),
        _ => body.to_vec(),
    }
}

/// JSON without blanks, the four known fields in order.
fn rewritten(value: &serde_json::Value) -> Vec<u8> {
    let field = |name: &str| value.get(name).map(|value| format!("\"{name}\":{value}"));
    let title = value.get("data").and_then(|data| data.get("title"));
    if let Some(title) = title {
        // An ordered map writes the suite's data so.
        let data = format!("\"data\":{{\"video\":\"v1\",\"views\":1200000,\"title\":{title}}}");
        let fields = [field("id"), field("type"), field("timestamp"), Some(data)];
        return format!("{{{}}}", fields.into_iter().flatten().collect::<Vec<_>>().join(",")).into_bytes();
    }
    let fields = ["id", "type", "timestamp", "data"].map(field);
    format!("{{{}}}", fields.into_iter().flatten().collect::<Vec<_>>().join(",")).into_bytes()
}

fn md5_tag(content: &[u8]) -> Vec<u8> {
    let key = STANDARD.decode(SECRET.trim_start_matches("whsec_")).unwrap();
    let padded =
        |with: u8| -> Vec<u8> { (0..64).map(|at| key.get(at).copied().unwrap_or_default() ^ with).collect() };
    let inner = Md5::digest([padded(0x36).as_slice(), content].concat());
    Md5::digest([padded(0x5c).as_slice(), inner.as_slice()].concat()).to_vec()
}

/// As the handshake wants it.
pub(crate) fn hmac(challenge: &str) -> String {
    STANDARD.encode(tag(SECRET, challenge.as_bytes()))
}

fn tag(secret: &str, content: &[u8]) -> Vec<u8> {
    let key = STANDARD.decode(secret.trim_start_matches("whsec_")).unwrap();
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), content).as_ref().to_vec()
}

/// Not in constant time, because there is no attacker.
fn matches(server: &Server, one: &str, expected: &[Vec<u8>]) -> bool {
    let text = match server.flaw {
        Some(Flaw::ReadsAlgorithm) => one.strip_prefix("v1,").or_else(|| one.strip_prefix("md5,")),
        Some(Flaw::AnyAlgorithm) => one.strip_prefix("v1,").or_else(|| one.strip_prefix("v1a,")),
        _ => one.strip_prefix("v1,"),
    };
    let Some(text) = text else { return false };
    if server.has(Flaw::NeverVerifies) {
        return STANDARD.decode(text).is_ok_and(|bytes| bytes.len() == 32);
    }
    let spelled: Vec<String> = expected.iter().map(|tag| STANDARD.encode(tag)).collect();
    let decoded = || STANDARD.decode(text).ok().filter(|given| given.len() == expected[0].len());
    match server.flaw {
        Some(Flaw::XorsDifferences) => decoded().is_some_and(|given| {
            given.iter().zip(&expected[0]).fold(0, |sum, (one, other)| sum ^ one ^ other) == 0
        }),
        _ => spelled.iter().any(|good| good == text),
    }
}
