//! Claims: an index scan of a lane's due deliveries, which skips those that are handed out.

use std::collections::BTreeSet;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Result, params};

use super::Work;
use super::content::{self, Content, Contents};
use super::failure::{is_about_the_disk, is_about_the_row, is_busy, or_least};
use super::values::{int, size};
use crate::command::{Claim, Reason};
use crate::commit::dead::DeadRows;
use crate::commit::room::{Room, RoomRows};
use crate::commit::settle::shortened;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::lane::WhenFull;
use crate::queue_cache::{Answer, Place, Standing, Waiting};
use crate::reply::{Claimed, ClaimedRow};
use crate::seal::Seal;

const ROWS_MAX: u32 = 10_000;

pub(super) const QUEUE: &str = "SELECT delivery, at FROM deliveries INDEXED BY deliveries_due
    WHERE lane = ?1 AND state = 0 ORDER BY at, delivery";

pub(super) const QUEUE_FROM: &str = "SELECT delivery, at FROM deliveries INDEXED BY deliveries_due
    WHERE lane = ?1 AND state = 0 AND at >= ?2 ORDER BY at, delivery";

pub(super) const ROW: &str = "SELECT attempts, expires, signature, event, body, bytes, last_attempt FROM deliveries WHERE delivery = ?1";

pub(super) struct RowReader<'a> {
    pub(super) sql: &'a Connection,
    pub(super) seal: &'a Seal,
    pub(super) now: StoreTime,
    pub(super) contents: &'a mut Contents,
    pub(super) expiry_grace: Nanos,
    /// The delivery that the disk could not read, after an answer failed for that reason.
    pub(super) not_given: Option<DeliveryId>,
}

pub(super) struct Unreadable {
    delivery: DeliveryId,
    why: String,
}

struct Front {
    due: Vec<(DeliveryId, StoreTime)>,
    next: Option<StoreTime>,
    /// Everything due before this is handed out or in `due`.
    reached: Option<StoreTime>,
    /// From here on, deliveries were skipped because the commit under way moves them.
    skipped: Option<StoreTime>,
}

/// The place before everything that is due at this time or later.
const fn before(due: StoreTime) -> Place {
    (due, DeliveryId(0))
}

impl RowReader<'_> {
    /// Reads a claim's answer, from a due time before which nothing is free. Does not mark anything as handed out.
    pub(super) fn answer(
        &mut self,
        claim: &Claim,
        from: Option<StoreTime>,
        standing: impl Fn(DeliveryId) -> Standing,
    ) -> Result<(Answer, Vec<Unreadable>)> {
        let max = claim.max.min(ROWS_MAX);
        let Front { due, mut next, mut reached, skipped } = self.front(claim.lane, max, from, &standing)?;
        let (mut rows, mut known) = (Vec::with_capacity(due.len()), Vec::with_capacity(due.len()));
        let mut unreadable = Vec::new();
        let (mut bytes, mut too_long) = (0_u64, None);
        let mut read = (self.sql.prepare_cached(ROW)?, content::Reader::new(self.sql, self.seal)?);
        for (delivery, at) in due {
            let (row, waiting) = match self.row(&mut read, delivery, at) {
                Err(error) if is_about_the_row(&error) => {
                    unreadable.push(Unreadable { delivery, why: error.to_string() });
                    continue;
                }
                Err(error) => {
                    self.not_given = Some(delivery).filter(|_| is_about_the_disk(&error));
                    return Err(error);
                }
                Ok(row) => row,
            };
            bytes = bytes.saturating_add(size(row.body.bytes.len()));
            if bytes > claim.bytes_max {
                too_long = rows.is_empty().then_some(bytes);
                next = Some(at);
                reached = reached.map(|reached| reached.min(at));
                break;
            }
            rows.push(row);
            known.push(waiting);
        }
        let claimed = Claimed { lane: claim.lane, term: claim.term, rows, next, too_long };
        let (cursor, skipped_after) = (reached.map(before), skipped.map(before));
        Ok((Answer { claimed, known, cursor, skipped_after }, unreadable))
    }

    fn front(
        &self,
        lane: LaneId,
        max: u32,
        from: Option<StoreTime>,
        standing: impl Fn(DeliveryId) -> Standing,
    ) -> Result<Front> {
        let mut queue = self.sql.prepare_cached(QUEUE_FROM)?;
        let from = from.map_or(i64::MIN, |from| int(from.0));
        let mut found = queue.query(params![lane, from])?;
        let (mut due, mut again, mut skipped) = (Vec::new(), None, None);
        while let Some(row) = found.next()? {
            let delivery: DeliveryId = row.get(0)?;
            match standing(delivery) {
                Standing::Free => {}
                Standing::Claimed => continue,
                Standing::Moving => {
                    skipped = skipped.or(Some(or_least(row.get(1))?));
                    continue;
                }
                Standing::Unreadable(until) => {
                    again = Some(again.map_or(until, |again: StoreTime| again.min(until)));
                    continue;
                }
            }
            // An invalid time counts as past.
            let at: StoreTime = or_least(row.get(1))?;
            if at > self.now || due.len() >= usize::try_from(max).unwrap_or(usize::MAX) {
                let next = Some(again.map_or(at, |again| again.min(at)));
                return Ok(Front { due, next, reached: again.is_none().then_some(at), skipped });
            }
            due.push((delivery, at));
        }
        let last = due.last().map(|(_, at)| *at);
        Ok(Front { due, next: again, reached: last.filter(|_| again.is_none()), skipped })
    }

    fn row(
        &mut self,
        (read_row, read_content): &mut (CachedStatement<'_>, content::Reader<'_>),
        delivery: DeliveryId,
        due: StoreTime,
    ) -> Result<(ClaimedRow, Option<Waiting>)> {
        read_row.query_row([delivery], |row| {
            let expires: StoreTime = row.get(1)?;
            let Content { event, kind, received, body } =
                self.contents.read(read_content, row.get(3)?, row.get(4)?)?;
            let attempts = row.get(0)?;
            let waiting = row.get(5).and_then(|bytes| {
                Ok(Waiting { attempts, last_attempt: row.get(6)?, ..Waiting::new(bytes, due) })
            });
            let claimed = ClaimedRow {
                delivery,
                attempts,
                expires: StoreTime(expires.0.saturating_add(self.expiry_grace.0)),
                event,
                kind,
                received,
                body,
                signature: row.get(2)?,
            };
            // Invalid values here are reported at the settlement.
            Ok((claimed, waiting.ok()))
        })
    }
}

impl Work<'_> {
    pub(super) fn claim_rows(&mut self, claim: &Claim) -> Result<Claimed> {
        let mut reader = RowReader {
            sql: self.sql,
            seal: self.seal,
            now: self.now,
            contents: &mut self.contents,
            expiry_grace: self.rules.expiry_grace,
            not_given: None,
        };
        let answer = reader.answer(claim, None, |one| self.cache.standing(claim.lane, one, self.now));
        if let Some(delivery) = reader.not_given {
            // The next claim skips it.
            self.cache.unreadable.record_failure(delivery, self.now);
        }
        let (answer, unreadable) = answer?;
        self.set_aside(claim.lane, &unreadable)?;
        Ok(self.cache.claim(answer, None))
    }

    /// Turns unreadable deliveries into dead letters, so that their lane can go on.
    fn set_aside(&mut self, lane: LaneId, unreadable: &[Unreadable]) -> Result<()> {
        let Some(first) = unreadable.first() else { return Ok(()) };
        for row in unreadable {
            let buried = self.bury_unreadable(lane, row);
            if buried.as_ref().is_err_and(|error| !is_busy(error)) {
                // Its row cannot be written either, so the next claim skips it.
                self.cache.unreadable.record_failure(row.delivery, self.now);
            }
            buried?;
        }
        tracing::error!(
            lane = lane.0, first = first.delivery.0, why = %first.why, deliveries = unreadable.len(),
            "unreadable deliveries became dead letters"
        );
        Ok(())
    }

    fn bury_unreadable(&mut self, lane: LaneId, row: &Unreadable) -> Result<()> {
        self.sql
            .prepare_cached("UPDATE deliveries SET status = NULL, error = ?2 WHERE delivery = ?1")?
            .execute(params![row.delivery, shortened(&row.why)])?;
        self.bury(lane, row.delivery, Reason::Unreadable)
    }

    /// Claimed deliveries count too.
    pub(super) fn head(&self, lane: LaneId) -> Result<Option<StoreTime>> {
        self.sql.prepare_cached(QUEUE)?.query_row([lane], |row| row.get(1)).optional()
    }
}

impl RoomRows for Work<'_> {
    fn room(&mut self) -> &mut Room {
        &mut self.room
    }

    fn longest_due(&mut self, lane: LaneId, max: u32) -> Result<Vec<DeliveryId>> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let mut queue = self.sql.prepare_cached(QUEUE)?;
        let mut rows = queue.query([lane])?;
        let mut victims = Vec::new();
        while victims.len() < max
            && let Some(row) = rows.next()?
        {
            let delivery = row.get(0)?;
            if !self.cache.has(lane, delivery) {
                victims.push(delivery);
            }
        }
        Ok(victims)
    }

    fn fullest(&mut self, max: u64) -> Result<BTreeSet<LaneId>> {
        self.ledger.flush(self.sql, self.now)?;
        let mut query = self.sql.prepare_cached(
            "SELECT lane FROM lanes WHERE when_full = ?1 AND waiting > 0 ORDER BY waiting DESC, lane LIMIT ?2",
        )?;
        query.query_map(params![WhenFull::ShedOldest, int(max)], |row| row.get(0))?.collect()
    }
}
