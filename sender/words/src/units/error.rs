use std::fmt;

use crate::excerpt::Excerpt;

/// The text is not a valid quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {given} as {quantity}: {problem}; expected {}", quantity.expected())]
pub struct UnitError {
    quantity: Quantity,
    given: Excerpt,
    problem: Problem,
}

impl UnitError {
    pub(super) fn new(quantity: Quantity, given: &str, problem: Problem) -> Self {
        Self { quantity, given: Excerpt::of(given), problem }
    }

    /// The expected quantity.
    #[must_use]
    pub const fn quantity(&self) -> Quantity {
        self.quantity
    }

    /// The problem.
    #[must_use]
    pub const fn problem(&self) -> &Problem {
        &self.problem
    }
}

/// A kind of quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A duration.
    Duration,
    /// A count per period.
    Rate,
    /// A count per window.
    Window,
    /// A number of bytes.
    Size,
}

impl Quantity {
    /// The accepted forms, for messages.
    #[must_use]
    pub const fn expected(self) -> &'static str {
        match self {
            Self::Duration => "a whole number and one of ns, us, ms, s, min, h, d, such as 250ms",
            Self::Rate => "a whole number, a slash and a length of time, such as 20/s, 300/min or 100/10s",
            Self::Window => "a whole number, per, and a length of time, such as 60 per 1s",
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

/// Why a quantity is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Empty.
    #[error("it is empty")]
    Empty,
    /// Does not begin with a digit.
    #[error("it does not begin with a digit")]
    NoNumber,
    /// A fraction, or digits with separators.
    #[error("the number is not a plain whole one")]
    NotWhole,
    /// No unit.
    #[error("the number has no unit")]
    NoUnit,
    /// An unknown unit.
    #[error("the unit {0} is not known here")]
    UnknownUnit(Excerpt),
    /// Zero, which is not allowed.
    #[error("it must be more than nothing")]
    Zero,
    /// More than 64 bits.
    #[error("it is too large")]
    TooLarge,
}

impl Problem {
    pub(super) fn unknown_unit(unit: &str) -> Self {
        Self::UnknownUnit(Excerpt::of(unit))
    }
}
