//! Integer time in nanoseconds; the driver passes it in.

use std::fmt;
use std::ops::Add;

/// A length of time in nanoseconds. Arithmetic saturates at about 584 years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// One second.
    pub const SECOND: Self = Self(1_000_000_000);
    /// One minute.
    pub const MINUTE: Self = Self::from_secs(60);
    /// One hour.
    pub const HOUR: Self = Self::from_secs(3_600);
    /// One day of 24 hours.
    pub const DAY: Self = Self::from_secs(86_400);

    /// `micros` microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// `millis` milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// `secs` seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// This length multiplied by `times`.
    #[must_use]
    pub const fn times(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }

    /// This length minus `other`, at least zero.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Nanos {
    /// In the largest unit without a fraction: `90s`, `250ms`, `17ns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 6] = [
            (Nanos::DAY.0, "d"),
            (Nanos::HOUR.0, "h"),
            (Nanos::MINUTE.0, "min"),
            (Nanos::SECOND.0, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
        ];
        let whole = UNITS.iter().find(|(size, _)| self.0 != 0 && self.0.is_multiple_of(*size));
        let (size, name) = whole.unwrap_or(&(1, "ns"));
        write!(f, "{}{name}", self.0 / size)
    }
}

/// A moment on the driver's monotonic scale. The driver chooses its origin; the scale must never run backwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// The origin of the scale.
    pub const START: Self = Self(0);
    /// Later than every moment: "never".
    pub const NEVER: Self = Self(u64::MAX);

    /// The time since `earlier`; zero if this is not later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// This moment minus `by`, at least the origin.
    #[must_use]
    pub const fn sooner(self, by: Nanos) -> Self {
        Self(self.0.saturating_sub(by.0))
    }
}

impl Add<Nanos> for Instant {
    type Output = Self;
    fn add(self, length: Nanos) -> Self {
        Self(self.0.saturating_add(length.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER { f.write_str("never") } else { write!(f, "@{}", Nanos(self.0)) }
    }
}

/// A wall-clock moment in nanoseconds since 1970. It may step. The engine uses it only for `Retry-After` dates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct StoreTime(pub u64);

impl StoreTime {
    /// `secs` seconds since 1970.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(Nanos::SECOND.0))
    }

    /// The time since `earlier`; zero if this is not later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_print_in_their_largest_whole_unit() {
        let shown = |nanos: Nanos| nanos.to_string();
        assert_eq!(shown(Nanos::ZERO), "0ns");
        assert_eq!(shown(Nanos::from_secs(90)), "90s");
        assert_eq!(shown(Nanos::HOUR), "1h");
        assert_eq!(shown(Nanos::from_millis(250)), "250ms");
        assert_eq!(shown(Nanos(1_001)), "1001ns");
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Instant(5).since(Instant(9)), Nanos::ZERO);
        assert_eq!(Instant::NEVER + Nanos::DAY, Instant::NEVER);
        assert_eq!(Instant(5).sooner(Nanos(9)), Instant::START);
        assert_eq!(Nanos::from_secs(u64::MAX), Nanos(u64::MAX));
    }
}
