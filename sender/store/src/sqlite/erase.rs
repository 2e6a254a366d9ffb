use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Result, Row, params};

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
    fn erasable(&mut self, chosen: DeliveryId) -> Result<Vec<Erasable>> {
        let mut parts = self.sql.prepare_cached(
            "SELECT e.event, d.delivery, d.lane, d.state, d.bytes, d.attempts > 0,
             iif(a.error IS NOT NULL OR a.body_hash <> 0, max(d.attempts, 1), 0)
             FROM deliveries c JOIN events e ON e.event = c.event
             JOIN deliveries d ON d.event = e.event
                 AND d.delivery >= e.first_delivery AND d.delivery < e.first_delivery + e.deliveries
             LEFT JOIN attempts a ON a.at = d.last_attempt AND a.delivery = d.delivery
             WHERE c.delivery = ?1 AND (e.key IS NOT NULL OR e.body IS NOT NULL) ORDER BY d.delivery",
        )?;
        let read = |row: &Row<'_>| {
            Ok(Erasable {
                event: row.get(0)?,
                delivery: row.get(1)?,
                lane: row.get(2)?,
                place: row.get(3)?,
                bytes: or_least(row.get(4))?,
                tried: row.get(5)?,
                history: or_least(row.get(6))?,
            })
        };
        parts.query_map([chosen], read)?.collect()
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
            "UPDATE deliveries SET body = 0, error = NULL, coalesce = NULL, signature = NULL,
             at = iif(state = 0, ?2, at), reason = iif(state IN (0, 2), NULL, reason),
             state = iif(state IN (0, 2), 4, state) WHERE delivery = ?1",
        )?;
        let mut answers = self.sql.prepare_cached(
            "DELETE FROM answers WHERE delivery = ?1 AND lane = (SELECT lane FROM deliveries WHERE delivery = ?1)",
        )?;
        for one in deliveries {
            delivery.execute(params![one, self.now])?;
            answers.execute([one])?;
        }
        let mut further = self.sql.prepare_cached(
            "DELETE FROM further_bodies WHERE body >= (SELECT first_body FROM events WHERE event = ?1)
             AND body < (SELECT first_body + bodies FROM events WHERE event = ?1)",
        )?;
        let mut event = self.sql.prepare_cached(
            "UPDATE events SET key = NULL, body = NULL, first_body = 0, bodies = 0 WHERE event = ?1",
        )?;
        for one in events {
            further.execute([int(*one)])?;
            event.execute([int(*one)])?;
        }
        Ok(())
    }
}
