use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::Work;
use super::failure::or_least;
use super::values::int;
use crate::commit::erase::{Erasable, EraseRows};
use crate::engine::{DeliveryId, StoreTime};
use hookproof_words::ids::size;

/// Freed cells are overwritten in any case.
pub(super) fn overwrite_freed_pages(sql: &Connection, also: bool) -> Result<()> {
    let pragma = if also { "PRAGMA secure_delete = ON" } else { "PRAGMA secure_delete = FAST" };
    sql.query_row(pragma, [], |_| Ok(()))
}

impl EraseRows for Work<'_> {
    fn erasable(&mut self, chosen: &[DeliveryId]) -> Result<Vec<Erasable>> {
        let mut event = self.sql.prepare_cached("SELECT event FROM deliveries WHERE delivery = ?1")?;
        let mut events = BTreeSet::new();
        for delivery in chosen {
            events.extend(event.query_row([delivery], |row| row.get::<_, u64>(0)).optional()?);
        }
        let mut parts = self.sql.prepare_cached(
            "SELECT d.delivery, d.lane, d.state, d.bytes, d.attempts > 0 FROM events e JOIN deliveries d
             ON d.event = e.event AND d.delivery >= e.first_delivery AND d.delivery < e.first_delivery + e.deliveries
             WHERE e.event = ?1 AND (e.key IS NOT NULL OR e.body IS NOT NULL)",
        )?;
        let mut found = Vec::new();
        for event in events {
            let rows = parts.query_map([int(event)], |row| {
                Ok(Erasable {
                    event,
                    delivery: row.get(0)?,
                    lane: row.get(1)?,
                    place: row.get(2)?,
                    bytes: or_least(row.get(3))?,
                    tried: row.get(4)?,
                })
            })?;
            for row in rows {
                found.push(row?);
            }
        }
        Ok(found)
    }

    fn erase_history(&mut self, deliveries: &[DeliveryId], plan: bool) -> Result<(u64, u64)> {
        let (attempt, answer) = if plan {
            (
                "SELECT before FROM attempts WHERE at = ?1 AND delivery = ?2",
                "SELECT count(*) FROM answers WHERE lane = ?1 AND delivery = ?2",
            )
        } else {
            (
                "UPDATE attempts SET error = NULL, body_hash = 0 WHERE at = ?1 AND delivery = ?2 RETURNING before",
                "DELETE FROM answers WHERE lane = ?1 AND delivery = ?2",
            )
        };
        let mut last =
            self.sql.prepare_cached("SELECT last_attempt, lane FROM deliveries WHERE delivery = ?1")?;
        let (mut attempt, mut answer) = (self.sql.prepare_cached(attempt)?, self.sql.prepare_cached(answer)?);
        let (mut attempts, mut answers) = (0, 0);
        for delivery in deliveries {
            let (mut at, lane): (Option<StoreTime>, i64) =
                last.query_row([delivery], |row| Ok((row.get(0)?, row.get(1)?)))?;
            // A damaged chain may lead back.
            let mut seen = BTreeSet::new();
            while let Some(this) = at.filter(|at| seen.insert(*at)) {
                let before: Option<Option<StoreTime>> =
                    attempt.query_row(params![this, delivery], |row| row.get(0)).optional()?;
                attempts += u64::from(before.is_some());
                at = before.flatten();
            }
            answers += match plan {
                true => answer.query_row(params![lane, delivery], |row| row.get::<_, u64>(0))?,
                false => size(answer.execute(params![lane, delivery])?),
            };
        }
        Ok((attempts, answers))
    }

    fn erase_content(&mut self, events: &[u64], deliveries: &[DeliveryId]) -> Result<()> {
        let mut delivery = self.sql.prepare_cached(
            "UPDATE deliveries SET error = NULL, coalesce = NULL, signature = NULL,
             at = iif(state = 0, ?2, at), reason = iif(state IN (0, 2), NULL, reason),
             state = iif(state IN (0, 2), 4, state) WHERE delivery = ?1",
        )?;
        for one in deliveries {
            delivery.execute(params![one, self.now])?;
        }
        let mut further = self.sql.prepare_cached(
            "DELETE FROM further_bodies WHERE body >= (SELECT first_body FROM events WHERE event = ?1)
             AND body < (SELECT first_body + bodies FROM events WHERE event = ?1)",
        )?;
        let mut event =
            self.sql.prepare_cached("UPDATE events SET key = NULL, body = NULL WHERE event = ?1")?;
        for one in events {
            further.execute([int(*one)])?;
            event.execute([int(*one)])?;
        }
        Ok(())
    }
}
