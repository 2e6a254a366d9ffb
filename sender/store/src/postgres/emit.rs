//! The rows of events and of the outbox.

use std::sync::Arc;

use super::rows::{Known, NewDelivery, NewEvent};
use super::values::{Count, int, size, storable};
use super::{Result, Work};
use crate::command::{Condition, Emit, OutboxId, Reason, RejectOutbox};
use crate::commit::Rows;
use crate::commit::emit::{EventRows, New, Newer, REJECTED_MAX};
use crate::commit::room::{Before, Replaced, Route};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::read::Place;
use crate::reply::Refusal;
use crate::seal::Field;

/// An event under way. Its own row is written last, because making room for one delivery may have to write the
/// earlier ones.
pub(super) struct Recording {
    number: i64,
    in_part: bool,
    /// The index of the body in the event's row: the first delivery's.
    own: Option<usize>,
    bodies: Vec<Option<i64>>,
    deliveries: Vec<DeliveryId>,
    known: Vec<Known>,
}

impl EventRows for Work<'_> {
    type Event = Recording;

    fn refuses_events(&self) -> Option<Refusal> {
        None
    }

    fn newer(&mut self) -> &mut Newer {
        &mut self.rows.newer
    }

    /// The lanes were locked before the version was read, so no target can change any more.
    fn read_newer(&mut self, since: u64) -> Result<Newer> {
        let query = "SELECT lane, version, patterns FROM subscribers
            WHERE version > $1 AND removed IS NULL ORDER BY version LIMIT $2";
        let mut newer = Newer::new(since, self.ledger.roster());
        for row in self.sql.query(query, &[&int(since), &int(size(Newer::MAX + 1))])? {
            let (lane, Count(version)) = (row.try_get(0)?, row.try_get(1)?);
            newer.add(lane, version, row.try_get::<_, &str>(2)?.as_bytes());
        }
        Ok(newer)
    }

    fn outbox_is_free(&mut self, outbox: OutboxId, id: &Arc<str>) -> Result<Option<bool>> {
        let query = "SELECT event IS NULL OR event = $2 FROM outbox WHERE id = $1 FOR UPDATE";
        Ok(self.sql.first(query, &[&outbox, &&**id])?.map(|row| row.try_get(0)).transpose()?)
    }

    fn delete_outbox(&mut self, outbox: OutboxId) -> Result<()> {
        self.sql.execute("DELETE FROM outbox WHERE id = $1", &[&outbox])?;
        Ok(())
    }

    fn name_outbox(&mut self, outbox: OutboxId, id: &Arc<str>) -> Result<()> {
        let name = "UPDATE outbox SET event = $2 WHERE id = $1 AND event IS NULL";
        self.sql.execute(name, &[&outbox, &&**id])?;
        Ok(())
    }

    fn set_aside(&mut self, reject: &RejectOutbox) -> Result<bool> {
        // An oversized row keeps a recognisable part.
        let moved = self.sql.execute(
            "INSERT INTO outbox_rejected SELECT id, type,
             CASE WHEN octet_length(key) > 4194304 THEN substr(key, 1, 1024) ELSE key END,
             CASE WHEN octet_length(data) > 4194304 THEN substr(data, 1, 1024) ELSE data END,
             event, $2, $3 FROM outbox WHERE id = $1
             ON CONFLICT (id) DO UPDATE SET type = excluded.type, key = excluded.key, data = excluded.data,
             event = excluded.event, why = excluded.why, at = excluded.at",
            &[&reject.id, &storable(&reject.why), &self.now],
        )?;
        if moved == 0 {
            return Ok(false);
        }
        self.delete_outbox(reject.id)?;
        let trim = "DELETE FROM outbox_rejected WHERE id <=
            (SELECT id FROM outbox_rejected ORDER BY id DESC LIMIT 1 OFFSET $1)";
        self.sql.execute(trim, &[&int(REJECTED_MAX)])?;
        Ok(true)
    }

    fn set_in_part(&mut self, id: &Arc<str>) -> Result<()> {
        self.flush()?;
        self.sql.execute("UPDATE events SET in_part = true WHERE id = $1 AND NOT in_part", &[&&**id])?;
        self.rows.named(self.sql, id)?.iter_mut().for_each(|known| known.in_part = true);
        Ok(())
    }

    fn received_since(&mut self, id: &Arc<str>, since: StoreTime) -> Result<Before> {
        if !self.rows.knows_named(id) {
            self.flush()?;
        }
        let mut before = Before::default();
        // With two time scales in use, the event may have been received under the earlier one.
        let grace = self.ledger.grace(self.now);
        for known in self.rows.named(self.sql, id)? {
            let received = StoreTime(known.received.0.saturating_add(grace.0));
            if known.in_part || received > since {
                before.record_delivery(known.lane, received, known.in_part);
            }
        }
        Ok(before)
    }

    fn alike(&mut self, lane: LaneId, key: &Arc<str>) -> Result<Option<Replaced>> {
        Ok(*self.oldest_alike(lane, key)?)
    }

    fn begin_event(&mut self, emit: &Emit, _: &[Route], in_part: bool) -> Result<Recording> {
        Ok(Recording {
            number: self.rows.event_number()?,
            in_part,
            own: None,
            bodies: vec![None; emit.bodies.len()],
            deliveries: Vec::new(),
            known: Vec::new(),
        })
    }

    fn insert_delivery(&mut self, event: &mut Recording, new: &New<'_>) -> Result<DeliveryId> {
        let New { emit, target, bytes, due, fits } = *new;
        let body = if *event.own.get_or_insert(target.body) == target.body {
            None
        } else {
            let number = match event.bodies[target.body] {
                Some(number) => number,
                None => self.rows.record_body(self.seal, &emit.bodies[target.body])?,
            };
            event.bodies[target.body] = Some(number);
            Some(number)
        };
        let delivery = self.rows.record(NewDelivery {
            lane: target.lane,
            event: event.number,
            body,
            bytes,
            place: if fits { Place::Waiting } else { Place::Dead },
            at: if fits { due } else { self.now },
            expires: target.expires,
            ttl: target.expires.since(emit.received),
            reason: (!fits).then_some(Reason::Overflow),
            coalesce: target.coalesce.as_ref().map(|coalesce| coalesce.key.clone()),
            signature: target.signature.clone(),
        });
        let (lane, received, in_part) = (target.lane, emit.received, event.in_part);
        event.known.push(Known { lane, delivery, received, in_part });
        event.deliveries.push(delivery);
        Ok(delivery)
    }

    fn queued(&mut self, new: &New<'_>, delivery: DeliveryId) -> Result<()> {
        let New { target, bytes, due, .. } = *new;
        let lane = target.lane;
        if let Some(coalesce) = &target.coalesce
            && due > self.now
        {
            let oldest = self.oldest_alike(lane, &coalesce.key)?;
            if oldest.is_none_or(|oldest| due < oldest.due) {
                *oldest = Some(Replaced { delivery, bytes, due });
            }
        }
        self.arrive(lane, due)
    }

    fn end_event(&mut self, event: Recording, emit: &Emit) -> Result<()> {
        let field = Field::EventBody(event.number.unsigned_abs());
        let body = event.own.map(|own| self.seal.close_body(field, &emit.bodies[own])).transpose()?;
        self.rows.events.push(NewEvent {
            number: event.number,
            id: emit.id.clone(),
            kind: emit.kind.clone(),
            key: emit.key.as_ref().map(|key| {
                // Copies only the rare key with a NUL.
                if key.contains('\0') { storable(key).into() } else { key.clone() }
            }),
            received: emit.received,
            in_part: event.in_part,
            body,
            bodies: event.bodies.into_iter().flatten().collect(),
            deliveries: event.deliveries,
        });
        self.rows.add_known(&emit.id, event.known);
        Ok(())
    }

    fn is_notified(&mut self, lane: LaneId, condition: Condition) -> Result<bool> {
        let query = "SELECT 1 FROM notified WHERE lane = $1 AND condition = $2";
        Ok(self.sql.exists(query, &[&lane, &condition])?)
    }

    fn set_notified(&mut self, lane: LaneId, condition: Condition, is: bool) -> Result<()> {
        let change = if is {
            "INSERT INTO notified VALUES ($1, $2)"
        } else {
            "DELETE FROM notified WHERE lane = $1 AND condition = $2"
        };
        self.sql.execute(change, &[&lane, &condition])?;
        Ok(())
    }

    fn set_coalesced(&mut self, lane: LaneId, delivery: DeliveryId) -> Result<()> {
        let (now, delivery) = (self.now, self.rows.real(delivery));
        if let Some(new) = self.rows.recorded(delivery) {
            (new.place, new.at) = (Place::Coalesced, now);
        } else {
            // It was read with its coalescing key, unless this commit wrote it.
            self.rows.delivery(self.sql, lane, delivery)?;
            self.rows.alter(delivery, |row| (row.place, row.at) = (Place::Coalesced, now));
        }
        // The next delivery with this key opens a new window, or replaces the one about to be recorded.
        self.rows.close_window(lane, delivery);
        Ok(())
    }
}

impl Work<'_> {
    fn oldest_alike(&mut self, lane: LaneId, key: &Arc<str>) -> Result<&mut Option<Replaced>> {
        if !self.rows.knows_alike(lane, key) {
            self.flush()?;
        }
        self.rows.alike(self.sql, (lane, key), self.now)
    }
}
