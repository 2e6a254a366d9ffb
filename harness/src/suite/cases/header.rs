//! `header.*`: odd case, repeated values, bytes that are no text, oversized headers. `raw.*`: the raw bytes.

use hookproof_judge::catalogue::Verdict;

use super::signature::wrong;
use super::{Case, Finding, Running, Shots, fire, limited};
use crate::suite::bench::{Bench, Shot};
use crate::suite::want::Want::{Accept, NoBreak, Refuse, Reject, RejectOrClose};
use crate::suite::want::words;
use crate::wire::exchange::{Feed, Outcome};
use crate::wire::request::{Framing, Request};

pub(super) const CASES: [Case; 4] = [
    Case::shots("header.case", odd_case),
    Case::shots("header.twice", twice),
    Case::shots("header.not-ascii", not_ascii),
    Case::course("header.32kb", |bench| -> Running<'_> { Box::pin(large(bench)) }),
];

const LARGE_BYTES: usize = 32 * 1024;
/// A receiver must have reacted to so many bytes.
const ENDLESS_MAX: u64 = 8 * 1024 * 1024;

fn odd_case(bench: &Bench<'_>) -> Shots {
    let mut request = bench.signed(&bench.delivery());
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
    let request = bench.signed(&delivery).and(profile.signature_header(), bench.signature(&delivery));
    let mut shots = vec![Shot::new("the signature header twice", request, NoBreak)];
    if let Some(header) = profile.id_header() {
        let delivery = bench.delivery();
        let request = bench.signed(&delivery).and(header, bench.delivery().id);
        shots.push(Shot::new(format!("two {header} headers with two values"), request, Reject));
    }
    Ok(shots)
}

fn not_ascii(bench: &Bench<'_>) -> Shots {
    let profile = bench.settings.profile;
    let delivery = bench.delivery();
    let header = profile.signature_header();
    let prefix = profile.signature_prefix().as_bytes();
    let good = |request: &Request| request.header(header).unwrap_or_default().to_vec();
    let shot = |what: &str, value: fn(&[u8], Vec<u8>) -> Vec<u8>| {
        let request = bench.signed(&bench.delivery());
        let value = value(prefix, good(&request));
        Shot::new(what, request.with(header, value), Refuse)
    };
    let mut shots = vec![
        shot("a signature that is not text", |prefix, _| [prefix, b"\xff\xfe\x80"].concat()),
        shot("a signature with accents", |prefix, _| [prefix, "é".repeat(22).as_bytes()].concat()),
        shot("a byte behind the right signature", |_, good| [good.as_slice(), b"\xff"].concat()),
        shot("the right signature in full-width characters", full_width),
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

/// The signature after its prefix, in characters that Unicode compatibility forms fold to ASCII.
fn full_width(prefix: &[u8], good: Vec<u8>) -> Vec<u8> {
    let wide = |byte: &u8| match byte {
        b'!'..=b'~' => char::from_u32(u32::from(*byte) + 0xfee0).unwrap_or(' '),
        other => char::from(*other),
    };
    let text: String = good[prefix.len().min(good.len())..].iter().map(wide).collect();
    [prefix, text.as_bytes()].concat()
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
    bench.record_exchange("endless headers", &request, RejectOrClose, &exchange);
    let came = format!("endless headers: {} after {} kB", words(&exchange.outcome), exchange.written / 1024);
    let ended = match &exchange.outcome {
        // A later answer comes from a timeout, not a limit.
        _ if exchange.written >= ENDLESS_MAX => false,
        Outcome::Answer(_) => RejectOrClose.is_met(&exchange.outcome),
        other => *other == Outcome::Closed,
    };
    if ended { Finding::pass(format!("{}; {came}", found.came)) } else { Finding::fail(came) }
}

pub(super) const RAW: [Case; 12] = [
    Case::shots("raw.whitespace", |bench| {
        data(bench, "spaces, tabs and line breaks", "{ \"a\" :\t1 ,\r\n  \"b\" : [ ] }  ")
    }),
    Case::shots("raw.key-order", |bench| data(bench, "unsorted keys", r#"{"z":1,"a":2,"10":3,"9":4,"m":5}"#)),
    Case::shots("raw.duplicate-keys", |bench| data(bench, "a key twice", r#"{"a":1,"b":2,"a":3}"#)),
    Case::shots("raw.escapes", |bench| {
        data(bench, "escapes", r#"{"a":"\u00e9 é \/ / \u003c < \ud83d\ude00 😀 \u0041"}"#)
    }),
    Case::shots("raw.numbers", |bench| {
        let numbers = "[1.0,1e3,1E-2,12345678901234567890,0.1000,-0,3.141592653589793238462643]";
        data(bench, "odd numbers", numbers)
    }),
    Case::shots("raw.newline", newline),
    Case::shots("raw.not-utf8", not_utf8),
    Case::shots("raw.replacement", replacement),
    Case::shots("raw.empty", |bench| body(bench, "an empty body", b"")),
    Case::shots("raw.not-json", |bench| body(bench, "a body that is not JSON", b"hello, world")),
    Case::course("raw.verify-first", |bench| -> Running<'_> { Box::pin(verify_first(bench)) }),
    Case::shots("raw.chunked", chunked),
];

fn data(bench: &Bench<'_>, what: &str, data: &str) -> Shots {
    let delivery = bench.delivery().with_data(data);
    Ok(vec![Shot::new(what, bench.signed(&delivery), Accept)])
}

fn body(bench: &Bench<'_>, what: &str, body: &[u8]) -> Shots {
    Ok(vec![Shot::new(what, bench.signed(&bench.delivery().with_body(body)), NoBreak)])
}

fn newline(bench: &Bench<'_>) -> Shots {
    let shots = ["\n", "\r\n"].map(|end| {
        let delivery = bench.delivery();
        let body = [delivery.body.as_slice(), end.as_bytes()].concat();
        Shot::new(format!("{end:?} at the end"), bench.signed(&delivery.with_body(body)), Accept)
    });
    Ok(shots.into())
}

fn marked(bench: &Bench<'_>, bytes: &[u8]) -> (super::super::bench::Delivery, Vec<u8>) {
    let delivery = bench.delivery().with_data(r#"{"a":"@"}"#);
    let at = delivery.body.iter().position(|byte| *byte == b'@').unwrap_or_default();
    let body = [&delivery.body[..at], bytes, &delivery.body[at + 1..]].concat();
    (delivery, body)
}

fn not_utf8(bench: &Bench<'_>) -> Shots {
    let (delivery, body) = marked(bench, b"\xff\xc3(");
    Ok(vec![Shot::new("bytes that are not UTF-8", bench.signed(&delivery.with_body(body)), NoBreak)])
}

fn replacement(bench: &Bench<'_>) -> Shots {
    let (delivery, signed) = marked(bench, "\u{fffd}".as_bytes());
    let at = signed.windows(3).position(|three| three == "\u{fffd}".as_bytes()).unwrap_or_default();
    let wire = [&signed[..at], b"\xff", &signed[at + 3..]].concat();
    let request = bench.signed(&delivery.with_body(signed)).carrying(wire);
    Ok(vec![Shot::new("signed over U+FFFD, sent as 0xFF", request, Reject)])
}

fn chunked(bench: &Bench<'_>) -> Shots {
    let request = Request { framing: Framing::BytePerChunk, ..bench.signed(&bench.delivery()) };
    Ok(vec![Shot::new("one byte per chunk", request, Accept)])
}

async fn verify_first(bench: &Bench<'_>) -> Finding {
    let good = bench.delivery();
    let bad = bench.delivery().with_body("{\"a\":");
    let mut statuses = Vec::new();
    for (what, delivery) in [("good JSON", good), ("bad JSON", bad)] {
        let request = bench.request(&delivery, &[wrong(bench, 0)]);
        let exchange = bench.send(&format!("a wrong signature with {what}"), &request, Reject).await;
        match &exchange.outcome {
            outcome if limited(outcome) => return Finding::unclear("429: the receiver limits the suite"),
            Outcome::Answer(answer) => statuses.push(answer.status),
            other => return Finding::fail(format!("{what}: {}", words(other))),
        }
    }
    let came = format!("{} with good JSON, {} with bad", statuses[0], statuses[1]);
    match statuses[0] {
        status if status != statuses[1] => Finding::fail(came),
        500.. => Finding::accident(&came),
        _ => Finding::pass(came),
    }
}
