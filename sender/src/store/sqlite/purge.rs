//! Deleting what has been kept long enough, in small steps that go round and round.
//!
//! Each step looks at a bounded number of rows and remembers where it stopped, in memory only: whoever starts anew
//! looks from the beginning.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::{Error, OptionalExtension, Result, params};

use super::damaged::{is_about_the_disk, is_about_the_row};
use super::event_id::Kept;
use super::unswept::Unswept;
use super::values::{int, size};
use super::{Work, latencies};
use crate::engine::{DeliveryId, StoreTime};
use crate::store::command::Purge;
use crate::store::reply::{Purged, Reply};

/// Where the next step goes on; from the beginning, if nothing.
#[derive(Debug, Default)]
pub(super) struct Places {
    event: Option<u64>,
    letter: Option<DeliveryId>,
    /// When an attempt began, and its delivery.
    pub(super) attempt: Option<(u64, u64)>,
    pub(super) unswept: Unswept,
    /// Events that could not be deleted.
    events_passed_over: PassedOver,
    /// Deliveries of which sweeps could not read whether they expire.
    pub(super) deliveries_passed_over: PassedOver,
}

impl Places {
    /// A commit failed: steps begin anew.
    pub(super) fn undo(&mut self) {
        self.unswept.undo();
        (self.event, self.letter, self.attempt) = (None, None, None);
    }
}

/// Rows with which a commit failed, by their numbers: the next one gets past them. In memory only: whoever starts anew finds out
/// again.
#[derive(Debug, Default)]
pub(super) struct PassedOver(BTreeSet<u64>);

impl PassedOver {
    /// So many are known; of more, none is passed over.
    const ROWS_MAX: usize = 8_192;

    pub(super) fn has(&self, number: u64) -> bool {
        self.0.contains(&number)
    }

    /// A commit fails with this row. It is passed over if the row may be to blame.
    pub(super) fn note(&mut self, number: u64, error: &Error) {
        let may_be_the_row = is_about_the_row(error) || is_about_the_disk(error);
        if may_be_the_row && self.0.len() < Self::ROWS_MAX {
            self.0.insert(number);
        }
    }
}

/// An event and what belongs to it.
struct Event {
    event: u64,
    /// Its id, if it was taken in part.
    in_part: Option<Arc<str>>,
    received: StoreTime,
    first_delivery: u64,
    deliveries: u64,
    first_body: u64,
    bodies: u64,
}

impl Work<'_> {
    pub(super) fn purge(&mut self, purge: Purge) -> Result<Reply> {
        let share = (purge.max / 3).max(1);
        let mut purged = Purged::default();
        let settled_before = self.surely_before(purge.settled_before);
        let (dead, letter) = self.forget_old(
            self.surely_before(purge.dead_before),
            self.places.letter.unwrap_or(DeliveryId(0)),
            share,
        )?;
        purged.dead = dead;
        self.places.letter = letter;
        let more_events = self.purge_events(settled_before, share, &mut purged)?;
        let (attempts, more_attempts) =
            self.delete_attempts(self.surely_before(purge.attempts_before), share)?;
        purged.attempts = attempts;
        self.delete_removed(settled_before)?;
        latencies::forget_old(self.sql, self.now, share)?;
        purged.more = self.places.letter.is_some() || more_events || more_attempts;
        Ok(Reply::Purged(purged))
    }

    /// The same moment by the wall clock, where the time that commands go by is kept ahead of it: what was recorded by the
    /// right time is neither expired nor old before that clock says so too.
    pub(super) fn surely_before(&self, moment: StoreTime) -> StoreTime {
        StoreTime(moment.0.saturating_sub(self.rules.expiry_grace.0))
    }

    /// Says whether there may be more to look at.
    fn purge_events(&mut self, before: StoreTime, max: u32, purged: &mut Purged) -> Result<bool> {
        let mut left = u64::from(max);
        while left > 0 {
            let next = self.event_after(self.places.event.unwrap_or(0))?;
            // Nothing is settled before it is received, and events come in the order of their receipt: all but those that were
            // received later than now, by a clock that was ahead.
            let Some(event) = next.filter(|event| !(before..=self.now).contains(&event.received)) else {
                self.places.event = None;
                return Ok(false);
            };
            left -= 1;
            if !self.purge_event(&event, before, &mut left, purged)? {
                // The rest in the next step.
                return Ok(true);
            }
            self.places.event = Some(event.event);
        }
        Ok(true)
    }

    /// Looks at one event. False if some of it is left to be deleted.
    fn purge_event(
        &mut self,
        event: &Event,
        before: StoreTime,
        left: &mut u64,
        purged: &mut Purged,
    ) -> Result<bool> {
        if event.received > self.now || self.places.events_passed_over.has(event.event) {
            return Ok(true);
        }
        let done = self.delete_where_old(event, before, left, purged);
        if let Err(error) = &done {
            self.places.events_passed_over.note(event.event, error);
        }
        done
    }

    /// Deletes an event unless something keeps it. False if some of it is left to be deleted.
    fn delete_where_old(
        &self,
        event: &Event,
        before: StoreTime,
        left: &mut u64,
        purged: &mut Purged,
    ) -> Result<bool> {
        if self.kept_by(event, before)? {
            return Ok(true);
        }
        let deleted = self.delete_deliveries(event, (*left).max(1))?;
        purged.deliveries += deleted;
        *left = left.saturating_sub(deleted);
        if self.any_delivery(event)? {
            return Ok(false);
        }
        self.delete_event(event)?;
        purged.events += 1;
        Ok(true)
    }

    fn event_after(&self, after: u64) -> Result<Option<Event>> {
        self.sql
            .prepare_cached(
                "SELECT event, received, first_delivery, deliveries, first_body, bodies, iif(in_part, id, NULL) FROM events
                 WHERE event > ?1 ORDER BY event LIMIT 1",
            )?
            .query_row([int(after)], |row| {
                Ok(Event {
                    event: row.get(0)?,
                    received: row.get(1)?,
                    first_delivery: row.get(2)?,
                    deliveries: row.get(3)?,
                    first_body: row.get(4)?,
                    bodies: row.get(5)?,
                    in_part: row.get::<_, Option<Kept>>(6)?.map(|id| id.0),
                })
            })
            .optional()
    }

    /// Whether some delivery of an event still waits, is a dead letter, or was settled too lately; or it waits in the outbox
    /// for who had no room, and who has it must be known.
    fn kept_by(&self, event: &Event, before: StoreTime) -> Result<bool> {
        if let Some(id) = &event.in_part
            && self.sql.prepare_cached("SELECT 1 FROM outbox WHERE event = ?1")?.exists([id])?
        {
            return Ok(true);
        }
        self.sql
            .prepare_cached(
                "SELECT 1 FROM deliveries WHERE delivery >= ?1 AND delivery < ?2 AND event = ?4
                 AND (state IN (0, 2) OR at >= ?3) LIMIT 1",
            )?
            .exists(params![
                int(event.first_delivery),
                int(event.first_delivery + event.deliveries),
                before,
                int(event.event)
            ])
    }

    fn delete_deliveries(&self, event: &Event, max: u64) -> Result<u64> {
        let deleted = self
            .sql
            .prepare_cached(
                "DELETE FROM deliveries WHERE delivery IN
                 (SELECT delivery FROM deliveries WHERE delivery >= ?1 AND delivery < ?2 AND event = ?4
                  ORDER BY delivery LIMIT ?3)",
            )?
            .execute([
                int(event.first_delivery),
                int(event.first_delivery + event.deliveries),
                int(max),
                int(event.event),
            ])?;
        Ok(size(deleted))
    }

    fn any_delivery(&self, event: &Event) -> Result<bool> {
        self.sql
            .prepare_cached(
                "SELECT 1 FROM deliveries WHERE delivery >= ?1 AND delivery < ?2 AND event = ?3 LIMIT 1",
            )?
            .exists([
                int(event.first_delivery),
                int(event.first_delivery + event.deliveries),
                int(event.event),
            ])
    }

    fn delete_event(&self, event: &Event) -> Result<()> {
        if event.bodies > 0 {
            self.sql
                .prepare_cached("DELETE FROM further_bodies WHERE body >= ?1 AND body < ?2")?
                .execute([int(event.first_body), int(event.first_body + event.bodies)])?;
        }
        self.sql.prepare_cached("DELETE FROM events WHERE event = ?1")?.execute([int(event.event)])?;
        Ok(())
    }
}
