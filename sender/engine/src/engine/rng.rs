//! Seeded randomness, the same on every machine.

use super::time::Nanos;

/// SplitMix64. Jitter needs only an even spread; no secret depends on it.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Uniform in 0 to `most`, both included, up to one part in 2^64 ÷ `most`.
    pub(crate) fn up_to(&mut self, most: Nanos) -> Nanos {
        let choices = u128::from(most.0) + 1;
        let chosen = (u128::from(self.next()) * choices) >> 64;
        Nanos(u64::try_from(chosen).expect("a u64 times a fraction below one fits a u64"))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_small_range_come_up_about_equally_often() {
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 4];
        for _ in 0..4_000 {
            seen[usize::try_from(rng.up_to(Nanos(3)).0).unwrap()] += 1;
        }
        assert!(seen.iter().all(|&count| (900..1_100).contains(&count)), "{seen:?}");
    }

    #[test]
    fn the_whole_range_is_reachable_without_overflow() {
        let mut rng = Rng::new(2);
        let highest = (0..1_000).map(|_| rng.up_to(Nanos(u64::MAX)).0).max().unwrap();
        assert!(highest > u64::MAX / 100 * 98);
        assert_eq!(rng.up_to(Nanos::ZERO), Nanos::ZERO);
    }
}
