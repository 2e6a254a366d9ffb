//! `header.*`: names in odd case, repeated values, bytes that are no text, oversized headers.

use super::super::bench::{Bench, Shot};
use super::super::course::{Case, Finding, Running, Shots, fire};
use super::super::want::Want::{Accept, NoBreak, Refuse, Reject, RejectOrClose};
use super::super::want::words;
use crate::wire::exchange::{Feed, Outcome};
use crate::wire::request::Request;
use hookproof_judge::catalogue::Verdict;

pub(super) const CASES: [Case; 4] = [
    Case::shots("header.case", odd_case),
    Case::shots("header.twice", twice),
    Case::shots("header.not-ascii", not_ascii),
    Case::course("header.32kb", |bench| -> Running<'_> { Box::pin(large(bench)) }),
];

const LARGE_BYTES: usize = 32 * 1024;
/// The bytes of headers after which a receiver must have reacted.
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
        shot("a signature that is no text", |prefix, _| [prefix, b"\xff\xfe\x80"].concat()),
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
    bench.keep("headers without end", &request, RejectOrClose, &exchange);
    let came =
        format!("headers without end: {} after {} kB", words(&exchange.outcome), exchange.written / 1024);
    let ended = match &exchange.outcome {
        // An answer after the last of them comes from a timeout, not a limit.
        _ if exchange.written >= ENDLESS_MAX => false,
        Outcome::Answer(_) => RejectOrClose.is_met(&exchange.outcome),
        other => *other == Outcome::Closed,
    };
    if ended { Finding::pass(format!("{}; {came}", found.came)) } else { Finding::fail(came) }
}
