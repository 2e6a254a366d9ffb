//! The result of a check, its figures, and witnesses that a reader can look up in the trace.

use serde::{Deserialize, Serialize};

pub use crate::entry::{Severity, Verdict as Status};
use crate::scenario::SECOND;

pub const WITNESS_MAX: usize = 10;
pub const WITNESS_ARRIVALS_MAX: usize = 50;

/// Before its severity and expected failures apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub found: Found,
    pub sentence: String,
    pub figures: Vec<Figure>,
    pub witness: Vec<Witness>,
    /// As a standard counts it, where that differs: it may demand less, or evidence of more.
    pub(super) by_standard: Option<Box<Self>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Held,
    Broken,
    Unseen,
    /// The scenario does not arrange its subject.
    Unasked,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    pub name: String,
    /// With its unit.
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// None for the sender as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscriber: Option<String>,
    /// Nanoseconds since the run began.
    pub from: u64,
    pub until: u64,
    pub what: String,
    /// Numbers of arrivals in the trace.
    pub arrivals: Vec<u64>,
}

impl Finding {
    fn new(found: Found, sentence: impl Into<String>) -> Self {
        Self { found, sentence: sentence.into(), figures: Vec::new(), witness: Vec::new(), by_standard: None }
    }

    pub(super) fn held(sentence: impl Into<String>) -> Self {
        Self::new(Found::Held, sentence)
    }

    pub(super) fn broken(sentence: impl Into<String>, witness: Vec<Witness>) -> Self {
        Self { witness, ..Self::new(Found::Broken, sentence) }
    }

    pub(super) fn unseen(sentence: impl Into<String>) -> Self {
        Self::new(Found::Unseen, sentence)
    }

    pub(super) fn unasked(sentence: impl Into<String>) -> Self {
        Self::new(Found::Unasked, sentence)
    }

    #[must_use]
    pub(super) fn with(mut self, name: impl Into<String>, value: impl std::fmt::Display) -> Self {
        self.figures.push(Figure { name: name.into(), value: value.to_string() });
        self
    }

    /// A standard counts it as not exercised, for this reason.
    #[must_use]
    pub(super) fn unless_shown(self, missing: Option<String>) -> Self {
        let by_standard = missing.filter(|_| self.found == Found::Held).map(Self::unseen).map(Box::new);
        Self { by_standard, ..self }
    }
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) seen: u64,
    pub(super) broken: u64,
    witness: Vec<Witness>,
}

impl Tally {
    pub(super) fn see(&mut self) {
        self.seen += 1;
    }

    pub(super) fn broke(&mut self, witness: impl FnOnce() -> Witness) {
        self.broken += 1;
        if self.witness.len() < WITNESS_MAX {
            self.witness.push(witness());
        }
    }

    /// `noun` names the observations; `good` and `bad` follow it in a sentence.
    pub(super) fn finding(self, noun: &str, good: &str, bad: &str) -> Finding {
        let Self { seen, broken, witness } = self;
        match (seen, broken) {
            (0, 0) => Finding::unseen(format!("the run has no {noun}")),
            (_, 0) => Finding::held(format!("{noun}: {seen}; {good}")),
            // Several requests can break one observation.
            _ if broken > seen => {
                Finding::broken(format!("{noun}: {broken} failures in {seen}; {bad}"), witness)
            }
            _ => Finding::broken(format!("{broken} of {seen} {noun}: {bad}"), witness),
        }
    }
}

/// At most three digits: `690 ms`, `1.23 s`, `2 h`.
#[must_use]
pub fn show(nanos: u64) -> String {
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;
    let step = 10_u64.pow(nanos.checked_ilog10().unwrap_or(0).saturating_sub(2));
    let nanos = nanos.saturating_add(step / 2) / step * step;
    let (unit, scale) = match nanos {
        1..1_000 => ("ns", 1),
        1_000..1_000_000 => ("µs", 1_000),
        1_000_000..SECOND => ("ms", 1_000_000),
        _ if nanos < 10 * MINUTE => ("s", SECOND),
        _ if nanos < 2 * HOUR => ("min", MINUTE),
        _ if nanos < 48 * HOUR => ("h", HOUR),
        _ => ("d", 24 * HOUR),
    };
    three_digits(nanos, scale, unit)
}

/// With as many digits as it takes to tell the two apart.
pub(super) fn show_beside(nanos: u64, other: u64) -> String {
    let shown = show(nanos);
    if shown != show(other) || nanos == other {
        return shown;
    }
    let exact = moment(nanos);
    if exact == moment(other) { format!("{nanos} ns") } else { exact }
}

/// Seconds with three decimals, or exact to the microsecond within the first second.
#[must_use]
pub fn moment(nanos: u64) -> String {
    let (unit, scale) = match nanos {
        1..1_000 => ("ns", 1),
        1_000..1_000_000 => ("µs", 1_000),
        1_000_000..SECOND => ("ms", 1_000_000),
        _ => ("s", SECOND),
    };
    decimal(nanos / scale * 1_000 + nanos % scale * 1_000 / scale, 3, unit)
}

/// At most three digits: `512 B`, `1.2 GiB`.
pub(super) fn show_bytes(bytes: u64) -> String {
    let (unit, scale) = match bytes {
        0..1_000 => ("B", 1),
        1_000..1_024_000 => ("KiB", 1 << 10),
        1_024_000..1_048_576_000 => ("MiB", 1 << 20),
        _ => ("GiB", 1 << 30),
    };
    three_digits(bytes, scale, unit)
}

/// Exact where both would be shown alike.
pub(super) fn show_bytes_beside(bytes: u64, other: u64) -> String {
    let shown = show_bytes(bytes);
    if shown == show_bytes(other) && bytes != other { format!("{bytes} B") } else { shown }
}

fn three_digits(value: u64, scale: u64, unit: &str) -> String {
    let digits = match value / scale {
        0..10 => 2,
        10..100 => 1,
        _ => 0,
    };
    let scaled = (u128::from(value) * 10_u128.pow(digits) + u128::from(scale / 2)) / u128::from(scale);
    decimal(u64::try_from(scaled).unwrap_or(u64::MAX), digits, unit)
}

/// `value / 10^digits` without final zeros.
fn decimal(value: u64, digits: u32, unit: &str) -> String {
    let one = 10_u64.pow(digits);
    let part = format!("{:0width$}", value % one, width = digits as usize);
    match part.trim_end_matches('0') {
        "" => format!("{} {unit}", value / one),
        part => format!("{}.{part} {unit}", value / one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_has_at_most_three_digits_and_a_moment_is_exact() {
        for (nanos, length, at) in [
            (0, "0 s", "0 s"),
            (1_500, "1.5 µs", "1.5 µs"),
            (689_663_421, "690 ms", "689.663 ms"),
            (999_600_000, "1 s", "999.6 ms"),
            (SECOND, "1 s", "1 s"),
            (5_004_999_999, "5 s", "5.004 s"),
            (66_960_000_000, "67 s", "66.96 s"),
            (599_600_000_000, "10 min", "599.6 s"),
            (3_600 * SECOND, "60 min", "3600 s"),
            (9_000 * SECOND, "2.5 h", "9000 s"),
            (u64::MAX, "212963 d", "18446744073.709 s"),
        ] {
            assert_eq!((show(nanos).as_str(), moment(nanos).as_str()), (length, at), "{nanos}");
        }
    }

    #[test]
    fn two_lengths_that_differ_are_not_shown_alike() {
        assert_eq!(show_beside(8_001_000_000, 8 * SECOND), "8.001 s");
        assert_eq!(show_beside(8_500_000_000, 8 * SECOND), "8.5 s");
        assert_eq!(show_beside(8_000_400_000, 8 * SECOND), "8000400000 ns");
    }

    #[test]
    fn bytes_have_at_most_three_digits() {
        for (bytes, shown) in
            [(0, "0 B"), (999, "999 B"), (1_000, "0.98 KiB"), (77_127_680, "73.6 MiB"), (5 << 30, "5 GiB")]
        {
            assert_eq!(show_bytes(bytes), shown);
        }
    }
}
