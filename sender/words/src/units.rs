//! Durations, rates, window caps and sizes as text: `250ms`, `20/s`, `60 per 1s`, `64MiB`.
//!
//! Integers only, so that values are exact. A number needs a unit. Printed values read back as the same
//! value.

use std::fmt;
use std::str::FromStr;

use crate::excerpt::Excerpt;
use crate::text_form;
use crate::time::Nanos;

#[cfg(test)]
mod tests;

text_form!(Nanos, "a duration with its unit, such as \"8s\"");
text_form!(Rate, "a rate with its unit, such as \"20/s\"");
text_form!(WindowCap, "a window cap, such as \"60 per 1s\"");
text_form!(Bytes, "a size with its unit, such as \"64MiB\"");

/// In nanoseconds.
pub const LENGTHS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", Nanos::SECOND.0),
    ("min", Nanos::MINUTE.0),
    ("h", Nanos::HOUR.0),
    ("d", Nanos::DAY.0),
];

/// Rounds to the second below two minutes, to the minute below two hours, and so on.
#[must_use]
pub fn rough(length: Nanos) -> Nanos {
    const STEPS: [(Nanos, Nanos); 5] = [
        (Nanos::from_millis(1), Nanos::from_micros(1)),
        (Nanos::from_secs(2), Nanos::from_millis(1)),
        (Nanos::from_secs(120), Nanos::SECOND),
        (Nanos::HOUR.times(2), Nanos::MINUTE),
        (Nanos::DAY.times(2), Nanos::HOUR),
    ];
    let step = STEPS.iter().find(|(below, _)| length < *below).map_or(Nanos::DAY, |(_, step)| *step);
    Nanos(length.0 - length.0 % step.0)
}

/// Units of sizes, in bytes. Powers of two have their own names.
pub const SIZES: [(&str, u64); 9] = [
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

impl FromStr for Nanos {
    type Err = UnitError;

    /// `250ms`, `8s`, `24h`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        length(text).map(Self).map_err(|problem| UnitError::new(Quantity::Duration, text, problem))
    }
}

/// Kept as written: `60/min` and `1/s` are not equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    count: u64,
    per: Nanos,
}

impl Rate {
    /// Neither part may be zero.
    pub fn new(count: u64, per: Nanos) -> Result<Self, UnitError> {
        if count == 0 || per == Nanos::ZERO {
            return Err(UnitError::new(Quantity::Rate, &format!("{count}/{per}"), Problem::Zero));
        }
        Ok(Self { count, per })
    }

    #[must_use]
    pub const fn count(self) -> u64 {
        self.count
    }

    #[must_use]
    pub const fn per(self) -> Nanos {
        self.per
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let parts = || {
            let (count, per) = split(text)?;
            let per = per.strip_prefix('/').ok_or_else(|| match per {
                "" => Problem::NoUnit,
                other => Problem::unknown_unit(other),
            })?;
            if count == 0 {
                return Err(Problem::Zero);
            }
            let per = if per.starts_with(|first: char| first.is_ascii_digit()) {
                length(per)?
            } else {
                scale(per, &LENGTHS)?
            };
            if per == 0 { Err(Problem::Zero) } else { Ok(Self { count, per: Nanos(per) }) }
        };
        parts().map_err(|problem| UnitError::new(Quantity::Rate, text, problem))
    }
}

impl fmt::Display for Rate {
    /// `20/s` rather than `20/1s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = LENGTHS.iter().find(|(_, nanos)| *nanos == self.per.0);
        match one {
            Some((unit, _)) => write!(f, "{}/{unit}", self.count),
            None => write!(f, "{}/{}", self.count, self.per),
        }
    }
}

/// The most in each sliding window of a length: `60 per 1s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowCap {
    count: u64,
    length: Nanos,
}

impl WindowCap {
    /// Neither part may be zero.
    pub fn new(count: u64, length: Nanos) -> Result<Self, UnitError> {
        if count == 0 || length == Nanos::ZERO {
            return Err(UnitError::new(Quantity::Window, &format!("{count} per {length}"), Problem::Zero));
        }
        Ok(Self { count, length })
    }

    #[must_use]
    pub const fn count(self) -> u64 {
        self.count
    }

    #[must_use]
    pub const fn length(self) -> Nanos {
        self.length
    }
}

impl FromStr for WindowCap {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let parts = || {
            let (count, rest) = split(text)?;
            let window = match rest.strip_prefix(" per ") {
                Some(window) => length(window)?,
                None if rest.is_empty() => return Err(Problem::NoUnit),
                None => return Err(Problem::unknown_unit(rest)),
            };
            if count == 0 || window == 0 {
                return Err(Problem::Zero);
            }
            Ok(Self { count, length: Nanos(window) })
        };
        parts().map_err(|problem| UnitError::new(Quantity::Window, text, problem))
    }
}

impl fmt::Display for WindowCap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {}", self.count, self.length)
    }
}

/// In bytes: `2KB` is 2,000, `64MiB` is 67,108,864.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        measure(text, &SIZES).map(Self).map_err(|problem| UnitError::new(Quantity::Size, text, problem))
    }
}

impl fmt::Display for Bytes {
    /// In the unit with the smallest whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = SIZES.iter().filter(|(_, bytes)| self.0 != 0 && self.0.is_multiple_of(*bytes));
        let (unit, bytes) = fits.max_by_key(|(_, bytes)| *bytes).unwrap_or(&("B", 1));
        write!(f, "{}{unit}", self.0 / bytes)
    }
}

fn length(text: &str) -> Result<u64, Problem> {
    measure(text, &LENGTHS)
}

fn measure(text: &str, units: &[(&str, u64)]) -> Result<u64, Problem> {
    let (number, unit) = split(text)?;
    number.checked_mul(scale(unit, units)?).ok_or(Problem::TooLarge)
}

fn scale(unit: &str, units: &[(&str, u64)]) -> Result<u64, Problem> {
    if unit.is_empty() {
        return Err(Problem::NoUnit);
    }
    let found = units.iter().find(|(name, _)| *name == unit);
    found.map(|(_, scale)| *scale).ok_or_else(|| Problem::unknown_unit(unit))
}

fn split(text: &str) -> Result<(u64, &str), Problem> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    match (number, rest) {
        ("", "") => Err(Problem::Empty),
        ("", _) => Err(Problem::NoNumber),
        (_, rest) if rest.starts_with(['.', ',', '_']) => Err(Problem::NotWhole),
        (number, rest) => Ok((number.parse().map_err(|_| Problem::TooLarge)?, rest)),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {given} as {quantity}: {problem}; expected {}", quantity.expected())]
pub struct UnitError {
    quantity: Quantity,
    given: Excerpt,
    problem: Problem,
}

impl UnitError {
    fn new(quantity: Quantity, given: &str, problem: Problem) -> Self {
        Self { quantity, given: Excerpt::of(given), problem }
    }

    #[must_use]
    pub const fn quantity(&self) -> Quantity {
        self.quantity
    }

    #[must_use]
    pub const fn problem(&self) -> &Problem {
        &self.problem
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    Duration,
    Rate,
    Window,
    Size,
}

impl Quantity {
    #[must_use]
    pub const fn expected(self) -> &'static str {
        match self {
            Self::Duration => "a whole number and one of ns, us, ms, s, min, h, d, such as 250ms",
            Self::Rate => "a whole number, a slash and a duration, such as 20/s, 300/min or 100/10s",
            Self::Window => "a whole number, per, and a duration, such as 60 per 1s",
            Self::Size => {
                "a whole number and one of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB, such as 2KB or 64MiB"
            }
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Duration => "a duration",
            Self::Rate => "a rate",
            Self::Window => "a window cap",
            Self::Size => "a size",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("it is empty")]
    Empty,
    #[error("it does not begin with a digit")]
    NoNumber,
    #[error("the number is not a plain whole one")]
    NotWhole,
    #[error("the number has no unit")]
    NoUnit,
    #[error("the unit {0} is not known here")]
    UnknownUnit(Excerpt),
    #[error("it must be more than 0")]
    Zero,
    #[error("it is too large")]
    TooLarge,
}

impl Problem {
    fn unknown_unit(unit: &str) -> Self {
        Self::UnknownUnit(Excerpt::of(unit))
    }
}
