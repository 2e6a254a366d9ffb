//! Recording an event: who is owed it, whether it fits, and then the rows.
//!
//! First everything is looked at, then everything is written. An event that some lane has no room for is taken in part, or
//! refused as a whole if its emitter wants that. What was taken in part is known by its id for as long as it is kept, however
//! short the lanes' windows for duplicates are: emitted again, it goes to those alone who lack it.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::{OptionalExtension, Result, params};

use super::event_id::EventId;
use super::fresh::Recorded;
use super::values::{int, size};
use super::{Work, at_hand};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::store::command::{Body, Emit, OutboxId, Reason, RejectOutbox, Target};
use crate::store::reply::{ClaimedRow, Emitted, Placed, Refusal, Reply};
use crate::store::room::Bounded;
use crate::store::route::{Before, Replaced, Route};

/// So many outbox rows that were set aside are kept.
const REJECTED_MAX: u64 = 10_000;

/// The number of the body that is in its event's row.
pub(super) const OWN_BODY: u64 = 0;

/// For whom an event was received since a moment, or at any time in part; when, and which of both.
pub(super) const RECEIVED_BEFORE: &str =
    "SELECT d.lane, e.received, e.in_part IS NOT NULL FROM events e JOIN deliveries d
    ON d.event = e.event AND d.delivery >= e.first_delivery AND d.delivery < e.first_delivery + e.deliveries
    WHERE e.id = ?1 AND (e.received > ?2 OR e.in_part IS NOT NULL)";

/// The numbers that an event and its parts get.
struct Numbers {
    event: u64,
    /// For each body, its number, if any target uses it: the first of these is the event's own ([`OWN_BODY`]).
    bodies: Vec<Option<u64>>,
}

impl Work<'_> {
    pub(super) fn emit(&mut self, emit: &Emit) -> Result<Reply> {
        if let Some(refusal) = self.emit_refusal(emit)? {
            return Ok(Reply::Refused(refusal));
        }
        let before = self.received_before(emit)?;
        let mut routes = self.routes(emit, &before)?;
        let full = self.refuse_where_full(emit, &mut routes)?;
        let any = routes.iter().any(Route::is_new);
        let nobody_has_it = !any && !routes.iter().any(|route| matches!(route, Route::Duplicate));
        if !full.is_empty() && (emit.atomic || nobody_has_it) {
            return Ok(Reply::Refused(Refusal::Full(full)));
        }
        let is_whole = full.is_empty() && !emit.withheld;
        if let Some(outbox) = emit.outbox {
            let had = routes.iter().any(|route| matches!(route, Route::Duplicate));
            self.leave_outbox(emit, outbox, is_whole, had)?;
        }
        let mut emitted = Emitted { targets: Vec::with_capacity(routes.len()), shed: 0 };
        if !any {
            emitted.targets.extend(routes.iter().map(Route::placed_nowhere));
            return Ok(Reply::Emitted(emitted));
        }
        let in_part = !is_whole || before.in_part();
        let numbers = self.record_event(emit, &routes, in_part)?;
        // All of these first: making room for one target must not shed what another is about to replace.
        for (target, route) in emit.targets.iter().zip(&routes) {
            if let Route::Replace(older) = route {
                self.coalesce(target.lane, older)?;
            }
        }
        for (target, route) in emit.targets.iter().zip(routes) {
            let placed = self.place(emit, target, &route, &numbers, &mut emitted.shed)?;
            emitted.targets.push(placed);
        }
        self.written.shed += emitted.shed;
        Ok(Reply::Emitted(emitted))
    }

    fn emit_refusal(&mut self, emit: &Emit) -> Result<Option<Refusal>> {
        if self.rules.disk_full {
            return Ok(Some(Refusal::DiskFull));
        }
        if let Some(bytes) = self.rules.log_full {
            return Ok(Some(Refusal::LogFull { bytes }));
        }
        if self.is_outdated(emit)? {
            let current = self.ledger.totals.roster;
            return Ok(Some(Refusal::StaleRoster { known: emit.roster, current }));
        }
        if emit.targets.iter().any(|target| target.body >= emit.bodies.len()) {
            return Ok(Some(Refusal::Nonsense("a target names a body that the event does not have")));
        }
        let Some(outbox) = emit.outbox else { return Ok(None) };
        let has_that_id: Option<bool> = self
            .sql
            .prepare_cached("SELECT event IS NULL OR event = ?2 FROM outbox WHERE id = ?1")?
            .query_row(params![outbox, emit.id], |row| row.get(0))
            .optional()?;
        Ok(match has_that_id {
            Some(true) => None,
            Some(false) => Some(Refusal::OutboxNamed(outbox)),
            None => Some(Refusal::OutboxTaken(outbox)),
        })
    }

    /// The row of an event goes, once nobody lacks it any more. Until then it keeps the event's id, and who `had` it already
    /// is known to.
    fn leave_outbox(&self, emit: &Emit, outbox: OutboxId, is_whole: bool, had: bool) -> Result<()> {
        if is_whole {
            self.sql.prepare_cached("DELETE FROM outbox WHERE id = ?1")?.execute([outbox])?;
        } else {
            self.sql
                .prepare_cached("UPDATE outbox SET event = ?2 WHERE id = ?1 AND event IS NULL")?
                .execute(params![outbox, emit.id])?;
            if had {
                self.sql
                    .prepare_cached("UPDATE events SET in_part = 1 WHERE id = ?1 AND in_part IS NULL")?
                    .execute([EventId::new(&emit.id)])?;
            }
        }
        Ok(())
    }

    fn routes(&mut self, emit: &Emit, before: &Before) -> Result<Vec<Route>> {
        let mut named = BTreeSet::new();
        let mut routes = Vec::with_capacity(emit.targets.len());
        for target in &emit.targets {
            let accepts = self.ledger.lane(self.sql, target.lane)?.is_some_and(|lane| lane.state.accepts());
            routes.push(if !accepts {
                Route::Absent
            } else if before.has(emit, target) || !named.insert(target.lane) {
                Route::Duplicate
            } else {
                self.older(emit, target)?.map_or(Route::Fresh, Route::Replace)
            });
        }
        Ok(routes)
    }

    /// The lanes for which the same event was received not long ago, or in part. Not long is the longest window of any of its
    /// targets.
    fn received_before(&mut self, emit: &Emit) -> Result<Before> {
        let mut before = Before::default();
        if emit.id_is_new {
            return Ok(before);
        }
        let longest = emit.targets.iter().map(|target| target.dedupe).max().unwrap_or(Nanos::ZERO);
        let since = StoreTime(emit.received.0.saturating_sub(longest.0));
        let query = at_hand(&mut self.hot.received_before, self.sql, RECEIVED_BEFORE)?;
        let mut rows = query.query(params![EventId::new(&emit.id), since])?;
        while let Some(row) = rows.next()? {
            before.saw(row.get(0)?, row.get(1)?, row.get(2)?);
        }
        Ok(before)
    }

    /// The delivery whose place a target takes: alike, waiting, never tried, and its window still open. Until it
    /// ends it is not due, so nobody holds it yet, in whatever process. If it ends while this commit is on its way to the disk,
    /// another process that serves the lane may still hand the older one out; this one does not.
    fn older(&mut self, emit: &Emit, target: &Target) -> Result<Option<Replaced>> {
        let Some(coalesce) = &target.coalesce else { return Ok(None) };
        // What could never fit takes no place: the older one would be lost for nothing.
        if !self.could_fit(target.lane, size(emit.bodies[target.body].bytes.len()))? {
            return Ok(None);
        }
        self.sql
            .prepare_cached(
                "SELECT delivery, bytes, at FROM deliveries INDEXED BY deliveries_coalescing
                 WHERE lane = ?1 AND coalesce = ?2 AND state = 0 AND at > ?3 AND attempts = 0 ORDER BY at LIMIT 1",
            )?
            .query_row(params![target.lane, coalesce.key, self.now], |row| {
                Ok(Replaced { delivery: row.get(0)?, bytes: row.get(1)?, due: row.get(2)? })
            })
            .optional()
            .map(|older| older.filter(|older| !self.held.has(target.lane, older.delivery)))
    }

    fn record_event(&mut self, emit: &Emit, routes: &[Route], in_part: bool) -> Result<Numbers> {
        let mut used = vec![false; emit.bodies.len()];
        let mut deliveries = 0;
        for (target, route) in emit.targets.iter().zip(routes) {
            if matches!(route, Route::Fresh | Route::Replace(_)) {
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
        let insert = "INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        at_hand(&mut self.hot.insert_event, self.sql, insert)?.execute(params![
            int(event),
            EventId::new(&emit.id),
            emit.kind,
            emit.key,
            emit.received,
            int(first_delivery),
            int(deliveries),
            // Zeros take no room.
            int(if body_count > 0 { first_body } else { 0 }),
            int(body_count),
            in_part.then_some(1),
            own.map(|own| &*own.bytes),
        ])?;
        Ok(Numbers { event, bodies })
    }

    fn record_further_bodies(&self, emit: &Emit, numbers: &[Option<u64>]) -> Result<()> {
        let mut insert = self.sql.prepare_cached("INSERT INTO further_bodies VALUES (?1, ?2)")?;
        for (body, number) in emit.bodies.iter().zip(numbers) {
            if let Some(number) = number.filter(|number| *number != OWN_BODY) {
                insert.execute(params![int(number), &*body.bytes])?;
            }
        }
        Ok(())
    }

    fn place(
        &mut self,
        emit: &Emit,
        target: &Target,
        route: &Route,
        numbers: &Numbers,
        shed: &mut u64,
    ) -> Result<Placed> {
        let (Some(body), Route::Fresh | Route::Replace(_)) = (numbers.bodies[target.body], route) else {
            return Ok(route.placed_nowhere());
        };
        let bytes = size(emit.bodies[target.body].bytes.len());
        let window = target.coalesce.as_ref().map_or(0, |coalesce| coalesce.window.0);
        let mut due = StoreTime(target.due.0.saturating_add(window));
        let mut replaced = None;
        if let Route::Replace(older) = route {
            due = older.due;
            replaced = Some(older.delivery);
        }
        let fits = self.make_room(target.lane, bytes, shed)?;
        let delivery = DeliveryId(self.ledger.totals.next_delivery);
        self.ledger.change().next_delivery += 1;
        let insert = "INSERT INTO deliveries
            VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, ?6, ?7, ?8, NULL, NULL, NULL, NULL, ?9, ?10)";
        at_hand(&mut self.hot.insert_delivery, self.sql, insert)?.execute(params![
            delivery,
            target.lane,
            int(numbers.event),
            int(body),
            int(bytes),
            due,
            target.expires,
            target.expires.since(emit.received),
            target.coalesce.as_ref().map(|coalesce| &coalesce.key),
            target.signature
        ])?;
        self.ledger.count(self.sql, target.lane, |counts| counts.accept(bytes))?;
        self.written.recorded += 1;
        self.note_if_short(delivery, target.expires)?;
        if fits {
            self.note_queued(emit, target, delivery, due);
            self.may_pay(target.lane)?;
            return Ok(Placed::Waiting { delivery, due, replaced });
        }
        self.bury(target.lane, delivery, bytes, 0, Reason::Overflow)?;
        Ok(Placed::Overflowed { delivery })
    }

    /// What is due at once may be handed out from memory, where nothing may take its place.
    fn note_queued(&mut self, emit: &Emit, target: &Target, delivery: DeliveryId, due: StoreTime) {
        if target.coalesce.is_some() || due > self.now || !self.fronts.fresh.follows(target.lane) {
            return self.fronts.add(target.lane, due);
        }
        let row = ClaimedRow {
            delivery,
            attempts: 0,
            expires: StoreTime(target.expires.0.saturating_add(self.rules.expiry_grace.0)),
            event: Arc::clone(&emit.id),
            kind: Arc::clone(&emit.kind),
            received: emit.received,
            body: emit.bodies[target.body].clone(),
            signature: target.signature.clone(),
        };
        self.fronts.record(target.lane, Recorded { due, row });
    }

    fn coalesce(&mut self, lane: LaneId, older: &Replaced) -> Result<()> {
        self.sql
            .prepare_cached("UPDATE deliveries SET state = 3, at = ?2 WHERE delivery = ?1")?
            .execute(params![older.delivery, self.now])?;
        // It falls due while the commit is on its way to the disk: nobody may be handed it then.
        self.held.leave(lane, older.delivery);
        self.fronts.fresh.doubt(lane);
        self.ledger.count(self.sql, lane, |counts| {
            counts.leave(older.bytes, false);
            counts.coalesced += 1;
        })?;
        self.written.settled += 1;
        Ok(())
    }

    pub(super) fn reject_outbox(&mut self, reject: &RejectOutbox) -> Result<Reply> {
        let moved = self
            .sql
            .prepare_cached(
                // Of what is absurdly long, enough to recognise it: the rest would be copied through memory.
                "INSERT OR REPLACE INTO outbox_rejected SELECT id,
                     iif(octet_length(type) > 4194304, substr(type, 1, 1024), type),
                     iif(octet_length(key) > 4194304, substr(key, 1, 1024), key),
                     iif(octet_length(data) > 4194304, substr(data, 1, 1024), data),
                     iif(octet_length(event) > 4194304, substr(event, 1, 1024), event), ?2, ?3
                 FROM outbox WHERE id = ?1",
            )?
            .execute(params![reject.id, reject.why, self.now])?;
        if moved == 0 {
            return Ok(Reply::Refused(Refusal::OutboxTaken(reject.id)));
        }
        self.sql.prepare_cached("DELETE FROM outbox WHERE id = ?1")?.execute([reject.id])?;
        self.renumber_outbox()?;
        self.sql
            .prepare_cached(
                "DELETE FROM outbox_rejected WHERE id <=
                 (SELECT id FROM outbox_rejected ORDER BY id DESC LIMIT 1 OFFSET ?1)",
            )?
            .execute([int(REJECTED_MAX)])?;
        Ok(Reply::Done)
    }

    /// After a row with an absurdly high number, SQLite would go on counting from there, and soon have no number left.
    /// It counts on from the microseconds since 1970 instead: far below, and above all that it has counted to itself,
    /// for no number may be given twice.
    pub(super) fn renumber_outbox(&self) -> Result<()> {
        self.sql
            .prepare_cached("UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'outbox' AND seq >= ?2")?
            .execute(params![int(self.now.0 / 1_000), OutboxId::END])?;
        Ok(())
    }
}
