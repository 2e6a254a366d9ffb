//! `limit.*`: excessive requests, and the service of others meanwhile.

use std::time::Duration;

use tokio::task::JoinSet;

use super::super::bench::{Bench, Shot};
use super::super::course::{Case, Finding, Running, Shots};
use super::super::want::Want::{Accept, NoBreak, RejectOrClose};
use super::super::want::words;
use crate::wire::clock::pass;
use crate::wire::exchange::{Feed, Outcome, exchange};
use crate::wire::request::Request;

pub(super) const CASES: [Case; 5] = [
    Case::shots("limit.20kb", |bench| sized(bench, "a body of 20 kB", 20_000)),
    Case::shots("limit.1mb", |bench| sized(bench, "a body of 1 MB", 1_000_000)),
    Case::course("limit.endless", |bench| -> Running<'_> { Box::pin(endless(bench)) }),
    Case::course("limit.slow", |bench| -> Running<'_> { Box::pin(slow(bench)) }),
    Case::shots("limit.deep", deep),
];

/// The bytes of an endless body after which it counts as swallowed.
const ENDLESS_MAX: u64 = 64 * 1024 * 1024;
const DEEP: usize = 100_000;
/// Slow connections: half of them never end their head, half never end their body.
const SLOW_CONNECTIONS: usize = 50;
const SLOW_GAP: Duration = Duration::from_secs(1);
/// At a byte a second, twelve days.
const SLOW_BYTES_MAX: usize = 1_000_000;

fn sized(bench: &Bench<'_>, what: &str, bytes: usize) -> Shots {
    let delivery = bench.delivery().with_data("\"\"");
    let filler = "x".repeat(bytes.saturating_sub(delivery.body.len()));
    let delivery = delivery.with_data(&format!("\"{filler}\""));
    Ok(vec![Shot::new(what, bench.signed(&delivery), Accept)])
}

async fn endless(bench: &Bench<'_>) -> Finding {
    let request = bench.signed(&bench.delivery());
    let block = vec![b'x'; 64 * 1024];
    let chunk = [format!("{:x}\r\n", block.len()).as_bytes(), &block, b"\r\n"].concat();
    let head = unframed(&request);
    let rows = [
        ("chunks without end", "Transfer-Encoding: chunked\r\n\r\n", chunk),
        ("a Content-Length of 1 TB", "Content-Length: 1000000000000\r\n\r\n", block),
    ];
    let mut seen = Vec::new();
    for (what, framing, again) in rows {
        let feed = Feed::Endless([&head, framing.as_bytes()].concat(), again, ENDLESS_MAX);
        let exchange = bench.exchange(&feed, bench.settings.timeout).await;
        bench.keep(what, &request, RejectOrClose, &exchange);
        let came = format!("{what}: {} after {} kB", words(&exchange.outcome), exchange.written / 1024);
        if !RejectOrClose.is_met(&exchange.outcome) {
            return Finding::fail(came);
        }
        if exchange.written >= ENDLESS_MAX {
            return Finding::fail(format!("{came}: all of it was taken"));
        }
        seen.push(came);
    }
    Finding::pass(seen.join("; "))
}

async fn slow(bench: &Bench<'_>) -> Finding {
    let limit = bench.settings.slow_limit;
    let mut connections = JoinSet::new();
    for at in 0..SLOW_CONNECTIONS {
        let feed = never_ending(&bench.signed(&bench.delivery()), at % 2 == 0, limit);
        let (target, addresses) = (bench.settings.target.clone(), bench.addresses.clone());
        connections.spawn(async move { exchange(&target, &addresses, &feed, limit).await });
    }
    // Until each of them has sent something.
    pass(SLOW_GAP).await;
    for _ in 0..5 {
        if let Err(came) = bench.still_serves().await {
            return Finding::fail(format!(
                "with {SLOW_CONNECTIONS} slow connections open, a correct delivery: {came}"
            ));
        }
    }
    let (mut open, mut longest) = (0, Duration::ZERO);
    while let Some(done) = connections.join_next().await {
        let Ok(exchange) = done else { continue };
        longest = longest.max(exchange.took);
        open += usize::from(matches!(exchange.outcome, Outcome::Silent));
    }
    if open > 0 {
        return Finding::fail(format!(
            "{open} of {SLOW_CONNECTIONS} were still open after {} s",
            limit.as_secs()
        ));
    }
    Finding::pass(format!("others were served; all closed after {} s", longest.as_secs()))
}

/// Bytes one by one, of a head or a body, for longer than the limit.
fn never_ending(request: &Request, of_head: bool, limit: Duration) -> Feed {
    let bytes = usize::try_from(limit.as_secs()).unwrap_or(usize::MAX).saturating_add(60).min(SLOW_BYTES_MAX);
    // Valid until here, so that a receiver closes it for its slowness only. The head continues with a
    // header's name.
    let first = if of_head {
        request.head()
    } else {
        [unframed(request), format!("Content-Length: {}\r\n\r\n", bytes + 1).into_bytes()].concat()
    };
    Feed::Slow(first, b"x".repeat(bytes), SLOW_GAP)
}

/// A head without its last header, the body's length.
fn unframed(request: &Request) -> Vec<u8> {
    let mut head = request.head();
    let length = head.windows(16).position(|name| name == b"Content-Length: ").unwrap_or(head.len());
    head.truncate(length);
    head
}

fn deep(bench: &Bench<'_>) -> Shots {
    let data = format!("{}{}", "[".repeat(DEEP), "]".repeat(DEEP));
    Ok(vec![Shot::new(
        format!("{DEEP} levels deep"),
        bench.signed(&bench.delivery().with_data(&data)),
        NoBreak,
    )])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::request::Framing;

    /// A refusal for its content would pass for a deadline.
    #[test]
    fn what_comes_slowly_is_good_http_that_never_ends_whatever_the_path() {
        let limit = Duration::from_secs(200);
        for path in ["/", "/hook", "/hooks", "/webhooks", "/a/rather/long/one"] {
            let headers = vec![("X-Id".to_owned(), b"1".to_vec())];
            let (path, body) = (path.to_owned(), b"{}".to_vec());
            let request = Request { method: "POST", path, headers, body, framing: Framing::Length };
            let path = &request.path;
            for of_head in [true, false] {
                let Feed::Slow(first, rest, gap) = never_ending(&request, of_head, limit) else {
                    panic!("at once")
                };
                assert!(gap * u32::try_from(rest.len()).unwrap() > limit);
                let (bytes, mut headers) = ([first, rest.clone()].concat(), [httparse::EMPTY_HEADER; 16]);
                let mut parsed = httparse::Request::new(&mut headers);
                match parsed.parse(&bytes).unwrap() {
                    httparse::Status::Partial => assert!(of_head, "{path}"),
                    httparse::Status::Complete(_) => {
                        assert!(!of_head, "{path}");
                        let length =
                            parsed.headers.iter().find(|header| header.name == "Content-Length").unwrap();
                        let length: usize = std::str::from_utf8(length.value).unwrap().parse().unwrap();
                        assert!(length > rest.len(), "{path}: the body ends");
                    }
                }
            }
        }
    }
}
