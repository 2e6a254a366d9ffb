use std::sync::Arc;

use hookproof_words::ids::size;
use rusqlite::{OptionalExtension, Result, params};

use super::event_id::EventId;
use super::values::int;
use super::{Work, at_hand};
use crate::command::{Body, Condition, Emit, OutboxId, Reason, RejectOutbox};
use crate::commit::emit::{EventRows, New, Newer, REJECTED_MAX};
use crate::commit::room::{Before, Replaced, Route};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::read::Place;
use crate::reply::{ClaimedRow, Refusal};
use crate::seal::Field;

/// The number of a body in its event's row.
pub(super) const OWN_BODY: u64 = 0;

/// The lanes that have an event of this id: received after a given time, or partly accepted at any time.
pub(super) const RECEIVED_BEFORE: &str =
    "SELECT d.lane, e.received, e.in_part IS NOT NULL FROM events e JOIN deliveries d
    ON d.event = e.event AND d.delivery >= e.first_delivery AND d.delivery < e.first_delivery + e.deliveries
    WHERE e.id = ?1 AND (e.received > ?2 OR e.in_part IS NOT NULL)";

pub(super) struct Numbers {
    event: u64,
    /// The number of each body that a target uses. The first is [`OWN_BODY`].
    bodies: Vec<Option<u64>>,
}

impl EventRows for Work<'_> {
    type Event = Numbers;

    fn refuses_events(&self) -> Option<Refusal> {
        if self.rules.disk_full {
            return Some(Refusal::DiskFull);
        }
        self.rules.log_full.map(|bytes| Refusal::LogFull { bytes })
    }

    fn newer(&mut self) -> &mut Newer {
        &mut self.newer
    }

    fn read_newer(&mut self, since: u64) -> Result<Newer> {
        let mut query = self.sql.prepare_cached(
            "SELECT lane, version, patterns FROM subscribers INDEXED BY subscribers_version
             WHERE version > ?1 AND removed IS NULL ORDER BY version LIMIT ?2",
        )?;
        let mut rows = query.query(params![int(since), int(size(Newer::MAX + 1))])?;
        let mut newer = Newer::new(since, self.ledger.totals.roster);
        while let Some(row) = rows.next()? {
            newer.add(row.get(0)?, row.get(1)?, row.get_ref(2)?.as_bytes()?);
        }
        Ok(newer)
    }

    fn outbox_is_free(&mut self, outbox: OutboxId, id: &Arc<str>) -> Result<Option<bool>> {
        self.sql
            .prepare_cached("SELECT event IS NULL OR event = ?2 FROM outbox WHERE id = ?1")?
            .query_row(params![outbox, id], |row| row.get(0))
            .optional()
    }

    fn delete_outbox(&mut self, outbox: OutboxId) -> Result<()> {
        self.sql.prepare_cached("DELETE FROM outbox WHERE id = ?1")?.execute([outbox]).map(drop)
    }

    fn name_outbox(&mut self, outbox: OutboxId, id: &Arc<str>) -> Result<()> {
        self.sql
            .prepare_cached("UPDATE outbox SET event = ?2 WHERE id = ?1 AND event IS NULL")?
            .execute(params![outbox, id])
            .map(drop)
    }

    fn set_aside(&mut self, reject: &RejectOutbox) -> Result<bool> {
        let moved = self
            .sql
            .prepare_cached(
                // An oversized row keeps a recognisable part, because copying all of it takes memory.
                "INSERT OR REPLACE INTO outbox_rejected SELECT id,
                     iif(octet_length(type) > 4194304, substr(type, 1, 1024), type),
                     iif(octet_length(key) > 4194304, substr(key, 1, 1024), key),
                     iif(octet_length(data) > 4194304, substr(data, 1, 1024), data),
                     iif(octet_length(event) > 4194304, substr(event, 1, 1024), event), ?2, ?3
                 FROM outbox WHERE id = ?1",
            )?
            .execute(params![reject.id, reject.why, self.now])?;
        if moved == 0 {
            return Ok(false);
        }
        self.delete_outbox(reject.id)?;
        self.renumber_outbox()?;
        self.sql
            .prepare_cached(
                "DELETE FROM outbox_rejected WHERE id <=
                 (SELECT id FROM outbox_rejected ORDER BY id DESC LIMIT 1 OFFSET ?1)",
            )?
            .execute([int(REJECTED_MAX)])?;
        Ok(true)
    }

    fn set_in_part(&mut self, id: &Arc<str>) -> Result<()> {
        self.sql
            .prepare_cached("UPDATE events SET in_part = 1 WHERE id = ?1 AND in_part IS NULL")?
            .execute([EventId::new(id)])
            .map(drop)
    }

    fn received_since(&mut self, id: &Arc<str>, since: StoreTime) -> Result<Before> {
        let mut before = Before::default();
        let query = at_hand(&mut self.hot.received_before, self.sql, RECEIVED_BEFORE)?;
        let mut rows = query.query(params![EventId::new(id), since])?;
        while let Some(row) = rows.next()? {
            before.record_delivery(row.get(0)?, row.get(1)?, row.get(2)?);
        }
        Ok(before)
    }

    fn alike(&mut self, lane: LaneId, key: &Arc<str>) -> Result<Option<Replaced>> {
        self.sql
            .prepare_cached(
                "SELECT delivery, bytes, at FROM deliveries INDEXED BY deliveries_coalescing
                 WHERE lane = ?1 AND coalesce = ?2 AND state = 0 AND at > ?3 AND attempts = 0 ORDER BY at LIMIT 1",
            )?
            .query_row(params![lane, key, self.now], |row| {
                Ok(Replaced { delivery: row.get(0)?, bytes: row.get(1)?, due: row.get(2)? })
            })
            .optional()
    }

    fn begin_event(&mut self, emit: &Emit, routes: &[Route], in_part: bool) -> Result<Numbers> {
        let mut used = vec![false; emit.bodies.len()];
        let mut deliveries = 0;
        for (target, route) in emit.targets.iter().zip(routes) {
            if route.is_new() {
                used[target.body] = true;
                deliveries += 1;
            }
        }
        let totals = self.ledger.change();
        let (event, first_body, first_delivery) = (totals.next_event, totals.next_body, totals.next_delivery);
        totals.next_event += 1;
        let mut bodies = Vec::with_capacity(used.len());
        let mut own: Option<&Body> = None;
        for (body, used) in emit.bodies.iter().zip(used) {
            if used && own.is_none() {
                own = Some(body);
                bodies.push(Some(OWN_BODY));
            } else {
                bodies.push(used.then_some(totals.next_body));
                totals.next_body += u64::from(used);
            }
        }
        let body_count = totals.next_body - first_body;
        if body_count > 0 {
            self.record_further_bodies(emit, &bodies)?;
        }
        let own = own.map(|own| self.seal.close(Field::EventBody(event), &own.bytes)).transpose()?;
        let insert = "INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        at_hand(&mut self.hot.insert_event, self.sql, insert)?.execute(params![
            int(event),
            EventId::new(&emit.id),
            emit.kind,
            emit.key,
            emit.received,
            int(first_delivery),
            int(deliveries),
            // 0 takes no space in the row.
            int(if body_count > 0 { first_body } else { 0 }),
            int(body_count),
            in_part.then_some(1),
            own.as_deref(),
        ])?;
        Ok(Numbers { event, bodies })
    }

    fn insert_delivery(&mut self, event: &mut Numbers, new: &New<'_>) -> Result<DeliveryId> {
        let New { emit, target, bytes, due, fits } = *new;
        let delivery = DeliveryId(self.ledger.totals.next_delivery);
        self.ledger.change().next_delivery += 1;
        let insert = "INSERT INTO deliveries
            VALUES (?1, ?2, ?3, ?4, ?5, ?11, 0, ?6, ?7, ?8, NULL, ?12, NULL, NULL, ?9, ?10)";
        at_hand(&mut self.hot.insert_delivery, self.sql, insert)?.execute(params![
            delivery,
            target.lane,
            int(event.event),
            int(event.bodies[target.body].unwrap_or(OWN_BODY)),
            int(bytes),
            if fits { due } else { self.now },
            target.expires,
            target.expires.since(emit.received),
            target.coalesce.as_ref().map(|coalesce| &coalesce.key),
            target.signature,
            if fits { Place::Waiting } else { Place::Dead },
            (!fits).then_some(Reason::Overflow),
        ])?;
        if fits {
            self.index_if_short(delivery, target.expires)?;
        }
        Ok(delivery)
    }

    fn queued(&mut self, new: &New<'_>, delivery: DeliveryId) -> Result<()> {
        let New { emit, target, due, .. } = *new;
        let expires = StoreTime(target.expires.0.saturating_add(self.rules.expiry_grace.0));
        let row = || ClaimedRow {
            delivery,
            attempts: 0,
            expires,
            event: Arc::clone(&emit.id),
            kind: Arc::clone(&emit.kind),
            received: emit.received,
            body: emit.bodies[target.body].clone(),
            signature: target.signature.clone(),
        };
        self.cache.record(target.lane, due, target.coalesce.is_none().then_some(row));
        Ok(())
    }

    fn end_event(&mut self, _: Numbers, _: &Emit) -> Result<()> {
        Ok(())
    }

    fn is_notified(&mut self, lane: LaneId, condition: Condition) -> Result<bool> {
        self.sql
            .prepare_cached("SELECT 1 FROM notified WHERE lane = ?1 AND condition = ?2")?
            .exists(params![lane, condition])
    }

    fn set_notified(&mut self, lane: LaneId, condition: Condition, is: bool) -> Result<()> {
        let change = if is {
            "INSERT INTO notified VALUES (?1, ?2)"
        } else {
            "DELETE FROM notified WHERE lane = ?1 AND condition = ?2"
        };
        self.sql.prepare_cached(change)?.execute(params![lane, condition]).map(drop)
    }

    fn set_coalesced(&mut self, _: LaneId, delivery: DeliveryId) -> Result<()> {
        self.sql
            .prepare_cached("UPDATE deliveries SET state = 3, at = ?2 WHERE delivery = ?1")?
            .execute(params![delivery, self.now])
            .map(drop)
    }
}

impl Work<'_> {
    fn record_further_bodies(&self, emit: &Emit, numbers: &[Option<u64>]) -> Result<()> {
        let mut insert = self.sql.prepare_cached("INSERT INTO further_bodies VALUES (?1, ?2)")?;
        for (body, number) in emit.bodies.iter().zip(numbers) {
            if let Some(number) = number.filter(|number| *number != OWN_BODY) {
                insert.execute(params![
                    int(number),
                    &*self.seal.close(Field::FurtherBody(number), &body.bytes)?
                ])?;
            }
        }
        Ok(())
    }

    /// After a row with a huge id, SQLite would count on from there and soon run out of ids. Continues from the
    /// microseconds since 1970 instead: far below that id, and above all ids that SQLite chose itself, because ids
    /// must be unique.
    pub(super) fn renumber_outbox(&self) -> Result<()> {
        self.sql
            .prepare_cached("UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'outbox' AND seq >= ?2")?
            .execute(params![int(self.now.0 / 1_000), OutboxId::END])?;
        Ok(())
    }
}
