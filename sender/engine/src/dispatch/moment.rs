use serde::{Deserialize, Serialize};

use crate::engine::Nanos;

/// A time that processes on the same machine can compare, independent of the wall clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    boot: String,
    /// In nanoseconds.
    uptime: u64,
}

impl Moment {
    /// The time `uptime` after this boot.
    #[must_use]
    pub fn at(boot: &str, uptime: Nanos) -> Self {
        Self { boot: boot.to_owned(), uptime: uptime.0 }
    }

    /// The boot id and the uptime.
    #[must_use]
    pub fn parts(&self) -> (&str, Nanos) {
        (&self.boot, Nanos(self.uptime))
    }

    /// The time that has surely passed since `earlier`; zero after a reboot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Nanos {
        Nanos(if self.boot == earlier.boot { self.uptime.saturating_sub(earlier.uptime) } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_of_the_same_boot_counts() {
        let (early, late) = (Nanos::from_secs(1), Nanos(5_000_000_001));
        assert_eq!(Moment::at("a", late).since(&Moment::at("a", early)), Nanos(4_000_000_001));
        assert_eq!(Moment::at("a", late).since(&Moment::at("b", early)), Nanos::ZERO);
        assert_eq!(Moment::at("a", early).since(&Moment::at("a", late)), Nanos::ZERO);
    }
}
