//! Senders with one realistic bug each, made of the right one: what the sweep must find, or it finds nothing.

use std::collections::BTreeMap;

use hookproof_sender::engine::{DeliveryId, Nanos, Outcome, Settlement, WallTime};
use hookproof_sender::store::command::{self, Command};

use super::process::{Process, Then};

/// For how long the mutant that loses settlements keeps them to itself.
pub(super) const LOST_FOR: u64 = 3_000_000_000;

/// One bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The limiter is charged when a request is sent, not when it has ended.
    ChargedOnSend,
    /// A lease that ran out, or that somebody else took, binds nobody.
    LeaseNotFenced,
    /// Settlements are acknowledged before they are durable, so that a crash loses them.
    SettleLost,
    /// What an endpoint asked for with `Retry-After` does not outlive the process.
    PauseForgotten,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::ChargedOnSend, Self::LeaseNotFenced, Self::SettleLost, Self::PauseForgotten];

    /// Its name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ChargedOnSend => "charged-on-send",
            Self::LeaseNotFenced => "lease-not-fenced",
            Self::SettleLost => "settle-lost",
            Self::PauseForgotten => "pause-forgotten",
        }
    }
}

impl std::str::FromStr for Mutant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        let known = Self::ALL.into_iter().find(|mutant| mutant.name() == text);
        known.ok_or_else(|| format!("there is no mutant {text:?}; expected one of {names}"))
    }
}

/// What a mutant keeps.
#[derive(Default)]
pub(super) struct Bug {
    pub(super) kind: Option<Mutant>,
    /// Deliveries whose end the engine was told before it came.
    pub(super) charged: BTreeMap<DeliveryId, Option<Settlement>>,
    /// Settlements that wait to be written.
    pub(super) unwritten: Vec<(u64, command::Settlement)>,
}

impl Process {
    /// The end of an attempt that the engine took for a success when it began.
    pub(super) fn settle_late(
        &mut self,
        settled: Option<Settlement>,
        outcome: &Outcome,
        record: command::Attempt,
        now: u64,
    ) {
        let Some(settled) = settled else { return };
        let due = WallTime(self.steady(now).0 + Nanos::SECOND.0);
        let fate = match outcome {
            Outcome::Answered(answer) if (200..300).contains(&answer.status) => command::Fate::Delivered,
            _ => command::Fate::Retry { due },
        };
        let Settlement { lane, term, delivery, attempts, .. } = settled;
        let row = command::Settlement { lane, term, delivery, attempts, fate, attempt: Some(record) };
        self.submit(
            vec![Command::Settle(vec![row])],
            Then::Settle { batch: None, owners: vec![(lane, term)] },
        );
        self.work(lane, due, now);
    }

    /// Writes what the mutant that loses settlements has kept for long enough.
    pub(super) fn write_late(&mut self, now: u64) {
        let ripe = self.bug.unwritten.partition_point(|(at, _)| *at <= now);
        if ripe > 0 {
            let rows: Vec<_> = self.bug.unwritten.drain(..ripe).map(|(_, row)| row).collect();
            self.submit(vec![Command::Settle(rows)], Then::Nothing);
        }
    }
}
