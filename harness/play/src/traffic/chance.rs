//! Seeded randomness: every random choice of a run comes from a stream that is named by its purpose.

/// A stream of random numbers. Equal seeds and purposes give equal streams.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// The stream of a seed for one purpose.
    #[must_use]
    pub const fn new(seed: u64, purpose: u64) -> Self {
        Self { state: mix(seed ^ mix(purpose)) }
    }

    /// The next 64 bits.
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

/// The upper 53 bits as a number in [0, 1): all that a double holds exactly.
#[expect(clippy::cast_precision_loss, reason = "53 bits are what a double holds")]
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
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
}
