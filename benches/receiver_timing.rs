//! Whether the time of `verify` reveals how much of a wrong signature was right.
//! `cargo bench -p hookproof-benches --bench receiver_timing` prints a statistic. It is a report, not a test, because
//! a busy machine decides over it.
//!
//! The method is dudect's: two kinds of input, in random order, and Welch's t of their times. Beyond ±10 the kinds
//! can be told apart; within ±4.5, a million samples did not suffice. As a control, the same runs for a comparison
//! that stops at the first wrong byte.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]
#![expect(clippy::disallowed_methods, reason = "a bench measures time")]

use std::hint::black_box;
use std::time::Instant;

use hmac::{Hmac, KeyInit as _, Mac as _};
use hookproof_verify::{Keys, Profile, Secret, UnixSeconds, verify};
use sha2::Sha256;

const SECRET: &str = "a secret that both sides know";
const BODY: &[u8] = b"{}";
const SAMPLES: usize = 1_000_000;
/// Percentage of the slowest samples to drop, which were interrupted.
const CROPPED: usize = 10;

type Headers = [(&'static str, String); 2];

fn main() {
    let secret = Secret::new(SECRET).expect("a text is a secret");
    let keys = Keys::new(Profile::Github, [&secret]).expect("one key is enough");
    let good = tag();
    let mut first = good;
    first[0] ^= 1;
    let mut last = good;
    last[31] ^= 1;
    let constant = |headers: &Headers| verify(UnixSeconds(0), headers.as_slice(), BODY, &keys).is_ok();
    let leaky = |headers: &Headers| {
        let expected = hex(&tag());
        let (_, signature) = &headers[0];
        signature[7..].bytes().zip(expected.bytes()).all(|(one, other)| black_box(one) == black_box(other))
    };
    println!("{:<36} {:>10} {:>14}", "first byte wrong or last", "Welch's t", "difference");
    report("verify", constant, &first, &last);
    report("a comparison that ends early", leaky, &first, &last);
}

fn report(name: &str, verify: impl Fn(&Headers) -> bool, first: &[u8; 32], last: &[u8; 32]) {
    let kinds = [headers(first), headers(last)];
    let mut samples = [Vec::with_capacity(SAMPLES), Vec::with_capacity(SAMPLES)];
    let mut chance = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..SAMPLES {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        let kind = usize::from(chance >> 63 == 1);
        // A copy, so that both kinds lie at the same address.
        let headers = kinds[kind].clone();
        let begun = Instant::now();
        let accepted = black_box(verify(black_box(&headers)));
        let took = begun.elapsed();
        assert!(!accepted, "a wrong signature is accepted");
        samples[kind].push(u32::try_from(took.as_nanos()).unwrap_or(u32::MAX));
    }
    let [one, other] = samples.map(cropped);
    let t = (one.mean - other.mean) / (one.variance / one.count + other.variance / other.count).sqrt();
    println!("{name:<36} {t:>10.1} {:>11.1} ns", other.mean - one.mean);
}

struct Sample {
    count: f64,
    mean: f64,
    variance: f64,
}

fn cropped(mut nanos: Vec<u32>) -> Sample {
    nanos.sort_unstable();
    nanos.truncate(nanos.len() - nanos.len() * CROPPED / 100);
    let count = f64::from(u32::try_from(nanos.len()).unwrap_or(u32::MAX));
    let mean = nanos.iter().map(|nanos| f64::from(*nanos)).sum::<f64>() / count;
    let squares = nanos.iter().map(|nanos| (f64::from(*nanos) - mean).powi(2));
    Sample { count, mean, variance: squares.sum::<f64>() / (count - 1.0) }
}

fn tag() -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("hmac takes a key of any length");
    mac.update(BODY);
    mac.finalize().into_bytes().into()
}

fn headers(tag: &[u8; 32]) -> Headers {
    [("x-hub-signature-256", format!("sha256={}", hex(tag))), ("x-github-delivery", "1".to_owned())]
}

fn hex(tag: &[u8; 32]) -> String {
    tag.iter().map(|byte| format!("{byte:02x}")).collect()
}
