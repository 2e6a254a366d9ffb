//! Randomly mutated inputs. The tests of every crate include this file.
//!
//! An input with a new outcome joins the corpus. The seed determines everything. A failure prints its input and the
//! command that repeats it.

use std::collections::HashSet;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::time::{Duration, Instant};

/// As hexadecimal digits it fits into one environment variable.
const INPUT_BYTES_MAX: usize = 32 << 10;
const KEPT_MAX: usize = 2_000;
const OUTCOMES_MAX: usize = 50_000;
const CHANGES_MAX: usize = 6;
const PIECE_BYTES_MAX: usize = 64;
/// Readers often mishandle them; and bytes with a special meaning in many formats.
const NUMBERS: [&str; 10] = [
    "0",
    "1",
    "-1",
    "255",
    "65536",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e400",
];
const BYTES: [u8; 8] = [0, b'\t', b'\n', b'\r', b' ', 0x7f, 0x80, 0xff];

pub(crate) struct Target<'t> {
    pub(crate) quick: u64,
    pub(crate) corpus: Vec<Vec<u8>>,
    pub(crate) words: &'t [&'t str],
    /// Panics on a wrongly handled input. Returns one of few outcomes.
    pub(crate) check: &'t dyn Fn(&[u8], &mut Random) -> String,
}

impl Target<'_> {
    /// The same inputs on each run; `HOOKPROOF_SEED` chooses others.
    pub(crate) fn try_some(&self) {
        self.run(number("HOOKPROOF_SEED").unwrap_or(1), |tried| tried < self.quick);
    }

    /// Runs for `HOOKPROOF_SECONDS` seconds, 60 by default, from `HOOKPROOF_SEED` or a new seed.
    #[expect(clippy::disallowed_methods, reason = "a run at length ends by the clock, and begins anywhere")]
    pub(crate) fn try_at_length(&self) {
        let (began, length) =
            (Instant::now(), Duration::from_secs(number("HOOKPROOF_SECONDS").unwrap_or(60)));
        let seed = number("HOOKPROOF_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
        self.run(seed, |_| began.elapsed() < length);
    }

    fn run(&self, seed: u64, goes_on: impl Fn(u64) -> bool) {
        if let Some(input) = std::env::var("HOOKPROOF_INPUT").ok().map(|digits| bytes(&digits)) {
            eprintln!("{}", self.outcome(&input, seed));
            return;
        }
        let (mut random, mut seen) = (Random(seed), HashSet::new());
        let mut pool = self.corpus.clone();
        for input in &self.corpus {
            assert!(input.len() <= INPUT_BYTES_MAX, "an input of the corpus has {} bytes", input.len());
            seen.insert(self.outcome(input, seed));
        }
        let mut tried = 0;
        while goes_on(tried) {
            let mut input = random.one_of(&pool).clone();
            for _ in 0..=random.below(CHANGES_MAX) {
                self.change(&mut input, &pool, &mut random);
            }
            input.truncate(INPUT_BYTES_MAX);
            let outcome = self.outcome(&input, seed);
            let is_new = seen.len() < OUTCOMES_MAX && seen.insert(outcome);
            if is_new && pool.len() < self.corpus.len() + KEPT_MAX {
                pool.push(input);
            }
            tried += 1;
        }
        eprintln!("{tried} inputs, {} outcomes, seed {seed}", seen.len());
    }

    /// The input alone repeats the check's random choices.
    fn outcome(&self, input: &[u8], seed: u64) -> String {
        let mut hasher = DefaultHasher::new();
        input.hash(&mut hasher);
        let _failing = Failing { input, seed };
        (self.check)(input, &mut Random(hasher.finish()))
    }

    fn change(&self, input: &mut Vec<u8>, pool: &[Vec<u8>], random: &mut Random) {
        let at = random.below(input.len() + 1);
        let end = at + random.below(PIECE_BYTES_MAX.min(input.len() - at) + 1);
        let other = random.one_of(pool);
        let from = random.below(other.len() + 1);
        match random.below(9) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 if at < input.len() => input[at] = *random.one_of(&BYTES),
            2 => drop(input.drain(at..end)),
            3 => {
                let piece = input[at..end].repeat(1 + random.below(3));
                input.splice(at..at, piece);
            }
            4 => {
                let until = other.len().min(from + PIECE_BYTES_MAX);
                input.splice(at..at, other[from..until].iter().copied());
            }
            5 => {
                input.truncate(at);
                input.extend(&other[from..]);
            }
            6 => {
                let begin =
                    input[at..].iter().position(u8::is_ascii_digit).map_or(input.len(), |digit| at + digit);
                let digits = input[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                input.splice(begin..begin + digits, random.one_of(&NUMBERS).bytes());
            }
            7 => input.truncate(at),
            _ => {
                let until = if random.below(2) == 0 { at } else { end };
                input.splice(at..until, random.one_of(self.words).bytes());
            }
        }
    }
}

struct Failing<'i> {
    input: &'i [u8],
    seed: u64,
}

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let (package, binary) = (env!("CARGO_PKG_NAME"), env!("CARGO_CRATE_NAME"));
        let is_library = binary == package.replace('-', "_");
        let binary = if is_library { "--lib".to_owned() } else { format!("--test {binary}") };
        let digits: String = self.input.iter().map(|byte| format!("{byte:02x}")).collect();
        eprintln!("seed {}, input {}", self.seed, self.input.escape_ascii());
        eprintln!(
            "again: HOOKPROOF_INPUT={digits} cargo test -p {package} {binary} -- --include-ignored --exact {}",
            std::thread::current().name().unwrap_or_default()
        );
    }
}

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("less than a usize")
    }

    fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// Splits the input into pieces, most of them short.
    #[allow(dead_code, reason = "some readers take their input whole")]
    pub(crate) fn pieces<'i>(&mut self, mut input: &'i [u8]) -> Vec<&'i [u8]> {
        let (mut pieces, longest) = (Vec::new(), 1 << self.below(12));
        while !input.is_empty() {
            let (piece, rest) = input.split_at(1 + self.below(longest.min(input.len())));
            pieces.push(piece);
            input = rest;
        }
        pieces
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}; expected a number")))
}

fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("HOOKPROOF_INPUT has hexadecimal digits")).collect()
}
