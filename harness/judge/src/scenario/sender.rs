use std::collections::BTreeSet;

use super::quantity::Duration;
use super::reader::{Form, Reader, Section, may};

pub(super) const SENDER: Section = Section {
    about: "The setup of the sender under test.",
    fields: &[
        may("workers", Form::Count, "how many of its processes share one store, 1 to 64 (default 1)"),
        may(
            "store",
            Form::Word(&["sqlite", "postgres"]),
            "its store: a file, or a PostgreSQL server that the harness starts, or that HOOKPROOF_POSTGRES names \
             (default sqlite)",
        ),
        may(
            "durability",
            Form::Word(&["power-loss", "process"]),
            "the failure that an acknowledgement survives (default power-loss)",
        ),
        may("arguments", Form::List(&Form::Text), "further arguments of its command line"),
        may(
            "takeover_within",
            Form::Duration,
            "a killed process's subscribers are served again within this time (default 60s)",
        ),
        may(
            "confirm_within",
            Form::Duration,
            "a delivery that succeeded more than this before a kill is not repeated (default 250ms)",
        ),
        may(
            "stop_within",
            Form::Duration,
            "a process that is asked to stop ends within this time (default 30s)",
        ),
    ],
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    pub workers: u32,
    pub store: Store,
    pub durability: Durability,
    pub arguments: Vec<String>,
    /// After a kill, its work continues by then at the latest: its lease and the takeover.
    pub takeover_within: Duration,
    /// How soon an answer is committed: a delivery answered earlier than this before a kill is not repeated.
    pub confirm_within: Duration,
    pub stop_within: Duration,
    pub written: BTreeSet<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    Sqlite,
    Postgres,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    PowerLoss,
    Process,
}

impl Durability {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PowerLoss => "power-loss",
            Self::Process => "process",
        }
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            workers: 1,
            store: Store::Sqlite,
            durability: Durability::PowerLoss,
            arguments: Vec::new(),
            takeover_within: Duration::from_secs(60),
            confirm_within: Duration::from_millis(250),
            stop_within: Duration::from_secs(30),
            written: BTreeSet::new(),
        }
    }
}

impl Setup {
    pub(super) fn read(reader: &Reader<'_>) -> Self {
        let default = Self::default();
        let words = [("power-loss", Durability::PowerLoss), ("process", Durability::Process)];
        let stores = [("sqlite", Store::Sqlite), ("postgres", Store::Postgres)];
        let workers = reader.or("workers", default.workers);
        if !(1..=64).contains(&workers) {
            reader.wrong("workers", "expected 1 to 64");
        }
        Self {
            workers,
            store: reader.word("store", &stores).unwrap_or(default.store),
            durability: reader.word("durability", &words).unwrap_or(default.durability),
            arguments: reader.or("arguments", default.arguments),
            takeover_within: reader.or("takeover_within", default.takeover_within),
            confirm_within: reader.or("confirm_within", default.confirm_within),
            stop_within: reader.or("stop_within", default.stop_within),
            written: reader.written(),
        }
    }
}
