use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hookproof::wire::clock::unix_seconds;
use hookproof_play::endpoint::http_date;
use md5::{Digest as _, Md5};
use ring::{digest, hmac};

use crate::receiver_mutants::flaw::Flaw;
use crate::receiver_mutants::server::{Request, Server};
use crate::receiver_mutants::{RETIRED, SECRET};

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
    let id = match one(server, request, "webhook-id") {
        Err(_) if server.has(Flaw::NoIdIsFine) && request.values("webhook-id").is_empty() => String::new(),
        id => id?,
    };
    let timestamp = match one(server, request, "webhook-timestamp") {
        Err(_) if server.has(Flaw::AgeOfFirst) || server.has(Flaw::AgeOfLast) => {
            return two_timestamps(server, request, &id);
        }
        Err(_) if server.has(Flaw::NoTimestampIsFine) && request.values("webhook-timestamp").is_empty() => {
            return signed(server, request, &id, "").map(|()| (id, String::new()));
        }
        Err(_) if server.has(Flaw::EmptyTimestampIsFine) && request.values("webhook-timestamp") == [b""] => {
            return signed(server, request, &id, "").map(|()| (id, String::new()));
        }
        other => other?,
    };
    if id.contains('.') && !server.has(Flaw::DotInId) {
        return Err(refused());
    }
    match server.flaw {
        Some(Flaw::AgeOfDate) if let Some(date) = request.header("date") => fresh_date(&date)?,
        Some(Flaw::AgeOfUnsigned) if let Some(stamp) = request.header("x-timestamp") => {
            fresh(server, &stamp)?;
        }
        _ => fresh(server, &timestamp)?,
    }
    signed(server, request, &seen_id(server, &id), &seen_timestamp(server, &timestamp))?;
    Ok((id, timestamp))
}

/// Whether a flaw lets the request pass unverified.
fn is_trusted(server: &Server, request: &Request) -> bool {
    let says = |name, value: &str| request.header(name).is_some_and(|given| given.starts_with(value));
    match server.flaw {
        Some(Flaw::VerifiesJsonOnly) => says("content-type", "text/plain"),
        Some(Flaw::TrustsProxy) => says("x-forwarded-for", "127.0.0.1"),
        Some(Flaw::TrustsDebug) => request.header("x-debug").is_some(),
        _ => false,
    }
}

fn two_timestamps(server: &Server, request: &Request, id: &str) -> Result<(String, String), Refused> {
    let [first, last] = request.values("webhook-timestamp")[..] else { return Err(refused()) };
    let (first, last) = (text(server, first)?, text(server, last)?);
    let (aged, verified) = if server.has(Flaw::AgeOfFirst) { (first, last) } else { (last, first) };
    fresh(server, &aged)?;
    signed(server, request, id, &verified)?;
    Ok((id.to_owned(), verified))
}

fn one(server: &Server, request: &Request, name: &str) -> Result<String, Refused> {
    let values = if server.has(Flaw::CaseMatters) {
        let named = request.headers.iter().filter(|(known, _)| known == name);
        named.map(|(_, value)| value.as_slice()).collect()
    } else {
        request.values(name)
    };
    let first_of_two = server.has(Flaw::FirstOfTwo) && values.len() == 2;
    let twice_the_same = name == "webhook-signature" && values.len() == 2 && values[0] == values[1];
    match values.as_slice() {
        [value] => text(server, value),
        [_, value] if server.has(Flaw::LastOfTwo) && name == "webhook-id" => text(server, value),
        [value, _] if first_of_two || twice_the_same => text(server, value),
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
    if server.has(Flaw::FoldsWidth) {
        return Ok(String::from_utf8_lossy(value).chars().map(narrow).collect());
    }
    let visible = !value.is_empty() && value.iter().all(|byte| *byte == b' ' || byte.is_ascii_graphic());
    let empty_is_fine = value.is_empty() && server.has(Flaw::EmptyIsFine);
    if visible || empty_is_fine { Ok(String::from_utf8_lossy(value).into_owned()) } else { Err(refused()) }
}

fn fresh(server: &Server, timestamp: &str) -> Result<(), Refused> {
    let digits: String = timestamp.trim_start_matches('+').chars().take_while(char::is_ascii_digit).collect();
    let seconds: i64 = match server.flaw {
        Some(Flaw::LenientTimestamp | Flaw::RewritesTimestamp) => digits.parse().map_err(|_| refused())?,
        Some(Flaw::NotANumber) if timestamp == "NaN" => return Ok(()),
        _ => {
            let seconds: i64 = timestamp.parse().map_err(|_| refused())?;
            if seconds < 0 || seconds.to_string() != timestamp {
                return Err(refused());
            }
            seconds
        }
    };
    let tolerance = if server.has(Flaw::NarrowTolerance) { 60 } else { 300 };
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
    let mut given = header.split(' ');
    let good = match server.flaw {
        Some(Flaw::LastSignatureOnly) => given.next_back().is_some_and(|one| matches(server, one, &expected)),
        Some(Flaw::StopsAtForeign) => {
            given.clone().all(|one| !one.contains(',') || one.starts_with("v1,"))
                && given.any(|one| matches(server, one, &expected))
        }
        Some(Flaw::FirstSignatureOnly) => given.next().is_some_and(|one| matches(server, one, &expected)),
        Some(Flaw::StopsAtGarbage) => {
            given.clone().all(|one| one.strip_prefix("v1,").is_some_and(|text| STANDARD.decode(text).is_ok()))
                && given.any(|one| matches(server, one, &expected))
        }
        _ => given.any(|one| matches(server, one, &expected)),
    };
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
    let content = |timestamp: &str| [id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat();
    let mut expected = vec![tag(SECRET, &content(timestamp))];
    match (server.flaw, timestamp.parse::<i64>()) {
        (Some(Flaw::RetiredKey), _) => expected.push(tag(RETIRED, &content(timestamp))),
        (Some(Flaw::EmptyKey), _) => expected.push(tag("", &content(timestamp))),
        (Some(Flaw::ForgetsKey), _) => {
            expected.push(digest::digest(&digest::SHA256, &content(timestamp)).as_ref().to_vec());
        }
        (Some(Flaw::ReadsAlgorithm | Flaw::GuessesAlgorithm), _) => {
            expected.push(md5_tag(&content(timestamp)));
        }
        (Some(Flaw::BodyOnly), _) => expected.push(tag(SECRET, body)),
        (Some(Flaw::ForgetsId), _) => {
            expected.push(tag(SECRET, &[timestamp.as_bytes(), b".", body].concat()));
        }
        (Some(Flaw::ForgetsTimestamp), _) => {
            expected.push(tag(SECRET, &[id.as_bytes(), b".", body].concat()));
        }
        (Some(Flaw::ForgetsBody), _) => {
            expected.push(tag(SECRET, format!("{id}.{timestamp}.").as_bytes()));
        }
        (Some(Flaw::JoinsWithoutDots), _) => {
            expected.push(tag(SECRET, &[id.as_bytes(), timestamp.as_bytes(), body].concat()));
        }
        (Some(Flaw::TrimsAlso), _) => {
            let head = [id.as_bytes(), b".", timestamp.as_bytes(), b"."].concat();
            expected.push(tag(SECRET, &[head.as_slice(), body.trim_ascii()].concat()));
        }
        (Some(Flaw::GuessesTimestamp), Ok(seconds)) => {
            expected.extend([seconds - 1, seconds + 1].map(|at| tag(SECRET, &content(&at.to_string()))));
        }
        _ => {}
    }
    expected
}

fn seen_id(server: &Server, id: &str) -> String {
    match server.flaw {
        Some(Flaw::FoldsId) => id.to_lowercase(),
        Some(Flaw::DecodesId) => percent_decoded(id),
        _ => id.to_owned(),
    }
}

fn seen_timestamp(server: &Server, timestamp: &str) -> String {
    if !server.has(Flaw::RewritesTimestamp) {
        return timestamp.to_owned();
    }
    let digits: String = timestamp.trim_start_matches('+').chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<i64>().map_or(digits, |seconds| seconds.to_string())
}

fn narrow(c: char) -> char {
    match u32::from(c) {
        wide @ 0xff01..=0xff5e => char::from_u32(wide - 0xfee0).unwrap_or(c),
        _ => c,
    }
}

fn percent_decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..2).and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                decoded.push(char::from(byte));
                decoded.push_str(&part[2..]);
            }
            None => {
                decoded.push('%');
                decoded.push_str(part);
            }
        }
    }
    decoded
}

fn seen_body(server: &Server, body: &[u8]) -> Vec<u8> {
    match server.flaw {
        Some(Flaw::WritesJsonAgain) => serde_json::from_slice::<serde_json::Value>(body)
            .map_or_else(|_| body.to_vec(), |value| rewritten(&value)),
        Some(Flaw::TrimsBody) => body.trim_ascii().to_vec(),
        Some(Flaw::DropsMark) => body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body).to_vec(),
        Some(Flaw::NormalizesText) => match std::str::from_utf8(body) {
            Ok(text) => text.replace("e\u{301}", "é").into_bytes(),
            Err(_) => body.to_vec(),
        },
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
        Some(Flaw::AnyVersion) => one.split_once(',').map(|(_, text)| text),
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
        Some(Flaw::ComparesHalf) => decoded().is_some_and(|given| given[..16] == expected[0][..16]),
        Some(Flaw::SkipsByte) => {
            decoded().is_some_and(|given| given[..5] == expected[0][..5] && given[6..] == expected[0][6..])
        }
        Some(Flaw::MasksBit) => decoded().is_some_and(|given| {
            given.iter().zip(&expected[0]).all(|(one, other)| (one ^ other) & 0xf7 == 0)
        }),
        Some(Flaw::XorsDifferences) => decoded().is_some_and(|given| {
            given.iter().zip(&expected[0]).fold(0, |sum, (one, other)| sum ^ one ^ other) == 0
        }),
        Some(Flaw::FoldsSignature) => spelled.iter().any(|good| good.eq_ignore_ascii_case(text)),
        Some(Flaw::DecodesPercent) => spelled.contains(&percent_decoded(text)),
        Some(Flaw::ComparesPrefix) if text.len() >= 8 => spelled.iter().any(|good| good.starts_with(text)),
        Some(Flaw::TakesHex) => {
            let hex = |tag: &Vec<u8>| tag.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            spelled.iter().any(|good| good == text) || expected.iter().any(|tag| hex(tag) == text)
        }
        Some(Flaw::LenientBase64) => {
            let known = |byte: &char| byte.is_ascii_alphanumeric() || matches!(byte, '+' | '/');
            let text: String = text.split('=').next().unwrap_or_default().chars().filter(known).collect();
            let config = GeneralPurposeConfig::new()
                .with_decode_allow_trailing_bits(true)
                .with_decode_padding_mode(DecodePaddingMode::Indifferent);
            let lenient = GeneralPurpose::new(&alphabet::STANDARD, config);
            lenient.decode(text).is_ok_and(|bytes| expected.contains(&bytes))
        }
        _ => spelled.iter().any(|good| good == text),
    }
}
