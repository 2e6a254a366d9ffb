use tokio_postgres::{Error, Row};

use super::link::{Link, Value};
use super::values::{Count, int, is_storable};
use super::{Result, Work};
use crate::change::RecordedChange;
use crate::commit::change::{ChangeRows, Described, Records};
use crate::engine::LaneId;
use crate::lane::Pause;
use crate::paging::last_if_full;
use crate::read::ChangesOf;
use crate::seal::{Field, Seal};

pub(super) fn changes(
    sql: &Link,
    seal: &Seal,
    ChangesOf { subscriber, by, within }: &ChangesOf,
    place: Option<[u64; 2]>,
    max: u32,
) -> std::result::Result<(Vec<RecordedChange>, Option<[u64; 2]>), Error> {
    if [subscriber, by].into_iter().flatten().any(|text| !is_storable(text)) {
        return Ok((Vec::new(), None));
    }
    let before = int(place.map_or(u64::MAX, |at| at[0]));
    let text = |row: &Row, column| Ok::<_, Error>(row.try_get::<_, Option<&str>>(column)?.map(Into::into));
    let read = |row: &Row| {
        let Count(number) = row.try_get(0)?;
        let subscriber = text(row, 4)?.zip(text(row, 5)?);
        let changed = seal.read_text(Field::Changed(number), row.try_get(7)?);
        Ok(RecordedChange {
            number,
            at: row.try_get(1)?,
            by: row.try_get::<_, &str>(2)?.into(),
            operation: row.try_get::<_, &str>(3)?.into(),
            subscriber,
            subject: text(row, 6)?,
            changed: changed.into(),
        })
    };
    let query = "SELECT number, at, made_by, operation, subscriber, name, subject, changed FROM changes
        WHERE number < $1 AND ($2::text IS NULL OR subscriber = $2 OR name = $2)
        AND ($3::text IS NULL OR made_by IN ($3, 'token ' || $3, 'user ' || $3))
        AND ($5::text[] IS NULL OR subscriber = ANY($5)) ORDER BY number DESC LIMIT $4";
    let (subscriber, by) = (subscriber.as_deref(), by.as_deref());
    let within = within.as_ref().map(|ids| ids.iter().map(|id| &**id).collect::<Vec<&str>>());
    let found = sql.query(query, &[&before, &subscriber, &by, &i64::from(max), &within])?;
    let rows = found.iter().map(read).collect::<std::result::Result<Vec<_>, Error>>()?;
    let next = last_if_full(&rows, max, |change| [change.number, 0]);
    Ok((rows, next))
}

/// `state` is locked, so no two changes get one number.
impl ChangeRows for Work<'_> {
    fn described(&mut self, lane: LaneId) -> Result<Option<Described>> {
        let query = "SELECT id, name, url, patterns, settings, pause_reason, pause_until FROM subscribers
            WHERE lane = $1 AND removed IS NULL";
        let Some(row) = self.sql.first(query, &[&lane])? else { return Ok(None) };
        Ok(Some(Described {
            id: row.try_get::<_, &str>(0)?.into(),
            name: row.try_get::<_, &str>(1)?.into(),
            url: row.try_get::<_, &str>(2)?.into(),
            patterns: row.try_get(3)?,
            settings: self.seal.read_text(Field::Settings(lane), row.try_get(4)?),
            pause: Pause {
                reason: row.try_get::<_, Option<&str>>(5)?.map(Into::into),
                until: row.try_get(6)?,
            },
        }))
    }

    fn next_change(&mut self) -> Result<u64> {
        let row = self.sql.one("SELECT coalesce(max(number), 0) + 1 FROM changes", &[])?;
        Ok(row.try_get::<_, Count>(0)?.0)
    }

    fn insert_change(&mut self, change: &RecordedChange) -> Result<()> {
        let RecordedChange { number, at, by, operation, subscriber, subject, changed } = change;
        let (id, name) = subscriber.as_ref().map(|(id, name)| (&**id, &**name)).unzip();
        let changed = self.seal.close_text(Field::Changed(*number), changed)?;
        let insert = "INSERT INTO changes VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let subject = subject.as_deref();
        self.sql
            .execute(insert, &[&int(*number), at, &&**by, &&**operation, &id, &name, &subject, &&*changed])?;
        Ok(())
    }

    fn count_changes(&mut self, of: Records<'_>) -> Result<u64> {
        let ([count, _], id) = queries(of);
        let values: Vec<Value<'_>> = id.iter().map(|id| id as Value<'_>).collect();
        Ok(self.sql.one(count, &values)?.try_get::<_, Count>(0)?.0)
    }

    fn delete_oldest_change(&mut self, of: Records<'_>) -> Result<()> {
        let ([_, delete], id) = queries(of);
        let values: Vec<Value<'_>> = id.iter().map(|id| id as Value<'_>).collect();
        self.sql.execute(delete, &values)?;
        Ok(())
    }
}

macro_rules! count_and_delete {
    ($which:literal) => {
        [
            concat!("SELECT count(*) FROM changes WHERE ", $which),
            concat!(
                "DELETE FROM changes WHERE number = (SELECT number FROM changes WHERE ",
                $which,
                " ORDER BY number LIMIT 1)"
            ),
        ]
    };
}

const fn queries(of: Records<'_>) -> ([&'static str; 2], Option<&str>) {
    match of {
        Records::OfSubscribers => (count_and_delete!("subscriber IS NOT NULL"), None),
        Records::Of(id) => (count_and_delete!("subscriber = $1"), Some(id)),
        Records::Others => (count_and_delete!("subscriber IS NULL"), None),
    }
}
