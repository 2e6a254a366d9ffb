//! The rows of dead letters.

use std::collections::BTreeMap;

use tokio_postgres::Row;

use super::oldest::{BLOCK, Of, Rank, rank};
use super::room::Coming;
use super::rows::Rows;
use super::values::{Count, int, size};
use super::{Result, Stop, Work};
use crate::command::Reason;
use crate::commit::dead::{DeadRows, Letter as Redrivable};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::read::Place;

const OLDEST: &str =
    "SELECT delivery, lane FROM deliveries WHERE state = 2 AND delivery > $1 ORDER BY delivery LIMIT $2";
const OLDEST_OF_LANE: &str = "SELECT delivery, lane FROM deliveries
    WHERE state = 2 AND delivery > $1 AND lane = $3 ORDER BY delivery LIMIT $2";
const OLDEST_OF_LANES: &str = "SELECT d.delivery, d.lane
    FROM unnest($1::int8[], $2::int8[], $3::int8[]) u (in_lane, after, most) CROSS JOIN LATERAL (
        SELECT delivery, lane FROM deliveries d WHERE d.lane = u.in_lane AND d.state = 2 AND d.delivery > u.after
        ORDER BY d.delivery LIMIT u.most) d";
const THESE: &str = "SELECT delivery, lane FROM deliveries WHERE state = 2 AND delivery = ANY($1)";

type Letter = (DeliveryId, LaneId);

fn letters(rows: &[Row]) -> Result<Vec<Letter>> {
    let letter = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
    rows.iter().map(letter).collect()
}

fn ranked(letters: &[Letter]) -> Vec<(Rank, LaneId)> {
    letters.iter().map(|(letter, lane)| (rank(*letter), *lane)).collect()
}

fn lanes_of(letters: &[Letter]) -> impl Iterator<Item = LaneId> {
    letters.iter().map(|(_, lane)| *lane)
}

impl DeadRows for Work<'_> {
    fn records(&mut self, delivery: DeliveryId) -> bool {
        let delivery = self.rows.real(delivery);
        self.rows.recorded(delivery).is_some()
    }

    fn set_dead(&mut self, _: LaneId, delivery: DeliveryId, reason: Reason) -> Result<(u64, bool)> {
        let buried = self.rows.bury(delivery, self.now, reason);
        buried.ok_or(Stop::Broken("a delivery is given up that was not read"))
    }

    fn oldest_letters(
        &mut self,
        lane: Option<LaneId>,
        after: DeliveryId,
        max: u32,
    ) -> Result<Vec<DeliveryId>> {
        self.flush()?;
        let max = i64::from(max);
        let found = letters(&match lane {
            None => self.sql.query(OLDEST, &[&after, &max])?,
            Some(lane) => self.sql.query(OLDEST_OF_LANE, &[&after, &max, &lane])?,
        })?;
        Ok(found.into_iter().map(|(letter, _)| letter).collect())
    }

    fn forget_letters(&mut self, chosen: &[DeliveryId]) -> Result<u64> {
        let found = letters(&self.sql.query(THESE, &[&chosen])?)?;
        self.ledger.need(lanes_of(&found))?;
        let delete = "DELETE FROM deliveries WHERE delivery = ANY($1) AND state = 2 RETURNING lane";
        let deleted = self.sql.delete(delete, &[&chosen])?;
        self.rows.forget();
        for row in &deleted {
            self.ledger
                .count(row.try_get(0)?, |counts| counts.dead_kept = counts.dead_kept.saturating_sub(1))?;
        }
        Ok(size(deleted.len()))
    }

    fn forget_oldest(&mut self, lane: Option<LaneId>) -> Result<u64> {
        let of = lane.map_or(Of::AllLetters, Of::Letters);
        let Some((letter, lane)) = self.oldest_letter(of)? else { return Ok(0) };
        if self.ledger.need([lane]).is_err() {
            // Locks the next lanes as well, twice as many with each retry, because a commit may give up many
            // deliveries.
            let many = usize::try_from(self.ledger.locked()).unwrap_or(usize::MAX);
            while self.rows.oldest.lanes(of).count() + 1 < many && !self.rows.oldest.knows_all(of) {
                self.read_letters(of)?;
            }
            self.ledger.need(self.rows.oldest.lanes(of).take(many.saturating_sub(1)).chain([lane]))?;
        }
        self.rows.forget_letter(letter);
        self.ledger.count(lane, |counts| counts.dead_kept = counts.dead_kept.saturating_sub(1))?;
        Ok(1)
    }

    fn letters(&mut self, letters: &[DeliveryId]) -> Result<Vec<Redrivable>> {
        let query =
            "SELECT delivery, lane, bytes, ttl, at FROM deliveries WHERE delivery = ANY($1) AND state = 2
            ORDER BY delivery";
        let found = self.sql.query(query, &[&letters])?;
        let letter = |row: &Row| {
            let (delivery, lane, Count(bytes)) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            Ok(Redrivable { delivery, lane, bytes, ttl: row.try_get(3)?, at: row.try_get(4)? })
        };
        let found = found.iter().map(letter).collect::<Result<Vec<_>>>()?;
        self.ledger.need(found.iter().map(|letter| letter.lane))?;
        Ok(found)
    }

    fn set_waiting(&mut self, letters: &[(DeliveryId, StoreTime)]) -> Result<()> {
        let (ids, expires): (Vec<DeliveryId>, Vec<StoreTime>) = letters.iter().copied().unzip();
        let update = "UPDATE deliveries d SET state = 0, at = $3, attempts = 0, expires = u.expires, reason = NULL,
            coalesce = NULL FROM unnest($1::int8[], $2::int8[]) u (delivery, expires) WHERE d.delivery = u.delivery";
        self.sql.execute(update, &[&ids, &expires, &self.now])?;
        Ok(())
    }

    fn stir(&mut self) -> Result<()> {
        self.ledger.stir()
    }

    fn letters_after(&mut self, after: DeliveryId, max: u32) -> Result<Vec<(DeliveryId, StoreTime)>> {
        let query = "SELECT delivery, at FROM deliveries WHERE state = 2 AND delivery > $1 ORDER BY delivery LIMIT $2";
        let found = self.sql.query(query, &[&after, &i64::from(max)])?;
        found.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }
}

impl Work<'_> {
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

    fn read_letters(&mut self, of: Of) -> Result<()> {
        let Of::Letters(lane) = of else {
            let (_, after) = self.rows.oldest.read_to(of);
            let most = self.rows.oldest.block(of, u64::from(self.ledger.locked().max(1)));
            let found = letters(&self.sql.query(OLDEST, &[&after, &int(most)])?)?;
            self.rows.oldest.add(of, rank(after), &ranked(&found), most);
            self.rows.update_all_oldest();
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
        self.rows.update_all_oldest();
        Ok(())
    }

    /// Lanes without letters in memory that this commit will probably fill beyond their bound, with the expected
    /// number of new letters.
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
}

impl Rows {
    /// As [`DeadRows::set_dead`]. `None` if the delivery is not in memory.
    fn bury(&mut self, delivery: DeliveryId, now: StoreTime, reason: Reason) -> Option<(u64, bool)> {
        if let Some(new) = self.recorded(delivery) {
            (new.place, new.at, new.reason) = (Place::Dead, now, Some(reason));
            let (lane, bytes) = (new.lane, new.bytes);
            self.oldest.insert(lane, Place::Dead, (now, delivery));
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

    /// A delivery that is not in memory came from a query for letters.
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

    fn forget_letter(&mut self, letter: DeliveryId) {
        self.forgotten.insert(letter);
        if self.recorded(letter).is_none() {
            self.changed.remove(&letter);
            self.deliveries.insert(letter, None);
            self.deleted.push(letter);
        }
    }
}
