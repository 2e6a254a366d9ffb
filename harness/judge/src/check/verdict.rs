//! A finding: the result of a check, its figures, and witnesses that a reader can look up in the trace.

use serde::{Deserialize, Serialize};

pub use crate::entry::{Severity, Verdict as Status};

/// Witnesses that one finding keeps.
pub const WITNESS_MAX: usize = 10;
/// Arrivals that one witness names.
pub const WITNESS_ARRIVALS_MAX: usize = 50;

/// The result of a check, before its severity and expected failures apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub found: Found,
    pub sentence: String,
    pub figures: Vec<Figure>,
    pub witness: Vec<Witness>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Held,
    Broken,
    /// There was too little to see.
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

/// Evidence that a check does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// None for the sender as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscriber: Option<String>,
    /// Nanoseconds since the run began.
    pub from: u64,
    pub until: u64,
    /// The events, and the expected ones.
    pub what: String,
    /// Numbers of arrivals in the trace.
    pub arrivals: Vec<u64>,
}

impl Finding {
    fn new(found: Found, sentence: impl Into<String>) -> Self {
        Self { found, sentence: sentence.into(), figures: Vec::new(), witness: Vec::new() }
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
}

/// Counts the observations of a check, and keeps the first witnesses.
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
            (_, 0) => Finding::held(format!("{seen} {noun}: {good}")),
            // Several requests can break one observation.
            _ if broken > seen => Finding::broken(format!("{broken} times in {seen} {noun}: {bad}"), witness),
            _ => Finding::broken(format!("{broken} of {seen} {noun}: {bad}"), witness),
        }
    }
}

/// A readable duration with at most three digits after the point.
#[must_use]
pub fn show(nanos: u64) -> String {
    let (unit, scale) = match nanos {
        0..1_000 => ("ns", 1),
        1_000..1_000_000 => ("µs", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    let (whole, part) = (nanos / scale, nanos % scale * 1_000 / scale);
    if part == 0 {
        return format!("{whole} {unit}");
    }
    format!("{whole}.{} {unit}", format!("{part:03}").trim_end_matches('0'))
}
