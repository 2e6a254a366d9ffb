//! Senders with one realistic defect each; a sweep must find each one.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use hookproof_sender::dispatch::{Answered, AttemptEnd, Effect, Event, NewAttempt, Order};
use hookproof_sender::engine::{Answer, DeliveryId, Nanos, Outcome, StoreTime};
use hookproof_sender::store::command::{Command, Fate, Renew, Settlement};
use hookproof_sender::store::reply::{Claimed, Refusal, Renewed, Reply, SettleResult};

use super::commit_queue::{CommitQueue, Then};
use super::error::SimError;

/// In nanoseconds.
const LOST_FOR: u64 = 3_000_000_000;

const UNFENCED: Nanos = Nanos::HOUR;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Charges the limiter when a request is sent, not when it ends.
    ChargedOnSend,
    /// Ignores the end and the loss of a lease.
    LeaseNotFenced,
    /// Confirms settlements before they are durable, so a crash loses them.
    SettleLost,
    /// Forgets the pause of a `Retry-After` when the process ends.
    PauseForgotten,
}

impl Mutant {
    pub const ALL: [Self; 4] =
        [Self::ChargedOnSend, Self::LeaseNotFenced, Self::SettleLost, Self::PauseForgotten];

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

/// Lost once in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A lane's record is durable.
    Persisted,
    /// A claim's answer.
    Claimed,
    /// There is work.
    Work,
    /// Lanes are handed over.
    Acquired,
}

impl Loss {
    fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Work(lanes) if !lanes.is_empty() => Some(Self::Work),
            Event::Answered(Answered { order, .. }) => match order {
                Order::Persist { .. } => Some(Self::Persisted),
                Order::Claim { .. } => Some(Self::Claimed),
                Order::Acquire { .. } => Some(Self::Acquired),
                Order::Settle(_) | Order::Renew { .. } | Order::Retire => None,
            },
            _ => None,
        }
    }
}

/// Still to lose, by any process, after so many such words.
pub(super) type ToLose = Rc<Cell<Option<(Loss, u32)>>>;

/// It changes the dispatcher's events and effects only.
pub(super) struct Bug {
    kind: Option<Mutant>,
    loses: ToLose,
    /// Deliveries whose end the dispatcher heard too early, with its settlement of them.
    charged: BTreeMap<DeliveryId, Option<Settlement>>,
    /// Settlements kept back, each with the time of its write.
    unwritten: Vec<(u64, Settlement)>,
    /// The renewal that keeps a lease alive beyond the dispatcher's knowledge, with its next time.
    renewal: Option<(u64, Renew)>,
}

impl Bug {
    pub(super) const fn new(kind: Option<Mutant>, loses: ToLose) -> Self {
        Self { kind, loses, charged: BTreeMap::new(), unwritten: Vec::new(), renewal: None }
    }

    pub(super) fn change_event(
        &mut self,
        event: Event,
        now: StoreTime,
        queue: &mut CommitQueue,
    ) -> Option<Event> {
        if let Some((loss, before)) = self.loses.get().filter(|(loss, _)| Loss::of(&event) == Some(*loss)) {
            self.loses.set(before.checked_sub(1).map(|before| (loss, before)));
            if before == 0 {
                return None;
            }
        }
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

    /// Returns the event to handle at once, too.
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
                let end = early_success(&attempt, at);
                (Some(Effect::Send(attempt)), Some(end))
            }
            (Some(Mutant::ChargedOnSend), Effect::Submit { order, command: Command::Settle(rows) })
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
            (Some(Mutant::SettleLost), Effect::Submit { order, command: Command::Settle(rows) }) => {
                let answer = settled(order, rows.len());
                self.unwritten.extend(rows.into_iter().map(|row| (now + LOST_FOR, row)));
                (None, Some(answer))
            }
            (Some(Mutant::LeaseNotFenced), Effect::Submit { order, command: Command::Renew(renew) }) => {
                let again = Renew { announce: None, ..renew.clone() };
                self.renewal = Some((now + again.lease.0 / 3, again));
                (Some(Effect::Submit { order, command: Command::Renew(renew) }), None)
            }
            (_, effect) => (Some(effect), None),
        }
    }

    pub(super) fn change_record(&self, record: Box<[u8]>) -> Result<Box<[u8]>, SimError> {
        if self.kind != Some(Mutant::PauseForgotten) {
            return Ok(record);
        }
        let value = serde_json::from_slice(&record);
        let mut value: serde_json::Value = value.map_err(|error| SimError::Defect(error.to_string()))?;
        value["lane"]["pause"] = 0.into();
        Ok(value.to_string().into_bytes().into())
    }

    pub(super) fn next_write(&self) -> Option<u64> {
        let renewal = self.renewal.as_ref().map(|(at, _)| *at);
        self.unwritten.first().map(|(at, _)| *at).into_iter().chain(renewal).min()
    }

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

/// Reports success when the attempt begins.
fn early_success(attempt: &NewAttempt, at: StoreTime) -> Event {
    let outcome = Outcome::Answered(Answer { status: 204, retry_after: None, date: None, at });
    let (attempt, delivery) = (attempt.attempt, attempt.row.delivery);
    Event::Ended { attempt, delivery, result: AttemptEnd { outcome, record: None } }
}

fn settled(order: Order, count: usize) -> Event {
    let reply = Ok(Reply::Settled(vec![SettleResult::Applied; count]));
    Event::Answered(Answered { order, reply, moment: None })
}

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

fn unfenced(answered: Answered) -> Answered {
    let later = |asked: StoreTime| StoreTime(asked.0.saturating_add(UNFENCED.0));
    let Answered { order, reply, moment } = answered;
    let (order, reply) = match (order, reply) {
        (Order::Acquire { asked }, reply) => (Order::Acquire { asked: later(asked) }, reply),
        // It ignores the lost lanes.
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
