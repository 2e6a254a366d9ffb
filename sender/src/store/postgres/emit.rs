//! Recording an event: who is owed it, whether it fits, and then the rows. As with SQLite, first everything is looked at,
//! then everything is written; what was taken in part is known by its id for as long as it is kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::recorded::{NewDelivery, NewEvent};
use super::rows::Known;
use super::values::{int, size, storable};
use super::{Result, Work};
use crate::engine::{LaneId, Nanos, StoreTime};
use crate::store::command::{Emit, OutboxId, Reason, RejectOutbox, Target};
use crate::store::read::Place;
use crate::store::reply::{Emitted, Placed, Refusal, Reply};
use crate::store::room::Bounded;
use crate::store::route::{Before, Replaced, Route};

/// So many outbox rows that were set aside are kept.
const REJECTED_MAX: u64 = 10_000;

impl Work<'_> {
    pub(super) fn emit(&mut self, emit: &Emit) -> Result<Reply> {
        if let Some(refusal) = self.emit_refusal(emit)? {
            return Ok(Reply::Refused(refusal));
        }
        let before = self.received_before(emit)?;
        let mut routes = self.routes(emit, &before)?;
        let full = self.refuse_where_full(emit, &mut routes)?;
        let any = routes.iter().any(Route::is_new);
        let has_it = routes.iter().any(|route| matches!(route, Route::Duplicate));
        if !full.is_empty() && (emit.atomic || !(any || has_it)) {
            return Ok(Reply::Refused(Refusal::Full(full)));
        }
        let is_whole = full.is_empty() && !emit.withheld;
        if let Some(outbox) = emit.outbox {
            self.leave_outbox(emit, outbox, is_whole, has_it)?;
        }
        let mut emitted = Emitted { targets: Vec::with_capacity(routes.len()), shed: 0 };
        if !any {
            emitted.targets.extend(routes.iter().map(Route::placed_nowhere));
            return Ok(Reply::Emitted(emitted));
        }
        let in_part = !is_whole || before.in_part();
        // All of these first: making room for one target must not shed what another is about to replace.
        for (target, route) in emit.targets.iter().zip(&routes) {
            if let Route::Replace(older) = route {
                self.coalesce(target.lane, older)?;
            }
        }
        self.record(emit, &routes, in_part, &mut emitted)?;
        self.written.shed += emitted.shed;
        Ok(Reply::Emitted(emitted))
    }

    fn emit_refusal(&mut self, emit: &Emit) -> Result<Option<Refusal>> {
        if self.is_outdated(emit)? {
            return Ok(Some(Refusal::StaleRoster { known: emit.roster, current: self.ledger.roster() }));
        }
        if emit.targets.iter().any(|target| target.body >= emit.bodies.len()) {
            return Ok(Some(Refusal::Nonsense("a target names a body that the event does not have")));
        }
        let Some(outbox) = emit.outbox else { return Ok(None) };
        let query = "SELECT event IS NULL OR event = $2 FROM outbox WHERE id = $1 FOR UPDATE";
        let has_that_id: Option<bool> =
            self.sql.first(query, &[&outbox, &&*emit.id])?.map(|row| row.try_get(0)).transpose()?;
        Ok(match has_that_id {
            Some(true) => None,
            Some(false) => Some(Refusal::OutboxNamed(outbox)),
            None => Some(Refusal::OutboxTaken(outbox)),
        })
    }

    /// The row of an event goes, once nobody lacks it any more. Until then it keeps the event's id, and who `had` it already
    /// is known to.
    fn leave_outbox(&mut self, emit: &Emit, outbox: OutboxId, is_whole: bool, had: bool) -> Result<()> {
        if is_whole {
            self.sql.execute("DELETE FROM outbox WHERE id = $1", &[&outbox])?;
            return Ok(());
        }
        let name = "UPDATE outbox SET event = $2 WHERE id = $1 AND event IS NULL";
        self.sql.execute(name, &[&outbox, &&*emit.id])?;
        if had {
            self.flush()?;
            self.sql
                .execute("UPDATE events SET in_part = true WHERE id = $1 AND NOT in_part", &[&&*emit.id])?;
            self.rows.named(self.sql, &emit.id)?.iter_mut().for_each(|known| known.in_part = true);
        }
        Ok(())
    }

    fn routes(&mut self, emit: &Emit, before: &Before) -> Result<Vec<Route>> {
        let mut named = BTreeSet::new();
        let mut routes = Vec::with_capacity(emit.targets.len());
        for target in &emit.targets {
            let accepts = self.ledger.lane(target.lane)?.is_some_and(|lane| lane.state.accepts());
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
        if !self.rows.knows_named(&emit.id) {
            self.flush()?;
        }
        let longest = emit.targets.iter().map(|target| target.dedupe).max().unwrap_or(Nanos::ZERO);
        let since = StoreTime(emit.received.0.saturating_sub(longest.0));
        // Where nodes count by two times, that may have been by the earlier one.
        let grace = self.ledger.grace(self.now);
        for known in self.rows.named(self.sql, &emit.id)? {
            let received = StoreTime(known.received.0.saturating_add(grace.0));
            if known.in_part || received > since {
                before.saw(known.lane, received, known.in_part);
            }
        }
        Ok(before)
    }

    /// The delivery whose place a target takes: alike, waiting, never tried, and its window still open.
    fn older(&mut self, emit: &Emit, target: &Target) -> Result<Option<Replaced>> {
        let Some(coalesce) = &target.coalesce else { return Ok(None) };
        // What could never fit takes no place: the older one would be lost for nothing.
        if !self.could_fit(target.lane, size(emit.bodies[target.body].bytes.len()))? {
            return Ok(None);
        }
        self.flush_unless_alike_known(target.lane, &coalesce.key)?;
        let older = *self.rows.alike(self.sql, (target.lane, &coalesce.key), self.now)?;
        Ok(older.filter(|older| !self.held.has(target.lane, older.delivery)))
    }

    /// Records an event: its bodies, its deliveries, and at last itself, since making room for one of its deliveries may
    /// have to write the others before.
    fn record(&mut self, emit: &Emit, routes: &[Route], in_part: bool, emitted: &mut Emitted) -> Result<()> {
        let number = self.rows.event_number()?;
        // The first that is wanted is kept with the event.
        let (mut own, mut bodies) = (None, vec![None; emit.bodies.len()]);
        let (mut deliveries, mut known) = (Vec::new(), Vec::new());
        for (target, route) in emit.targets.iter().zip(routes) {
            if !route.is_new() {
                emitted.targets.push(route.placed_nowhere());
                continue;
            }
            let body = if *own.get_or_insert(target.body) == target.body {
                None
            } else if let Some(body) = bodies[target.body] {
                Some(body)
            } else {
                bodies[target.body] = Some(self.rows.record_body(&emit.bodies[target.body])?);
                bodies[target.body]
            };
            let placed = self.place(emit, target, route, (number, body), &mut emitted.shed)?;
            if let Placed::Waiting { delivery, .. } | Placed::Overflowed { delivery } = placed {
                known.push(Known { lane: target.lane, delivery, received: emit.received, in_part });
                deliveries.push(delivery);
            }
            emitted.targets.push(placed);
        }
        self.rows.events.push(NewEvent {
            number,
            id: emit.id.clone(),
            kind: emit.kind.clone(),
            key: emit.key.as_ref().map(|key| {
                // Nearly none needs a copy.
                if key.contains('\0') { storable(key).into() } else { key.clone() }
            }),
            received: emit.received,
            in_part,
            body: own.map(|own| emit.bodies[own].clone()),
            bodies: bodies.into_iter().flatten().collect(),
            deliveries,
        });
        self.rows.add_known(&emit.id, known);
        Ok(())
    }

    fn place(
        &mut self,
        emit: &Emit,
        target: &Target,
        route: &Route,
        (event, body): (i64, Option<i64>),
        shed: &mut u64,
    ) -> Result<Placed> {
        let (lane, now) = (target.lane, self.now);
        let bytes = size(emit.bodies[target.body].bytes.len());
        let window = target.coalesce.as_ref().map_or(0, |coalesce| coalesce.window.0);
        let mut due = StoreTime(target.due.0.saturating_add(window));
        let mut replaced = None;
        if let Route::Replace(older) = route {
            due = older.due;
            replaced = Some(older.delivery);
        }
        let fits = self.make_room(lane, bytes, shed)?;
        let delivery = self.rows.record(NewDelivery {
            lane,
            event,
            body,
            bytes,
            place: if fits { Place::Waiting } else { Place::Dead },
            at: if fits { due } else { now },
            expires: target.expires,
            ttl: target.expires.since(emit.received),
            reason: (!fits).then_some(Reason::Overflow),
            coalesce: target.coalesce.as_ref().map(|coalesce| coalesce.key.clone()),
            signature: target.signature.clone(),
        });
        self.ledger.count(lane, |counts| counts.accept(bytes))?;
        self.written.recorded += 1;
        if !fits {
            self.count_buried(lane, delivery, bytes, false)?;
            return Ok(Placed::Overflowed { delivery });
        }
        if let Some(coalesce) = &target.coalesce
            && due > now
        {
            self.flush_unless_alike_known(lane, &coalesce.key)?;
            let oldest = self.rows.alike(self.sql, (lane, &coalesce.key), now)?;
            if oldest.is_none_or(|oldest| due < oldest.due) {
                *oldest = Some(Replaced { delivery, bytes, due });
            }
        }
        self.ledger.arrive(lane, due)?;
        self.may_pay(lane)?;
        Ok(Placed::Waiting { delivery, due, replaced })
    }

    fn flush_unless_alike_known(&mut self, lane: LaneId, key: &Arc<str>) -> Result<()> {
        if self.rows.knows_alike(lane, key) { Ok(()) } else { self.flush() }
    }

    fn coalesce(&mut self, lane: LaneId, older: &Replaced) -> Result<()> {
        let (now, delivery) = (self.now, self.rows.real(older.delivery));
        match self.rows.recorded(delivery) {
            Some(new) => {
                new.place = Place::Coalesced;
                new.at = now;
            }
            None => {
                // It was read with those alike, unless this commit has written it.
                self.rows.delivery(self.sql, lane, delivery)?;
                self.rows.alter(delivery, |row| {
                    row.place = Place::Coalesced;
                    row.at = now;
                });
                self.ledger.disturb(lane)?;
            }
        }
        // The next one alike opens a window of its own, or takes the place of the one that is about to be recorded.
        self.rows.close_window(lane, delivery);
        // It falls due while the commit is on its way to the disk: nobody may be handed it then.
        self.held.leave(lane, delivery);
        self.ledger.count(lane, |counts| {
            counts.leave(older.bytes, false);
            counts.coalesced += 1;
        })?;
        self.written.settled += 1;
        Ok(())
    }

    pub(super) fn reject_outbox(&mut self, reject: &RejectOutbox) -> Result<Reply> {
        // Of what is absurdly long, enough to recognise it.
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
            return Ok(Reply::Refused(Refusal::OutboxTaken(reject.id)));
        }
        self.sql.execute("DELETE FROM outbox WHERE id = $1", &[&reject.id])?;
        let trim = "DELETE FROM outbox_rejected WHERE id <=
            (SELECT id FROM outbox_rejected ORDER BY id DESC LIMIT 1 OFFSET $1)";
        self.sql.execute(trim, &[&int(REJECTED_MAX)])?;
        Ok(Reply::Done)
    }
}
