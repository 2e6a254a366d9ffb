//! What a commit reads on its way in, as its commands name it.

use tokio_postgres::Row;

use super::ledger::Ledger;
use super::link::{Ask, Link};
use super::rows::{ALIKE, DELIVERIES, NAMED, Rows, numbers};
use super::stop::{Result, Wanted};
use super::values::{int, size};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::store::Command;

const EVENT_NUMBERS: &str = "SELECT nextval('event_numbers') FROM generate_series(1, $1::int8)";
const BODY_NUMBERS: &str = "SELECT nextval('body_numbers') FROM generate_series(1, $1::int8)";

/// What a commit reads beforehand, as its commands name it.
#[derive(Debug, Default)]
pub(super) struct Named<'a> {
    deliveries: Vec<DeliveryId>,
    ids: Vec<&'a str>,
    lanes: Vec<LaneId>,
    keys: Vec<&'a str>,
    /// Events and bodies that may be recorded.
    events: i64,
    bodies: i64,
    now: StoreTime,
}

impl<'a> Named<'a> {
    pub(super) fn by(commands: &'a [Command], now: StoreTime) -> Self {
        let mut named = Self { now, ..Self::default() };
        for command in commands {
            match command {
                Command::Emit(emit) => {
                    named.ids.push(&emit.id);
                    named.events += 1;
                    named.bodies += int(size(emit.bodies.len()));
                    for target in &emit.targets {
                        if let Some(coalesce) = &target.coalesce {
                            named.lanes.push(target.lane);
                            named.keys.push(&coalesce.key);
                        }
                    }
                }
                Command::Settle(settlements) => {
                    named.deliveries.extend(settlements.iter().map(|settlement| settlement.delivery));
                }
                _ => {}
            }
        }
        named
    }

    pub(super) fn asks(&self) -> Vec<Ask<'_>> {
        let mut asks = Vec::new();
        if !self.deliveries.is_empty() {
            asks.push(Ask { text: DELIVERIES, values: vec![&self.deliveries] });
        }
        if !self.ids.is_empty() {
            asks.push(Ask { text: EVENT_NUMBERS, values: vec![&self.events] });
            asks.push(Ask { text: BODY_NUMBERS, values: vec![&self.bodies] });
            asks.push(Ask { text: NAMED, values: vec![&self.ids] });
        }
        if !self.keys.is_empty() {
            asks.push(Ask { text: ALIKE, values: vec![&self.lanes, &self.keys, &self.now] });
        }
        asks
    }

    /// Reads the answers to [`Self::asks`].
    pub(super) fn read(&self, answers: &mut impl Iterator<Item = Vec<Row>>) -> Result<Rows> {
        let mut rows = Rows::default();
        let mut next = || answers.next().unwrap_or_default();
        if !self.deliveries.is_empty() {
            rows.deliveries.extend(self.deliveries.iter().map(|delivery| (*delivery, None)));
            rows.add_deliveries(&next())?;
        }
        if !self.ids.is_empty() {
            rows.spare = (numbers(&next())?.into_iter(), numbers(&next())?.into_iter());
            rows.named.extend(self.ids.iter().map(|id| ((*id).into(), Vec::new())));
            rows.add_named(&next())?;
        }
        if !self.keys.is_empty() {
            for (lane, key) in self.lanes.iter().zip(&self.keys) {
                rows.alike.entry(*lane).or_default().insert((*key).into(), None);
            }
            rows.add_alike(&next())?;
        }
        Ok(rows)
    }
}

/// Begins a transaction, locks what it is about, and reads what its commands name: in one journey.
pub(super) fn begin(
    sql: &Link,
    now: StoreTime,
    commands: &[Command],
    wanted: &Wanted,
) -> Result<(Ledger, Rows)> {
    let (named, lanes) = (Named::by(commands, now), wanted.lanes.iter().copied().collect());
    let mut asks = vec![Ask { text: "BEGIN", values: Vec::new() }];
    asks.extend(wanted.asks(&lanes));
    asks.extend(named.asks());
    let mut answers = sql.query_all(&asks)?.into_iter().skip(1);
    let ledger = wanted.read(&mut answers, now)?;
    Ok((ledger, named.read(&mut answers)?))
}
