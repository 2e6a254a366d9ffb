//! `header.*`: odd case, repeated values, bytes that are no text, oversized headers. `raw.*`: the raw bytes.

use hookproof_judge::catalogue::Verdict;

use super::signature::{wrong, wrongly_signed};
use super::{CHUNKED, Case, Finding, Running, Shots, THROTTLED, fire, limited};
use crate::suite::bench::{Bench, Delivery, Shot};
use crate::suite::record::Repeat;
use crate::suite::want::Want::{
    self, Accept, AcceptOrLength, NoBreak, Refuse, Reject, RejectOrClose, RejectOrUnknown,
};
use crate::suite::want::words;
use crate::wire::clock::unix_seconds;
use crate::wire::exchange::{Feed, Outcome};
use crate::wire::request::{Framing, Request, Spelling};

pub(super) const CASES: [Case; 6] = [
    Case::shots("header.case", odd_case),
    Case::shots("header.twice", twice),
    Case::shots("header.missing-id", missing_id),
    Case::course("header.expect", |bench| -> Running<'_> { Box::pin(expect(bench)) }),
    Case::shots("header.not-ascii", not_ascii),
    Case::course("header.32kb", |bench| -> Running<'_> { Box::pin(large(bench)) }),
];

const LARGE_BYTES: usize = 32 * 1024;
const ENDLESS_MAX: u64 = 8 * 1024 * 1024;

fn odd_case(bench: &Bench<'_>) -> Shots {
    let mut request = bench.signed(&bench.delivery()).sent().into_owned();
    for (name, _) in &mut request.headers {
        let odd = |(at, c): (usize, char)| {
            if at % 2 == 0 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
        };
        *name = name.chars().enumerate().map(odd).collect();
    }
    Ok(vec![Shot::new("names in OdD cAsE", request, Accept)])
}

fn twice(bench: &Bench<'_>) -> Shots {
    let profile = bench.settings.profile;
    let delivery = bench.delivery();
    let in_header = |signature: &str| profile.in_header(signature);
    let good = in_header(&bench.signature(&delivery));
    let request = bench.signed(&delivery).and(profile.signature_header(), good);
    let mut shots = vec![Shot::new("the signature header twice", request, NoBreak)];
    let mut both_orders = |header: &str, other: &str, want: Want| {
        let signed = || bench.signed(&bench.delivery());
        let place = if header == profile.signature_header() {
            profile.signature_place()
        } else {
            format!("{header} header")
        };
        let what = |order: &str| format!("two {place}s, {order}");
        shots.push(Shot::new(what("the signed one first"), signed().and(header, other), want));
        shots.push(Shot::new(what("the signed one last"), signed().after(header, other), want));
    };
    both_orders(profile.signature_header(), &in_header(&wrong(bench, &delivery, 0)), NoBreak);
    if let Some(header) = profile.id_header() {
        both_orders(header, &bench.delivery().id, Reject);
    }
    if let Some(header) = profile.timestamp_header() {
        both_orders(header, &bench.stamp(unix_seconds() - 1).to_string(), Reject);
    }
    Ok(shots)
}

fn missing_id(bench: &Bench<'_>) -> Shots {
    let profile = bench.settings.profile;
    let header = profile.id_header().ok_or_else(|| format!("{profile} has no header for an id"))?;
    let without = |what: &str, delivery: &Delivery, want: Want| {
        Shot::new(format!("no {header} header{what}"), bench.signed(delivery).without(header), want)
    };
    let whole = bench.delivery();
    if !profile.signs_id() {
        return Ok(vec![without("", &whole, NoBreak)]);
    }
    // A receiver that does not check its presence sees an empty id.
    let empty = Delivery { id: String::new(), ..bench.delivery() };
    Ok(vec![without("", &whole, Reject), without(", signed with an empty id", &empty, Reject)])
}

async fn expect(bench: &Bench<'_>) -> Finding {
    let request = bench.signed(&bench.delivery()).with("Expect", "100-continue");
    let (exchange, continued) = bench.expectant(&request).await;
    let label = "Expect: 100-continue, and the body after it";
    bench.record_as(Repeat::With("--expect100-timeout 60"), label, &request, Accept, &exchange);
    let came = words(&exchange.outcome);
    match &exchange.outcome {
        outcome if limited(outcome) => Finding::unclear("429: the receiver limits the suite"),
        outcome if continued && Accept.is_met(outcome) => Finding::pass(format!("100, then {came}")),
        _ if continued => Finding::fail(format!("100, then {came}")),
        // The sender repeats the delivery without the expectation.
        Outcome::Answer(answer) if answer.status == 417 => Finding::pass(came),
        Outcome::Silent => Finding::fail("neither 100 nor an answer in time"),
        _ => Finding::fail(format!("{came} before the body was sent")),
    }
}

fn not_ascii(bench: &Bench<'_>) -> Shots {
    let profile = bench.settings.profile;
    let delivery = bench.delivery();
    let header = profile.signature_header();
    // Another text in the place of the signature, without its prefix.
    let shot = |what: &str, change: &dyn Fn(&str) -> Vec<u8>| {
        let delivery = bench.delivery();
        let request = bench.signed(&delivery);
        let bare = bench.signature(&delivery).split_off(bench.prefix(&delivery).len());
        let value = String::from_utf8_lossy(request.header(header).unwrap_or_default()).into_owned();
        let (before, after) = value.rsplit_once(&bare).unwrap_or((&value, ""));
        let value = [before.as_bytes(), &change(&bare), after.as_bytes()].concat();
        Shot::new(what, request.with(header, value), Refuse)
    };
    let mut shots = vec![
        shot("a signature that is not text", &|_| b"\xff\xfe\x80".to_vec()),
        shot("a signature with accents", &|_| "é".repeat(22).into_bytes()),
        shot("a byte behind the right signature", &|bare| [bare.as_bytes(), b"\xff"].concat()),
        shot("the right signature in full-width characters", &full_width),
    ];
    if let Some(header) = profile.timestamp_header() {
        // Unicode digits, which some parsers accept.
        let digit = |c: char| char::from_u32(0x0660 + c.to_digit(10).unwrap_or(0)).unwrap_or('0');
        let arabic: String = delivery.timestamp.chars().map(digit).collect();
        let request = bench.signed(&delivery.at(&arabic)).with(header, &arabic);
        shots.push(Shot::new("a timestamp in Arabic digits", request, Refuse));
    }
    Ok(shots)
}

/// In characters that Unicode compatibility forms fold to ASCII.
fn full_width(text: &str) -> Vec<u8> {
    let wide = |byte: u8| char::from_u32(u32::from(byte) + 0xfee0).unwrap_or(' ');
    text.bytes().map(wide).collect::<String>().into_bytes()
}

async fn large(bench: &Bench<'_>) -> Finding {
    let header = bench.settings.profile.signature_header();
    let request = bench.signed(&bench.delivery()).with(header, "v".repeat(LARGE_BYTES));
    let found = fire(bench, &[Shot::new("a signature header of 32 kB", request, RejectOrClose)]).await;
    if found.verdict != Verdict::Pass {
        return found;
    }
    let request = bench.signed(&bench.delivery());
    let line = format!("X-Filler: {}\r\n", "f".repeat(4_000)).into_bytes();
    let feed = Feed::Endless(request.head(), line, ENDLESS_MAX);
    let exchange = bench.exchange(&feed, bench.settings.timeout).await;
    let repeat = Repeat::Not("curl sends no endless headers");
    bench.record_as(repeat, "endless headers", &request, RejectOrClose, &exchange);
    let came = format!("endless headers: {} after {} kB", words(&exchange.outcome), exchange.written / 1024);
    let ended = match &exchange.outcome {
        // A later answer comes from a timeout, not a limit.
        _ if exchange.written >= ENDLESS_MAX => false,
        Outcome::Answer(_) => RejectOrClose.is_met(&exchange.outcome),
        other => *other == Outcome::Closed,
    };
    if ended { Finding::pass(format!("{}; {came}", found.came)) } else { Finding::fail(came) }
}

pub(super) const RAW: [Case; 14] = [
    Case::shots("raw.whitespace", |bench| {
        let spaced = "{ \"a\" :\t1 ,\r\n  \"b\" : [ ] }  ";
        data(bench, "spaces, tabs and line breaks", spaced, r#"{"a":1,"b":[]}"#)
    }),
    Case::shots("raw.key-order", |bench| {
        data(bench, "unsorted keys", r#"{"z":1,"a":2,"10":3,"9":4,"m":5}"#, r#"{"a":2,"m":5,"z":1}"#)
    }),
    Case::shots("raw.duplicate-keys", |bench| {
        data(bench, "a key twice", r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#)
    }),
    Case::shots("raw.escapes", |bench| {
        let escapes = r#"{"a":"\u00e9 é \/ / \u003c < \ud83d\ude00 😀 \u0041"}"#;
        data(bench, "escapes", escapes, r#"{"a":"A"}"#)
    }),
    Case::shots("raw.numbers", |bench| {
        let numbers = "[1.0,1e3,1E-2,12345678901234567890,0.1000,-0,3.141592653589793238462643]";
        data(bench, "odd numbers", numbers, "[1,1000,1]")
    }),
    Case::shots("raw.newline", newline),
    Case::shots("raw.not-utf8", not_utf8),
    Case::shots("raw.replacement", replacement),
    Case::shots("raw.empty", |bench| body(bench, "an empty body", b"")),
    Case::shots("raw.not-json", not_json),
    Case::course("raw.verify-first", |bench| -> Running<'_> { Box::pin(verify_first(bench)) }),
    Case::course("raw.chunked", |bench| -> Running<'_> { Box::pin(framed(bench, chunked(bench))) }),
    Case::course("raw.chunk-extensions", |bench| -> Running<'_> {
        Box::pin(framed(bench, chunk_extensions(bench)))
    }),
    Case::course("raw.unread", |bench| -> Running<'_> { Box::pin(unread(bench)) }),
];

/// `plain` is similar data in a notation that every program writes.
fn data(bench: &Bench<'_>, what: &str, data: &str, plain: &str) -> Shots {
    let signed = |data| Ok::<_, String>(bench.signed(&bench.json()?.with_data(data)));
    Ok(vec![Shot::new(what, signed(data)?, Accept).controlled(signed(plain)?)])
}

fn body(bench: &Bench<'_>, what: &str, body: &[u8]) -> Shots {
    Ok(vec![Shot::new(what, bench.signed(&bench.json()?.with_body(body)), NoBreak)])
}

fn not_json(bench: &Bench<'_>) -> Shots {
    let mut shots = body(bench, "a body that is not JSON", b"hello, world")?;
    for text in ["null", "[]", "1", "\"x\"", "{}", "{\"type\":null}"] {
        shots.extend(body(bench, text, text.as_bytes())?);
    }
    Ok(shots)
}

fn newline(bench: &Bench<'_>) -> Shots {
    let shots = ["\n", "\r\n"].map(|end| {
        let delivery = bench.json()?;
        let body = [delivery.body.as_slice(), end.as_bytes()].concat();
        Ok(Shot::new(format!("{end:?} at the end"), bench.signed(&delivery.with_body(body)), Accept))
    });
    shots.into_iter().collect()
}

fn marked(bench: &Bench<'_>, bytes: &[u8]) -> Result<(Delivery, Vec<u8>), String> {
    let delivery = bench.json()?.with_data(r#"{"a":"@"}"#);
    let at = delivery.body.iter().position(|byte| *byte == b'@').unwrap_or_default();
    let body = [&delivery.body[..at], bytes, &delivery.body[at + 1..]].concat();
    Ok((delivery, body))
}

fn not_utf8(bench: &Bench<'_>) -> Shots {
    let (delivery, body) = marked(bench, b"\xff\xc3(")?;
    Ok(vec![Shot::new("bytes that are not UTF-8", bench.signed(&delivery.with_body(body)), NoBreak)])
}

fn signs_bytes(bench: &Bench<'_>) -> Result<(), String> {
    let profile = bench.settings.profile;
    let why = "signs members of the body, not its bytes";
    if profile.signs_body() { Ok(()) } else { Err(format!("{profile} {why}")) }
}

fn replacement(bench: &Bench<'_>) -> Shots {
    signs_bytes(bench)?;
    let (delivery, signed) = marked(bench, "\u{fffd}".as_bytes())?;
    let at = signed.windows(3).position(|three| three == "\u{fffd}".as_bytes()).unwrap_or_default();
    let wire = [&signed[..at], b"\xff", &signed[at + 3..]].concat();
    let request = bench.signed(&delivery.with_body(signed)).carrying(wire);
    Ok(vec![Shot::new("signed over U+FFFD, sent as 0xFF", request, Reject)])
}

/// Around the sizes where another digit begins.
const CHUNKS: [usize; 7] = [1, 15, 16, 17, 255, 256, 4096];
const CHUNKED_BYTES: usize = 10_000;

/// A server may answer 411 to a body without a Content-Length (RFC 9112, section 6.3; RFC 9110, section 15.5.12). One
/// that does so each time reads no chunks. If it takes some, a sender cannot tell which bodies pass.
async fn framed(bench: &Bench<'_>, shots: Vec<Shot>) -> Finding {
    let (mut taken, mut refused, mut broken) = (Vec::new(), Vec::new(), Vec::new());
    let mut cause = None;
    for Shot { label, request, want, .. } in &shots {
        let outcome = bench.send(label, request, *want).await.outcome;
        let came = format!("{label}: {}", words(&outcome));
        match &outcome {
            outcome if limited(outcome) => return Finding::unclear(format!("{came}: {THROTTLED}")),
            Outcome::Answer(answer) if answer.status == 411 => refused.push(came),
            outcome if want.is_met(outcome) => taken.push(words(outcome)),
            _ => {
                // The first ones are plain: nothing is known of special ones.
                let reads_none = taken.is_empty() && refused.is_empty();
                cause = cause.or(reads_none.then_some(CHUNKED));
                broken.push(came);
            }
        }
        if outcome == Outcome::Silent {
            break;
        }
    }
    taken.dedup();
    match (broken.is_empty(), taken.is_empty(), refused.is_empty()) {
        (false, ..) => Finding { cause, ..Finding::fail(broken.join("; ")) },
        (true, _, true) => Finding::pass(taken.join(", ")),
        (true, true, false) => Finding::new(
            Verdict::NotApplicable,
            "411 to every body in chunks, which RFC 9112, section 6.3, allows",
        ),
        (true, false, false) => Finding::warn(format!("{}; it takes the others", refused.join("; "))),
    }
}

fn chunked(bench: &Bench<'_>) -> Vec<Shot> {
    let plain =
        CHUNKS.map(|size| (format!("chunks of {size} bytes"), Framing::Chunks(size, Spelling::Plain)));
    let upper = ("their sizes in upper case".to_owned(), Framing::Chunks(255, Spelling::UpperCase));
    plain.into_iter().chain([upper]).map(|(what, framing)| in_chunks(bench, what, framing)).collect()
}

fn in_chunks(bench: &Bench<'_>, what: impl Into<String>, framing: Framing) -> Shot {
    let delivery = bench.delivery();
    let long = framing != Framing::Chunks(1, Spelling::Plain);
    let delivery = if long { delivery.of_length(CHUNKED_BYTES) } else { delivery };
    Shot::new(what, Request { framing, ..bench.signed(&delivery) }, AcceptOrLength)
}

fn chunk_extensions(bench: &Bench<'_>) -> Vec<Shot> {
    vec![
        // Shows whether the receiver reads chunks at all.
        in_chunks(bench, "chunks without extensions", Framing::Chunks(256, Spelling::Plain)),
        in_chunks(bench, "chunks with extensions", Framing::Chunks(256, Spelling::Extended)),
        in_chunks(bench, "a trailer behind the last chunk", Framing::Chunks(256, Spelling::Trailer)),
    ]
}

/// A receiver may read as much of a refused body as its buffer or its limit takes, and serve the rest.
const LONG_BYTES: usize = 2 * 1024 * 1024 + 64 * 1024;
const READ_ON_BYTES_MIN: usize = 4 * 1024;

/// Requests at the beginning and at each power of two. The empty lines between them are skipped by most servers before
/// a request (RFC 9112, section 2.2), so that a request is found from any place.
fn long(smuggled: &[u8]) -> Vec<u8> {
    let mut body = b"\r\n".repeat(LONG_BYTES / 2);
    let powers = std::iter::successors(Some(READ_ON_BYTES_MIN), |at| Some(at * 2));
    for at in std::iter::once(0).chain(powers.take_while(|at| at + smuggled.len() <= LONG_BYTES)) {
        body[at..at + smuggled.len()].copy_from_slice(smuggled);
    }
    body
}

/// Refused requests with correct deliveries in their body, each followed by a forgery on its connection. The second
/// answer must be the forgery's.
async fn unread(bench: &Bench<'_>) -> Finding {
    let smuggled = || bench.signed(&bench.delivery()).bytes();
    let header = bench.settings.profile.signature_header();
    let forged = || wrongly_signed(bench, 5);
    let unsigned = || forged().without(header);
    let put = || Request { method: "PUT", ..forged() };
    let rows = [
        ("an unsigned request", unsigned().carrying(smuggled()), Reject),
        ("an unsigned request of 2 MB", unsigned().carrying(long(&smuggled())), Reject),
        ("a wrongly signed request", forged().carrying(smuggled()), Reject),
        ("a request of text/plain", forged().with("Content-Type", "text/plain").carrying(smuggled()), Reject),
        ("a wrongly signed PUT", put().carrying(smuggled()), RejectOrUnknown),
        ("a wrongly signed PUT of 2 MB", put().carrying(long(&smuggled())), RejectOrUnknown),
    ];
    let (mut kept, mut accidents, mut broke) = (0, Vec::new(), Vec::new());
    for (what, first, want) in rows {
        let second = forged();
        let exchanges = bench.succession(&[first.bytes(), second.bytes()]).await;
        let after = format!("a forgery after {what}");
        let sent =
            [(what, &first, want, Repeat::Curl), (after.as_str(), &second, Reject, Repeat::After(&first))];
        for ((label, request, want, repeat), exchange) in sent.into_iter().zip(&exchanges) {
            bench.record_as(repeat, label, request, want, exchange);
            let came = format!("{label}: {}", words(&exchange.outcome));
            match &exchange.outcome {
                outcome if limited(outcome) => return Finding::unclear(came),
                outcome if want.is_accident(outcome) => {
                    accidents.push(came);
                    broke.push(request.clone());
                }
                // A connection may close at any time.
                Outcome::Closed => {}
                outcome if !want.is_met(outcome) => return Finding::fail(came),
                _ => {}
            }
        }
        kept += usize::from(exchanges.len() == 2);
    }
    match accidents.is_empty() {
        false => {
            let forged: Vec<&Request> = broke.iter().collect();
            Finding::accident(bench, &forged, None, &accidents.join("; ")).await
        }
        true if kept == 0 => Finding::pass("it keeps no connection open after a refusal"),
        true => Finding::pass("each was refused, and 4xx to a forgery after it"),
    }
}

async fn verify_first(bench: &Bench<'_>) -> Finding {
    if let Err(why) = signs_bytes(bench) {
        return Finding::new(Verdict::NotApplicable, why);
    }
    let (good, bad) = match (bench.json(), bench.json()) {
        (Ok(good), Ok(bad)) => (good, bad.with_body("{\"a\":")),
        (Err(why), _) | (_, Err(why)) => return Finding::new(Verdict::NotApplicable, why),
    };
    let (mut statuses, mut forged) = (Vec::new(), Vec::new());
    for (what, delivery) in [("good JSON", good), ("bad JSON", bad)] {
        let request = bench.request(&delivery, &[wrong(bench, &delivery, 0)]);
        let exchange = bench.send(&format!("a wrong signature with {what}"), &request, Reject).await;
        match &exchange.outcome {
            outcome if limited(outcome) => return Finding::unclear("429: the receiver limits the suite"),
            Outcome::Answer(answer) => statuses.push(answer.status),
            other => return Finding::fail(format!("{what}: {}", words(other))),
        }
        forged.push(request);
    }
    let came = format!("{} with good JSON, {} with bad", statuses[0], statuses[1]);
    match statuses[0] {
        status if status != statuses[1] => {
            let wrong = Some("another status for bad JSON".to_owned());
            Finding { wrong, ..Finding::fail(came) }
        }
        500.. => Finding::accident(bench, &forged.iter().collect::<Vec<_>>(), None, &came).await,
        400.. => Finding::pass(came),
        _ => Finding::fail(came),
    }
}
