//! Why a quantity could not be read.

use std::fmt;

use crate::excerpt::Excerpt;

/// A text that is not the quantity it should be.
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

    /// What was to be read.
    #[must_use]
    pub const fn quantity(&self) -> Quantity {
        self.quantity
    }

    /// What is wrong with it.
    #[must_use]
    pub const fn problem(&self) -> &Problem {
        &self.problem
    }
}

/// What a text was to be read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A length of time.
    Duration,
    /// So many in each stretch of time.
    Rate,
    /// So many in any window of a length.
    Window,
    /// A number of bytes.
    Size,
}

impl Quantity {
    /// The forms that it may take, for messages.
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

/// What is wrong with a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is no text.
    #[error("it is empty")]
    Empty,
    /// It begins with something else than a digit.
    #[error("it does not begin with a digit")]
    NoNumber,
    /// A fraction, or a number with separators in it.
    #[error("the number is not a plain whole one")]
    NotWhole,
    /// A bare number.
    #[error("the number has no unit")]
    NoUnit,
    /// A unit that this quantity does not have.
    #[error("the unit {0} is not known here")]
    UnknownUnit(Excerpt),
    /// Nothing, where there must be something.
    #[error("it must be more than nothing")]
    Zero,
    /// More than 64 bits hold.
    #[error("it is too large")]
    TooLarge,
}

impl Problem {
    pub(super) fn unknown_unit(unit: &str) -> Self {
        Self::UnknownUnit(Excerpt::of(unit))
    }
}
