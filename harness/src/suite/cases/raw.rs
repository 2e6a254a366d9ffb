//! `raw.*`: verification of the raw bytes.

use super::super::bench::{Bench, Shot};
use super::super::course::{Case, Finding, Running, Shots, limited};
use super::super::want::Want::{Accept, NoBreak, Reject};
use super::super::want::words;
use super::signature::wrong;
use crate::wire::exchange::Outcome;
use crate::wire::request::{Framing, Request};

pub(super) const CASES: [Case; 12] = [
    Case::shots("raw.whitespace", |bench| {
        data(bench, "blanks, tabs and line breaks", "{ \"a\" :\t1 ,\r\n  \"b\" : [ ] }  ")
    }),
    Case::shots("raw.key-order", |bench| {
        data(bench, "keys in no order", r#"{"z":1,"a":2,"10":3,"9":4,"m":5}"#)
    }),
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
    Case::shots("raw.not-json", |bench| body(bench, "a body that is no JSON", b"hello, world")),
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

/// A delivery with a mark in its body, and the body with other bytes in its place.
fn marked(bench: &Bench<'_>, bytes: &[u8]) -> (super::super::bench::Delivery, Vec<u8>) {
    let delivery = bench.delivery().with_data(r#"{"a":"@"}"#);
    let at = delivery.body.iter().position(|byte| *byte == b'@').unwrap_or_default();
    let body = [&delivery.body[..at], bytes, &delivery.body[at + 1..]].concat();
    (delivery, body)
}

fn not_utf8(bench: &Bench<'_>) -> Shots {
    let (delivery, body) = marked(bench, b"\xff\xc3(");
    Ok(vec![Shot::new("bytes that are no UTF-8", bench.signed(&delivery.with_body(body)), NoBreak)])
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
