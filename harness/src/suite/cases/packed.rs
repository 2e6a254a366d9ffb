//! `limit.gzip`, `limit.inflate`: bodies that claim a compression. A receiver must unpack nothing unverified,
//! and nothing without a bound.

use std::sync::LazyLock;
use std::time::Duration;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use super::super::bench::{Bench, Shot};
use super::super::course::{Case, Finding, Running, Shots, limited};
use super::super::want::Want::{NoBreak, Report};
use super::super::want::words;
use crate::wire::exchange::Outcome;

pub(super) const CASES: [Case; 2] = [
    Case::shots("limit.gzip", packed),
    Case::course("limit.inflate", |bench| -> Running<'_> { Box::pin(inflate(bench)) }),
];

/// The unpacked size of the gzip and deflate bombs, in MiB. Unpacking their half a megabyte takes much longer
/// than the network and the signature, on a busy machine too.
const DEFLATED_MIB: usize = 512;
/// The same of the brotli bomb, and of one zstd frame.
const BOMB_MIB: usize = 128;
/// The number of zstd frames: one alone unpacks too fast to measure.
const FRAMES: usize = 16;
/// How often each body is timed. The fastest counts, since other load only adds time.
const ROUNDS: usize = 5;
/// How often the plain bytes are timed at most on a busy machine, and how often a slow bomb is repeated.
const ROUNDS_MAX: usize = 50;
const AGAIN: usize = 5;
/// The factor of an equal plain body's time that is too long.
const SLOWER_MAX: u32 = 20;
/// Smaller differences are the network's.
const SHORTEST: Duration = Duration::from_millis(1);

struct Bomb {
    /// The value of `Content-Encoding`.
    coding: &'static str,
    packed: Vec<u8>,
    /// The unpacked size.
    mib: usize,
}

/// Blanks in each of the usual codings.
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

/// Parses hexadecimal digits, and skips other characters.
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
        let delivery = bench.delivery().with_body(packed.as_slice());
        let request = bench.signed(&delivery).with("Content-Encoding", coding);
        let what = format!("{} bytes that unpack to {mib} MiB ({coding})", packed.len());
        shots.push(Shot::new(what, request, NoBreak));
        let request = bench.signed(&bench.delivery()).with("Content-Encoding", coding);
        shots.push(Shot::new(format!("plain JSON that says it is {coding}"), request, NoBreak));
    }
    Ok(shots)
}

/// Compares each bomb's time with that of the same bytes without the claim: a receiver that unpacks without a
/// bound and survives shows only by its time.
async fn inflate(bench: &Bench<'_>) -> Finding {
    let bombs = match bombs() {
        Ok(bombs) => bombs,
        Err(why) => return Finding::new(hookproof_judge::catalogue::Verdict::HarnessError, why),
    };
    let (mut seen, mut slow) = (Vec::new(), Vec::new());
    for Bomb { coding, packed, .. } in bombs {
        let (mut claimed, mut plain) = (Duration::MAX, Duration::MAX);
        for round in 0..ROUNDS_MAX {
            // Repetition distinguishes a slow receiver from a busy machine.
            let is_slow = is_too_long(claimed, plain);
            let wanted = [
                (false, round < ROUNDS || (plain > SHORTEST && !is_slow)),
                (true, round < ROUNDS || (is_slow && round < ROUNDS + AGAIN)),
            ];
            for (claims, _) in wanted.into_iter().filter(|(_, wanted)| *wanted) {
                let took = match took(bench, coding, packed, claims).await {
                    Ok(took) => took,
                    Err(finding) => return finding,
                };
                let least = if claims { &mut claimed } else { &mut plain };
                *least = took.min(*least);
            }
        }
        let came = format!("{coding} {} ms, without the claim {} ms", claimed.as_millis(), plain.as_millis());
        if is_too_long(claimed, plain) { slow.push(came) } else { seen.push(came) }
    }
    if slow.is_empty() {
        return Finding::pass(seen.join("; "));
    }
    Finding::fail(format!("more than {SLOWER_MAX} times as long: {}", slow.join("; ")))
}

fn is_too_long(claimed: Duration, plain: Duration) -> bool {
    claimed > plain.max(SHORTEST).saturating_mul(SLOWER_MAX)
}

/// A receiver's time for a bomb, with or without the claim of compression.
async fn took(bench: &Bench<'_>, coding: &str, packed: &[u8], claims: bool) -> Result<Duration, Finding> {
    let request = bench.signed(&bench.delivery().with_body(packed));
    let request = if claims { request.with("Content-Encoding", coding) } else { request };
    let what =
        if claims { format!("{} bytes of {coding}", packed.len()) } else { "the same bytes".to_owned() };
    let exchange = bench.send(&what, &request, Report).await;
    match &exchange.outcome {
        outcome if limited(outcome) => Err(Finding::unclear(format!("{what}: {}", words(outcome)))),
        Outcome::Silent => Err(Finding::fail(format!("{what}: {}", words(&exchange.outcome)))),
        Outcome::Answer(_) | Outcome::Closed => Ok(exchange.took),
        other => Err(Finding::unclear(format!("{what}: {}", words(other)))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

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
