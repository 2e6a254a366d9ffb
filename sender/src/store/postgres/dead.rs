//! Dead letters: burying, forgetting, redriving.

use std::collections::BTreeMap;

use tokio_postgres::Row;

use super::oldest::{BLOCK, Of, Rank, rank};
use super::room::Coming;
use super::rows::Rows;
use super::values::{Count, int, size};
use super::{Result, Stop, Work};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::store::command::{Dead, Forget, Reason, Redrive};
use crate::store::operate::{last_if_full, named};
use crate::store::read::Place;
use crate::store::reply::{Redriven, Reply};
use crate::store::room::Bounded;

const OLDEST: &str =
    "SELECT delivery, lane FROM deliveries WHERE state = 2 AND delivery > $1 ORDER BY delivery LIMIT $2";
const OLDEST_OF_LANE: &str = "SELECT delivery, lane FROM deliveries
    WHERE state = 2 AND delivery > $1 AND lane = $3 ORDER BY delivery LIMIT $2";
const OLDEST_OF_LANES: &str = "SELECT d.delivery, d.lane
    FROM unnest($1::int8[], $2::int8[], $3::int8[]) u (in_lane, after, most) CROSS JOIN LATERAL (
        SELECT delivery, lane FROM deliveries d WHERE d.lane = u.in_lane AND d.state = 2 AND d.delivery > u.after
        ORDER BY d.delivery LIMIT u.most) d";
const THESE: &str = "SELECT delivery, lane FROM deliveries WHERE state = 2 AND delivery = ANY($1)";

/// A dead letter, and whose it is.
type Letter = (DeliveryId, LaneId);

fn letters(rows: &[Row]) -> Result<Vec<Letter>> {
    let letter = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
    rows.iter().map(letter).collect()
}

/// The same, by their places among others.
fn ranked(letters: &[Letter]) -> Vec<(Rank, LaneId)> {
    letters.iter().map(|(letter, lane)| (rank(*letter), *lane)).collect()
}

fn lanes_of(letters: &[Letter]) -> impl Iterator<Item = LaneId> {
    letters.iter().map(|(_, lane)| *lane)
}

impl Work<'_> {
    /// Makes a dead letter of a delivery of a lane that waits, and that was read.
    pub(super) fn bury(&mut self, lane: LaneId, delivery: DeliveryId, reason: Reason) -> Result<()> {
        let was_recorded = self.rows.recorded(delivery).is_some();
        let buried = self.rows.bury(delivery, self.now, reason);
        let (bytes, tried) = buried.ok_or(Stop::Broken("a delivery is given up that was not read"))?;
        if !was_recorded {
            self.ledger.disturb(lane)?;
        }
        self.count_buried(lane, delivery, bytes, tried)
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
        self.written.settled += 1;
        let kept = self.ledger.lane(lane)?.map_or(0, |lane| lane.counts.dead_kept);
        if kept > self.limits.dead_per_lane_max {
            self.forget_oldest(Of::Letters(lane))?;
        }
        if self.ledger.totals().dead_kept > self.limits.dead_max {
            self.forget_oldest(Of::AllLetters)?;
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, forget: &Forget) -> Result<Reply> {
        let chosen = self.chosen(&forget.which, forget.after, forget.max)?;
        let letters = letters(&self.sql.query(THESE, &[&chosen])?)?;
        let rows = self.forget_letters(&letters)?;
        Ok(Reply::Forgotten { rows, last: last_if_full(&chosen, forget.max) })
    }

    /// Forgets the oldest of these dead letters. It is deleted with what the commit writes.
    fn forget_oldest(&mut self, of: Of) -> Result<()> {
        let Some((letter, lane)) = self.oldest_letter(of)? else { return Ok(()) };
        if self.ledger.need([lane]).is_err() {
            // Those that come next as well, twice as many with each try: a commit may bury many.
            let many = usize::try_from(self.ledger.locked()).unwrap_or(usize::MAX);
            while self.rows.oldest.lanes(of).count() + 1 < many && !self.rows.oldest.knows_all(of) {
                self.read_letters(of)?;
            }
            self.ledger.need(self.rows.oldest.lanes(of).take(many.saturating_sub(1)).chain([lane]))?;
        }
        self.rows.forget_letter(letter);
        self.written.forgotten += 1;
        self.ledger.count(lane, |counts| counts.dead_kept = counts.dead_kept.saturating_sub(1))
    }

    /// Takes the oldest of these dead letters, to be forgotten.
    fn oldest_letter(&mut self, of: Of) -> Result<Option<Letter>> {
        loop {
            if let Some(((_, letter), lane)) = self.rows.oldest.take(of) {
                if self.rows.is_letter(letter) {
                    return Ok(Some((letter, lane)));
                }
            } else if self.rows.oldest.knows_all(of) {
                return Ok(None);
            } else {
                self.read_letters(of)?;
            }
        }
    }

    /// Reads which of these dead letters are the next oldest.
    fn read_letters(&mut self, of: Of) -> Result<()> {
        let Of::Letters(lane) = of else {
            let (_, after) = self.rows.oldest.read_to(of);
            let most = self.rows.oldest.block(of, u64::from(self.ledger.locked().max(1)));
            let found = letters(&self.sql.query(OLDEST, &[&after, &int(most)])?)?;
            self.rows.oldest.add(of, rank(after), &ranked(&found), most);
            self.rows.note_all();
            return Ok(());
        };
        let mut likely = self.lanes_of_many_letters();
        likely.entry(lane).or_insert(BLOCK);
        let asked = likely.into_iter().map(|(lane, likely)| {
            let of = Of::Letters(lane);
            (lane, self.rows.oldest.read_to(of).1, self.rows.oldest.block(of, likely))
        });
        let asked: Vec<(LaneId, DeliveryId, u64)> = asked.collect();
        let lanes: Vec<LaneId> = asked.iter().map(|(lane, ..)| *lane).collect();
        let after: Vec<DeliveryId> = asked.iter().map(|(_, after, _)| *after).collect();
        let most: Vec<i64> = asked.iter().map(|(.., most)| int(*most)).collect();
        let mut found: BTreeMap<LaneId, Vec<Letter>> = BTreeMap::new();
        for letter in letters(&self.sql.query(OLDEST_OF_LANES, &[&lanes, &after, &most])?)? {
            found.entry(letter.1).or_default().push(letter);
        }
        for (lane, after, most) in asked {
            let found = ranked(&found.remove(&lane).unwrap_or_default());
            self.rows.oldest.add(Of::Letters(lane), rank(after), &found, most);
        }
        self.rows.note_all();
        Ok(())
    }

    /// The lanes that are likely to have more dead letters than are kept, of those of which none was read: and how many they are likely
    /// to get.
    fn lanes_of_many_letters(&self) -> BTreeMap<LaneId, u64> {
        let coming = Coming::of(self.run);
        let unread = self.ledger.lanes().filter(|(lane, _)| !self.rows.oldest.knows(Of::Letters(*lane)));
        let likely = unread.map(|(id, lane)| {
            let buried = coming.get(&id).map_or(0, |coming| coming.buries(lane));
            (id, lane.counts.dead_kept, if buried == 0 { BLOCK } else { buried })
        });
        let many = likely.filter(|(_, kept, likely)| kept + likely > self.limits.dead_per_lane_max);
        many.map(|(id, _, likely)| (id, likely)).collect()
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

impl Rows {
    /// Makes a dead letter of a delivery that waits: how long its body is, and whether it was tried. Nothing, if it is not known.
    fn bury(&mut self, delivery: DeliveryId, now: StoreTime, reason: Reason) -> Option<(u64, bool)> {
        if let Some(new) = self.recorded(delivery) {
            (new.place, new.at, new.reason) = (Place::Dead, now, Some(reason));
            let (lane, bytes) = (new.lane, new.bytes);
            self.oldest.note(lane, Place::Dead, (now, delivery));
            self.forget_window(lane, delivery);
            return Some((bytes, false));
        }
        let row = self.deliveries.get(&delivery)?.as_ref()?;
        let (bytes, tried) = (row.bytes, row.attempts > 0);
        let lane = self.alter(delivery, |row| {
            (row.place, row.at, row.reason) = (Place::Dead, now, Some(reason));
        })?;
        self.forget_window(lane, delivery);
        Some((bytes, tried))
    }

    /// Whether a delivery is a dead letter. Of what is not known the database has said so.
    fn is_letter(&mut self, delivery: DeliveryId) -> bool {
        if self.forgotten.contains(&delivery) {
            return false;
        }
        match self.recorded(delivery) {
            Some(new) => new.place == Place::Dead,
            None => match self.deliveries.get(&delivery) {
                Some(found) => found.as_ref().is_some_and(|row| row.place == Place::Dead),
                None => true,
            },
        }
    }

    /// Forgets a dead letter. Its body goes with its event.
    fn forget_letter(&mut self, letter: DeliveryId) {
        self.forgotten.insert(letter);
        if self.recorded(letter).is_none() {
            self.changed.remove(&letter);
            self.deliveries.insert(letter, None);
            self.deleted.push(letter);
        }
    }
}
