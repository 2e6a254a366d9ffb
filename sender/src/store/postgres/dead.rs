//! Dead letters: burying, forgetting, redriving.

use tokio_postgres::Row;

use super::room::Victim;
use super::values::{Count, size};
use super::{Result, Work};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::store::command::{Dead, Forget, Reason, Redrive};
use crate::store::operate::{last_if_full, named};
use crate::store::reply::{Redriven, Reply};
use crate::store::room::Bounded;

const OLDEST: &str =
    "SELECT delivery, lane FROM deliveries WHERE state = 2 AND delivery > $1 ORDER BY delivery LIMIT $2";
const OLDEST_OF_LANE: &str = "SELECT delivery, lane FROM deliveries
    WHERE state = 2 AND delivery > $1 AND lane = $3 ORDER BY delivery LIMIT $2";
const THESE: &str = "SELECT delivery, lane FROM deliveries WHERE state = 2 AND delivery = ANY($1)";

/// A dead letter, and whose it is.
type Letter = (DeliveryId, LaneId);

fn letters(rows: &[Row]) -> Result<Vec<Letter>> {
    let letter = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
    rows.iter().map(letter).collect()
}

fn lanes_of(letters: &[Letter]) -> impl Iterator<Item = LaneId> {
    letters.iter().map(|(_, lane)| *lane)
}

impl Work<'_> {
    /// Makes dead letters of waiting deliveries of a lane.
    pub(super) fn bury(&mut self, lane: LaneId, victims: &[Victim], reason: Reason) -> Result<()> {
        let ids: Vec<DeliveryId> = victims.iter().map(|victim| victim.delivery).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let update = "UPDATE deliveries SET state = 2, at = $2, reason = $3 WHERE delivery = ANY($1)";
        self.sql.execute(update, &[&ids, &self.now, &reason])?;
        self.ledger.disturb(lane)?;
        self.rows.forget();
        for victim in victims {
            self.count_buried(lane, victim.delivery, victim.bytes, victim.tried)?;
        }
        Ok(())
    }

    /// Counts a delivery that is no longer owed, and forgets the oldest dead letters if there are too many.
    pub(super) fn count_buried(
        &mut self,
        lane: LaneId,
        delivery: DeliveryId,
        bytes: u64,
        tried: bool,
    ) -> Result<()> {
        self.held.leave(lane, delivery);
        self.ledger.count(lane, |counts| {
            counts.leave(bytes, tried);
            counts.dead += 1;
            counts.dead_kept += 1;
        })?;
        self.settled += 1;
        let kept = self.ledger.lane(lane)?.map_or(0, |lane| lane.counts.dead_kept);
        if kept > self.limits.dead_per_lane_max {
            self.forget_oldest(Some(lane))?;
        }
        if self.ledger.totals().dead_kept > self.limits.dead_max {
            self.forget_oldest(None)?;
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, forget: &Forget) -> Result<Reply> {
        let chosen = self.chosen(&forget.which, forget.after, forget.max)?;
        let letters = letters(&self.sql.query(THESE, &[&chosen])?)?;
        let rows = self.forget_letters(&letters)?;
        Ok(Reply::Forgotten { rows, last: last_if_full(&chosen, forget.max) })
    }

    fn forget_oldest(&mut self, lane: Option<LaneId>) -> Result<()> {
        // Before any number is taken: a commit that begins anew gets others.
        let kept = self.kept(lane, DeliveryId(0), 1)?;
        if self.ledger.need(lanes_of(&kept)).is_err() {
            // Those that come next as well, twice as many with each try: a commit may bury many.
            let next = self.kept(lane, DeliveryId(0), self.ledger.locked().max(1))?;
            self.ledger.need(lanes_of(&next))?;
        }
        let letters = self.oldest(lane, DeliveryId(0), 1)?;
        self.forget_letters(&letters)?;
        Ok(())
    }

    /// Deletes dead letters. Their bodies go with their events.
    pub(super) fn forget_letters(&mut self, letters: &[Letter]) -> Result<u64> {
        self.ledger.need(lanes_of(letters))?;
        let ids: Vec<DeliveryId> = letters.iter().map(|(letter, _)| *letter).collect();
        let delete = "DELETE FROM deliveries WHERE delivery = ANY($1) AND state = 2 RETURNING lane";
        let deleted = self.sql.delete(delete, &[&ids])?;
        self.rows.forget();
        for row in &deleted {
            self.ledger
                .count(row.try_get(0)?, |counts| counts.dead_kept = counts.dead_kept.saturating_sub(1))?;
        }
        Ok(size(deleted.len()))
    }

    /// So many of those that are meant, the oldest first; of those that are named, some may be no dead letters.
    fn chosen(&mut self, which: &Dead, after: Option<DeliveryId>, max: u32) -> Result<Vec<DeliveryId>> {
        let after = after.unwrap_or(DeliveryId(0));
        let lane = match which {
            Dead::All => None,
            Dead::Of(lane) => Some(*lane),
            Dead::These(letters) => return Ok(named(letters, after, max)),
        };
        Ok(self.oldest(lane, after, max)?.into_iter().map(|(letter, _)| letter).collect())
    }

    fn oldest(&mut self, lane: Option<LaneId>, after: DeliveryId, max: u32) -> Result<Vec<Letter>> {
        self.flush()?;
        self.kept(lane, after, max)
    }

    /// The oldest letters, but for what this commit has not written yet.
    fn kept(&self, lane: Option<LaneId>, after: DeliveryId, max: u32) -> Result<Vec<Letter>> {
        letters(&match lane {
            None => self.sql.query(OLDEST, &[&after, &i64::from(max)])?,
            Some(lane) => self.sql.query(OLDEST_OF_LANE, &[&after, &i64::from(max), &lane])?,
        })
    }

    pub(super) fn redrive(&mut self, redrive: &Redrive) -> Result<Reply> {
        let letters = self.chosen(&redrive.which, redrive.after, redrive.max)?;
        let mut redriven = self.redrive_all(&letters)?;
        redriven.last = last_if_full(&letters, redrive.max);
        if !redriven.rows.is_empty() {
            self.ledger.stir()?;
        }
        Ok(Reply::Redriven(redriven))
    }

    fn redrive_all(&mut self, letters: &[DeliveryId]) -> Result<Redriven> {
        let query = "SELECT delivery, lane, bytes, ttl FROM deliveries WHERE delivery = ANY($1) AND state = 2
            ORDER BY delivery";
        let found = self.sql.query(query, &[&letters])?;
        let lanes =
            found.iter().map(|row| row.try_get(1)).collect::<std::result::Result<Vec<LaneId>, _>>()?;
        self.ledger.need(lanes)?;
        let (mut redriven, mut ids, mut expires) = (Redriven::default(), Vec::new(), Vec::new());
        for row in found {
            let (delivery, lane, bytes): (_, LaneId, _) =
                (row.try_get(0)?, row.try_get(1)?, row.try_get::<_, Count>(2)?.0);
            let ttl: Nanos = row.try_get(3)?;
            let accepts = self.ledger.lane(lane)?.is_some_and(|lane| lane.state.accepts());
            if !accepts || !self.has_room(lane, bytes)? {
                redriven.kept += 1;
                continue;
            }
            ids.push(delivery);
            expires.push(self.after(ttl));
            redriven.rows.push((lane, delivery));
            self.ledger.disturb(lane)?;
            self.ledger.arrive(lane, self.now)?;
            self.ledger.count(lane, |counts| {
                counts.dead = counts.dead.saturating_sub(1);
                counts.dead_kept = counts.dead_kept.saturating_sub(1);
                counts.waiting += 1;
                counts.waiting_bytes += bytes;
            })?;
        }
        // Nobody waits in their place any more, so they are not to be replaced either.
        let update = "UPDATE deliveries d SET state = 0, at = $3, attempts = 0, expires = u.expires, reason = NULL,
            coalesce = NULL FROM unnest($1::int8[], $2::int8[]) u (delivery, expires) WHERE d.delivery = u.delivery";
        self.sql.execute(update, &[&ids, &expires, &self.now])?;
        Ok(redriven)
    }

    /// Forgets dead letters from before a moment, of those after a place: how many were looked at is told by the place
    /// returned.
    pub(super) fn forget_old(
        &mut self,
        before: StoreTime,
        after: DeliveryId,
        max: u32,
    ) -> Result<(u64, Option<DeliveryId>)> {
        let query = "SELECT delivery, lane, at FROM deliveries WHERE state = 2 AND delivery > $1 ORDER BY delivery LIMIT $2";
        let found = self.sql.query(query, &[&after, &i64::from(max)])?;
        let mut old = Vec::new();
        for row in &found {
            if row.try_get::<_, StoreTime>(2)? < before {
                old.push((row.try_get(0)?, row.try_get(1)?));
            }
        }
        let forgotten = if old.is_empty() { 0 } else { self.forget_letters(&old)? };
        let last = found.last().map(|row| row.try_get(0)).transpose()?;
        Ok((forgotten, last.filter(|_| found.len() == usize::try_from(max).unwrap_or(usize::MAX))))
    }
}
