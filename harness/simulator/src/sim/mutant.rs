//! Senders with one realistic bug each, made of the right one: what the sweep must find, or it finds nothing.

use std::collections::BTreeMap;

use hookproof_sender::dispatch::{Answered, AttemptEnd, Effect, Event, NewAttempt, Order};
use hookproof_sender::engine::{Answer, DeliveryId, Nanos, Outcome, StoreTime};
use hookproof_sender::store::command::{Command, Fate, Renew, Settlement};
use hookproof_sender::store::reply::{Claimed, Refusal, Renewed, Reply, SettleResult};

use super::commit_queue::{CommitQueue, Then};
use super::error::SimError;

/// For how long the mutant that loses settlements keeps them to itself.
const LOST_FOR: u64 = 3_000_000_000;

/// How much later than it is the mutant without leases takes a lease to be over.
const UNFENCED: Nanos = Nanos::HOUR;

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

/// The bug that a process has, and what it keeps for it. It changes what the dispatcher hears, and what is done of what it
/// says; nothing inside of it.
pub(super) struct Bug {
    kind: Option<Mutant>,
    /// Deliveries whose end the dispatcher was told before it came, and what it then wanted written down of them.
    charged: BTreeMap<DeliveryId, Option<Settlement>>,
    /// Settlements that wait to be written, and until when.
    unwritten: Vec<(u64, Settlement)>,
    /// What keeps a lease that the dispatcher takes to be safe for long, and when it is to be said again.
    renewal: Option<(u64, Renew)>,
}

impl Bug {
    pub(super) const fn new(kind: Option<Mutant>) -> Self {
        Self { kind, charged: BTreeMap::new(), unwritten: Vec::new(), renewal: None }
    }

    /// What the dispatcher hears in the place of an event, if anything.
    pub(super) fn change_event(
        &mut self,
        event: Event,
        now: StoreTime,
        queue: &mut CommitQueue,
    ) -> Option<Event> {
        match (self.kind, event) {
            (Some(Mutant::ChargedOnSend), Event::Ended { attempt, delivery, result }) => {
                match self.charged.remove(&delivery) {
                    Some(settled) => Some(settle_late(settled?, result, now, queue)),
                    None => Some(Event::Ended { attempt, delivery, result }),
                }
            }
            (Some(Mutant::LeaseNotFenced), Event::Answered(answered)) => {
                Some(Event::Answered(unfenced(answered)))
            }
            (_, event) => Some(event),
        }
    }

    /// What is done in the place of an effect, if anything; and what the dispatcher hears of it at once, if anything.
    pub(super) fn change_effect(
        &mut self,
        effect: Effect,
        at: StoreTime,
        now: u64,
        queue: &mut CommitQueue,
    ) -> (Option<Effect>, Option<Event>) {
        match (self.kind, effect) {
            (Some(Mutant::ChargedOnSend), Effect::Send(attempt)) => {
                self.charged.insert(attempt.row.delivery, None);
                let end = taken(&attempt, at);
                (Some(Effect::Send(attempt)), Some(end))
            }
            (Some(Mutant::ChargedOnSend), Effect::Ask { order, command: Command::Settle(rows) })
                if rows.iter().any(|row| self.charged.contains_key(&row.delivery)) =>
            {
                let answer = settled(order, rows.len());
                let (early, rest): (Vec<_>, Vec<_>) =
                    rows.into_iter().partition(|row| self.charged.contains_key(&row.delivery));
                self.charged.extend(early.into_iter().map(|row| (row.delivery, Some(row))));
                if !rest.is_empty() {
                    queue.submit(vec![Command::Settle(rest)], Then::Nothing);
                }
                (None, Some(answer))
            }
            (Some(Mutant::SettleLost), Effect::Ask { order, command: Command::Settle(rows) }) => {
                let answer = settled(order, rows.len());
                self.unwritten.extend(rows.into_iter().map(|row| (now + LOST_FOR, row)));
                (None, Some(answer))
            }
            (Some(Mutant::LeaseNotFenced), Effect::Ask { order, command: Command::Renew(renew) }) => {
                let again = Renew { announce: None, ..renew.clone() };
                self.renewal = Some((now + again.lease.0 / 3, again));
                (Some(Effect::Ask { order, command: Command::Renew(renew) }), None)
            }
            (_, effect) => (Some(effect), None),
        }
    }

    /// A lane's record as it is kept.
    pub(super) fn change_record(&self, record: Box<[u8]>) -> Result<Box<[u8]>, SimError> {
        if self.kind != Some(Mutant::PauseForgotten) {
            return Ok(record);
        }
        let value = serde_json::from_slice(&record);
        let mut value: serde_json::Value = value.map_err(|error| SimError::Defect(error.to_string()))?;
        value["lane"]["pause"] = 0.into();
        Ok(value.to_string().into_bytes().into())
    }

    /// When something is to be written that was kept back.
    pub(super) fn next_write(&self) -> Option<u64> {
        let renewal = self.renewal.as_ref().map(|(at, _)| *at);
        self.unwritten.first().map(|(at, _)| *at).into_iter().chain(renewal).min()
    }

    /// Writes what the mutant that loses settlements has kept for long enough, and renews what its dispatcher does not.
    pub(super) fn write_late(&mut self, now: u64, queue: &mut CommitQueue) {
        if let Some((at, renew)) = self.renewal.as_mut().filter(|(at, _)| *at <= now) {
            *at = now + renew.lease.0 / 3;
            queue.submit(vec![Command::Renew(renew.clone())], Then::Nothing);
        }
        let ripe = self.unwritten.partition_point(|(at, _)| *at <= now);
        if ripe > 0 {
            let rows: Vec<_> = self.unwritten.drain(..ripe).map(|(_, row)| row).collect();
            queue.submit(vec![Command::Settle(rows)], Then::Nothing);
        }
    }
}

/// The end of an attempt, told as a success when it begins.
fn taken(attempt: &NewAttempt, at: StoreTime) -> Event {
    let outcome = Outcome::Answered(Answer { status: 204, retry_after: None, date: None, at });
    let (attempt, delivery) = (attempt.attempt, attempt.row.delivery);
    Event::Ended { attempt, delivery, result: AttemptEnd { outcome, record: None } }
}

/// Settlements are said to be durable.
fn settled(order: Order, count: usize) -> Event {
    let reply = Ok(Reply::Settled(vec![SettleResult::Applied; count]));
    Event::Answered(Answered { order, reply, moment: None })
}

/// The true end of an attempt that the dispatcher took for a success when it began: it is written down, and the lane has
/// something to do once it is due again.
fn settle_late(settled: Settlement, result: AttemptEnd, now: StoreTime, queue: &mut CommitQueue) -> Event {
    let due = StoreTime(now.0 + Nanos::SECOND.0);
    let fate = match &result.outcome {
        Outcome::Answered(answer) if (200..300).contains(&answer.status) => Fate::Delivered,
        _ => Fate::Retry { due },
    };
    let lane = settled.lane;
    let row = Settlement { fate, attempt: result.record, ..settled };
    queue.submit(vec![Command::Settle(vec![row])], Then::Nothing);
    Event::Work(vec![(lane, due)])
}

/// An answer that says nothing of leases: none ends, and no lane was lost.
fn unfenced(answered: Answered) -> Answered {
    let later = |asked: StoreTime| StoreTime(asked.0.saturating_add(UNFENCED.0));
    let Answered { order, reply, moment } = answered;
    let (order, reply) = match (order, reply) {
        (Order::Acquire { asked }, reply) => (Order::Acquire { asked: later(asked) }, reply),
        // It does not heed what it has lost.
        (Order::Renew { asked }, Ok(Reply::Renewed(renewed))) => {
            let renewed = Renewed { lost: Vec::new(), ..renewed };
            (Order::Renew { asked: later(asked) }, Ok(Reply::Renewed(renewed)))
        }
        (Order::Claim { lane, term, .. }, Ok(Reply::Refused(_))) => {
            let claimed = Claimed { lane, term, rows: Vec::new(), next: None, too_long: None };
            (order, Ok(Reply::Claimed(claimed)))
        }
        (order, Ok(Reply::Settled(verdicts))) => {
            (order, Ok(Reply::Settled(vec![SettleResult::Applied; verdicts.len()])))
        }
        (order, Ok(Reply::Refused(Refusal::StaleTerm { .. }))) => (order, Ok(Reply::Done)),
        unchanged => unchanged,
    };
    Answered { order, reply, moment }
}
