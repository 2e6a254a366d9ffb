//! What a check says: what it found, the figures behind it, and the witness that anyone can look up in the trace.

use serde::{Deserialize, Serialize};

pub use crate::entry::{Severity, Verdict as Status};

/// The most witnesses that one finding keeps: enough to see the pattern, few enough to read.
pub const WITNESS_MAX: usize = 10;
/// The most arrivals that one witness names.
pub const WITNESS_ARRIVALS_MAX: usize = 50;

/// What a check found, before its weight and what is known are taken into account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which way it went.
    pub found: Found,
    /// In one sentence.
    pub sentence: String,
    /// The figures behind it.
    pub figures: Vec<Figure>,
    /// What shows it.
    pub witness: Vec<Witness>,
}

/// Which way a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It held.
    Held,
    /// It did not.
    Broken,
    /// There was too little to see.
    Unseen,
    /// The scenario has nothing that it is about.
    Unasked,
}

/// A figure behind a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// What it amounts to, with its unit.
    pub value: String,
}

/// What shows that a check does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// Whose endpoint; none for the sender as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscriber: Option<String>,
    /// From when, in nanoseconds since the run began.
    pub from: u64,
    /// Until when.
    pub until: u64,
    /// What happened, against what should have.
    pub what: String,
    /// The arrivals that show it, by their number in the trace.
    pub arrivals: Vec<u64>,
}

impl Finding {
    fn new(found: Found, sentence: impl Into<String>) -> Self {
        Self { found, sentence: sentence.into(), figures: Vec::new(), witness: Vec::new() }
    }

    /// It held.
    pub(super) fn held(sentence: impl Into<String>) -> Self {
        Self::new(Found::Held, sentence)
    }

    /// It did not hold.
    pub(super) fn broken(sentence: impl Into<String>, witness: Vec<Witness>) -> Self {
        Self { witness, ..Self::new(Found::Broken, sentence) }
    }

    /// There was too little to see.
    pub(super) fn unseen(sentence: impl Into<String>) -> Self {
        Self::new(Found::Unseen, sentence)
    }

    /// The scenario has nothing that it is about.
    pub(super) fn unasked(sentence: impl Into<String>) -> Self {
        Self::new(Found::Unasked, sentence)
    }

    /// With a figure more.
    #[must_use]
    pub(super) fn with(mut self, name: impl Into<String>, value: impl std::fmt::Display) -> Self {
        self.figures.push(Figure { name: name.into(), value: value.to_string() });
        self
    }
}

/// Counts what a check looks at, and keeps the first witnesses.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) seen: u64,
    pub(super) broken: u64,
    witness: Vec<Witness>,
}

impl Tally {
    /// One thing was looked at.
    pub(super) fn see(&mut self) {
        self.seen += 1;
    }

    /// One of them is wrong.
    pub(super) fn broke(&mut self, witness: impl FnOnce() -> Witness) {
        self.broken += 1;
        if self.witness.len() < WITNESS_MAX {
            self.witness.push(witness());
        }
    }

    /// `noun` is what was looked at; `good` and `bad` follow it in a sentence.
    pub(super) fn finding(self, noun: &str, good: &str, bad: &str) -> Finding {
        let Self { seen, broken, witness } = self;
        match (seen, broken) {
            (0, 0) => Finding::unseen(format!("the run shows no {noun}")),
            (_, 0) => Finding::held(format!("{seen} {noun}: {good}")),
            // One of them can be broken by several requests.
            _ if broken > seen => Finding::broken(format!("{broken} times in {seen} {noun}: {bad}"), witness),
            _ => Finding::broken(format!("{broken} of {seen} {noun}: {bad}"), witness),
        }
    }
}

/// Nanoseconds as a person reads them: three digits after the point at most.
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
