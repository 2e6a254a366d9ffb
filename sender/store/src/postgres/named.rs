//! Reads the rows that commands name: at the start of a commit, and again after a command that may have changed them.

use tokio_postgres::Row;

use super::failure::{Result, Wanted};
use super::ledger::{Ledger, Writer};
use super::link::{Link, Query};
use super::rows::{ALIKE, DELIVERIES, Delivery, NAMED, Rows, next_numbers, numbers};
use super::values::{int, size};
use crate::Command;
use crate::command::Settlement;
use crate::engine::{DeliveryId, LaneId, StoreTime, Term};
use crate::queue_cache::QueueCache;

const EVENT_NUMBERS: &str = next_numbers!("event_numbers");
const BODY_NUMBERS: &str = next_numbers!("body_numbers");

pub(super) fn together(one: &Command, next: &Command) -> bool {
    is_named(one) == is_named(next)
}

#[derive(Debug, Default)]
pub(super) struct Named<'a> {
    deliveries: Vec<DeliveryId>,
    /// Claimed deliveries whose state may be known.
    claimed: Vec<(LaneId, Term, DeliveryId)>,
    ids: Vec<&'a str>,
    lanes: Vec<LaneId>,
    keys: Vec<&'a str>,
    now: StoreTime,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    events: i64,
    bodies: i64,
}

impl Counted {
    fn of(commands: &[Command]) -> Self {
        let mut counted = Self::default();
        for command in commands {
            if let Command::Emit(emit) = command.itself() {
                counted.events += 1;
                // One body is in the event's row.
                counted.bodies += int(size(emit.bodies.len().saturating_sub(1)));
            }
        }
        counted
    }

    fn queries(&self) -> Vec<Query<'_>> {
        let mut asks = Vec::new();
        if self.events > 0 {
            asks.push(Query { text: EVENT_NUMBERS, values: vec![&self.events] });
        }
        if self.bodies > 0 {
            asks.push(Query { text: BODY_NUMBERS, values: vec![&self.bodies] });
        }
        asks
    }

    fn read(self, answers: &mut impl Iterator<Item = Vec<Row>>, rows: &mut Rows) -> Result<()> {
        let mut next = || numbers(&answers.next().unwrap_or_default()).map(Vec::into_iter);
        if self.events > 0 {
            rows.spare.0 = next()?;
        }
        if self.bodies > 0 {
            rows.spare.1 = next()?;
        }
        Ok(())
    }
}

/// Whether a command's rows are read before it runs, together with those of others.
pub(super) fn is_named(command: &Command) -> bool {
    matches!(command.itself(), Command::Emit(_) | Command::Settle(_))
}

impl<'a> Named<'a> {
    pub(super) fn by(commands: &'a [Command], now: StoreTime, cache: &QueueCache) -> Self {
        let mut named = Self { now, ..Self::default() };
        for command in commands {
            match command.itself() {
                Command::Emit(emit) => {
                    if !emit.id_is_new {
                        named.ids.push(&emit.id);
                    }
                    for target in &emit.targets {
                        if let Some(coalesce) = &target.coalesce {
                            named.lanes.push(target.lane);
                            named.keys.push(&coalesce.key);
                        }
                    }
                }
                Command::Settle(settlements) => {
                    for &Settlement { lane, term, delivery, .. } in settlements {
                        if cache.may_know(lane, term, delivery) {
                            named.claimed.push((lane, term, delivery));
                        } else {
                            named.deliveries.push(delivery);
                        }
                    }
                }
                _ => {}
            }
        }
        named
    }

    fn queries(&self) -> Vec<Query<'_>> {
        let mut asks = Vec::new();
        if !self.deliveries.is_empty() {
            asks.push(Query { text: DELIVERIES, values: vec![&self.deliveries] });
        }
        if !self.ids.is_empty() {
            asks.push(Query { text: NAMED, values: vec![&self.ids] });
        }
        if !self.keys.is_empty() {
            asks.push(Query { text: ALIKE, values: vec![&self.lanes, &self.keys, &self.now] });
        }
        asks
    }

    fn read(&self, answers: &mut impl Iterator<Item = Vec<Row>>, rows: &mut Rows) -> Result<()> {
        let mut next = || answers.next().unwrap_or_default();
        if !self.deliveries.is_empty() {
            rows.deliveries.extend(self.deliveries.iter().map(|delivery| (*delivery, None)));
            rows.add_deliveries(&next())?;
        }
        if !self.ids.is_empty() {
            rows.named.extend(self.ids.iter().map(|id| ((*id).into(), Vec::new())));
            rows.add_named(&next())?;
        }
        if !self.keys.is_empty() {
            for (lane, key) in self.lanes.iter().zip(&self.keys) {
                rows.alike.entry(*lane).or_default().insert((*key).into(), None);
            }
            rows.add_alike(&next())?;
        }
        Ok(())
    }

    /// Uses the known states that are still valid, and reads the others. The locked lanes were compared before.
    pub(super) fn recall(self, sql: &Link, cache: &mut QueueCache, rows: &mut Rows) -> Result<()> {
        let mut changed = Vec::new();
        for (lane, term, delivery) in self.claimed {
            let known = cache.known(lane, term, delivery);
            if known.is_none() {
                changed.push(delivery);
            }
            rows.deliveries.insert(delivery, known.map(|known| Delivery::waiting(lane, known)));
        }
        if !changed.is_empty() {
            rows.add_deliveries(&sql.query(DELIVERIES, &[&changed])?)?;
        }
        Ok(())
    }

    pub(super) fn look_up(self, sql: &Link, cache: &mut QueueCache, rows: &mut Rows) -> Result<()> {
        let asks = self.queries();
        if !asks.is_empty() {
            let mut answers = sql.query_all(&asks)?.into_iter();
            self.read(&mut answers, rows)?;
        }
        self.recall(sql, cache, rows)
    }
}

/// Begins a transaction, locks rows, and reads the named rows, in one round trip. [`Named::recall`] follows.
pub(super) fn begin<'a>(
    sql: &Link,
    now: StoreTime,
    (commands, named): (&[Command], Named<'a>),
    (wanted, writer): (&Wanted, Writer),
) -> Result<(Ledger, Rows, Named<'a>)> {
    let (counted, lanes) = (Counted::of(commands), wanted.lanes.iter().copied().collect());
    let mut asks = vec![Query { text: "BEGIN", values: Vec::new() }];
    asks.extend(wanted.queries(&lanes, &writer));
    asks.extend(counted.queries());
    asks.extend(named.queries());
    let mut answers = sql.query_all(&asks)?.into_iter().skip(1);
    let (ledger, mut rows) = (wanted.read(&mut answers, (writer, now))?, Rows::default());
    counted.read(&mut answers, &mut rows)?;
    named.read(&mut answers, &mut rows)?;
    Ok((ledger, rows, named))
}
