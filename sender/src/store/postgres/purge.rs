//! Deleting what has been kept long enough, in small steps that go round and round. Each step looks at a bounded number of
//! rows and remembers where it stopped, in memory only.

use super::values::{int, size};
use super::{Result, Work, latencies};
use crate::engine::{DeliveryId, StoreTime};
use crate::store::command::Purge;
use crate::store::ended::MARGIN;
use crate::store::reply::{Purged, Reply};

/// Where the next step goes on; from the beginning, if nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    event: Option<i64>,
    letter: Option<DeliveryId>,
    /// When an attempt began, and its delivery.
    attempt: Option<(i64, i64)>,
}

/// Events after a place, and whether each is kept: some delivery of it still waits, is a dead letter, or was settled too
/// lately; or it waits in the outbox for who had no room, and who has it must be known.
/// Of one that is too new nothing more is read.
const EVENTS: &str = "SELECT e.event, e.received, CASE WHEN e.received < $2 THEN e.deliveries END, e.bodies,
    e.received >= $2 OR EXISTS (SELECT 1 FROM unnest(e.deliveries) n JOIN all_deliveries d ON d.delivery = n
        WHERE d.state IN (0, 2) OR d.at >= $2)
    OR (e.in_part AND EXISTS (SELECT 1 FROM outbox o WHERE o.event = e.id))
    FROM events e WHERE e.event > $1 ORDER BY e.event LIMIT $3";

/// Some of these deliveries, wherever they lie.
const DONE: &str = "DELETE FROM done WHERE delivery IN
    (SELECT delivery FROM done WHERE delivery = ANY($1) ORDER BY delivery LIMIT $2)";
const SETTLED: &str = "DELETE FROM deliveries WHERE delivery IN
    (SELECT delivery FROM deliveries WHERE delivery = ANY($1) ORDER BY delivery LIMIT $2)";

/// Attempts after a place, and whether each is to be kept for a cap, though it is old.
const ATTEMPTS: &str = "SELECT a.at, a.delivery, a.capped AND a.at >= $3 AND a.at >= coalesce(
        (SELECT l.record_at FROM lanes l WHERE l.lane = a.lane ORDER BY l.era DESC LIMIT 1), 9223372036854775807) - $4
    FROM attempts a WHERE (a.at, a.delivery) > ($5, $6) AND a.at < $1 ORDER BY a.at, a.delivery LIMIT $2";

impl Work<'_> {
    pub(super) fn purge(&mut self, purge: Purge) -> Result<Reply> {
        let share = (purge.max / 3).max(1);
        let mut purged = Purged::default();
        let after = self.noted.places.letter.unwrap_or(DeliveryId(0));
        let (dead, letter) = self.forget_old(self.surely_before(purge.dead_before), after, share)?;
        purged.dead = dead;
        self.noted.places.letter = letter;
        let settled_before = self.surely_before(purge.settled_before);
        let more_events = self.purge_events(settled_before, share, &mut purged)?;
        let (attempts, more_attempts) =
            self.delete_attempts(self.surely_before(purge.attempts_before), share)?;
        purged.attempts = attempts;
        self.delete_removed(settled_before)?;
        latencies::forget_old(self.sql, self.surely_before(self.now), share)?;
        purged.more = self.noted.places.letter.is_some() || more_events || more_attempts;
        Ok(Reply::Purged(purged))
    }

    /// Says whether there may be more to look at.
    fn purge_events(&mut self, before: StoreTime, max: u32, purged: &mut Purged) -> Result<bool> {
        let (mut left, limit) = (u64::from(max), i64::from(max));
        let found = self.sql.query(EVENTS, &[&self.noted.places.event.unwrap_or(0), &before, &limit])?;
        let (mut events, mut bodies): (Vec<i64>, Vec<i64>) = Default::default();
        for row in &found {
            let event: i64 = row.try_get(0)?;
            // Nothing is settled before it is received, and events come about in the order of their receipt: all but those that
            // were received later than now, by a clock that was ahead.
            if (before..=self.now).contains(&row.try_get::<_, StoreTime>(1)?) {
                self.delete_events(&events, &bodies)?;
                purged.events += size(events.len());
                self.noted.places.event = None;
                return Ok(false);
            }
            if left == 0 {
                break;
            }
            left -= 1;
            if !row.try_get::<_, bool>(4)? {
                let deliveries: Vec<i64> = row.try_get(2)?;
                let deleted = self.delete_deliveries(&deliveries, left.max(1))?;
                purged.deliveries += deleted;
                left = left.saturating_sub(deleted);
                if deleted < size(deliveries.len())
                    && self.sql.exists(
                        "SELECT 1 FROM all_deliveries WHERE delivery = ANY($1) LIMIT 1",
                        &[&deliveries],
                    )?
                {
                    // The rest in the next step.
                    self.delete_events(&events, &bodies)?;
                    purged.events += size(events.len());
                    return Ok(true);
                }
                events.push(event);
                bodies.extend(row.try_get::<_, Vec<i64>>(3)?);
            }
            self.noted.places.event = Some(event);
        }
        self.delete_events(&events, &bodies)?;
        purged.events += size(events.len());
        let full = left == 0 || found.len() >= usize::try_from(max).unwrap_or(usize::MAX);
        if !full {
            self.noted.places.event = None;
        }
        Ok(full)
    }

    fn delete_deliveries(&self, deliveries: &[i64], max: u64) -> Result<u64> {
        let mut deleted = 0;
        for delete in [DONE, SETTLED] {
            deleted += self.sql.execute(delete, &[&deliveries, &int(max - deleted)])?;
        }
        Ok(deleted)
    }

    fn delete_events(&self, events: &[i64], bodies: &[i64]) -> Result<()> {
        if !events.is_empty() {
            if !bodies.is_empty() {
                self.sql.execute("DELETE FROM bodies WHERE body = ANY($1)", &[&bodies])?;
            }
            self.sql.execute("DELETE FROM events WHERE event = ANY($1)", &[&events])?;
        }
        Ok(())
    }

    /// Deletes attempts from before a moment, but those that a window cap still counts and no record tells of. Says how many
    /// were deleted, and whether there may be more to look at.
    fn delete_attempts(&mut self, before: StoreTime, max: u32) -> Result<(u64, bool)> {
        let (at, delivery) = self.noted.places.attempt.unwrap_or((-1, -1));
        let now = self.surely_before(self.now);
        let longest = StoreTime(now.0.saturating_sub(crate::engine::contract::WINDOW_LENGTH_MAX.0));
        let found =
            self.sql.query(ATTEMPTS, &[&before, &i64::from(max), &longest, &MARGIN, &at, &delivery])?;
        let (mut ats, mut deliveries): (Vec<i64>, Vec<i64>) = Default::default();
        let mut last = None;
        for row in &found {
            let (at, delivery): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            last = Some((at, delivery));
            if !row.try_get::<_, bool>(2)? {
                ats.push(at);
                deliveries.push(delivery);
            }
        }
        let mut deleted = 0;
        if !ats.is_empty() {
            let delete = "DELETE FROM attempts a USING unnest($1::int8[], $2::int8[]) u (at, delivery)
                WHERE a.at = u.at AND a.delivery = u.delivery";
            deleted = self.sql.execute(delete, &[&ats, &deliveries])?;
        }
        let full = found.len() >= usize::try_from(max).unwrap_or(usize::MAX);
        self.noted.places.attempt = last.filter(|_| full);
        Ok((deleted, full))
    }
}
