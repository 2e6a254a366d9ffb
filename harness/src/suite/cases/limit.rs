//! `limit.*`: excessive requests, and the service of others meanwhile.

use std::sync::LazyLock;
use std::time::Duration;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use tokio::task::JoinSet;

use super::{Case, Finding, Running, Shots, THROTTLED, limited, not_served};
use crate::suite::bench::{Bench, Delivery, Shot};
use crate::suite::record::Repeat;
use crate::suite::want::Want::{Accept, NoBreak, NoFailure, RejectOrClose, Report};
use crate::suite::want::words;
use crate::wire::clock::pass;
use crate::wire::exchange::{Exchange, Feed, Outcome, exchange};
use crate::wire::request::Request;

pub(super) const CASES: [Case; 5] = [
    Case::shots("limit.20kb", |bench| sized(bench, "a body of 20 kB", 20_000)),
    Case::shots("limit.1mb", |bench| sized(bench, "a body of 1 MB", 1_000_000)),
    Case::course("limit.endless", |bench| -> Running<'_> { Box::pin(endless(bench)) }),
    Case::course("limit.slow", |bench| -> Running<'_> { Box::pin(slow(bench)) }),
    Case::shots("limit.deep", deep),
];

const ENDLESS_MAX: u64 = 64 * 1024 * 1024;
const DEEP: usize = 100_000;
/// Half of them never end their head, half never end their body.
const SLOW_CONNECTIONS: usize = 50;
const SLOW_GAP: Duration = Duration::from_secs(1);
const SLOW_BYTES_MAX: usize = 1_000_000;

fn sized(bench: &Bench<'_>, what: &str, bytes: usize) -> Shots {
    Ok(vec![Shot::new(what, bench.signed(&bench.delivery().of_length(bytes)), Accept)])
}

async fn endless(bench: &Bench<'_>) -> Finding {
    let request = bench.signed(&bench.delivery());
    let block = vec![b'x'; 64 * 1024];
    let chunk = [format!("{:x}\r\n", block.len()).as_bytes(), &block, b"\r\n"].concat();
    let head = unframed(&request);
    let one_tb = Repeat::Not("no common command sends a body of 1 TB");
    let rows = [
        ("endless chunks", "Transfer-Encoding: chunked\r\n\r\n", chunk, Repeat::Fed("yes")),
        ("a Content-Length of 1 TB", "Content-Length: 1000000000000\r\n\r\n", block, one_tb),
    ];
    let mut seen = Vec::new();
    for (what, framing, again, repeat) in rows {
        let feed = Feed::Endless([&head, framing.as_bytes()].concat(), again, ENDLESS_MAX);
        let exchange = bench.exchange(&feed, bench.settings.timeout).await;
        bench.record_as(repeat, what, &request, RejectOrClose, &exchange);
        let came = format!("{what}: {} after {} kB", words(&exchange.outcome), exchange.written / 1024);
        if !RejectOrClose.is_met(&exchange.outcome) {
            return Finding::fail(came);
        }
        if exchange.written >= ENDLESS_MAX {
            return Finding::fail(format!("{came}: the whole body was accepted"));
        }
        seen.push(came);
    }
    Finding::pass(seen.join("; "))
}

async fn slow(bench: &Bench<'_>) -> Finding {
    match Slow::open(bench).await {
        Ok(connections) => connections.ended(bench).await,
        Err(finding) => finding,
    }
}

/// Connections that send a byte a second. They end with their value.
pub(in crate::suite) struct Slow(JoinSet<(bool, Request, Exchange)>);

impl Slow {
    /// Fails if others are not served while these are open.
    pub(in crate::suite) async fn open(bench: &Bench<'_>) -> Result<Self, Finding> {
        let limit = bench.settings.slow_limit;
        let mut connections = JoinSet::new();
        for at in 0..SLOW_CONNECTIONS {
            let (of_head, request) = (at % 2 == 0, bench.signed(&bench.delivery()));
            let feed = never_ending(&request, of_head, limit);
            let (target, addresses) = (bench.settings.target.clone(), bench.addresses.clone());
            connections.spawn(async move {
                let exchange = exchange(&target, &addresses, &feed, limit).await;
                (of_head, request, exchange)
            });
        }
        others_are_served(bench).await.map(|()| Self(connections))
    }

    /// Waits until each one was closed, or is over its limit.
    pub(in crate::suite) async fn ended(mut self, bench: &Bench<'_>) -> Finding {
        let limit = bench.settings.slow_limit;
        let (mut open, mut longest) = (0, Duration::ZERO);
        let mut recorded = [false; 2];
        while let Some(done) = self.0.join_next().await {
            let Ok((of_head, request, exchange)) = done else { continue };
            longest = longest.max(exchange.took);
            let is_open = exchange.outcome == Outcome::Silent;
            open += usize::from(is_open);
            if is_open && !std::mem::replace(&mut recorded[usize::from(of_head)], true) {
                let (label, repeat) = if of_head {
                    ("a head, a byte a second", Repeat::Not("curl sends no slow head"))
                } else {
                    ("a body, a byte a second", Repeat::Fed("(while sleep 1; do printf x; done)"))
                };
                bench.record_as(repeat, label, &request, RejectOrClose, &exchange);
            }
        }
        if open > 0 {
            return Finding::fail(format!(
                "{open} of {SLOW_CONNECTIONS} were still open after {} s",
                limit.as_secs()
            ));
        }
        Finding::pass(format!(
            "other requests were served; all slow connections were closed after {} s",
            longest.as_secs()
        ))
    }
}

async fn others_are_served(bench: &Bench<'_>) -> Result<(), Finding> {
    pass(SLOW_GAP).await;
    for _ in 0..5 {
        if let Err(outcome) = bench.still_serves().await {
            let what = format!("with {SLOW_CONNECTIONS} slow connections open, a correct delivery");
            return Err(not_served(&what, &outcome));
        }
    }
    Ok(())
}

/// One byte at a time, for longer than the limit.
fn never_ending(request: &Request, of_head: bool, limit: Duration) -> Feed {
    let bytes = usize::try_from(limit.as_secs()).unwrap_or(usize::MAX).saturating_add(60).min(SLOW_BYTES_MAX);
    // Valid until here, so that a receiver closes it for its slowness only. The head continues with a header's name.
    let first = if of_head {
        request.head()
    } else {
        [unframed(request), format!("Content-Length: {}\r\n\r\n", bytes + 1).into_bytes()].concat()
    };
    Feed::Slow(first, b"x".repeat(bytes), SLOW_GAP)
}

fn unframed(request: &Request) -> Vec<u8> {
    let mut head = request.head();
    let length = head.windows(16).position(|name| name == b"Content-Length: ").unwrap_or(head.len());
    head.truncate(length);
    head
}

fn deep(bench: &Bench<'_>) -> Shots {
    let data = format!("{}{}", "[".repeat(DEEP), "]".repeat(DEEP));
    Ok(vec![Shot::new(format!("{DEEP} levels deep"), bench.signed(&bench.json()?.with_data(&data)), NoBreak)])
}

// `limit.gzip`, `limit.inflate`: a receiver must unpack nothing unverified, and nothing without a bound.

pub(super) const COMPRESSED: [Case; 2] = [
    Case::shots("limit.gzip", packed),
    Case::course("limit.inflate", |bench| -> Running<'_> { Box::pin(inflate(bench)) }),
];

/// The size of the gzip and deflate bombs: unpacking takes much longer than the network and the signature.
const DEFLATED_MIB: usize = 512;
const BOMB_MIB: usize = 128;
/// The number of zstd frames: one alone unpacks too fast to measure.
const FRAMES: usize = 16;
/// The fastest counts, since other load only adds time.
const ROUNDS: usize = 5;
const ROUNDS_MAX: usize = 50;
const AGAIN: usize = 5;
/// A bomb is too slow at this multiple of an equal plain body's time.
const SLOWER_MAX: u32 = 20;
/// Smaller differences are the network's.
const SHORTEST: Duration = Duration::from_millis(1);

struct Bomb {
    coding: &'static str,
    packed: Vec<u8>,
    mib: usize,
}

static BOMBS: LazyLock<std::io::Result<[Bomb; 4]>> = LazyLock::new(|| {
    let gzip = filled(GzEncoder::new(Vec::new(), Compression::default()), DEFLATED_MIB)?.finish()?;
    let deflate = filled(ZlibEncoder::new(Vec::new(), Compression::default()), DEFLATED_MIB)?.finish()?;
    let zstd = filled(zstd::stream::write::Encoder::new(Vec::new(), 1)?, BOMB_MIB)?.finish()?;
    let bomb = |coding, packed, mib| Bomb { coding, packed, mib };
    // A decoder continues with the next frame (RFC 8878, section 3.1).
    let zstd = Bomb { coding: "zstd", packed: zstd.repeat(FRAMES), mib: BOMB_MIB * FRAMES };
    let deflate = bomb("deflate", deflate, DEFLATED_MIB);
    Ok([bomb("gzip", gzip, DEFLATED_MIB), deflate, bomb("br", unhex(BROTLI), BOMB_MIB), zstd])
});

/// Made by Node: `zlib.brotliCompressSync(Buffer.alloc(128 * 1024 * 1024, 32)).toString("hex")`.
const BROTLI: &str = "cbffff3ff82540e2b14020f7fe8fffff7ff04b00c4611180eefd1fffffffe0970088c30200ddfb3ffeffffc12f011087 \
    0500baf77ffcffff835f02200e0b0074effff8ffff07bf04401c1600e8defff1ffff0f7e0980382c00d0bdffe3ffff1f \
    fc1200715800a07bffc7ffff3ff82500e2b00040f7fe8fffff7ff04b00c4610180eefd1fffffffe0970088c30200ddfb \
    3ffeffffc12f0110870500baf77ffcffff835f02200e0b0074effff8ffff07bf04401c1600e8defff1ffff0f7e098038 \
    2c00d0bdffcbffff3ffc1200715800a07bff07";

fn filled<W: std::io::Write>(mut encoder: W, mib: usize) -> std::io::Result<W> {
    let block = vec![b' '; 1024 * 1024];
    for _ in 0..mib {
        encoder.write_all(&block)?;
    }
    Ok(encoder)
}

fn unhex(text: &str) -> Vec<u8> {
    let digits =
        text.chars().filter_map(|digit| digit.to_digit(16)).filter_map(|digit| u8::try_from(digit).ok());
    let digits: Vec<u8> = digits.collect();
    digits.chunks_exact(2).map(|pair| (pair[0] << 4) | pair[1]).collect()
}

fn bombs() -> Result<&'static [Bomb; 4], String> {
    BOMBS.as_ref().map_err(ToString::to_string)
}

fn packed(bench: &Bench<'_>) -> Shots {
    let mut shots = Vec::new();
    for Bomb { coding, packed, mib } in bombs()? {
        let shot = |what, body: &dyn Fn() -> Delivery| {
            let claimed = bench.signed(&body()).with("Content-Encoding", coding);
            Shot::new(what, claimed, NoFailure).controlled(bench.signed(&body()))
        };
        let bomb = || bench.delivery().with_body(packed.as_slice());
        let what = format!("{} bytes that unpack to {mib} MiB ({coding})", packed.len());
        shots.push(shot(what, &bomb));
        shots.push(shot(format!("plain JSON declared as {coding}"), &|| bench.delivery()));
    }
    Ok(shots)
}

/// A receiver that unpacks without a bound and survives shows only by its time.
async fn inflate(bench: &Bench<'_>) -> Finding {
    let bombs = match bombs() {
        Ok(bombs) => bombs,
        Err(why) => return Finding::new(hookproof_judge::catalogue::Verdict::HarnessError, why),
    };
    let (mut seen, mut slow, mut unclear) = (Vec::new(), Vec::new(), Vec::new());
    for Bomb { coding, packed, .. } in bombs {
        let (mut claimed, mut plain, mut without) = (Duration::MAX, Duration::MAX, None::<String>);
        for round in 0..ROUNDS_MAX {
            // Repetition distinguishes a slow receiver from a busy machine.
            let is_slow = is_too_long(claimed, plain);
            let wanted = [
                (false, round < ROUNDS || (plain > SHORTEST && !is_slow)),
                (true, round < ROUNDS || (is_slow && round < ROUNDS + AGAIN)),
            ];
            for (claims, _) in wanted.into_iter().filter(|(_, wanted)| *wanted) {
                let exchange = match timed(bench, coding, packed, claims).await {
                    Ok(exchange) => exchange,
                    Err(finding) => return finding,
                };
                if let Outcome::Answer(answer) = &exchange.outcome
                    && answer.status >= 500
                {
                    let came = words(&exchange.outcome);
                    match &without {
                        _ if !claims => without = Some(came),
                        _ if answer.header("retry-after").is_some() => {
                            return Finding::unclear(format!("{coding}: {came}: {THROTTLED}"));
                        }
                        Some(without) => unclear.push(format!(
                            "{coding}: {came}; without that header {without}: another cause comes before it"
                        )),
                        None => return Finding::fail(format!("{coding}: {came}")),
                    }
                }
                match claims {
                    true => claimed = exchange.took.min(claimed),
                    false => plain = exchange.took.min(plain),
                }
            }
        }
        let came =
            format!("{coding} {} ms, without that header {} ms", claimed.as_millis(), plain.as_millis());
        if is_too_long(claimed, plain) { slow.push(came) } else { seen.push(came) }
    }
    if !slow.is_empty() {
        return Finding::fail(format!("more than {SLOWER_MAX} times as long: {}", slow.join("; ")));
    }
    unclear.dedup();
    if unclear.is_empty() { Finding::pass(seen.join("; ")) } else { Finding::unclear(unclear.join("; ")) }
}

fn is_too_long(claimed: Duration, plain: Duration) -> bool {
    claimed > plain.max(SHORTEST).saturating_mul(SLOWER_MAX)
}

async fn timed(bench: &Bench<'_>, coding: &str, packed: &[u8], claims: bool) -> Result<Exchange, Finding> {
    let request = bench.signed(&bench.delivery().with_body(packed));
    let request = if claims { request.with("Content-Encoding", coding) } else { request };
    let what =
        if claims { format!("{} bytes of {coding}", packed.len()) } else { "the same bytes".to_owned() };
    let exchange = bench.send(&what, &request, if claims { NoFailure } else { Report }).await;
    match &exchange.outcome {
        outcome if limited(outcome) => Err(Finding::unclear(format!("{what}: {}", words(outcome)))),
        Outcome::Silent => Err(Finding::fail(format!("{what}: {}", words(&exchange.outcome)))),
        Outcome::Answer(_) | Outcome::Closed => Ok(exchange),
        other => Err(Finding::unclear(format!("{what}: {}", words(other)))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::wire::request::Framing;

    /// A refusal for its content would pass for a deadline.
    #[test]
    fn a_slow_request_is_valid_http_without_an_end_for_any_path() {
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

    #[test]
    fn bombs_are_small_and_unpack_to_what_they_say() {
        for Bomb { coding, packed, mib } in bombs().unwrap() {
            assert!(packed.len() < 1_000_000, "{coding}: {}", packed.len());
            let unpacked: Box<dyn std::io::Read> = match *coding {
                "gzip" => Box::new(flate2::read::GzDecoder::new(packed.as_slice())),
                "deflate" => Box::new(flate2::read::ZlibDecoder::new(packed.as_slice())),
                "zstd" => Box::new(zstd::stream::read::Decoder::new(packed.as_slice()).unwrap()),
                _ => continue,
            };
            let count = std::io::copy(&mut unpacked.take(u64::MAX), &mut std::io::sink()).unwrap();
            assert_eq!(count, (*mib as u64) << 20, "{coding}");
        }
        // No brotli reader here: these are the writer's bytes.
        let brotli = unhex(BROTLI);
        assert_eq!((brotli.len(), brotli[0], brotli[210]), (211, 0xcb, 0x07));
    }
}
