use rusqlite::{Connection, OptionalExtension, Result, Row, params, params_from_iter};

use super::Work;
use super::values::int;
use crate::change::RecordedChange;
use crate::commit::change::{ChangeRows, Described, Records};
use crate::engine::LaneId;
use crate::lane::Pause;
use crate::paging::last_if_full;
use crate::read::ChangesOf;
use crate::seal::{Field, Seal};

pub(super) fn changes(
    sql: &Connection,
    seal: &Seal,
    ChangesOf { subscriber, by, within }: &ChangesOf,
    place: Option<[u64; 2]>,
    max: u32,
) -> Result<(Vec<RecordedChange>, Option<[u64; 2]>)> {
    let before = place.map_or(u64::MAX, |at| at[0]);
    let read = |row: &Row<'_>| {
        let number: u64 = row.get(0)?;
        let subscriber = row.get::<_, Option<_>>(4)?.zip(row.get(5)?);
        let changed = seal.read_text(Field::Changed(number), row.get(7)?);
        Ok(RecordedChange {
            number,
            at: row.get(1)?,
            by: row.get(2)?,
            operation: row.get(3)?,
            subscriber,
            subject: row.get(6)?,
            changed: changed.into(),
        })
    };
    let within = within.as_ref().map(|ids| {
        let ids: Vec<&str> = ids.iter().map(|id| &**id).collect();
        serde_json::json!(ids).to_string()
    });
    let mut query = sql.prepare_cached(
        "SELECT number, at, made_by, operation, subscriber, name, subject, changed FROM changes
         WHERE number < ?1 AND (?2 IS NULL OR subscriber = ?2 OR name = ?2)
         AND (?3 IS NULL OR made_by IN (?3, 'token ' || ?3, 'user ' || ?3))
         AND (?5 IS NULL OR subscriber IN (SELECT value FROM json_each(?5))) ORDER BY number DESC LIMIT ?4",
    )?;
    let rows: Vec<RecordedChange> =
        query.query_map(params![int(before), subscriber, by, max, within], read)?.collect::<Result<_>>()?;
    let next = last_if_full(&rows, max, |change| [change.number, 0]);
    Ok((rows, next))
}

impl ChangeRows for Work<'_> {
    fn described(&mut self, lane: LaneId) -> Result<Option<Described>> {
        self.sql
            .prepare_cached(
                "SELECT id, name, url, patterns, settings, pause_reason, pause_until FROM subscribers
                 WHERE lane = ?1 AND removed IS NULL",
            )?
            .query_row([lane], |row| {
                Ok(Described {
                    id: row.get(0)?,
                    name: row.get(1)?,
                    url: row.get(2)?,
                    patterns: row.get(3)?,
                    settings: self.seal.read_text(Field::Settings(lane), row.get(4)?),
                    pause: Pause { reason: row.get(5)?, until: row.get(6)? },
                })
            })
            .optional()
    }

    fn next_change(&mut self) -> Result<u64> {
        let mut query = self.sql.prepare_cached("SELECT coalesce(max(number), 0) + 1 FROM changes")?;
        query.query_row([], |row| row.get(0))
    }

    fn insert_change(&mut self, change: &RecordedChange) -> Result<()> {
        let RecordedChange { number, at, by, operation, subscriber, subject, changed } = change;
        let (id, name) = subscriber.clone().unzip();
        let changed = self.seal.close_text(Field::Changed(*number), changed)?;
        self.sql
            .prepare_cached("INSERT INTO changes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
            .execute(params![int(*number), at, by, operation, id, name, subject, &*changed])
            .map(drop)
    }

    fn count_changes(&mut self, of: Records<'_>) -> Result<u64> {
        let (which, id) = condition(of);
        let mut query = self.sql.prepare_cached(&format!("SELECT count(*) FROM changes WHERE {which}"))?;
        query.query_row(params_from_iter(id), |row| row.get(0))
    }

    fn delete_oldest_change(&mut self, of: Records<'_>) -> Result<()> {
        let (which, id) = condition(of);
        let oldest = format!("SELECT number FROM changes WHERE {which} ORDER BY number LIMIT 1");
        let mut delete =
            self.sql.prepare_cached(&format!("DELETE FROM changes WHERE number = ({oldest})"))?;
        delete.execute(params_from_iter(id)).map(drop)
    }
}

const fn condition(of: Records<'_>) -> (&'static str, Option<&str>) {
    match of {
        Records::OfSubscribers => ("subscriber IS NOT NULL", None),
        Records::Of(id) => ("subscriber = ?1", Some(id)),
        Records::Others => ("subscriber IS NULL", None),
    }
}
