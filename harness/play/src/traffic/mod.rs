//! Traffic: the whole schedule of a run, computed before it begins.
//!
//! Open loop: an event is released when it is due, regardless of earlier ones. A slow sender is offered no
//! less, and its latency counts from the intended moment. In reading order:

mod moment;
mod recording;
mod schedule;

pub use recording::RecordingError;
pub use schedule::{Due, Schedule, ScheduleError};

/// A stream of random numbers. Equal seeds and purposes give equal streams.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    #[must_use]
    pub const fn new(seed: u64, purpose: u64) -> Self {
        Self { state: mix(seed ^ mix(purpose)) }
    }

    pub const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        unit(self.bits())
    }

    /// A number below `end`; 0 if that is 0. The bias is below one in 2^64 / `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.bits()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or_default()
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low.saturating_add(self.below(high.saturating_sub(low).saturating_add(1)))
    }
}

/// The odd number of the golden ratio: steps through all 64-bit states (Weyl's sequence).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads every bit over all others (the finaliser of `SplitMix64`).
#[must_use]
pub const fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[expect(clippy::cast_precision_loss, reason = "53 bits are what a double holds")]
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// The prefix of tokens. Letters, digits and hyphens only, which no escaping changes.
const MARK: &[u8] = b"hptoken-";
/// The digits of the run, and of the event.
const RUN_DIGITS: usize = 8;
const EVENT_DIGITS: usize = 16;
/// The most tokens that are read from a body; senders batch far fewer.
const TOKENS_MAX: usize = 1_000;

/// The tokens of one run; those of other runs, which a sender may still hold, are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    run: u32,
}

impl Tokens {
    /// The tokens of the run with this number.
    #[must_use]
    pub const fn new(run: u32) -> Self {
        Self { run }
    }

    #[must_use]
    pub fn run(self) -> String {
        format!("{:08x}", self.run)
    }

    /// An event's token as text: `hptoken-0000002a-0000000000000007`.
    #[must_use]
    pub fn text(self, event: u64) -> String {
        format!("hptoken-{:08x}-{event:016x}", self.run)
    }

    /// An event's token as a UUID, for senders that accept no other ids. It differs between runs.
    #[must_use]
    pub fn uuid(self, event: u64) -> String {
        format!("{:08x}-{:04x}-4000-8000-{:012x}", self.run, event >> 48, event & 0xffff_ffff_ffff)
    }

    #[must_use]
    pub fn find(self, body: &[u8]) -> Option<u64> {
        self.read_all(body).next()
    }

    /// In order; at most a thousand.
    #[must_use]
    pub fn find_all(self, body: &[u8]) -> Vec<u64> {
        let mut found: Vec<u64> = Vec::new();
        for event in self.read_all(body) {
            if found.len() < TOKENS_MAX && !found.contains(&event) {
                found.push(event);
            }
        }
        found
    }

    fn read_all(self, body: &[u8]) -> impl Iterator<Item = u64> {
        let mut rest = body;
        std::iter::from_fn(move || {
            while let Some(at) = memchr::memmem::find(rest, MARK) {
                rest = &rest[at + MARK.len()..];
                if let Some(event) = self.read(rest) {
                    return Some(event);
                }
            }
            None
        })
    }

    fn read(self, text: &[u8]) -> Option<u64> {
        let (run, text) = text.split_at_checked(RUN_DIGITS)?;
        let (hyphen, text) = text.split_at_checked(1)?;
        let event = text.get(..EVENT_DIGITS)?;
        (hyphen == b"-" && number(run)? == u64::from(self.run)).then(|| number(event))?
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    // `from_str_radix` would accept a sign.
    if !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_purpose_make_the_same_choices_and_others_do_not() {
        let stream = |seed, purpose| {
            let mut chance = Chance::new(seed, purpose);
            (0..8).map(|_| chance.bits()).collect::<Vec<_>>()
        };
        assert_eq!(stream(7, 1), stream(7, 1));
        assert_ne!(stream(7, 1), stream(7, 2));
        assert_ne!(stream(7, 1), stream(8, 1));
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_both_ends() {
        let mut chance = Chance::new(1, 2);
        let seen: Vec<u64> = (0..1_000).map(|_| chance.between(3, 6)).collect();
        assert_eq!((seen.iter().min(), seen.iter().max()), (Some(&3), Some(&6)));
        assert!((0..1_000).all(|_| (0.0..1.0).contains(&chance.unit())));
        assert_eq!((chance.below(0), chance.between(5, 5)), (0, 5));
    }

    const TOKENS: Tokens = Tokens::new(0x2a);

    #[track_caller]
    fn check(body: &str, expected: Option<u64>) {
        assert_eq!(TOKENS.find(body.as_bytes()), expected, "in {body}");
    }

    #[test]
    fn the_ids_of_two_runs_differ() {
        let ids =
            [(TOKENS, 7), (TOKENS, 8), (Tokens::new(0x2b), 7)].map(|(tokens, event)| tokens.uuid(event));
        assert_eq!(ids[0], "0000002a-0000-4000-8000-000000000007");
        assert!(ids[0] != ids[1] && ids[0] != ids[2], "{ids:?}");
    }

    #[test]
    fn a_token_is_found_however_it_is_wrapped() {
        let text = TOKENS.text(7);
        check(&text, Some(7));
        check(&format!("{{\"data\":{{\"t\":\"{text}\"}}}}"), Some(7));
        check(&format!("{{\"data\":\"{{\\\"t\\\":\\\"{text}\\\"}}\"}}"), Some(7));
        check(&format!("payload=%7B%22{text}%22%7D"), Some(7));
        check(&format!("hhptoken-hptoken-{text}"), Some(7));
    }

    #[test]
    fn a_token_of_another_run_is_none() {
        check("", None);
        check("hptoken-", None);
        check("hptoken-0000002a-00000000000000", None);
        check("hptoken-0000002a-+000000000000007", None);
        check(&Tokens::new(0x2b).text(7), None);
    }

    #[test]
    fn of_several_tokens_those_of_this_run_count_and_each_once() {
        let body = [Tokens::new(1).text(5), TOKENS.text(6), TOKENS.text(7), TOKENS.text(6)].concat();
        check(&body, Some(6));
        assert_eq!(TOKENS.find_all(body.as_bytes()), [6, 7]);
        assert!(TOKENS.find_all(b"hptoken-").is_empty());
    }
}
